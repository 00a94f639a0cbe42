"""Logs of arms and rewards: files, DataFrames and records, read row by row."""
