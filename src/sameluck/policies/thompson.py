"""Thompson sampling: `ThompsonBernoulli` and `ThompsonGaussian`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sameluck.arrays import Floats
from sameluck.compilation.decorators import branch_hint
from sameluck.policies.base import RewardScale, Tally, selects
from sameluck.randomness.samplers import beta_log_odds, beta_odds, normal
from sameluck.randomness.streams import Key, at
from sameluck.validation import require_number, require_whole

_MOST_FIRST_PLAYS = 1_000_000


class ThompsonBernoulli(NamedTuple):
    """Thompson sampling with independent Beta(a, b) priors, for rewards 0 and 1 (Thompson, 1933).

    In each period draw a success probability for each arm from Beta(a + successes, b + failures) and play the arm
    with the largest. With `first_plays` = n each arm is first played n times, in index order, and those rewards
    enter the posterior (n = 0 is the textbook rule; the paper's tables need n = 1).
    """

    a: float = 1.0
    b: float = 1.0
    first_plays: int = 0

    @property
    def needs_binary(self) -> bool:
        """The posterior counts successes: rewards must be 0 and 1."""
        return True

    def check(self, arms: int) -> None:
        require_number("ThompsonBernoulli.a", self.a, above=0)
        require_number("ThompsonBernoulli.b", self.b, above=0)
        require_whole("ThompsonBernoulli.first_plays", self.first_plays, 0, _MOST_FIRST_PLAYS)

    def prepare(self, arms: int, horizon: int) -> _BetaPosteriors | _WideBetaPosteriors:
        if min(self.a, self.b) < 1.0:
            return _WideBetaPosteriors(self.a, self.b, self.first_plays)
        gammas = (_gammas(self.a, horizon), _gammas(self.b, horizon))
        return _BetaPosteriors(self.first_plays, *gammas)


class _BetaPosteriors(NamedTuple):
    first_plays: int
    wins: _Gammas  # by number of successes
    losses: _Gammas  # by number of failures


class _WideBetaPosteriors(
    NamedTuple
):  # a shape below 1: draws so close to 0 or 1 that only their logarithms differ
    a: float
    b: float
    first_plays: int


class _Gammas(NamedTuple):
    depth: Floats  # what the gamma sampler takes, by number of rewards added to the prior's shape
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
        # The order of probabilities is the order of odds, which the gamma draws give without rounding to 0 or 1.
        odds = beta_odds(
            at(noise, period, arm),
            wins.depth[won],
            wins.spread[won],
            losses.depth[lost],
            losses.spread[lost],
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
    """Thompson sampling with independent normal priors on the means and normal rewards of known sd.

    In each period draw a mean for each arm from its normal posterior and play the arm with the largest.
    `first_plays` as in `ThompsonBernoulli`.
    """

    prior_mean: float = 0.0
    prior_sd: float = 1.0
    noise_sd: float = 1.0
    first_plays: int = 0

    def check(self, arms: int) -> None:
        require_number("ThompsonGaussian.prior_mean", self.prior_mean)
        require_number("ThompsonGaussian.prior_sd", self.prior_sd, above=0, at_most=1e100)
        require_number("ThompsonGaussian.noise_sd", self.noise_sd, above=0, at_most=1e100)
        require_whole("ThompsonGaussian.first_plays", self.first_plays, 0, _MOST_FIRST_PLAYS)

    def reward_scale(self) -> RewardScale:
        """Rewards of standard deviation `noise_sd`."""
        return RewardScale(self.noise_sd, self.noise_sd)

    def rescaled(self, sd: float, mean: float) -> ThompsonGaussian:
        """With this noise, and a prior wide enough for the mean: with more noise it would outweigh the rewards."""
        prior_sd = (
            max(self.prior_sd, abs(mean - self.prior_mean)) if sd > self.noise_sd else self.prior_sd
        )
        return self._replace(noise_sd=sd, prior_sd=prior_sd)

    def prepare(self, arms: int, horizon: int) -> _NormalPosteriors:
        prior, gain = self.prior_sd**-2.0, self.noise_sd**-2.0
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
