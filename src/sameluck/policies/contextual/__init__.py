"""Policies that use contexts: features, levels or states."""
