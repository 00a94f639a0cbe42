"""`Lognormal` and `ZeroInflatedLognormal`: amounts of money."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sameluck.arrays import Floats
from sameluck.environments.base import (
    Environment,
    check_each,
    check_length,
    check_means,
    draws,
    per_arm,
)
from sameluck.randomness.samplers import normal, uniform
from sameluck.randomness.streams import Bits, again

_MOST, _MOST_SIGMA = 1e25, 5.0  # so that no draw exceeds the largest reward
_AMOUNT = np.uint64(1 << 60)  # another use of the word than whether there is an amount


class _Parameters(NamedTuple):
    means: Sequence[float]
    sigma: float | Sequence[float] = 1.0


class Lognormal(_Parameters, Environment):
    """Lognormal rewards with the given means, such as the values of orders.

    `sigma` is the standard deviation of a reward's logarithm: one number, or one per arm. The median is
    mean * exp(-sigma^2 / 2).
    """

    __slots__ = ()

    @staticmethod
    def sample() -> str:
        """A text form to show."""
        return "lognormal(22, 20, sigma=0.5)"

    def check(self, arms: int) -> None:
        """Raise `Invalid` for means that are not positive and a negative sigma."""
        check_means(self, self.means, arms, above=0, at_most=_MOST)
        check_each("Lognormal.sigma", self.sigma, arms, at_least=0, at_most=_MOST_SIGMA)

    def compiled_parameters(self, seed: int, replications: range, arms: int) -> CompiledLognormal:
        """The same instance in all replications."""
        return compiled_lognormal(1.0, self.means, self.sigma, arms)


class _ZeroInflatedParameters(NamedTuple):
    nonzero: Sequence[float]
    amount: float | Sequence[float] = 1.0
    sigma: float | Sequence[float] = 1.0


class ZeroInflatedLognormal(_ZeroInflatedParameters, Environment):
    """Rewards that are mostly 0, such as the revenue of a visitor.

    With probability `nonzero` a reward is lognormal with mean `amount`, and `sigma` is the standard deviation of its
    logarithm; otherwise it is 0. The mean is nonzero * amount. `amount` and `sigma` are one number, or one per arm.
    """

    __slots__ = ()

    @staticmethod
    def sample() -> str:
        """A text form to show."""
        return "zero_inflated_lognormal(0.05, 0.04, amount=60, sigma=1)"

    @property
    def means(self) -> tuple[float, ...]:
        """The mean reward of each arm, zeros included."""
        return tuple((np.asarray(self.nonzero, float) * np.asarray(self.amount, float)).tolist())

    def check(self, arms: int) -> None:
        """Raise `Invalid` for probabilities outside [0, 1], amounts that are not positive and a negative sigma."""
        kind = "ZeroInflatedLognormal"
        check_length(f"{kind}.nonzero", self.nonzero, arms)
        check_each(f"{kind}.nonzero", self.nonzero, arms, at_least=0, at_most=1)
        check_each(f"{kind}.amount", self.amount, arms, above=0, at_most=_MOST)
        check_each(f"{kind}.sigma", self.sigma, arms, at_least=0, at_most=_MOST_SIGMA)

    def compiled_parameters(self, seed: int, replications: range, arms: int) -> CompiledLognormal:
        """The same instance in all replications."""
        return compiled_lognormal(self.nonzero, self.amount, self.sigma, arms)


class CompiledLognormal(NamedTuple):
    """The probability of a reward other than 0, and the law of its logarithm (arm,)."""

    nonzero: Floats
    mu: Floats
    sigma: Floats


def compiled_lognormal(
    nonzero: float | Sequence[float],
    means: float | Sequence[float],
    sigma: float | Sequence[float],
    arms: int,
) -> CompiledLognormal:
    """The law with the given probabilities, and means of rewards other than 0."""
    deviations = per_arm(sigma, arms)
    mu = np.log(per_arm(means, arms)) - deviations**2 / 2
    return CompiledLognormal(per_arm(nonzero, arms), mu, deviations)


@draws(CompiledLognormal)
def _lognormal(parameters: CompiledLognormal, row: int, arm: int, bits: Bits) -> float:
    if uniform(bits) >= parameters.nonzero[arm]:
        return 0.0
    return math.exp(parameters.mu[arm] + parameters.sigma[arm] * normal(again(bits, _AMOUNT)))
