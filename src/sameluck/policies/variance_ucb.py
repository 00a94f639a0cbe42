"""Upper confidence bounds that estimate the variance of each arm: `UCBTuned` and `UCBV`."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from sameluck.arrays import Floats
from sameluck.compilation.decorators import branch_hint, inlined
from sameluck.policies.base import RewardScale, Tally, selects
from sameluck.policies.tables import natural_logs
from sameluck.randomness.streams import Key
from sameluck.validation import require_number


class UCBTuned(NamedTuple):
    """UCB1 with the estimated variance in its bound (Auer, Cesa-Bianchi and Fischer, 2002, section 4).

    Play each arm once in index order. Then, in period t + 1, play the arm with the largest
    `mean + sqrt(log(t) / pulls * min(1/4, variance + sqrt(2 * log(t) / pulls)))`. The variance is the mean square of
    the arm's rewards minus the square of their mean. For rewards in [0, 1].
    """

    def reward_scale(self) -> RewardScale:
        return RewardScale(0.5, 0.5, unit_interval=True)

    def prepare(self, arms: int, horizon: int) -> _VarianceBounds:
        return _VarianceBounds(_logs_of_plays(horizon), 0.0, tuned=True)


class UCBV(NamedTuple):
    """Upper confidence bounds by the empirical Bernstein inequality (Audibert, Munos and Szepesvari, 2009).

    Play each arm once in index order. Then, in period t + 1, play the arm with the largest
    `mean + sqrt(2 * variance * e / pulls) + 3 * c * b * e / pulls`, with e = zeta * log(t) and the variance as in
    `UCBTuned`. For rewards in [0, b]. With zeta = 1.2 and c = 1 the regret is at most 10 log(T) times the sum of
    variance / gap + 2 b over all suboptimal arms.
    """

    zeta: float = 1.2
    c: float = 1.0
    b: float = 1.0

    def check(self, arms: int) -> None:
        require_number("UCBV.zeta", self.zeta, above=0, at_most=1e6)
        require_number("UCBV.c", self.c, at_least=0, at_most=1e6)
        require_number("UCBV.b", self.b, above=0, at_most=1e100)

    def prepare(self, arms: int, horizon: int) -> _VarianceBounds:
        evidence = self.zeta * _logs_of_plays(horizon)
        return _VarianceBounds(evidence, 3.0 * self.c * self.b, tuned=False)


def _logs_of_plays(horizon: int) -> Floats:
    """Return log(t) by period t + 1, from period 2 on."""
    logs = np.zeros(horizon + 1)
    logs[2:] = natural_logs(np.arange(1.0, horizon))
    return logs


class _VarianceBounds(NamedTuple):
    evidence: Floats  # by period, never falling
    range: float  # in Bernstein's inequality
    tuned: bool

    def memory(self, arms: int) -> int:
        return arms  # each arm's sum of squared rewards


@selects(_VarianceBounds)
def _highest_bound(policy: _VarianceBounds, tally: Tally, period: int, noise: Key) -> int:
    add_square(tally)
    if period <= tally.pulls.size:
        return period - 1
    best, highest = 0, -np.inf
    for arm in range(tally.pulls.size):
        bound = variance_bound(policy, tally, arm, policy.evidence[np.uint64(period)])
        if bound > highest:
            branch_hint()
            best, highest = arm, bound
    return best


@inlined
def add_square(tally: Tally) -> None:
    """Add the square of the last reward to its arm's sum in the memory."""
    tally.memory[tally.last_arm] += tally.last_reward * tally.last_reward  # 0 in period 1


@inlined
def variance_bound(policy: Any, tally: Tally, arm: int, evidence: float) -> float:
    """Return the upper confidence bound of an arm; `policy` has the fields `range` and `tuned`."""
    mean, share = tally.means[arm], evidence / tally.pulls[arm]
    # Rounding may make the difference negative.
    variance = max(0.0, tally.memory[arm] / tally.pulls[arm] - mean * mean)
    if policy.tuned:
        return mean + math.sqrt(share * min(0.25, variance + math.sqrt(2.0 * share)))
    return mean + math.sqrt(2.0 * variance * share) + policy.range * share
