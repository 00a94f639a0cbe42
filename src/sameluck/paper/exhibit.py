"""An exhibit: one thing to look at, with a title, a sentence, a table or a figure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from sameluck.paper.running import PARTS
from sameluck.paper.tables import Table
from sameluck.reporting import plots

TITLES = {part.name: part.title for part in PARTS}


class Figure(NamedTuple):
    """A drawing, the numbers in it, and words for those who cannot see it."""

    name: str  # of its files
    alt: str
    data: Table
    draw: Callable[[], Any]


class Exhibit(NamedTuple):
    """One thing to look at."""

    title: str
    text: str = ""
    table: Table | None = None
    figure: Figure | None = None
    brief: bool = True  # whether the terminal shows its table too


def line_figure(
    name: str, lines: Sequence[plots.Line], title: str, quantity: str, **how: Any
) -> Figure:
    """Lines over the horizon, with their numbers."""
    rows = [
        (line.label, horizon, value, error)
        for line in lines
        for horizon, value, error in zip(line.horizons, line.values, line.errors, strict=True)
    ]
    labels = ", ".join(line.label for line in lines)
    return Figure(
        name,
        f"{title} over the horizon: {labels}",
        Table(name, ("line", "horizon", "value", "standard_error"), rows),
        lambda: plots.draw_lines(lines, title=title, quantity=quantity, **how),
    )
