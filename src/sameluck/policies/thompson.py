"""Thompson sampling for rewards 0 and 1, for normal rewards and for counts."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sameluck.arrays import Floats
from sameluck.compilation.decorators import branch_hint
from sameluck.policies.base import RewardScale, Tally, selects
from sameluck.policies.fast.rule_tables import natural_logs
from sameluck.randomness.samplers import beta_log_odds, beta_odds, gamma, log_gamma, normal
from sameluck.randomness.streams import Key, again, at
from sameluck.validation import require_number, require_whole

_MAX_FIRST_PLAYS = 1_000_000


class ThompsonBernoulli(NamedTuple):
    """Thompson sampling with independent Beta(a, b) priors, for rewards 0 and 1 (Thompson, 1933).

    In each period draw a success probability for each arm from Beta(a + successes, b + failures) and play the arm
    with the largest draw. With `first_plays` = n each arm is first played n times, in index order, and these rewards
    enter the posterior. The textbook rule has n = 0; the paper's tables need n = 1.
    """

    a: float = 1.0
    b: float = 1.0
    first_plays: int = 0

    @property
    def needs_binary(self) -> bool:
        return True  # the posterior counts successes

    def check(self, arms: int) -> None:
        require_number("ThompsonBernoulli.a", self.a, above=0)
        require_number("ThompsonBernoulli.b", self.b, above=0)
        require_whole("ThompsonBernoulli.first_plays", self.first_plays, 0, _MAX_FIRST_PLAYS)

    def prepare(self, arms: int, horizon: int) -> _BetaPosteriors | _WideBetaPosteriors:
        if min(self.a, self.b) < 1.0:
            return _WideBetaPosteriors(self.a, self.b, self.first_plays)
        gammas = (_gammas(self.a, horizon), _gammas(self.b, horizon))
        return _BetaPosteriors(self.first_plays, *gammas)


class _BetaPosteriors(NamedTuple):
    first_plays: int
    wins: _Gammas  # by number of successes
    losses: _Gammas  # by number of failures


class _WideBetaPosteriors(NamedTuple):
    # For a shape below 1: draws may be so close to 0 or 1 that only their logarithms differ.
    a: float
    b: float
    first_plays: int


class _Gammas(NamedTuple):
    depth: Floats  # shape - 1/3 and 1 / sqrt(9 depth), as the gamma sampler takes them, by number of rewards
    spread: Floats


def _gammas(shape: float, horizon: int) -> _Gammas:
    depth: Floats = shape + np.arange(horizon + 1.0) - 1.0 / 3.0
    return _Gammas(depth, 1.0 / np.sqrt(9.0 * np.abs(depth)))


@selects(_BetaPosteriors)
def _largest_beta_draw(policy: _BetaPosteriors, tally: Tally, period: int, noise: Key) -> int:
    arms, wins, losses = tally.pulls.size, policy.wins, policy.losses
    if period <= policy.first_plays * arms:
        return (period - 1) % arms
    best, highest = 0, -np.inf
    for arm in range(arms):
        # Unsigned indices need no check for negative ones.
        won = np.uint64(tally.totals[arm])
        lost = np.uint64(tally.pulls[arm]) - won
        # Odds have the order of probabilities, and the gamma draws give them without rounding to 0 or 1.
        bits = at(noise, period, arm)
        odds = beta_odds(
            bits, wins.depth[won], wins.spread[won], losses.depth[lost], losses.spread[lost]
        )
        if odds > highest:
            branch_hint()
            best, highest = arm, odds
    return best


@selects(_WideBetaPosteriors)
def _largest_wide_beta_draw(
    policy: _WideBetaPosteriors, tally: Tally, period: int, noise: Key
) -> int:
    arms = tally.pulls.size
    if period <= policy.first_plays * arms:
        return (period - 1) % arms
    best, highest = 0, -np.inf
    for arm in range(arms):
        won = tally.totals[arm]
        a, b = policy.a + won, policy.b + tally.pulls[arm] - won
        odds = beta_log_odds(at(noise, period, arm), a, b)
        if odds > highest:
            branch_hint()
            best, highest = arm, odds
    return best


class ThompsonGaussian(NamedTuple):
    """Thompson sampling for normal rewards of known standard deviation, with independent normal priors on the means.

    In each period draw a mean for each arm from its normal posterior and play the arm with the largest draw. The
    posterior has precision 1 / prior_sd^2 + pulls / noise_sd^2, and its mean is the average of `prior_mean` and the
    rewards weighted by their precisions. `first_plays` as in `ThompsonBernoulli`.
    """

    prior_mean: float = 0.0
    prior_sd: float = 1.0
    noise_sd: float = 1.0
    first_plays: int = 0

    def check(self, arms: int) -> None:
        require_number("ThompsonGaussian.prior_mean", self.prior_mean)
        require_number("ThompsonGaussian.prior_sd", self.prior_sd, above=0, at_most=1e100)
        require_number("ThompsonGaussian.noise_sd", self.noise_sd, above=0, at_most=1e100)
        require_whole("ThompsonGaussian.first_plays", self.first_plays, 0, _MAX_FIRST_PLAYS)

    def reward_scale(self) -> RewardScale:
        return RewardScale(self.noise_sd, self.noise_sd)

    def rescaled(self, sd: float, mean: float) -> ThompsonGaussian:
        """Return the policy with this noise, and a prior wide enough for the mean not to outweigh noisier rewards."""
        prior_sd = self.prior_sd
        if sd > self.noise_sd:
            prior_sd = max(prior_sd, abs(mean - self.prior_mean))
        return self._replace(noise_sd=sd, prior_sd=prior_sd)

    def prepare(self, arms: int, horizon: int) -> _NormalPosteriors:
        prior, gain = self.prior_sd**-2.0, self.noise_sd**-2.0  # precisions
        precision = prior + gain * np.arange(horizon + 1)
        start, weight = prior * self.prior_mean / precision, gain / precision
        return _NormalPosteriors(self.first_plays, start, weight, 1 / np.sqrt(precision))


class _NormalPosteriors(NamedTuple):
    first_plays: int
    start: Floats  # by number of pulls: the posterior mean is start + weight * total
    weight: Floats
    sd: Floats


@selects(_NormalPosteriors)
def _largest_normal_draw(policy: _NormalPosteriors, tally: Tally, period: int, noise: Key) -> int:
    arms = tally.pulls.size
    if period <= policy.first_plays * arms:
        return (period - 1) % arms
    best, highest = 0, -np.inf
    for arm in range(arms):
        pulls = np.uint64(tally.pulls[arm])
        mean = policy.start[pulls] + policy.weight[pulls] * tally.totals[arm]
        drawn = mean + policy.sd[pulls] * normal(at(noise, period, arm))
        if drawn > highest:
            branch_hint()
            best, highest = arm, drawn
    return best


class ThompsonNormalInverseGamma(NamedTuple):
    """Thompson sampling for normal rewards of unknown mean and variance (Honda and Takemura, 2014).

    In the prior of each arm, the variance is inverse gamma with shape `a` and scale `b`. Given the variance, the mean
    is normal with mean `prior_mean` and variance / `prior_weight`. In each period draw a variance and then a mean for
    each arm from its posterior and play the arm with the largest mean. With `first_plays` = n each arm is first
    played n times, in index order.

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
        require_whole(f"{name}.first_plays", self.first_plays, 0, _MAX_FIRST_PLAYS)

    def memory(self, arms: int) -> int:
        return arms  # sums of squared deviations from the arm's mean


@selects(ThompsonNormalInverseGamma)
def _largest_mean_drawn(
    policy: ThompsonNormalInverseGamma, tally: Tally, period: int, noise: Key
) -> int:
    arms, last = tally.pulls.size, tally.last_arm
    if tally.pulls[last] > 1:
        # The last of n rewards, x, adds (x - m)^2 n / (n - 1), where m is their mean (Welford, 1962).
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
    """Thompson sampling for Poisson counts, with independent gamma priors of shape `a` and rate `b` on the means.

    In each period draw a mean for each arm from its posterior, the gamma distribution of shape a + total and rate b +
    pulls. Play the arm with the largest draw (Chapelle and Li, 2011, describe the method). A negative total counts as
    0. `first_plays` as in `ThompsonBernoulli`.
    """

    a: float = 1.0
    b: float = 1.0
    first_plays: int = 0

    def check(self, arms: int) -> None:
        require_number("ThompsonPoisson.a", self.a, above=0, at_most=1e100)
        require_number("ThompsonPoisson.b", self.b, above=0, at_most=1e100)
        require_whole("ThompsonPoisson.first_plays", self.first_plays, 0, _MAX_FIRST_PLAYS)

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
