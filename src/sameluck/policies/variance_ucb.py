"""Upper confidence bounds that estimate the variance of each arm: `UCBTuned` and `UCBV`."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sameluck.compilation.decorators import branch_hint, inlined
from sameluck.policies.base import RewardScale, Tally, selects
from sameluck.randomness.streams import Key
from sameluck.validation import require_number


class UCBTuned(NamedTuple):
    """UCB1 with the estimated variance in its bound (Auer, Cesa-Bianchi and Fischer, 2002, section 4).

    Each arm once in index order; then, in period t + 1, the arm with the largest
    `mean + sqrt(log(t) / pulls * min(1/4, variance + sqrt(2 * log(t) / pulls)))`, where the variance is the mean
    square of the arm's rewards minus the square of their mean. For rewards in [0, 1].
    """

    def reward_scale(self) -> RewardScale:
        """Rewards in [0, 1]."""
        return RewardScale(0.5, 0.5, unit_interval=True)

    def memory(self, arms: int) -> int:  # noqa: D102
        return arms  # the sum of the squared rewards of each arm


class UCBV(NamedTuple):
    """Upper confidence bounds by the empirical Bernstein inequality (Audibert, Munos and Szepesvari, 2009).

    Each arm once in index order; then, in period t + 1, the arm with the largest
    `mean + sqrt(2 * variance * e / pulls) + 3 * c * b * e / pulls` with e = zeta * log(t) and the variance of
    `UCBTuned`. For rewards in [0, b]. With zeta = 1.2 and c = 1 the regret is at most 10 log(T) times the sum of
    variance / gap + 2 b over the arms that are not the best.
    """

    zeta: float = 1.2
    c: float = 1.0
    b: float = 1.0

    def check(self, arms: int) -> None:  # noqa: ARG002, D102
        require_number("UCBV.zeta", self.zeta, above=0, at_most=1e6)
        require_number("UCBV.c", self.c, at_least=0, at_most=1e6)
        require_number("UCBV.b", self.b, above=0, at_most=1e100)

    def memory(self, arms: int) -> int:  # noqa: D102
        return arms  # as above


@inlined
def _note_square(tally: Tally) -> None:
    tally.memory[tally.last] += tally.reward * tally.reward  # 0 in period 1


@inlined
def _variance(tally: Tally, arm: int) -> float:
    mean = tally.means[arm]
    return max(0.0, tally.memory[arm] / tally.pulls[arm] - mean * mean)


@selects(UCBTuned)
def _highest_tuned_bound(policy: UCBTuned, tally: Tally, period: int, luck: Key) -> int:  # noqa: ARG001
    _note_square(tally)
    if period <= tally.pulls.size:
        return period - 1
    log = math.log(period - 1)
    best, highest = 0, -np.inf
    for arm in range(tally.pulls.size):
        share = log / tally.pulls[arm]
        spread = min(0.25, _variance(tally, arm) + math.sqrt(2.0 * share))
        bound = tally.means[arm] + math.sqrt(share * spread)
        if bound > highest:
            branch_hint()
            best, highest = arm, bound
    return best


@selects(UCBV)
def _highest_bernstein_bound(policy: UCBV, tally: Tally, period: int, luck: Key) -> int:  # noqa: ARG001
    _note_square(tally)
    if period <= tally.pulls.size:
        return period - 1
    evidence = policy.zeta * math.log(period - 1)
    best, highest = 0, -np.inf
    for arm in range(tally.pulls.size):
        share = evidence / tally.pulls[arm]
        deviation = math.sqrt(2.0 * _variance(tally, arm) * share)
        bound = tally.means[arm] + deviation + 3.0 * policy.c * policy.b * share
        if bound > highest:
            branch_hint()
            best, highest = arm, bound
    return best
