"""Policies that measure evidence by Kullback-Leibler divergence: `KLUCB`, `KLUCBGaussian` and `IMED`."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sameluck.arrays import Floats
from sameluck.compilation.decorators import branch_hint, called, inlined
from sameluck.policies.base import Policy, RewardScale, Tally, selects
from sameluck.policies.fast.rule_tables import exploration_levels, natural_logs
from sameluck.policies.ucb import bound_rule, bound_widths
from sameluck.randomness.streams import Key
from sameluck.validation import require_number


class KLUCB(NamedTuple):
    """Play the arm with the largest mean that its rewards do not refute (Garivier and Cappe, 2011).

    Play each arm once in index order. Then, in period t + 1, play the arm with the largest q in [mean, 1] that
    satisfies `pulls * kl(mean, q) <= log(t) + c * log(log(t))`. The divergence of Bernoulli distributions is kl(p, q)
    = p log(p / q) + (1 - p) log((1 - p) / (1 - q)). A right-hand side below 1e-9 counts as 1e-9. For rewards in [0,
    1]; a mean outside is replaced by 0 or 1. The proof of optimality takes c = 3; the authors recommend `c` = 0. q is
    found by Newton's method, with an error below 1e-12. For rewards 0 and 1 the regret reaches the lower bound of Lai
    and Robbins (1985).
    """

    c: float = 0.0

    def check(self, arms: int) -> None:
        require_number("KLUCB.c", self.c, at_least=0, at_most=1e6)

    def reward_scale(self) -> RewardScale:
        return RewardScale(0.5, 0.5, unit_interval=True)

    def prepare(self, arms: int, horizon: int) -> _Levels:
        return _Levels(exploration_levels(self.c, horizon))


class KLUCBGaussian(NamedTuple):
    """KL-UCB for normal rewards of known standard deviation `sd` (Cappe, Garivier, Maillard, Munos and Stoltz, 2013).

    Play each arm once in index order. Then, in period t + 1, play the arm with the largest
    `mean + sqrt(2 * sd^2 * (log(t) + c * log(log(t))) / pulls)`. A sum of logarithms below 1e-9 counts as 1e-9. With
    `c` = 0 it is UCB1 with alpha = 2 sd^2.
    """

    sd: float = 1.0
    c: float = 0.0

    def check(self, arms: int) -> None:
        require_number("KLUCBGaussian.sd", self.sd, above=0, at_most=1e100)
        require_number("KLUCBGaussian.c", self.c, at_least=0, at_most=1e6)

    def reward_scale(self) -> RewardScale:
        return RewardScale(self.sd, self.sd)

    def rescaled(self, sd: float, mean: float) -> KLUCBGaussian:
        return self._replace(sd=sd)

    def prepare(self, arms: int, horizon: int) -> Policy:
        growth = np.sqrt(exploration_levels(self.c, horizon))
        return bound_rule(growth, bound_widths(2.0 * self.sd**2, horizon))


class _Levels(NamedTuple):
    level: Floats  # the right-hand side, by period


@selects(_Levels)
def _highest_plausible_mean(policy: _Levels, tally: Tally, period: int, noise: Key) -> int:
    if period <= tally.pulls.size:
        return period - 1
    best, highest = 0, -1.0
    for arm in range(tally.pulls.size):
        if tally.pulls[arm] == 0:  # in batches only
            return arm
        level = policy.level[period] / tally.pulls[arm]
        mean = min(max(tally.means[arm], 0.0), 1.0)
        # One divergence shows that the arm's bound is not higher, so few bounds are computed.
        if mean <= highest and bernoulli_kl(mean, highest) >= level:
            continue
        bound = _upper_bound(mean, level)
        if bound > highest:
            branch_hint()
            best, highest = arm, bound
    return best


@inlined
def bernoulli_kl(p: float, q: float) -> float:
    """Return the divergence kl(p, q) of two success probabilities; infinite if q is 0 or 1 and p is not."""
    divergence = 0.0
    if p > 0.0:
        divergence = p * math.log(p / q) if q > 0.0 else np.inf
    if p < 1.0:
        divergence += (1.0 - p) * math.log((1.0 - p) / (1.0 - q)) if q < 1.0 else np.inf
    return divergence


@called
def _upper_bound(p: float, level: float) -> float:
    """Return the largest q with kl(p, q) <= level."""
    if p >= 1.0 or level <= 0.0:
        return p
    # Two upper bounds of q: by Pinsker's inequality, and by kl(p, q) >= p log(p) + (1 - p) log((1 - p) / (1 - q)).
    certain = level if p == 0.0 else level - p * math.log(p)
    q = min(p + math.sqrt(level / 2.0), 1.0 - (1.0 - p) * math.exp(-certain / (1.0 - p)))
    if q <= p or q >= 1.0:
        return q
    # kl(p, .) is convex: from a point above the root, Newton's method descends to it.
    step = 1.0
    while step > 1e-9:
        step = (bernoulli_kl(p, q) - level) * (q * (1.0 - q)) / (q - p)
        q -= step
    return q


class IMED(NamedTuple):
    """Play the arm with the least evidence against being the best (Honda and Takemura, 2015).

    Play each arm once in index order. Then play the arm with the smallest `pulls * kl(mean, highest) + log(pulls)`,
    where `highest` is the highest mean and kl is as in `KLUCB`. For rewards in [0, 1]; a mean outside is replaced by
    0 or 1. For rewards 0 and 1 the regret reaches the lower bound of Lai and Robbins (1985).
    """

    def reward_scale(self) -> RewardScale:
        return RewardScale(0.5, 0.5, unit_interval=True)

    def prepare(self, arms: int, horizon: int) -> _LogPulls:
        return _LogPulls(natural_logs(np.maximum(np.arange(horizon + 1.0), 1.0)))


class _LogPulls(NamedTuple):
    log: Floats  # by number of pulls


@selects(_LogPulls)
def _least_refuted(policy: _LogPulls, tally: Tally, period: int, noise: Key) -> int:
    if period <= tally.pulls.size:
        return period - 1
    highest = 0.0
    for arm in range(tally.pulls.size):
        if tally.pulls[arm] == 0:  # in batches only
            return arm
        highest = max(highest, min(tally.means[arm], 1.0))
    best, lowest = 0, np.inf
    for arm in range(tally.pulls.size):
        pulls = tally.pulls[arm]
        index = policy.log[pulls]
        mean = max(tally.means[arm], 0.0)
        if mean < highest:
            index += pulls * bernoulli_kl(mean, highest)
        if index < lowest:
            branch_hint()
            best, lowest = arm, index
    return best
