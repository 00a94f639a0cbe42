"""Each policy on its own, and which of them may be the best."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sameluck.arrays import Floats
from sameluck.inference.adjustments import known_means
from sameluck.inference.effects import Request, differences
from sameluck.intervals import anytime_half_widths, t_critical
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

    With w the half-width of a difference at level 1 - (1 - level) / (N - 1), a policy's mean minus the best of the
    others' lies between min(0, smallest difference - w) and max(0, smallest difference + w); it may be the best
    if the upper end is above 0 (Hsu's intervals with common random numbers; Nelson and Matejcik, 1995).
    """
    return tuple(_standing(runs, name, request) for name in runs.policies)


def _standing(runs: Runs, name: str, request: Request) -> Standing:
    last = runs.checkpoints.size - 1
    each = 1 - (1 - request.level) / (len(runs.policies) - 1)
    lows, highs = [], []
    for other in runs.policies:
        if other != name:
            values = differences(runs, (name, other), last, request)
            half = half_width(values, each, request.interval)
            lows.append(values.mean() - half)
            highs.append(values.mean() + half)
    low, high = min(0.0, float(min(lows))), max(0.0, float(min(highs)))
    return Standing(
        name, int(runs.checkpoints[-1]), low, high, request.level, bool(min(highs) >= 0)
    )


def half_width(values: Floats, level: float, interval: str) -> float:
    """The half-width of the anytime interval, or of Student's t for the other intervals."""
    if interval == "anytime":
        return float(anytime_half_widths(values, level)[-1])
    error = float(values.std(ddof=1)) / math.sqrt(values.size)
    return t_critical(values.size - 1, level) * error
