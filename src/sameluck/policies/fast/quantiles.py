"""Fast form of `BayesUCB`.

Quantiles grow with the period. While one arm is played, the other quantiles stay below a ceiling: the largest that
another arm has at the end of a block of periods. One probability tells whether the quantile of the arm just played is
above the ceiling. The margin is far above the errors of quantiles and probabilities, so that the arm is the one that
a comparison of all arms finds.
"""

from __future__ import annotations

from typing import NamedTuple

from sameluck.arrays import Floats
from sameluck.policies.base import PlayedArm, Policy, Tally, fast_form, repeats_arm, selects
from sameluck.policies.bayes_ucb import BayesUCB, highest_quantile, log_tail, posterior_of
from sameluck.randomness.streams import Key

_MARGIN = 1e-8
_FIRST_BLOCK = 16  # the period from which blocks are used


class CeilingQuantiles(NamedTuple):
    """Posterior quantiles with a ceiling on the arms that are not played."""

    a: float
    b: float
    log_tail: Floats
    log_gamma_a: Floats
    log_gamma_b: Floats
    log_gamma_both: Floats

    def memory(self, arms: int) -> int:
        return 2  # the ceiling, and the period up to which it holds


@fast_form(BayesUCB)
def _fast_quantiles(rule: tuple[float, float, Floats, Floats, Floats, Floats], arms: int) -> Policy:
    return CeilingQuantiles(*rule)


@selects(CeilingQuantiles)
def _highest_quantile(policy: CeilingQuantiles, tally: Tally, period: int, noise: Key) -> int:
    tail, last = policy.log_tail[period], tally.last_arm
    if period <= tally.memory[1]:
        above = log_tail(posterior_of(policy, tally, last), tally.memory[0])
        if above > tail + _MARGIN:
            return last
    best, _ = highest_quantile(policy, tally, tail, -1)
    tally.memory[1] = 0.0
    # A ceiling costs as much as a comparison of all arms, so it is computed only for an arm that is likely to stay.
    if best == last and period >= _FIRST_BLOCK:
        end = min(period + period // 8, policy.log_tail.size - 1)
        _, ceiling = highest_quantile(policy, tally, policy.log_tail[end], last)
        tally.memory[0] = ceiling + _MARGIN
        # No probability exceeds 1, so a ceiling of 1 or more could not be passed, nor its tail be computed.
        tally.memory[1] = end if tally.memory[0] < 1.0 else 0
    return best


@repeats_arm(CeilingQuantiles)
def _mean_above_ceiling(
    policy: CeilingQuantiles, played: PlayedArm, period: int, noise: Key
) -> bool:
    # A log-concave distribution has at least 1 / e of its mass above its mean (Gruenbaum, 1960), and at most 1 / 16
    # above the quantile in a block. So the quantile is above the mean, and a mean above the ceiling decides.
    mean = (policy.a + played.mean * played.pulls) / (policy.a + policy.b + played.pulls)
    concave = policy.a >= 1.0 and policy.b >= 1.0
    return concave and period <= played.memory[1] and mean > played.memory[0]
