"""`BayesUCB`: quantiles of Beta posteriors."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sameluck.arrays import Floats
from sameluck.compilation.decorators import branch_hint, called, inlined
from sameluck.policies.base import PlayedArm, Tally, repeats_arm, selects
from sameluck.policies.logarithms import natural_logs
from sameluck.randomness.streams import Key
from sameluck.validation import require_number

_TINY = 1e-300  # in place of 0 in a continued fraction
_MOST_TERMS = 100_000


class BayesUCB(NamedTuple):
    """The arm whose posterior has the highest upper quantile (Kaufmann, Cappe and Garivier, 2012).

    In period t, the arm with the largest quantile of order 1 - 1 / (t * log(T)^c) of Beta(a + successes, b +
    failures), with T the experiment's horizon; for rewards 0 and 1. The proof of optimality takes c = 5; the
    authors recommend `c` = 0. In period 1 (and for an order below 1/2) the median. Quantiles have an error below
    1e-9.
    """

    a: float = 1.0
    b: float = 1.0
    c: float = 0.0

    @property
    def needs_binary(self) -> bool:
        """The posterior counts successes: rewards must be 0 and 1."""
        return True

    def check(self, arms: int) -> None:
        require_number("BayesUCB.a", self.a, above=1e-3, at_most=1e6)
        require_number("BayesUCB.b", self.b, above=1e-3, at_most=1e6)
        require_number("BayesUCB.c", self.c, at_least=0, at_most=100)

    def prepare(self, arms: int, horizon: int) -> _Quantiles:
        from scipy.special import gammaln

        counts = np.arange(horizon + 1.0)
        power = self.c * math.log(max(1.0, math.log(horizon)))
        tail = np.minimum(math.log(0.5), -natural_logs(np.maximum(counts, 1.0)) - power)
        logs = (gammaln(shape + counts) for shape in (self.a, self.b, self.a + self.b))
        return _Quantiles(self.a, self.b, tail, *logs)


class _Quantiles(NamedTuple):
    a: float
    b: float
    log_tail: Floats  # of the probability above the quantile, by period
    log_gamma_a: Floats  # of the shape after this many successes
    log_gamma_b: Floats  # after this many failures
    log_gamma_both: Floats  # after this many pulls

    def memory(self, arms: int) -> int:
        return 2  # a ceiling that no other arm exceeds, and the period up to which it holds

    def batched(self) -> _BatchedQuantiles:
        return _BatchedQuantiles(*self)


class _BatchedQuantiles(_Quantiles):  # more than one arm may have changed
    def memory(self, arms: int) -> int:
        return 0


class _Beta(NamedTuple):
    a: float
    b: float
    log_constant: float  # of the density


# Quantiles grow with the period. While one arm is played, those of the others stay below the ceiling, the largest of
# them at the end of a block of periods, and one probability tells that the arm just played is above it. The margin is
# far above the errors of quantiles and probabilities: the arm is the one that a comparison of all arms finds.
_MARGIN = 1e-8
_FIRST = 16  # period with a block


@selects(_Quantiles)
def _highest_quantile(policy: _Quantiles, tally: Tally, period: int, noise: Key) -> int:
    log_tail, last = policy.log_tail[period], tally.last_arm
    if period <= tally.memory[1]:
        above = _log_tail(_posterior(policy, tally, last), tally.memory[0])
        if above > log_tail + _MARGIN:
            return last
    best, _ = _highest(policy, tally, log_tail, -1)
    tally.memory[1] = 0.0
    if best == last and period >= _FIRST:
        end = min(period + period // 8, policy.log_tail.size - 1)
        _, ceiling = _highest(policy, tally, policy.log_tail[end], last)
        tally.memory[0] = ceiling + _MARGIN
        tally.memory[1] = end if tally.memory[0] < 1.0 else 0
    return best


@repeats_arm(_Quantiles)
def _mean_above_ceiling(policy: _Quantiles, played: PlayedArm, period: int, noise: Key) -> bool:
    # At least 1 / e of a log-concave law is above its mean (Gruenbaum, 1960), at most 1 / 16 above the quantile.
    mean = (policy.a + played.mean * played.pulls) / (policy.a + policy.b + played.pulls)
    concave = policy.a >= 1.0 and policy.b >= 1.0
    return concave and period <= played.memory[1] and mean > played.memory[0]


@selects(_BatchedQuantiles)
def _highest_quantile_after_batch(
    policy: _BatchedQuantiles,
    tally: Tally,
    period: int,
    noise: Key,
) -> int:
    return _highest(policy, tally, policy.log_tail[period], -1)[0]


@inlined
def _posterior(policy: _Quantiles, tally: Tally, arm: int) -> _Beta:
    won = np.int64(tally.totals[arm])
    lost = tally.pulls[arm] - won
    constant = (
        policy.log_gamma_both[won + lost] - policy.log_gamma_a[won] - policy.log_gamma_b[lost]
    )
    return _Beta(policy.a + won, policy.b + lost, constant)


@inlined
def _highest(policy: _Quantiles, tally: Tally, log_tail: float, without: int) -> tuple[int, float]:
    """The arm with the highest quantile, of all but one, and its quantile."""
    best, highest = 0, 0.0
    for arm in range(tally.pulls.size):
        if arm == without:
            continue
        posterior = _posterior(policy, tally, arm)
        # One probability tells that the quantile of the arm is not higher: it is computed for few arms.
        if highest > 0.0 and _log_tail(posterior, highest) <= log_tail:
            continue
        quantile = _upper_quantile(posterior, log_tail)
        if quantile > highest:
            branch_hint()
            best, highest = arm, quantile
    return best, highest


@called
def _upper_quantile(posterior: _Beta, log_tail: float) -> float:
    """Where the probability above is exp(log_tail): Newton's method on its logarithm within a shrinking interval."""
    a, b = posterior.a, posterior.b
    mean = a / (a + b)
    spread = math.sqrt(mean * (1.0 - mean) / (a + b + 1.0))
    x = min(mean + math.sqrt(-2.0 * log_tail) * spread, 0.5 * (1.0 + mean))
    low, high, step = 0.0, 1.0, 1.0
    while abs(step) > 1e-10:
        excess = _log_tail(posterior, x) - log_tail
        if excess > 0.0:
            low = x
        else:
            high = x
        # The derivative of the logarithm is -density / probability.
        log_density = (a - 1.0) * math.log(x) + (b - 1.0) * math.log(1.0 - x)
        ratio = excess + log_tail - posterior.log_constant - log_density
        nearer = x + excess * math.exp(min(ratio, 700.0))
        if nearer <= low or nearer >= high:
            nearer = 0.5 * (low + high)
        step, x = nearer - x, nearer
    return x


