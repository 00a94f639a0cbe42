"""Each policy on its own, and which of them may be the best."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sameluck.arrays import Floats
from sameluck.inference.adjustments import known_means
from sameluck.inference.effects import Request, differences
from sameluck.intervals import (
    anytime_half_width,
    one_sided_level,
    one_sided_max_t,
    standard_error,
)
from sameluck.runs import Runs


class PolicySummary(NamedTuple):
    """One policy up to a checkpoint."""

    policy: str
    checkpoint: int
    reward: float  # mean cumulative reward
    sd: float  # of the reward of one replication
    pulls: tuple[float, ...]  # mean, of each arm
    regret: float | None  # mean pseudo-regret, where the environment's means are known
    best_arm_share: float | None  # share of periods with the best arm; None without means


class Standing(NamedTuple):
    """A policy against the best of the others (multiple comparisons with the best; Hsu, 1984)."""

    policy: str
    checkpoint: int
    low: float  # of its mean reward minus the largest of the others'; 0 if that is above 0
    high: float
    level: float
    may_be_best: bool


def summarise(runs: Runs) -> tuple[PolicySummary, ...]:
    """One record for each policy and checkpoint."""
    means = known_means(runs)
    return tuple(
        _summary(runs, name, column, index, means)
        for column, name in enumerate(runs.policies)
        for index in range(runs.checkpoints.size)
    )


def _summary(runs: Runs, name: str, column: int, index: int, means: Floats | None) -> PolicySummary:
    rewards, pulls = runs.rewards[:, column, index], runs.pulls[:, column, index]
    checkpoint = int(runs.checkpoints[index])
    regret = share = None
    if means is not None:
        regret = float(np.mean(np.sum((means.max(axis=1, keepdims=True) - means) * pulls, axis=1)))
        best = np.take_along_axis(pulls, means.argmax(axis=1)[:, None], axis=1)
        share = float(best.mean() / checkpoint)
    sd = float(rewards.std(ddof=1)) if rewards.size > 1 else math.nan
    arms = tuple(float(count) for count in pulls.mean(axis=0))
    return PolicySummary(name, checkpoint, float(rewards.mean()), sd, arms, regret, share)


def standings(runs: Runs, request: Request) -> tuple[Standing, ...]:
    """Which policies may be the best at the last checkpoint, with the level over all policies.

    Let D_ij be the mean of policy i minus that of j, and w_ij one-sided half-widths: all D_ij + w_ij, j != i, are
    above the true differences with probability `level`. On that event for the best policy, it is among those whose
    D_ij + w_ij are all above 0: these may be the best. A policy is at most max(0, min_j D_ij + w_ij) above the best
    of the others, and at least min(0, min_j D_ij - w_ji) over those j that may be (Hsu, 1984, with common random
    numbers).
    """
    halves = {name: _half_widths(runs, name, request) for name in runs.policies}
    upper = {
        name: min(ahead + half for ahead, half in others.values())
        for name, others in halves.items()
    }
    possible = [name for name in runs.policies if upper[name] >= 0]
    return tuple(
        Standing(
            name,
            int(runs.checkpoints[-1]),
            min([0.0, *(-sum(halves[other][name]) for other in possible if other != name)]),
            max(0.0, upper[name]),
            request.level,
            name in possible,
        )
        for name in runs.policies
    )


def _half_widths(runs: Runs, name: str, request: Request) -> dict[str, tuple[float, float]]:
    """By how much a policy is ahead of each other one, and the one-sided half-width of this."""
    others = [other for other in runs.policies if other != name]
    last = runs.checkpoints.size - 1
    columns = np.column_stack([differences(runs, (name, one), last, request) for one in others])
    errors = standard_error(columns)
    if request.interval == "anytime":
        level = one_sided_level(request.level, len(others))
        halves = np.array([anytime_half_width(values, level) for values in columns.T])
    else:
        halves = one_sided_max_t(columns, request.level) * errors
    halves[errors == 0] = math.inf
    ahead = columns.mean(axis=0).tolist()
    return dict(zip(others, zip(ahead, halves.tolist(), strict=True), strict=True))
