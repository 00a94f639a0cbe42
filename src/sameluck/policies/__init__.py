"""Bandit policies: one family per file, found by discovery."""