@called
def _log_tail(posterior: _Beta, x: float) -> float:
    """The logarithm of the probability that a Beta number exceeds x, by its continued fraction."""
    a, b = posterior.a, posterior.b
    log_power = posterior.log_constant + a * math.log(x) + b * math.log(1.0 - x)
    if x > (a + 1.0) / (a + b + 2.0):
        return log_power - math.log(b) + math.log(_continued_fraction(b, a, 1.0 - x))
    below = math.exp(log_power) / a * _continued_fraction(a, b, x)
    return math.log(max(1.0 - below, _TINY))


@called
def _continued_fraction(a: float, b: float, x: float) -> float:
    """Of the incomplete beta function (DLMF 8.17.22), by the modified method of Lentz (Press et al., 2007, 6.4)."""
    c, d = 1.0, 1.0 - (a + b) * x / (a + 1.0)
    d = 1.0 / (d if abs(d) > _TINY else _TINY)
    fraction = d
    for term in range(1, _MOST_TERMS):
        place = a + 2.0 * term
        even = term * (b - term) * x / ((place - 1.0) * place)
        d = 1.0 + even * d
        d = 1.0 / (d if abs(d) > _TINY else _TINY)
        c = 1.0 + even / c
        c = c if abs(c) > _TINY else _TINY
        fraction *= d * c
        odd = -(a + term) * (a + b + term) * x / (place * (place + 1.0))
        d = 1.0 + odd * d
        d = 1.0 / (d if abs(d) > _TINY else _TINY)
        c = 1.0 + odd / c
        c = c if abs(c) > _TINY else _TINY
        fraction *= d * c
        if abs(d * c - 1.0) < 1e-15:
            break
    return fraction
