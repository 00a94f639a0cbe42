"""Rehearsal: a live experiment on synthetic users and a virtual clock."""
