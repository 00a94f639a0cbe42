"""Thompson sampling for normal rewards of unknown variance and for counts."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sameluck.arrays import Floats
from sameluck.compilation.decorators import branch_hint
from sameluck.policies.base import Tally, selects
from sameluck.policies.logarithms import natural_logs
from sameluck.randomness.samplers import gamma, log_gamma, normal
from sameluck.randomness.streams import Key, again, at
from sameluck.validation import require_number, require_whole

_MOST_FIRST_PLAYS = 1_000_000


class ThompsonNormalInverseGamma(NamedTuple):
    """Thompson sampling for normal rewards of unknown mean and variance (Honda and Takemura, 2014).

    The prior of each arm: the variance is inverse gamma with shape `a` and scale `b`, the mean given the variance
    normal with mean `prior_mean` and variance / `prior_weight`. In each period draw a variance and then a mean
    for each arm from its posterior and play the arm with the largest mean. With `first_plays` = n each arm is
    first played n times, in index order.

    Args:
        prior_mean: The mean of the prior.
        prior_weight: How many rewards the prior counts as, in the mean.
        a: Shape of the variance's prior: half as many rewards as it counts as, in the variance.
        b: Scale of the variance's prior, in squared units of the reward.
        first_plays: As in `ThompsonBernoulli`.
    """

    prior_mean: float = 0.0
    prior_weight: float = 1.0
    a: float = 1.0
    b: float = 1.0
    first_plays: int = 0

    def check(self, arms: int) -> None:
        name = "ThompsonNormalInverseGamma"
        require_number(f"{name}.prior_mean", self.prior_mean, at_least=-1e100, at_most=1e100)
        require_number(f"{name}.prior_weight", self.prior_weight, above=0, at_most=1e100)
        require_number(f"{name}.a", self.a, above=0, at_most=1e100)
        require_number(f"{name}.b", self.b, above=0, at_most=1e100)
        require_whole(f"{name}.first_plays", self.first_plays, 0, _MOST_FIRST_PLAYS)

    def memory(self, arms: int) -> int:
        return arms  # the sum of the squared deviations from the mean of each arm's rewards


@selects(ThompsonNormalInverseGamma)
def _largest_mean_drawn(
    policy: ThompsonNormalInverseGamma, tally: Tally, period: int, noise: Key
) -> int:
    arms, last = tally.pulls.size, tally.last_arm
    if tally.pulls[last] > 1:
        # Of n rewards with mean m, the last of which is x: (x - m)^2 n / (n - 1) more than before it (Welford, 1962).
        deviation = tally.last_reward - tally.means[last]
        tally.memory[last] += deviation * deviation * tally.pulls[last] / (tally.pulls[last] - 1.0)
    if period <= policy.first_plays * arms:
        return (period - 1) % arms
    best, highest = 0, -np.inf
    for arm in range(arms):
        pulls = tally.pulls[arm]
        weight = policy.prior_weight + pulls
        surprise = tally.means[arm] - policy.prior_mean
        shift = policy.prior_weight * pulls / weight * (surprise * surprise)
        scale = policy.b + 0.5 * (tally.memory[arm] + shift)
        bits = at(noise, period, arm)
        variance = scale / gamma(again(bits, 1), policy.a + 0.5 * pulls)
        mean = (policy.prior_weight * policy.prior_mean + tally.totals[arm]) / weight
        drawn = mean + math.sqrt(variance / weight) * normal(again(bits, 2))
        if drawn > highest:
            branch_hint()
            best, highest = arm, drawn
    return best


class ThompsonPoisson(NamedTuple):
    """Thompson sampling for counts, with independent gamma priors of shape `a` and rate `b` on the arms' means.

    In each period draw a mean for each arm from the gamma distribution of shape a + total and rate b + pulls, and
    play the arm with the largest (the posterior of Poisson counts; Chapelle and Li, 2011, describe the method). A
    negative total counts as 0. `first_plays` as in `ThompsonBernoulli`.
    """

    a: float = 1.0
    b: float = 1.0
    first_plays: int = 0

    def check(self, arms: int) -> None:
        require_number("ThompsonPoisson.a", self.a, above=0, at_most=1e100)
        require_number("ThompsonPoisson.b", self.b, above=0, at_most=1e100)
        require_whole("ThompsonPoisson.first_plays", self.first_plays, 0, _MOST_FIRST_PLAYS)

    def prepare(self, arms: int, horizon: int) -> _GammaPosteriors:
        rates = natural_logs(self.b + np.arange(horizon + 1.0))
        return _GammaPosteriors(self.first_plays, self.a, rates)


class _GammaPosteriors(NamedTuple):
    first_plays: int
    shape: float
    log_rate: Floats  # by number of pulls


@selects(_GammaPosteriors)
def _largest_rate_drawn(policy: _GammaPosteriors, tally: Tally, period: int, noise: Key) -> int:
    arms = tally.pulls.size
    if period <= policy.first_plays * arms:
        return (period - 1) % arms
    best, highest = 0, -np.inf
    for arm in range(arms):
        shape = policy.shape + max(tally.totals[arm], 0.0)
        # In logarithms, because a draw of a small shape may round to 0.
        drawn = log_gamma(at(noise, period, arm), shape) - policy.log_rate[tally.pulls[arm]]
        if drawn > highest:
            branch_hint()
            best, highest = arm, drawn
    return best
