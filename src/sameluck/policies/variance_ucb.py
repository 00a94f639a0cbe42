"""Upper confidence bounds that estimate the variance of each arm: `UCBTuned` and `UCBV`."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sameluck.arrays import Floats
from sameluck.compilation.decorators import branch_hint, inlined
from sameluck.policies.base import RewardScale, Tally, selects
from sameluck.policies.logarithms import natural_logs
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

    def prepare(self, arms: int, horizon: int) -> _Bounds:
        return _Bounds(_logs_of_plays(horizon), 0.0, tuned=True)


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

    def check(self, arms: int) -> None:
        require_number("UCBV.zeta", self.zeta, above=0, at_most=1e6)
        require_number("UCBV.c", self.c, at_least=0, at_most=1e6)
        require_number("UCBV.b", self.b, above=0, at_most=1e100)

    def prepare(self, arms: int, horizon: int) -> _Bounds:
        return _Bounds(self.zeta * _logs_of_plays(horizon), 3.0 * self.c * self.b, tuned=False)


def _logs_of_plays(horizon: int) -> Floats:
    """log(t) by period t + 1, from period 2 on."""
    logs = np.zeros(horizon + 1)
    logs[2:] = natural_logs(np.arange(1.0, horizon))
    return logs


class _Bounds(NamedTuple):
    evidence: Floats  # by period, never falling
    range: float  # in Bernstein's inequality
    tuned: bool

    def memory(self, arms: int) -> int:
        return arms + 1  # the sum of the squared rewards of each arm, and the ceiling


# The bound of an arm that is not played grows with the evidence, also as it is rounded: every operation on the
# evidence is monotone. So no other arm exceeds the ceiling, the largest bound of the others with the evidence of the
# last period of a block of 16, while the bound of the arm just played does.
_BLOCK = 15


@inlined
def _note_square(tally: Tally) -> None:
    tally.memory[tally.last_arm] += tally.last_reward * tally.last_reward  # 0 in period 1


@inlined
def _variance(tally: Tally, arm: int) -> float:
    mean = tally.means[arm]
    return max(0.0, tally.memory[arm] / tally.pulls[arm] - mean * mean)


@inlined
def _bound(policy: _Bounds, tally: Tally, arm: int, evidence: float) -> float:
    share = evidence / tally.pulls[arm]
    if policy.tuned:
        spread = min(0.25, _variance(tally, arm) + math.sqrt(2.0 * share))
        return tally.means[arm] + math.sqrt(share * spread)
    deviation = math.sqrt(2.0 * _variance(tally, arm) * share)
    return tally.means[arm] + deviation + policy.range * share


@selects(_Bounds)
def _highest_bound(policy: _Bounds, tally: Tally, period: int, noise: Key) -> int:
    _note_square(tally)
    arms = tally.pulls.size
    if period <= arms:
        tally.memory[arms] = np.inf
        return period - 1
    now = policy.evidence[np.uint64(period)]
    if (period & _BLOCK) != 0 and _bound(policy, tally, tally.last_arm, now) > tally.memory[arms]:
        return tally.last_arm
    later = policy.evidence[min(period | _BLOCK, policy.evidence.size - 1)]
    best, highest, highest_later, ceiling = 0, -np.inf, -np.inf, -np.inf
    for arm in range(arms):
        bound, bound_later = _bound(policy, tally, arm, now), _bound(policy, tally, arm, later)
        if bound > highest:
            branch_hint()
            ceiling = max(ceiling, highest_later)
            best, highest, highest_later = arm, bound, bound_later
        else:
            ceiling = max(ceiling, bound_later)
    tally.memory[arms] = ceiling
    return best
