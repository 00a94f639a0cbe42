"""Simulation of every policy of an experiment in every replication."""
