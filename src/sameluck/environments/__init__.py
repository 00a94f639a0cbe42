"""Environments: the laws that simulated rewards follow."""
