"""`strips`: the differences of single replications as dots on one scale, a row for each design."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from sameluck.arrays import Floats
from sameluck.reporting.pages.charts import Scale, scale_around, tick_text

MOST_DOTS = 1_000


class Strip(NamedTuple):
    """One row: a dot for each value, and the interval of their mean."""

    label: str
    values: Floats
    low: float
    high: float
    is_naive: bool = False


def strips(rows: Sequence[Strip]) -> str:
    """The rows above one axis; the dots of very many replications are those of the first."""
    ends = [end for row in rows for end in (*row.values[:MOST_DOTS].tolist(), row.low, row.high)]
    scale = scale_around([1.05 * end for end in ends])
    drawn = "".join(f"<span>{escape(row.label)}</span>{_row(row, scale)}" for row in rows)
    axis = "".join(
        f'<text class="tick" x="{_at(scale, tick):.2f}%" y="12" text-anchor="middle">{tick_text(tick)}</text>'
        for tick in scale.ticks()
    )
    return f'<div class="strips">{drawn}<span></span><svg class="ticks" aria-hidden="true">{axis}</svg></div>'


def _row(row: Strip, scale: Scale) -> str:
    values = row.values[:MOST_DOTS]
    ahead = int((values > 0).sum())
    label = f"{row.label}: {ahead:,} of {values.size:,} replications above zero"
    low, high, zero = (_at(scale, value) for value in (row.low, row.high, 0.0))
    dots = "".join(f'<circle cx="{_at(scale, one):.2f}%" cy="50%" r="4.5"/>' for one in values)
    kind = "naive" if row.is_naive else "replay"
    return (
        f'<svg class="strip-plot" role="img" aria-label="{escape(label)}">'
        '<line class="rule" x1="0" x2="100%" y1="50%" y2="50%"/>'
        f'<line class="zero" x1="{zero:.2f}%" x2="{zero:.2f}%" y1="0" y2="100%"/>'
        f'<g class="{kind}"><rect class="band" x="{low:.2f}%" width="{high - low:.2f}%" y="14%" height="72%" rx="2"/>'
        f"{dots}</g></svg>"
    )


def _at(scale: Scale, value: float) -> float:
    return float(scale.at([value])[0]) / 10
