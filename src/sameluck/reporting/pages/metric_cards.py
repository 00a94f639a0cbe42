"""The metric of each policy, as a section of a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sameluck.inference.metrics import Metric
from sameluck.inference.policy_summaries import PolicyMetric
from sameluck.reporting.effect_tables import metric_table
from sameluck.reporting.pages import page as pages
from sameluck.reporting.pages.charts import (
    Chart,
    Label,
    Mark,
    Scale,
    Table,
    line,
    scale_around,
    x_axis,
    y_axis,
)
from sameluck.reporting.plots import metric_curves
from sameluck.wording import amount

if TYPE_CHECKING:
    from sameluck.inference.comparison import Comparison

LABELLED = 8  # policies; of more, the best and the worst have their names beside their lines
APART = 6.0  # per cent of the height between two labels


def metric_card(result: Comparison, curve: Comparison) -> pages.Card:
    """The metric of each policy: a line over the horizon, and its intervals."""
    metric, chart = result.request.metric_definition, None
    if curve.runs.checkpoints.size > 1:
        chart = metric_chart(curve.values, metric)
    better = "lower" if metric.lower_is_better else "higher"
    about = f"{metric.about[:1].upper()}{metric.about[1:]}. " if metric.about else ""
    words = f"{about}{better.title()} is better. Each interval is of one policy alone."
    header, rows = metric_table(result.values, result.request)
    title = f"{metric.title[:1].upper()}{metric.title[1:]} of each policy"
    if len(result.runs.policies) > LABELLED:
        folded = pages.Folded("Every policy and horizon", Table(header, rows, title))
        return pages.Card(title, words, figure=chart, folded=folded)
    return pages.Card(title, words, header, rows, chart)


def metric_chart(values: Sequence[PolicyMetric], metric: Metric) -> Chart:
    """A line for each policy, the best one in the accent colour and before the others."""
    curves = metric_curves(values)
    sign = -1.0 if metric.lower_is_better else 1.0
    curves = sorted(curves, key=lambda curve: sign * curve.effect[-1])  # the best last
    checkpoints = curves[0].checkpoints
    x = Scale(0, checkpoints[-1])
    y = scale_around([value for curve in curves for value in curve.effect])
    y_ticks, grid = y_axis(y)
    at = x.at(checkpoints)
    marks = [
        Mark("line" if curve is curves[-1] else "ghost-line", line(at, y.up(curve.effect)))
        for curve in curves
    ]
    named = curves if len(curves) <= LABELLED else [curves[0], curves[-1]]
    ends = [(curve.label, float(y.up([curve.effect[-1]])[0]) / 10) for curve in named]
    best, worst = curves[-1], curves[0]
    return Chart(
        label=(
            f"{metric.title} over the horizon: {best.label} ends at {amount(best.effect[-1])}, {worst.label} at "
            f"{amount(worst.effect[-1])}"
        ),
        marks=[grid, *marks],
        y_ticks=y_ticks,
        x_ticks=x_axis(x),
        labels=_beside_ends(ends, best.label),
        y_title=metric.title,
        x_title="period of a replication",
        columns=("policy", *(f"{checkpoint:,}" for checkpoint in checkpoints)),
        rows=[(curve.label, *map(amount, curve.effect)) for curve in reversed(curves)],
    )


def _beside_ends(ends: Sequence[tuple[str, float]], best: str) -> list[Label]:
    """The names at the ends of the lines, moved apart where they would overlap."""
    labels: list[Label] = []
    free = 3.0
    for index, (name, height) in enumerate(sorted(ends, key=lambda end: end[1])):
        left = len(ends) - index - 1
        place = min(max(height - 1.5, free), 97.0 - APART * left)
        labels.append(Label(99, place, name, "strong" if name == best else "ghost", "end"))
        free = place + APART
    return labels
