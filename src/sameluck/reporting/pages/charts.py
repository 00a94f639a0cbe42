"""Charts as data: scales, ticks, SVG paths and strips of dots, which the templates draw.

Positions are coordinates in a square of 1,000 that is stretched to its box.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sameluck.arrays import Floats

SIDE = 1_000.0
MAX_DOTS = 1_000  # of a strip


class Mark(NamedTuple):
    """A path with a class of the stylesheet."""

    css_class: str
    path: str


class Label(NamedTuple):
    """Text at a position in per cent of the box."""

    x: float
    y: float
    text: str
    css_class: str = ""
    anchor: str = "middle"


class Tick(NamedTuple):
    """A number below an axis, at a position in per cent of its length."""

    x: float
    text: str


class Table(NamedTuple):
    """Formatted cells, and a label for readers who do not see the table."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    label: str = "A table"


class Chart(NamedTuple):
    """A chart; its label is the finding in words, and its rows are the data."""

    label: str
    marks: list[Mark]
    y_ticks: list[Label]
    x_ticks: list[Label]
    labels: list[Label]
    y_title: str = ""
    x_title: str = ""
    columns: tuple[str, ...] = ()
    rows: Sequence[tuple[str, ...]] = ()
    size: str = ""  # a class of the stylesheet

    @property
    def table(self) -> Table:
        return Table(self.columns, self.rows, f"{self.y_title}, as a table")


class Scale(NamedTuple):
    """A linear map from values to positions."""

    low: float
    high: float

    def at(self, values: Floats | Sequence[float]) -> Floats:
        """Return positions along the x axis; values far outside stay near the box."""
        span = (self.high - self.low) or 1.0
        return np.clip((np.asarray(values, float) - self.low) / span, -9, 10) * SIDE

    def up(self, values: Floats | Sequence[float]) -> Floats:
        """Return positions along the y axis, which grows upwards."""
        return SIDE - self.at(values)

    def percent(self, value: float) -> float:
        """Return the position of one value along the x axis, in per cent."""
        return float(self.at([value])[0]) / 10

    def labelled_ticks(self, about: int = 5) -> list[Tick]:
        return [Tick(self.percent(value), tick_text(value)) for value in self.ticks(about)]

    def ticks(self, about: int = 5) -> list[float]:
        step = nice_step((self.high - self.low) / about)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [number * step for number in range(first, last + 1)]


def nice_step(size: float) -> float:
    """Return the smallest of 1, 2, 2.5, 5 and 10 times a power of ten that is at least `size`."""
    if not size > 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(size))
    return next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= size * 0.999)


def scale_around(values: Sequence[float]) -> Scale:
    """Return a scale that holds all values and zero; its round ends seldom change."""
    low, high = min(0.0, *values), max(0.0, *values)
    if low == high:
        high = 1.0
    step = nice_step((high - low) / 12)
    return Scale(math.floor(low / step) * step, math.ceil(high / step) * step)


def tick_text(value: float) -> str:
    """Return a number as it stands beside an axis."""
    if abs(value) >= 10_000:
        return f"{value / 1_000:,.0f}k"
    return f"{value:,.6g}".replace("-", "\N{MINUS SIGN}")


def y_axis(scale: Scale, about: int = 5) -> tuple[list[Label], Mark]:
    ticks = scale.ticks(about)
    labels = [Label(0, float(scale.up([tick])[0]) / 10, tick_text(tick)) for tick in ticks]
    grid = "".join(f"M0 {y:.0f}H1000" for y in scale.up(ticks))
    return labels, Mark("grid", grid)


def x_axis(scale: Scale, about: int = 4) -> list[Label]:
    """Return the labels of an x axis of counts: both ends, and round numbers between them."""
    span = (scale.high - scale.low) or 1.0
    # A number near an end would overlap the end's label.
    whole = [tick for tick in scale.ticks(about) if tick == round(tick)]
    inner = [tick for tick in whole if 0.12 < (tick - scale.low) / span < 0.86]
    middle = [Label(float(scale.at([tick])[0]) / 10, 100, f"{tick:,.0f}") for tick in inner]
    first = Label(0, 100, f"{scale.low:,.0f}", anchor="start")
    last = Label(100, 100, f"{scale.high:,.0f}", anchor="end")
    return [first, *middle, last]


def line(x: Floats, y: Floats) -> str:
    return "M" + "L".join(f"{a:.0f} {b:.0f}" for a, b in zip(x, y, strict=True)) if x.size else ""


def band(x: Floats, low: Floats, high: Floats) -> str:
    around = line(np.concatenate([x, x[::-1]]), np.concatenate([high, low[::-1]]))
    return f"{around}Z" if x.size else ""


def dots(x: Floats, y: Floats) -> str:
    """Return points: lines of no length, which a round stroke makes round in a stretched box too."""
    return "".join(f"M{a:.0f} {b:.0f}h0" for a, b in zip(x, y, strict=True))


class Strip(NamedTuple):
    """One design: a value for each replication, and the interval of their mean."""

    label: str
    values: Floats
    low: float
    high: float
    is_naive: bool = False


class StripRow(NamedTuple):
    """A strip as it is drawn; positions are in per cent."""

    title: str
    label: str  # in words
    dots: Sequence[float]
    low: float
    high: float
    is_naive: bool


class StripPlot(NamedTuple):
    rows: Sequence[StripRow]
    zero: float
    ticks: Sequence[Tick]


def strips(rows: Sequence[Strip]) -> StripPlot:
    """Return the plot of strips on one scale; of very many replications the first 1,000 are drawn."""
    ends = [end for row in rows for end in (*row.values[:MAX_DOTS].tolist(), row.low, row.high)]
    scale = scale_around([1.05 * end for end in ends])
    return StripPlot(
        [_strip_row(row, scale) for row in rows], scale.percent(0.0), scale.labelled_ticks()
    )


def _strip_row(row: Strip, scale: Scale) -> StripRow:
    values = row.values[:MAX_DOTS]
    ahead = int((values > 0).sum())
    label = f"{row.label}: {ahead:,} of {values.size:,} replications above zero"
    dots = (scale.at(values) / 10).tolist()
    low, high = scale.percent(row.low), scale.percent(row.high)
    return StripRow(row.label, label, dots, low, high, row.is_naive)
