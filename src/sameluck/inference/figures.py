"""Effects and metrics over the horizon: as curves, and as matplotlib figures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sameluck.inference.effects import Effect
from sameluck.inference.policy_summaries import PolicyMetric
from sameluck.reporting import plots
from sameluck.reporting.plots import Curve

if TYPE_CHECKING:
    from sameluck.inference.comparison import Comparison

Figure = plots.Figure
FEW, MOST = (
    5,
    60,
)  # pairs of a figure: with more than a few it is a sorted forest plot, of at most so many


def draw_effects(result: Comparison, path: str | Path | None) -> Figure:
    """The effects over the horizon, written to `path` if given."""
    runs, request = result.runs, result.request
    title = f"{runs.experiment.design.label} design, {runs.replications:,} replications"
    quantity, curves = request.by.quantity, effect_curves(result.effects)
    if runs.checkpoints.size == 1 and len(curves) > FEW:
        curves, title, quantity = _many(result, title)
    figure = plots.draw_effects(
        curves, level=request.level, title=title, scope=result.scope, quantity=quantity
    )
    return _saved(figure, path)


def _many(result: Comparison, title: str) -> tuple[list[Curve], str, str]:
    """The curves, the title and the quantity of a figure of many pairs: the best first, at most MOST of them."""
    by, effects = result.request.by, result.effects
    control, quantity = effects[0].control, by.quantity
    sign = 1.0 if by.lower_is_better else -1.0
    if all(one.control == control for one in effects):
        quantity = f"{quantity}, each minus {control}"
        curves = [curve._replace(label=one.policy) for one, curve in _by_pair(effects)]
    else:
        curves = effect_curves(effects)
    if len(curves) > MOST:
        title = f"{title}; {MOST} of {len(curves):,} pairs, the largest differences"
        curves = sorted(curves, key=lambda curve: -abs(curve.effect[0]))[:MOST]
    return sorted(curves, key=lambda curve: sign * curve.effect[0]), title, quantity


def _by_pair(effects: Sequence[Effect]) -> list[tuple[Effect, Curve]]:
    return list(zip(effects, effect_curves(effects), strict=True))


def draw_metric(result: Comparison, path: str | Path | None) -> Figure:
    """The metric of each policy over the horizon, written to `path` if given."""
    curves, request = metric_curves(result.values), result.request
    return _saved(
        plots.draw_policies(curves, level=request.level, quantity=request.by.quantity), path
    )


def _saved(figure: Figure, path: str | Path | None) -> Figure:
    if path is not None:
        plots.save(figure, path)
    return figure


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
