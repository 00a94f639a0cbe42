"""Inference: effects, intervals, comparisons, plans and races."""
