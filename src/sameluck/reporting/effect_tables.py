"""Tables of effects and metrics: formatted cells for terminals, notebooks, LaTeX and pages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sameluck.inference.effects import Effect, LevelEffect
from sameluck.inference.metrics import Metric
from sameluck.inference.policy_summaries import PolicyMetric
from sameluck.reporting.plots import MAX_BANDS
from sameluck.reporting.sentences import scope
from sameluck.wording import amount, percent, probability, times

if TYPE_CHECKING:
    from sameluck.inference.comparison import Comparison
    from sameluck.inference.requests import Request

Table = tuple[list[str], list[list[str]]]  # header and rows

HEADER = ("policy", "control", "horizon", "effect", "interval", "p-value", "sd", "variance v naive")
MAX_PAGE_CHECKPOINTS = 8
MAX_LEVELS = 12  # of a pair, with rows of their own


def _is_condensed(result: Comparison) -> bool:
    """Return whether only the last checkpoint is printed, because the pairs are numerous."""
    return len(result.last_effects) > MAX_BANDS


def shown_effects(result: Comparison) -> tuple[str, Table, int]:
    """Return words for the title, the printed table, and the number of columns that identify a row.

    The table of many pairs has the last checkpoint alone, and no column with the same value in every row.
    """
    if not _is_condensed(result):
        return "", effects_table(result, result.effects), 3
    last = result.last_effects
    header, rows = effects_table(result, last)
    one_control = len({effect.control for effect in last}) == 1
    about = f"; differences over {last[0].checkpoint:,} periods"
    if one_control:
        about = f"; differences to {last[0].control} over {last[0].checkpoint:,} periods, the best first"
    if result.runs.checkpoints.size > 1:
        about += "; to_dicts() and --csv have the other checkpoints"
    identifying = 1 if one_control else 2
    columns = [*range(identifying), *range(3, len(header))]
    table = [header[column] for column in columns], [[row[c] for c in columns] for row in rows]
    return about, table, identifying


def shown_values(result: Comparison) -> Sequence[PolicyMetric]:
    """Return each policy's metric; many policies at the last checkpoint only, the best first."""
    if not _is_condensed(result):
        return result.values
    last = [row for row in result.values if row.checkpoint == result.runs.checkpoints[-1]]
    sign = 1.0 if result.request.metric_definition.lower_is_better else -1.0
    return sorted(last, key=lambda row: sign * row.value)


def effects_table(result: Comparison, effects: Sequence[Effect]) -> Table:
    """Return header and rows; several policies with one control stand in their order."""
    request = result.request
    is_naive = result.runs.experiment.design.label == "naive"
    adjective = request.interval_method.adjective + ("adjusted " if request.adjust else "")
    titles = {"interval": f"{percent(request.level)} {adjective}interval{scope(result)}"}
    if request.adjust:
        titles["variance v naive"] = "unadjusted variance v naive"
    rows = [
        [
            effect.policy,
            effect.control,
            f"{effect.checkpoint:,}",
            amount(effect.effect),
            f"{amount(effect.low)} to {amount(effect.high)}",
            probability(effect.p_adjusted),
            "-" if math.isnan(effect.sd) else amount(effect.sd),
            "-" if is_naive else times(effect.variance_ratio, effect.ratio_low, effect.ratio_high),
        ]
        for effect in _ranked(effects, request.metric_definition)
    ]
    return [titles.get(title, title) for title in HEADER], rows


def _ranked(effects: Sequence[Effect], metric: Metric) -> list[Effect]:
    """Return effects with one control by their last checkpoint, the best first; others as they are."""
    last = {effect.policy: effect.effect for effect in effects}
    if len(last) < 2 or len({effect.control for effect in effects}) > 1:
        return list(effects)
    sign = 1.0 if metric.lower_is_better else -1.0
    return sorted(effects, key=lambda effect: sign * last[effect.policy])


def page_table(result: Comparison) -> Table:
    """Return the effects at no more than eight checkpoints, evenly spread."""
    checkpoints, steps = result.runs.checkpoints, MAX_PAGE_CHECKPOINTS - 1
    last = checkpoints.size - 1
    shown = {int(checkpoints[round(last * step / steps)]) for step in range(steps + 1)}
    return effects_table(result, [row for row in result.effects if row.checkpoint in shown])


def metric_table(values: Sequence[PolicyMetric], request: Request) -> Table:
    rows = []
    for row in values:
        interval = f"{amount(row.low)} to {amount(row.high)}"
        rows.append([row.policy, f"{row.checkpoint:,}", amount(row.value), interval])
    metric = request.metric_definition
    title = metric.title if metric.is_mean else request.metric
    return ["policy", "horizon", title, f"{percent(request.level)} interval (each alone)"], rows


def levels_table(result: Comparison) -> Table:
    """Return each pair's effect by level, and their sum; of many levels, those with the most users."""
    request, rows = result.request, []
    for effect in _ranked(result.last_effects, request.metric_definition):
        levels = [row for row in result.by_level if row[:2] == effect[:2]]
        largest = sorted(levels, key=lambda row: -row.users)[:MAX_LEVELS]
        shown = [row for row in levels if len(levels) <= MAX_LEVELS or row in largest]
        rows += [_level_row(row) for row in shown]
        if others := [row for row in levels if row not in shown]:
            users, part = (
                sum(values)
                for values in zip(*((row.users, row.effect) for row in others), strict=True)
            )
            rows.append(
                [*effect[:2], f"{len(others):,} others", f"{users:,.0f}", amount(part), "-", "-"]
            )
        rows.append([*effect[:2], "all", f"{effect.checkpoint:,}", amount(effect.effect), "-", "-"])
    together = request.simultaneous in ("pairs", "both") and len(result.last_effects) > 1
    scope_of_levels = "all levels and pairs" if together else "all levels"
    adjective = request.interval_method.adjective
    interval = f"{percent(request.level)} {adjective}interval ({scope_of_levels} together)"
    return ["policy", "control", "level", "users", "effect", interval, "p-value"], rows


def _level_row(row: LevelEffect) -> list[str]:
    interval = f"{amount(row.low)} to {amount(row.high)}"
    return [
        row.policy,
        row.control,
        row.user_level,
        f"{row.users:,.0f}",
        amount(row.effect),
        interval,
        probability(row.p_adjusted),
    ]
