"""`TruncatedGaussian`: normal rewards within bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy

from sameluck.arrays import Floats
from sameluck.environments.base import (
    LIMITS,
    Environment,
    check_each,
    check_length,
    check_order,
    draws,
    per_arm,
)
from sameluck.errors import Invalid
from sameluck.randomness.samplers import normal_quantile, uniform
from sameluck.randomness.streams import Bits

_SMALLEST = 1e-290  # probability of the bounds before truncation


class _Parameters(NamedTuple):
    mu: Sequence[float]
    sd: float | Sequence[float] = 1.0
    low: float | Sequence[float] = 0.0
    high: float | Sequence[float] = 1.0


class TruncatedGaussian(_Parameters, Environment):
    """Normal rewards, given that they lie between `low` and `high`.

    `mu` (one per arm) and `sd` are mean and standard deviation before truncation; `means` are those of the rewards.
    `sd`, `low` and `high` are one number, or one per arm. Drawn by inversion of the distribution function.
    """

    __slots__ = ()

    @staticmethod
    def sample() -> str:
        """A text form to show."""
        return "truncated_gaussian(0.7, 0.5, sd=0.2, low=0, high=1)"

    @property
    def means(self) -> tuple[float, ...]:
        """The mean reward of each arm."""
        parameters = self.compiled_parameters(0, range(1), len(self.mu))
        density = np.exp(-0.5 * _standard_bounds(parameters) ** 2) / np.sqrt(2 * np.pi)
        means = parameters.mu + parameters.scale * (density[0] - density[1]) / parameters.inside
        return tuple(np.clip(means, parameters.low, parameters.high).tolist())

    def check(self, arms: int) -> None:
        """Raise `Invalid` for an `sd` that is not positive, and bounds without a probability."""
        kind = "TruncatedGaussian"
        check_length(f"{kind}.mu", self.mu, arms)
        check_each(f"{kind}.mu", self.mu, arms, **LIMITS)
        check_each(f"{kind}.sd", self.sd, arms, at_least=1e-50, at_most=1e50)
        check_each(f"{kind}.low", self.low, arms, **LIMITS)
        check_each(f"{kind}.high", self.high, arms, **LIMITS)
        check_order(kind, self.low, self.high, arms)
        for arm, inside in enumerate(self.compiled_parameters(0, range(1), arms).inside):
            if inside < _SMALLEST:
                raise Invalid(
                    f"{kind}: arm {arm} lies within its bounds with probability 0; widen low and high"
                )

    def compiled_parameters(
        self, seed: int, replications: range, arms: int
    ) -> CompiledTruncatedGaussian:
        """The same instance in all replications."""
        mu, sd, low, high = (per_arm(each, arms) for each in self)
        # In the lower tail, where small probabilities are exact: bounds above the mean are reflected.
        scale = np.where((low - mu) + (high - mu) > 0, -sd, sd)
        parameters = CompiledTruncatedGaussian(mu, scale, low, high, mu, mu)
        below, until = scipy.special.ndtr(_standard_bounds(parameters))
        return parameters._replace(below=below, inside=until - below)


class CompiledTruncatedGaussian(NamedTuple):
    """Parameters of each arm (arm,); a negative `scale` where the quantiles of the reflected law are used."""

    mu: Floats
    scale: Floats
    low: Floats
    high: Floats
    below: Floats  # the probability of less than the lower bound
    inside: Floats  # the probability of the bounds


def _standard_bounds(parameters: CompiledTruncatedGaussian) -> Floats:
    """The bounds of the standard normal variable (bound, arm)."""
    return np.sort(
        [
            (parameters.low - parameters.mu) / parameters.scale,
            (parameters.high - parameters.mu) / parameters.scale,
        ],
        axis=0,
    )


@draws(CompiledTruncatedGaussian)
def _truncated_gaussian(
    parameters: CompiledTruncatedGaussian, row: int, arm: int, bits: Bits
) -> float:
    quantile = normal_quantile(parameters.below[arm] + parameters.inside[arm] * uniform(bits))
    return min(
        max(parameters.mu[arm] + parameters.scale[arm] * quantile, parameters.low[arm]),
        parameters.high[arm],
    )
