"""`Gaussian`: normal rewards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sameluck.arrays import Floats
from sameluck.environments.base import (
    LARGEST,
    LIMITS,
    Environment,
    check_each,
    check_means,
    draws,
    per_arm,
)
from sameluck.randomness.samplers import normal
from sameluck.randomness.streams import Bits


class _Parameters(NamedTuple):
    means: Sequence[float]
    sd: float | Sequence[float] = 1.0


class Gaussian(_Parameters, Environment):
    """Normal rewards with the given means; `sd` is one number, or one per arm."""

    __slots__ = ()

    @staticmethod
    def sample() -> str:
        """A text form to show."""
        return "gaussian(1.0, 0.8, sd=1.0)"

    def check(self, arms: int) -> None:
        """Raise `Invalid` for means that are not finite and standard deviations below 0."""
        check_means(self, self.means, arms, **LIMITS)
        check_each("Gaussian.sd", self.sd, arms, at_least=0, at_most=LARGEST)

    def compiled_parameters(self, seed: int, replications: range, arms: int) -> CompiledGaussian:
        """The same instance in all replications."""
        return CompiledGaussian(
            self.instance_means(seed, replications, arms), per_arm(self.sd, arms)
        )


class CompiledGaussian(NamedTuple):
    """Means and standard deviations of normal rewards."""

    mean: Floats  # (replication, arm)
    sd: Floats  # (arm,)


@draws(CompiledGaussian)
def _gaussian(parameters: CompiledGaussian, row: int, arm: int, bits: Bits) -> float:
    return parameters.mean[row, arm] + parameters.sd[arm] * normal(bits)
