"""Charts of effects, for reports and for the pages of the service."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sameluck.arrays import Floats
from sameluck.inference.effects import Effect
from sameluck.reporting.pages.charts import (
    Chart,
    Label,
    Mark,
    Scale,
    band,
    line,
    scale_around,
    x_axis,
    y_axis,
)
from sameluck.wording import digits_for, signed

ROOM = 70.0  # of a label, in thousandths of the height
CLIPPED = 3  # times the last interval: what is outside does not widen the scale


def effect_chart(
    curve: Sequence[Effect],
    sentence: str,
    naive: Sequence[Effect] | None = None,
    quantity: str = "cumulative reward",
) -> Chart:
    """One pair over the horizon: the naive design behind, the interval and the mean before it.

    The naive design is as measured (`naive`), or estimated from the same runs: the half-width times the root of the
    variance ratio.
    """
    last = curve[-1]
    periods, effects, low, high = _curve(curve)
    wider = np.array([_wider(one) for one in curve])
    naive_low, naive_high = effects - (effects - low) * wider, effects + (high - effects) * wider
    if naive is not None:
        _, _, naive_low, naive_high = _curve(naive)
    most = CLIPPED * max(abs(low[-1]), abs(high[-1]))
    ends = np.clip([*low, *high, *naive_low, *naive_high], -most, most)
    y, x = scale_around(ends.tolist()), Scale(0, last.checkpoint)
    y_ticks, grid = y_axis(y)
    at = x.at(np.append(0.0, periods))
    lines = (effects, low, high, naive_low, naive_high)
    mean, lower, upper, naive_lower, naive_upper = (y.up(np.append(0.0, one)) for one in lines)
    digits = digits_for((high[-1] - low[-1]) / 2)
    return Chart(
        label=f"Difference in {quantity}, {last.policy} minus {last.control}. {sentence}",
        marks=[
            grid,
            Mark("ghost", band(at, naive_lower, naive_upper)),
            Mark("zero", f"M0 {y.up([0.0])[0]:.0f}H1000"),
            Mark("band", band(at, lower, upper)),
            Mark("line", line(at, mean)),
        ],
        y_ticks=y_ticks,
        x_ticks=x_axis(x),
        labels=[
            Label(99, float(mean[-1]) / 10 - 3, signed(last.effect, digits), "strong", "end"),
            *_beside_band(at, (naive_upper, upper), (lower, naive_lower)),
        ],
        y_title=f"{quantity}, {last.policy} minus {last.control}",
        x_title="period of a replication",
        columns=("period", "difference", "low", "high", "naive low", "naive high"),
        rows=[
            (f"{int(period):,}", *(signed(float(value), digits) for value in values))
            for period, *values in zip(periods, *lines, strict=True)
        ],
    )


def naive_factor(effect: Effect) -> tuple[float, float] | None:
    """How many times as wide the naive interval would be, and for how many times the users; None if not known."""
    if not math.isfinite(effect.variance_ratio) or not effect.interactions:
        return None
    return _wider(effect), effect.naive_interactions / effect.interactions


def _beside_band(at: Floats, *gaps: tuple[Floats, Floats]) -> list[Label]:
    """The name of the naive design between its edge and the band, where there is room for it."""
    place = int(0.7 * (at.size - 1))
    top, bottom = max(gaps, key=lambda gap: float(gap[1][place] - gap[0][place]))
    if bottom[place] - top[place] < ROOM:
        return []
    middle = clamp(float(top[place] + bottom[place]) / 20 + 1)
    return [Label(float(at[place]) / 10, middle, "naive design", "ghost")]


def clamp(per_cent: float) -> float:
    """A place for a label that is not cut at an edge."""
    return min(max(per_cent, 5.0), 95.0)


def _wider(effect: Effect) -> float:
    return math.sqrt(effect.variance_ratio) if math.isfinite(effect.variance_ratio) else 1.0


def _curve(effects: Sequence[Effect]) -> tuple[Floats, Floats, Floats, Floats]:
    """Periods, effects and bounds; a bound that is not known yet is at the effect."""
    fields = ("checkpoint", "effect", "low", "high")
    columns = [np.array([getattr(one, field) for one in effects], float) for field in fields]
    periods, mean, low, high = columns
    low, high = (np.where(np.isfinite(bound), bound, mean) for bound in (low, high))
    return periods, mean, low, high
