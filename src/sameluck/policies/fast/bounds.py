"""Fast forms of the rule `mean + growth[period] * width[pulls]` (see `ucb.bound_rule`), and of `variance_bound`.

**Ceiling, up to `MANY_ARMS` arms.** The growth never falls, so the bound of an arm that is not played never falls
either, also as it is rounded. `select` therefore notes the ceiling: the largest bound that another arm will have in
the last period of the current block of 16 periods. Until then only the arm just played changes. While its bound
exceeds the ceiling, it exceeds every other bound: it is the argmax, without a tie.

Bounds with estimated variances grow with the evidence instead, also as they are rounded: every operation on the
evidence is monotone. The same ceiling serves `UCBTuned` and `UCBV`.

**Tournament, above `MANY_ARMS` arms.** The winner is the same, found in O(log K) comparisons a period; `tournament`
has the proof.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sameluck.arrays import Floats
from sameluck.compilation.decorators import branch_hint
from sameluck.policies.base import PlayedArm, Policy, Tally, fast_form, repeats_arm, selects
from sameluck.policies.fast import tournament
from sameluck.policies.kl_ucb import KLUCBGaussian
from sameluck.policies.ucb import MOSS, UCB1, UCBV, UCBDelta, UCBTuned, add_square, variance_bound
from sameluck.randomness.streams import Key

_BLOCK = 15  # period & _BLOCK is 0 in the first period of a block of 16


class CeilingBounds(NamedTuple):
    """Bounds with a ceiling on the arms that are not played."""

    growth: Floats  # by period, never falling
    width: Floats  # by number of pulls

    def memory(self, arms: int) -> int:
        return 1  # the ceiling


class TournamentBounds(NamedTuple):
    """Bounds whose largest is found in a tournament."""

    growth: Floats
    width: Floats

    def memory(self, arms: int) -> int:
        return tournament.FLOATS_PER_ARM * arms


@fast_form(UCB1)
@fast_form(UCBDelta)
@fast_form(MOSS)
@fast_form(KLUCBGaussian)
def _fast_bounds(rule: tuple[Floats, Floats], arms: int) -> Policy:
    form = TournamentBounds if arms > tournament.MANY_ARMS else CeilingBounds
    return form(*rule)


@selects(CeilingBounds)
def _highest_bound(policy: CeilingBounds, tally: Tally, period: int, noise: Key) -> int:
    arms = tally.pulls.size
    if period <= arms:
        tally.memory[0] = np.inf
        return period - 1
    now = policy.growth[np.uint64(period)]
    later = policy.growth[min(period | _BLOCK, policy.growth.size - 1)]
    # Both bounds of an arm from one read of its numbers. The arm that loses the lead raises the ceiling.
    best, ceiling = 0, -np.inf
    width = policy.width[np.uint64(tally.pulls[0])]
    highest, highest_later = tally.means[0] + now * width, tally.means[0] + later * width
    for arm in range(1, arms):
        width = policy.width[np.uint64(tally.pulls[arm])]
        bound, bound_later = tally.means[arm] + now * width, tally.means[arm] + later * width
        if bound > highest:
            branch_hint()
            ceiling = max(ceiling, highest_later)
            best, highest, highest_later = arm, bound, bound_later
        else:
            ceiling = max(ceiling, bound_later)
    tally.memory[0] = ceiling
    return best


@repeats_arm(CeilingBounds)
def _above_ceiling(policy: CeilingBounds, played: PlayedArm, period: int, noise: Key) -> bool:
    bound = played.mean + policy.growth[np.uint64(period)] * policy.width[np.uint64(played.pulls)]
    # Strictly above: of equal bounds the lowest arm is played, which may be another. In the first
    # period of a block, the ceiling of the block before no longer holds.
    return bound > played.memory[0] and (period & _BLOCK) != 0


@selects(TournamentBounds)
def _highest_bound_of_many(policy: TournamentBounds, tally: Tally, period: int, noise: Key) -> int:
    if period <= tally.pulls.size:
        return period - 1
    return tournament.highest_bound(policy.growth, policy.width, tally, period)


class CeilingVarianceBounds(NamedTuple):
    """Bounds from estimated variances, with a ceiling on the arms that are not played."""

    evidence: Floats  # by period, never falling
    range: float
    tuned: bool

    def memory(self, arms: int) -> int:
        return arms + 1  # each arm's sum of squared rewards, and the ceiling


@fast_form(UCBTuned)
@fast_form(UCBV)
def _fast_variance_bounds(rule: tuple[Floats, float, bool], arms: int) -> Policy:
    return CeilingVarianceBounds(*rule)


@selects(CeilingVarianceBounds)
def _highest_variance_bound(
    policy: CeilingVarianceBounds, tally: Tally, period: int, noise: Key
) -> int:
    add_square(tally)
    arms = tally.pulls.size
    if period <= arms:
        tally.memory[arms] = np.inf
        return period - 1
    now = policy.evidence[np.uint64(period)]
    last = tally.last_arm
    if (period & _BLOCK) != 0 and variance_bound(policy, tally, last, now) > tally.memory[arms]:
        return last
    later = policy.evidence[min(period | _BLOCK, policy.evidence.size - 1)]
    best, highest, highest_later, ceiling = 0, -np.inf, -np.inf, -np.inf
    for arm in range(arms):
        bound = variance_bound(policy, tally, arm, now)
        bound_later = variance_bound(policy, tally, arm, later)
        if bound > highest:
            branch_hint()
            ceiling = max(ceiling, highest_later)
            best, highest, highest_later = arm, bound, bound_later
        else:
            ceiling = max(ceiling, bound_later)
    tally.memory[arms] = ceiling
    return best
