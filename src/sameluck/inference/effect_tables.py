"""Effects and metrics as the cells of tables."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sameluck.inference.effects import Effect, Request
from sameluck.inference.policy_summaries import PolicyMetric
from sameluck.reporting.wording import amount, percent, probability, times

HEADER = ("policy", "control", "horizon", "effect", "interval", "p-value", "sd", "variance v naive")


def effects_header(request: Request, scope: str) -> list[str]:
    """The titles of the columns; `scope` says in brackets what the intervals cover together."""
    kind = "" if request.interval == "t" else f"{request.interval} "
    if request.adjust:
        kind = f"{kind}adjusted "
    names = {"interval": f"{percent(request.level)} {kind}interval{scope}"}
    if request.adjust:
        names["variance v naive"] = "unadjusted variance v naive"
    return [names.get(cell, cell) for cell in HEADER]


def effects_rows(effects: Sequence[Effect], *, is_naive: bool) -> list[list[str]]:
    """A row for each effect."""
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


def metric_table(
    values: Sequence[PolicyMetric], request: Request
) -> tuple[list[str], list[list[str]]]:
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
    level = percent(request.level)
    return ["policy", "horizon", request.by.title, f"{level} interval (each alone)"], rows
