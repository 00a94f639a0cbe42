"""Fast form of `UCBTuned` and `UCBV`.

The bound of an arm that is not played grows with the evidence, also as it is rounded: every operation on the evidence
is monotone. `select` notes a ceiling, the largest bound that another arm will have with the evidence of the last
period of a block of 16 periods. While the bound of the arm just played exceeds the ceiling, it is the argmax, without
a tie.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sameluck.arrays import Floats
from sameluck.compilation.decorators import branch_hint
from sameluck.policies.base import Policy, Tally, fast_form, selects
from sameluck.policies.ucb import UCBV, UCBTuned, add_square, variance_bound
from sameluck.randomness.streams import Key

_BLOCK = 15  # period & _BLOCK is 0 in the first period of a block of 16


class CeilingVarianceBounds(NamedTuple):
    """Bounds from estimated variances, with a ceiling on the arms that are not played."""

    evidence: Floats  # by period, never falling
    range: float
    tuned: bool

    def memory(self, arms: int) -> int:
        return arms + 1  # each arm's sum of squared rewards, and the ceiling


@fast_form(UCBTuned)
@fast_form(UCBV)
def _fast_bounds(rule: tuple[Floats, float, bool], arms: int) -> Policy:
    return CeilingVarianceBounds(*rule)


@selects(CeilingVarianceBounds)
def _highest_bound(policy: CeilingVarianceBounds, tally: Tally, period: int, noise: Key) -> int:
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
