"""Effects and metrics over the horizon: as curves, and as matplotlib figures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from sameluck.inference.effects import Effect
from sameluck.inference.policy_summaries import PolicyMetric
from sameluck.reporting import plots
from sameluck.reporting.plots import Curve

if TYPE_CHECKING:
    from sameluck.inference.comparison import Comparison

Figure: TypeAlias = plots.Figure
Axes: TypeAlias = plots.Axes


def draw_effects(result: Comparison, path: str | Path | None, ax: Axes | None) -> Figure:
    """The effects over the horizon, written to `path` if given, or drawn on `ax`."""
    runs, request = result.runs, result.request
    figure = plots.draw_effects(
        effect_curves(result.effects),
        level=request.level,
        title=f"{runs.experiment.design.label} design, {runs.replications:,} replications",
        scope=result.scope,
        quantity=request.by.quantity,
        lowest_first=request.by.lower_is_better,
        ax=ax,
    )
    return plots.saved(figure, path)


def draw_metric(result: Comparison, path: str | Path | None, ax: Axes | None) -> Figure:
    """The metric of each policy over the horizon, written to `path` if given, or drawn on `ax`."""
    curves, request = metric_curves(result.values), result.request
    quantity = request.by.quantity
    figure = plots.draw_policies(curves, level=request.level, quantity=quantity, ax=ax)
    return plots.saved(figure, path)


def metric_curves(values: Sequence[PolicyMetric]) -> list[Curve]:
    """One curve for each policy."""
    points: dict[str, list[PolicyMetric]] = {}
    for one in values:
        points.setdefault(one.policy, []).append(one)
    return [
        Curve(
            policy,
            *(
                tuple(getattr(one, f) for one in group)
                for f in ("checkpoint", "value", "low", "high")
            ),
        )
        for policy, group in points.items()
    ]


def effect_curves(effects: Sequence[Effect]) -> list[Curve]:
    """One curve for each pair of policies."""
    points: dict[tuple[str, str], list[Effect]] = {}
    for effect in effects:
        points.setdefault((effect.policy, effect.control), []).append(effect)
    fields = ("checkpoint", "effect", "low", "high")
    return [
        Curve(" minus ".join(pair), *(tuple(getattr(e, field) for e in group) for field in fields))
        for pair, group in points.items()
    ]
