"""Simulation of users with contexts."""
