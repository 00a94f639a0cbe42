"""Races: policies dropped one after another until the leader is good enough."""
