"""Runners of policies, compiled or Python objects: their loops and what the loops need."""
