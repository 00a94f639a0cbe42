"""Simple policies: `Uniform`, `Always`, `ExploreThenCommit` and `SuccessiveElimination`."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sameluck import text_forms
from sameluck.arrays import Floats
from sameluck.compilation.decorators import branch_hint
from sameluck.policies.base import RewardScale, Tally, selects
from sameluck.policies.fast.rule_tables import natural_logs
from sameluck.randomness.samplers import uniform
from sameluck.randomness.streams import Key, at
from sameluck.validation import require_number, require_whole


class Uniform(NamedTuple):
    """Play an arm chosen uniformly at random in each period."""


@selects(Uniform)
def _uniform(policy: Uniform, tally: Tally, period: int, noise: Key) -> np.int64:
    return np.int64(uniform(at(noise, period, 0)) * tally.pulls.size)


@text_forms.with_sample("always(0)")
class Always(NamedTuple):
    """Play the same arm, an index from 0, in every period."""

    arm: int

    def check(self, arms: int) -> None:
        require_whole("Always.arm", self.arm, 0, arms - 1)


@selects(Always)
def _always(policy: Always, tally: Tally, period: int, noise: Key) -> int:
    return policy.arm


class ExploreThenCommit(NamedTuple):
    """Play each arm `plays` times, then only the arm with the highest mean (Lattimore and Szepesvari, 2020).

    In each round, every arm is played once, in index order. After `plays` rounds, the arm with the highest mean is
    played in all later periods, whatever its rewards (Algorithm 1 of the book).
    """

    plays: int = 10

    def check(self, arms: int) -> None:
        require_whole("ExploreThenCommit.plays", self.plays, 1, 1_000_000_000)


@selects(ExploreThenCommit)
def _explore_then_commit(policy: ExploreThenCommit, tally: Tally, period: int, noise: Key) -> int:
    arms = tally.pulls.size
    if period <= policy.plays * arms:
        return (period - 1) % arms
    if tally.pulls[tally.last_arm] > policy.plays:
        return tally.last_arm
    best, highest = 0, -np.inf
    for arm in range(arms):
        if tally.means[arm] > highest:
            branch_hint()
            best, highest = arm, tally.means[arm]
    return best


class SuccessiveElimination(NamedTuple):
    """Play all arms in turn and drop arms that are surely worse than another (Even-Dar, Mannor and Mansour, 2006).

    In each round, every remaining arm is played once, in index order. After round n, an arm is dropped if its mean is
    below the highest remaining mean by `2 * sqrt(log(4 * K * n^2 / delta) / n)` or more, with K the number of arms.
    With rewards in [0, 1] the probability that the best arm is ever dropped is at most delta.
    """

    delta: float = 0.05

    def check(self, arms: int) -> None:
        require_number("SuccessiveElimination.delta", self.delta, above=0, below=1)

    def reward_scale(self) -> RewardScale:
        """Return the scale of sub-Gaussian rewards with variance 1 / 2, or 1 / 4 in Hoeffding's bound."""
        return RewardScale(0.5, math.sqrt(0.5), unit_interval=True)

    def prepare(self, arms: int, horizon: int) -> _Distances:
        rounds = np.maximum(np.arange(horizon + 1.0), 1.0)
        logs = math.log(4.0 * arms / self.delta) + 2.0 * natural_logs(rounds)
        return _Distances(2.0 * np.sqrt(logs / rounds))


class _Distances(NamedTuple):
    distance: Floats  # below the highest mean at which an arm is dropped, by round

    def memory(self, arms: int) -> int:
        return arms  # 1 for each arm that was dropped


@selects(_Distances)
def _next_remaining(policy: _Distances, tally: Tally, period: int, noise: Key) -> int:
    arms, memory = tally.pulls.size, tally.memory
    for arm in range(0 if period == 1 else tally.last_arm + 1, arms):
        if memory[arm] == 0.0:
            return arm
    highest = -np.inf
    for arm in range(arms):
        if memory[arm] == 0.0:
            highest = max(highest, tally.means[arm])
    distance, first = policy.distance[tally.pulls[tally.last_arm]], -1
    for arm in range(arms):
        if memory[arm] == 0.0:
            if highest - tally.means[arm] >= distance:
                memory[arm] = 1.0
            elif first < 0:
                first = arm
    return first
