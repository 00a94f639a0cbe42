"""Reproduction of the paper: every table, figure and theorem, compared with the published numbers."""

from sameluck.paper.run import Reproduction, reproduce

__all__ = ["Reproduction", "reproduce"]
