"""Twins: the policies of an experiment simulated on a copy of its measured arms."""
