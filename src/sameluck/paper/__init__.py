"""Reproduction of the paper: every table, figure and theorem, compared with the published numbers.

published         the numbers that the paper prints
chapters          types: a chapter (an example, a theorem, a figure), its simulations, estimates and sections
examples          the three examples, and two pairs of policies beyond the paper (shown by `example_sections`)
illustration      the figures with three arms and ten periods
theorems, variances, asymptotics   the statements, checked by `theorem_tests`
algorithms        Algorithm 2 as printed, and sums along the reward stacks
run               runs the chapters and caches their results
report            the folder: HTML, Markdown, SVG and PDF, CSV and LaTeX, JSON
"""

from sameluck.paper.run import Reproduction, reproduce

__all__ = ["Reproduction", "reproduce"]
