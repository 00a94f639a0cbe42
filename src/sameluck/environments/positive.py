"""Non-negative rewards with a long tail: `Exponential`, `Lognormal` and `ZeroInflatedLognormal`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sameluck.arrays import Floats
from sameluck.environments.base import Environment, draws
from sameluck.environments.checks import MAX_REWARD, check_each, check_list, per_arm
from sameluck.randomness.samplers import exponential, normal, uniform
from sameluck.randomness.streams import Bits, again

_MAX_MEAN, _MAX_SIGMA = 1e25, 5.0  # no draw exceeds MAX_REWARD
_AMOUNT = np.uint64(1 << 60)  # the bits themselves decide whether the reward is 0


class _ExponentialFields(NamedTuple):
    means: Sequence[float]


class Exponential(_ExponentialFields, Environment):
    """Exponential distribution with mean `means[arm]`, such as times until an event."""

    __slots__ = ()
    sample = "exponential(1.2, 1.0)"

    @property
    def standard_deviations(self) -> Floats:
        return np.array(self.means, float)

    def check(self, arms: int) -> None:
        check_list("Exponential.means", self.means, arms, at_least=0, at_most=MAX_REWARD)


@draws(Exponential)
def _exponential(parameters: Exponential, row: int, arm: int, bits: Bits) -> float:
    return parameters.means[arm] * exponential(bits)


class _LognormalFields(NamedTuple):
    means: Sequence[float]
    sigma: float | Sequence[float] = 1.0


class Lognormal(_LognormalFields, Environment):
    """Lognormal distribution with mean `means[arm]`, such as the values of orders.

    `sigma` is the standard deviation of a reward's logarithm: one number, or one per arm. The median is
    mean * exp(-sigma^2 / 2).
    """

    __slots__ = ()
    sample = "lognormal(22, 20, sigma=0.5)"

    @property
    def standard_deviations(self) -> Floats:
        return _lognormal_sds(1.0, self.means, self.sigma, len(self.means))

    def check(self, arms: int) -> None:
        check_list("Lognormal.means", self.means, arms, above=0, at_most=_MAX_MEAN)
        check_each("Lognormal.sigma", self.sigma, arms, at_least=0, at_most=_MAX_SIGMA)

    def compiled_parameters(self, seed: int, replications: range, arms: int) -> CompiledLognormal:
        return compiled_lognormal(1.0, self.means, self.sigma, arms)


class _ZeroInflatedLognormalFields(NamedTuple):
    nonzero: Sequence[float]
    amount: float | Sequence[float] = 1.0
    sigma: float | Sequence[float] = 1.0


class ZeroInflatedLognormal(_ZeroInflatedLognormalFields, Environment):
    """Lognormal distribution with an atom at 0, such as the revenue per visitor.

    With probability `nonzero[arm]` a reward is lognormal with mean `amount`, and `sigma` is the standard deviation of
    its logarithm; otherwise it is 0. The mean is nonzero * amount. `amount` and `sigma` are one number, or one per
    arm.
    """

    __slots__ = ()
    sample = "zero_inflated_lognormal(0.05, 0.04, amount=60, sigma=1)"

    @property
    def means(self) -> tuple[float, ...]:
        """Mean reward of each arm, zeros included."""
        return tuple((np.asarray(self.nonzero, float) * np.asarray(self.amount, float)).tolist())

    @property
    def standard_deviations(self) -> Floats:
        return _lognormal_sds(self.nonzero, self.amount, self.sigma, len(self.nonzero))

    def check(self, arms: int) -> None:
        name = "ZeroInflatedLognormal"
        check_list(f"{name}.nonzero", self.nonzero, arms, at_least=0, at_most=1)
        check_each(f"{name}.amount", self.amount, arms, above=0, at_most=_MAX_MEAN)
        check_each(f"{name}.sigma", self.sigma, arms, at_least=0, at_most=_MAX_SIGMA)

    def compiled_parameters(self, seed: int, replications: range, arms: int) -> CompiledLognormal:
        return compiled_lognormal(self.nonzero, self.amount, self.sigma, arms)


class CompiledLognormal(NamedTuple):
    """Probability of a reward other than 0, and mean and standard deviation of its logarithm (arm,)."""

    nonzero: Floats
    mu: Floats
    sigma: Floats


def compiled_lognormal(
    nonzero: float | Sequence[float],
    means: float | Sequence[float],
    sigma: float | Sequence[float],
    arms: int,
) -> CompiledLognormal:
    """Return the compiled parameters; `means` are the means of rewards other than 0."""
    deviations = per_arm(sigma, arms)
    mu = np.log(per_arm(means, arms)) - deviations**2 / 2
    return CompiledLognormal(per_arm(nonzero, arms), mu, deviations)


def _lognormal_sds(
    nonzero: float | Sequence[float],
    means: float | Sequence[float],
    sigma: float | Sequence[float],
    arms: int,
) -> Floats:
    probability, mean = per_arm(nonzero, arms), per_arm(means, arms)
    # The second moment minus the squared mean, arranged so that nothing cancels.
    factor = probability * np.expm1(per_arm(sigma, arms) ** 2) + probability * (1 - probability)
    return mean * np.sqrt(factor)


@draws(CompiledLognormal)
def _lognormal(parameters: CompiledLognormal, row: int, arm: int, bits: Bits) -> float:
    if uniform(bits) >= parameters.nonzero[arm]:
        return 0.0
    # Other bits, because those that decided the first question are no longer uniform.
    logarithm = parameters.mu[arm] + parameters.sigma[arm] * normal(again(bits, _AMOUNT))
    return math.exp(logarithm)
