"""Figures: numbers first (NamedTuples that tests and pages read), then drawing. Needs `sameluck[plots]`."""

from sameluck.reporting.effect_plots import (
    Curve,
    Line,
    PowerCurve,
    draw_effects,
    draw_lines,
    draw_power,
)
from sameluck.reporting.figures import Figure, checked_path, save, svg_element, to_bytes, to_svg
from sameluck.reporting.trajectory_plots import Visit, draw_stacks, draw_trajectories, visits

__all__ = ["Curve", "Line", "PowerCurve", "draw_effects", "draw_lines", "draw_power"]
__all__ += ["Figure", "checked_path", "save", "svg_element", "to_bytes", "to_svg"]
__all__ += ["Visit", "draw_stacks", "draw_trajectories", "visits"]
