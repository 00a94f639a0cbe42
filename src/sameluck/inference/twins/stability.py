"""Whether the arms stand still: tests of the ledger, with the law that their statistics have on the copy.

A bandit leaves an arm after bad luck and stays after good luck, so rewards trend within stacks that no drift has
touched, and a test with the usual law rejects far too often. Here the same statistics are computed from ledgers of
the twin, where the arms stand still.
"""

from __future__ import annotations

import numpy as np

from sameluck.arrays import Floats, Ints
from sameluck.inference.twins.observed_rewards import (
    ObservedStacks,
    StackMoments,
    simulated_moments,
)
from sameluck.inference.twins.records import Stability
from sameluck.runs import Runs

LEDGERS = 2_000  # that the law of the statistics is taken from
REPLICATIONS = 2_000  # of the twin that they are made of
_MOST_REWARDS = 50_000_000
_ROUNDING = 1e-13  # of a sum of squares: what equal rewards may differ by


def check_stability(
    stacks: ObservedStacks, long_run: Runs, generator: np.random.Generator
) -> Stability:
    """Compare the trend and the heterogeneity of a ledger with those of ledgers from the twin's long run."""
    count = len(stacks.depths)
    some = int(min(REPLICATIONS, long_run.replications, _MOST_REWARDS / long_run.checkpoints[-1]))
    part = long_run.part(0, max(some, 200))
    copied = simulated_moments(part)
    rows = generator.integers(part.replications, size=(LEDGERS, count))
    own = _statistics(stacks.moments(), np.arange(count)[None])
    law = _statistics(copied, rows)
    trend, arm = _p_value(own[0], law[0], two_sided=True)
    if count * stacks.depths.shape[1] == 1:
        return Stability(trend, None, arm)
    between, other = _p_value(own[1], law[1], two_sided=False)
    return Stability(trend, between, arm if trend <= between else other)


def _statistics(moments: StackMoments, rows: Ints) -> tuple[Floats, Floats]:
    """Trend and heterogeneity of each arm (ledger, arm), of ledgers made of these rows (ledger, replication)."""
    depths, totals, squares, trends = (part.astype(float) for part in moments)
    spans = depths * (depths**2 - 1) / 12  # of the positions: sum of squares about their mean
    with np.errstate(divide="ignore", invalid="ignore"):
        within = np.where(depths > 0, totals**2 / depths, 0.0)
    parts = (depths, totals, squares, trends, spans, within)
    table = np.stack([part.sum(axis=1) for part in parts], axis=1)  # (replication, part, arm)
    step = max(1, 1_000_000 // (rows.shape[1] * table[0].size))
    blocks = [table[rows[first : first + step]].sum(axis=1) for first in range(0, len(rows), step)]
    users, total, square, trend, span, means = np.concatenate(blocks).transpose(1, 0, 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        explained = total**2 / users
        spread = np.where(square - explained > _ROUNDING * square, square - explained, 0.0)
        variance = spread / (users - 1)
        along = trend / np.sqrt(variance * span)
        between = (means - explained) / variance
    return np.nan_to_num(along, posinf=0, neginf=0), np.nan_to_num(between, posinf=0, neginf=0)


def _p_value(own: Floats, law: Floats, *, two_sided: bool) -> tuple[float, int]:
    """Of the largest statistic of all arms, each in standard deviations from its mean; and that arm."""
    centre, sd = law.mean(axis=0), law.std(axis=0)
    scale = np.where(sd > 0, sd, np.inf)
    ours, theirs = (own[0] - centre) / scale, (law - centre) / scale
    if two_sided:
        ours, theirs = np.abs(ours), np.abs(theirs)
    beyond = int(np.sum(theirs.max(axis=1) >= ours.max()))
    return (1 + beyond) / (1 + len(law)), int(ours.argmax())
