"""`BayesUCB`, and quantiles of Beta distributions."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from sameluck.arrays import Floats
from sameluck.compilation.decorators import branch_hint, called, inlined
from sameluck.policies.base import Tally, selects
from sameluck.policies.fast.rule_tables import natural_logs
from sameluck.randomness.streams import Key
from sameluck.validation import require_number

_TINY = 1e-300  # in place of 0 in a continued fraction
_MAX_TERMS = 100_000


class BayesUCB(NamedTuple):
    """Play the arm whose posterior has the highest upper quantile (Kaufmann, Cappe and Garivier, 2012).

    In period t, play the arm with the largest quantile of order 1 - 1 / (t * log(T)^c) of Beta(a + successes, b +
    failures). T is the experiment's horizon. For rewards 0 and 1. The proof of optimality takes c = 5; the
    authors recommend `c` = 0. In period 1, and for an order below 1/2, the quantile is the median. Quantiles have an
    error below 1e-9.
    """

    a: float = 1.0
    b: float = 1.0
    c: float = 0.0

    @property
    def needs_binary(self) -> bool:
        return True  # the posterior counts successes

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
    log_gamma_a: Floats  # of a + successes, by number of successes
    log_gamma_b: Floats  # of b + failures, by number of failures
    log_gamma_both: Floats  # of a + b + pulls, by number of pulls


class _Beta(NamedTuple):
    a: float
    b: float
    log_constant: float  # of the density


@selects(_Quantiles)
def _arm_with_highest_quantile(policy: _Quantiles, tally: Tally, period: int, noise: Key) -> int:
    return highest_quantile(policy, tally, policy.log_tail[period], -1)[0]


@inlined
def posterior_of(policy: Any, tally: Tally, arm: int) -> _Beta:
    """Return the posterior of an arm; `policy` has the fields of the rule."""
    won = np.int64(tally.totals[arm])
    lost = tally.pulls[arm] - won
    constant = (
        policy.log_gamma_both[won + lost] - policy.log_gamma_a[won] - policy.log_gamma_b[lost]
    )
    return _Beta(policy.a + won, policy.b + lost, constant)


@inlined
def highest_quantile(policy: Any, tally: Tally, tail: float, without: int) -> tuple[int, float]:
    """Return the arm with the highest quantile, and its quantile; the arm `without` does not count."""
    best, highest = 0, 0.0
    for arm in range(tally.pulls.size):
        if arm == without:
            continue
        posterior = posterior_of(policy, tally, arm)
        # One probability shows that the arm's quantile is not higher, so few quantiles are computed.
        if highest > 0.0 and log_tail(posterior, highest) <= tail:
            continue
        quantile = _upper_quantile(posterior, tail)
        if quantile > highest:
            branch_hint()
            best, highest = arm, quantile
    return best, highest


@called
def _upper_quantile(posterior: _Beta, tail: float) -> float:
    """Return the point above which the probability is exp(tail), by Newton's method in a shrinking interval."""
    a, b = posterior.a, posterior.b
    mean = a / (a + b)
    spread = math.sqrt(mean * (1.0 - mean) / (a + b + 1.0))
    x = min(mean + math.sqrt(-2.0 * tail) * spread, 0.5 * (1.0 + mean))
    low, high, step = 0.0, 1.0, 1.0
    while abs(step) > 1e-10:
        excess = log_tail(posterior, x) - tail
        if excess > 0.0:
            low = x
        else:
            high = x
        # The derivative of the logarithm is -density / probability.
        log_density = (a - 1.0) * math.log(x) + (b - 1.0) * math.log(1.0 - x)
        ratio = excess + tail - posterior.log_constant - log_density
        nearer = x + excess * math.exp(min(ratio, 700.0))
        if nearer <= low or nearer >= high:
            nearer = 0.5 * (low + high)
        step, x = nearer - x, nearer
    return x


@called
def log_tail(posterior: _Beta, x: float) -> float:
    """Return the logarithm of the probability that a Beta number exceeds x, by its continued fraction."""
    a, b = posterior.a, posterior.b
    log_power = posterior.log_constant + a * math.log(x) + b * math.log(1.0 - x)
    if x > (a + 1.0) / (a + b + 2.0):
        return log_power - math.log(b) + math.log(_continued_fraction(b, a, 1.0 - x))
    below = math.exp(log_power) / a * _continued_fraction(a, b, x)
    return math.log(max(1.0 - below, _TINY))


@called
def _continued_fraction(a: float, b: float, x: float) -> float:
    """Return the incomplete beta function's fraction (DLMF 8.17.22), by Lentz's method (Press et al., 2007, 6.4)."""
    c, d = 1.0, 1.0 - (a + b) * x / (a + 1.0)
    d = 1.0 / (d if abs(d) > _TINY else _TINY)
    fraction = d
    for term in range(1, _MAX_TERMS):
        index = a + 2.0 * term
        even = term * (b - term) * x / ((index - 1.0) * index)
        d = 1.0 + even * d
        d = 1.0 / (d if abs(d) > _TINY else _TINY)
        c = 1.0 + even / c
        c = c if abs(c) > _TINY else _TINY
        fraction *= d * c
        odd = -(a + term) * (a + b + term) * x / (index * (index + 1.0))
        d = 1.0 + odd * d
        d = 1.0 / (d if abs(d) > _TINY else _TINY)
        c = 1.0 + odd / c
        c = c if abs(c) > _TINY else _TINY
        fraction *= d * c
        if abs(d * c - 1.0) < 1e-15:
            break
    return fraction
