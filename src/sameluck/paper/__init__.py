"""The paper reproduced: every table, figure and theorem recomputed and compared with the published numbers.

published         the numbers that the paper prints
parts             the types: a part, its simulations, its estimates, the sections that show its result
examples          the three examples, and two pairs of policies beyond the paper (shown by `example_sections`)
illustration      the figures with three arms and ten periods
theorems, variances, asymptotics   the statements, checked by the tests of `checks`
algorithms        Algorithm 2 as it is printed, and sums along the reward stacks
run               runs the parts and caches their results
report            the folder: HTML, Markdown, SVG and PDF, CSV and LaTeX, JSON
"""

from sameluck.paper.run import Reproduction, reproduce

__all__ = ["Reproduction", "reproduce"]
