"""Environments whose users have contexts: features, levels or states."""
