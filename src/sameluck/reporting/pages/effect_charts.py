"""Charts of effects and metrics over the horizon, for reports and for the dashboard."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sameluck.arrays import Floats
from sameluck.inference.effects import Effect
from sameluck.inference.metrics import Metric
from sameluck.inference.policy_summaries import PolicyMetric
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
from sameluck.reporting.plots import MAX_BANDS, Curve, metric_curves
from sameluck.wording import amount, digits_for, signed

MIN_GAP_FOR_LABEL = 70.0  # thousandths of the height
CLIPPING = 3  # times the last interval; values beyond do not widen the scale
MAX_LABELLED = 8  # policies; of more, only the best and the worst are named
LABEL_DISTANCE = 6.0  # per cent of the height


def effect_chart(
    curve: Sequence[Effect],
    sentence: str,
    naive: Sequence[Effect] | None = None,
    quantity: str = "cumulative reward",
) -> Chart:
    """Return the effect of one pair with its interval, before the interval of the naive design.

    `naive` are effects measured under the naive design. Without them its interval is estimated from the same runs:
    the half-width times the root of the variance ratio.
    """
    last = curve[-1]
    periods, effects, low, high = _columns(curve)
    factor = np.array([_naive_width_factor(effect) for effect in curve])
    naive_low, naive_high = effects - (effects - low) * factor, effects + (high - effects) * factor
    if naive is not None:
        _, _, naive_low, naive_high = _columns(naive)
    limit = CLIPPING * max(abs(low[-1]), abs(high[-1]))
    ends = np.clip([*low, *high, *naive_low, *naive_high], -limit, limit)
    y, x = scale_around(ends.tolist()), Scale(0, last.checkpoint)
    y_ticks, grid = y_axis(y)
    at = x.at(np.append(0.0, periods))
    columns = (effects, low, high, naive_low, naive_high)
    mean, lower, upper, naive_lower, naive_upper = (
        y.up(np.append(0.0, column)) for column in columns
    )
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
            *_naive_label(at, (naive_upper, upper), (lower, naive_lower)),
        ],
        y_title=f"{quantity}, {last.policy} minus {last.control}",
        x_title="period of a replication",
        columns=("period", "difference", "low", "high", "naive low", "naive high"),
        rows=[
            (f"{int(period):,}", *(signed(float(value), digits) for value in values))
            for period, *values in zip(periods, *columns, strict=True)
        ],
    )


def naive_factor(effect: Effect) -> tuple[float, float] | None:
    """Return the naive design's width and users, in multiples of this design's; None if not known."""
    if not math.isfinite(effect.variance_ratio) or not effect.interactions:
        return None
    return _naive_width_factor(effect), effect.naive_interactions / effect.interactions


def _naive_width_factor(effect: Effect) -> float:
    return math.sqrt(effect.variance_ratio) if math.isfinite(effect.variance_ratio) else 1.0


def _naive_label(at: Floats, *gaps: tuple[Floats, Floats]) -> list[Label]:
    """Name the naive design between its edge and the band, where the gap is wide enough."""
    index = int(0.7 * (at.size - 1))
    top, bottom = max(gaps, key=lambda gap: float(gap[1][index] - gap[0][index]))
    if bottom[index] - top[index] < MIN_GAP_FOR_LABEL:
        return []
    middle = clamp(float(top[index] + bottom[index]) / 20 + 1)
    return [Label(float(at[index]) / 10, middle, "naive design", "ghost")]


def clamp(per_cent: float) -> float:
    """Return a position at which a label is not cut at an edge."""
    return min(max(per_cent, 5.0), 95.0)


def _columns(effects: Sequence[Effect]) -> tuple[Floats, Floats, Floats, Floats]:
    """Return periods, effects and bounds; an infinite bound is drawn at the effect."""
    fields = ("checkpoint", "effect", "low", "high")
    columns = [np.array([getattr(effect, field) for effect in effects], float) for field in fields]
    periods, mean, low, high = columns
    low, high = (np.where(np.isfinite(bound), bound, mean) for bound in (low, high))
    return periods, mean, low, high


def metric_chart(values: Sequence[PolicyMetric], metric: Metric) -> Chart:
    """Return a line for each policy, the best policy's last and in the accent colour; a few have their bands."""
    sign = -1.0 if metric.lower_is_better else 1.0
    curves = sorted(metric_curves(values), key=lambda curve: sign * curve.effect[-1])
    worst, best = curves[0], curves[-1]
    checkpoints = best.checkpoints
    x = Scale(0, checkpoints[-1])
    banded = [_bounds(curve) for curve in curves] if len(curves) <= MAX_BANDS else []
    ends = [curve.effect for curve in curves] + [bound for bounds in banded for bound in bounds]
    y = scale_around(np.concatenate(ends).tolist())
    y_ticks, grid = y_axis(y)
    at = x.at(checkpoints)
    marks = [
        Mark("band" if curve is best else "ghost", band(at, y.up(low), y.up(high)))
        for curve, (low, high) in zip(curves if banded else [], banded, strict=True)
    ]
    marks += [
        Mark("line" if curve is best else "ghost-line", line(at, y.up(curve.effect)))
        for curve in curves
    ]
    named = curves if len(curves) <= MAX_LABELLED else [worst, best]
    line_ends = [(curve.label, float(y.up([curve.effect[-1]])[0]) / 10) for curve in named]
    return Chart(
        label=(
            f"{metric.title} over the horizon: {best.label} ends at {amount(best.effect[-1])}, {worst.label} at "
            f"{amount(worst.effect[-1])}"
        ),
        marks=[grid, *marks],
        y_ticks=y_ticks,
        x_ticks=x_axis(x),
        labels=_end_labels(line_ends, best.label),
        y_title=metric.title,
        x_title="period of a replication",
        columns=("policy", *(f"{checkpoint:,}" for checkpoint in checkpoints)),
        rows=[(curve.label, *map(amount, curve.effect)) for curve in reversed(curves)],
    )


def _bounds(curve: Curve) -> tuple[Floats, Floats]:
    """Return the bounds of a curve; an infinite bound is drawn at the value."""
    values, *bounds = (
        np.asarray(column, float) for column in (curve.effect, curve.low, curve.high)
    )
    low, high = (np.where(np.isfinite(bound), bound, values) for bound in bounds)
    return low, high


def _end_labels(ends: Sequence[tuple[str, float]], best: str) -> list[Label]:
    """Name the lines at their ends, moved apart where the names would overlap."""
    labels: list[Label] = []
    lowest_free = 3.0
    for index, (name, height) in enumerate(sorted(ends, key=lambda end: end[1])):
        remaining = len(ends) - index - 1
        y = min(max(height - 1.5, lowest_free), 97.0 - LABEL_DISTANCE * remaining)
        labels.append(Label(99, y, name, "strong" if name == best else "ghost", "end"))
        lowest_free = y + LABEL_DISTANCE
    return labels
