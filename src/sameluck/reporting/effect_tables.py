"""Effects and metrics as text and as tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sameluck.inference.effects import Effect
from sameluck.inference.policy_summaries import PolicyMetric
from sameluck.inference.requests import Request
from sameluck.reporting.leaders import ranked
from sameluck.reporting.plots import BANDS
from sameluck.reporting.sentences import scope
from sameluck.wording import amount, percent, probability, times

if TYPE_CHECKING:
    from sameluck.inference.comparison import Comparison

Table = tuple[list[str], list[list[str]]]  # header and rows

HEADER = ("policy", "control", "horizon", "effect", "interval", "p-value", "sd", "variance v naive")


def _has_many(result: Comparison) -> bool:
    return len(result.last_effects) > BANDS


def shown_effects(result: Comparison) -> tuple[str, Table, int]:
    """What to say before the table, the table, and how many of its columns tell its rows apart.

    Of many pairs it has the last checkpoint alone, and no columns that are the same in every row.
    """
    if not _has_many(result):
        return "", effects_table(result, result.effects), 3
    last = result.last_effects
    header, rows = effects_table(result, last)
    pair = 1 if len({one.control for one in last}) == 1 else 2
    to, order = (f" to {last[0].control}", ", the best first") if pair == 1 else ("", "")
    others = "; to_dicts() and --csv have the other checkpoints" * (
        result.runs.checkpoints.size > 1
    )
    about = f"; differences{to} over {last[0].checkpoint:,} periods{order}{others}"
    kept = [*range(pair), *range(3, len(header))]
    return about, ([header[at] for at in kept], [[row[at] for at in kept] for row in rows]), pair


def shown_values(result: Comparison) -> Sequence[PolicyMetric]:
    """The metric of each policy; of many policies at the last checkpoint, the best first."""
    if not _has_many(result):
        return result.values
    last = [one for one in result.values if one.checkpoint == result.runs.checkpoints[-1]]
    sign = 1.0 if result.request.metric_definition.lower_is_better else -1.0
    return sorted(last, key=lambda one: sign * one.value)


def effects_table(result: Comparison, effects: Sequence[Effect]) -> Table:
    """Header and rows of some effects; those of many policies against one are a leader board."""
    effects = ranked(effects, result.request.metric_definition)
    is_naive = result.runs.experiment.design.label == "naive"
    return _header(result.request, scope(result)), _rows(effects, is_naive=is_naive)


def page_table(result: Comparison) -> Table:
    """Return the effects at no more than eight of the checkpoints, for a page."""
    last = result.runs.checkpoints.size - 1
    checkpoints = {int(result.runs.checkpoints[round(last * k / 7)]) for k in range(8)}
    shown = [effect for effect in result.effects if effect.checkpoint in checkpoints]
    return effects_table(result, shown)


def _header(request: Request, scope_words: str) -> list[str]:
    kind = request.interval_method.adjective
    if request.adjust:
        kind = f"{kind}adjusted "
    names = {"interval": f"{percent(request.level)} {kind}interval{scope_words}"}
    if request.adjust:
        names["variance v naive"] = "unadjusted variance v naive"
    return [names.get(cell, cell) for cell in HEADER]


def _rows(effects: Sequence[Effect], *, is_naive: bool) -> list[list[str]]:
    return [
        [
            one.policy,
            one.control,
            f"{one.checkpoint:,}",
            amount(one.effect),
            f"{amount(one.low)} to {amount(one.high)}",
            probability(one.p_adjusted),
            "-" if math.isnan(one.sd) else amount(one.sd),
            "-" if is_naive else times(one.variance_ratio, one.ratio_low, one.ratio_high),
        ]
        for one in effects
    ]


def metric_table(values: Sequence[PolicyMetric], request: Request) -> Table:
    """Header and rows with the metric of each policy."""
    rows = [
        [
            one.policy,
            f"{one.checkpoint:,}",
            amount(one.value),
            f"{amount(one.low)} to {amount(one.high)}",
        ]
        for one in values
    ]
    level, title = (
        percent(request.level),
        request.metric_definition.title if request.metric_definition.is_mean else request.metric,
    )
    return ["policy", "horizon", title, f"{level} interval (each alone)"], rows
