"""Regressions that policies with features keep in their memory."""
