"""`strips`: the differences of single replications as dots on one scale, a row for each design."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sameluck.arrays import Floats
from sameluck.reporting.pages.charts import Scale, Tick, scale_around

MAX_DOTS = 1_000


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
    return StripPlot([_row(row, scale) for row in rows], scale.percent(0.0), scale.labelled_ticks())


def _row(row: Strip, scale: Scale) -> StripRow:
    values = row.values[:MAX_DOTS]
    ahead = int((values > 0).sum())
    label = f"{row.label}: {ahead:,} of {values.size:,} replications above zero"
    dots = (scale.at(values) / 10).tolist()
    low, high = scale.percent(row.low), scale.percent(row.high)
    return StripRow(row.label, label, dots, low, high, row.is_naive)
