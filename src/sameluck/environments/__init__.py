"""Environments: the distributions of simulated rewards, grouped by family."""
