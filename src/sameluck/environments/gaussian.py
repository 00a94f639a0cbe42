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

    def laws(self, seed: int, replications: range, arms: int) -> GaussianLaw:
        """The same instance in all replications."""
        return GaussianLaw(self.instance_means(seed, replications, arms), per_arm(self.sd, arms))


class GaussianLaw(NamedTuple):
    """Means and standard deviations of normal rewards."""

    mean: Floats  # (replication, arm)
    sd: Floats  # (arm,)


@draws(GaussianLaw)
def _gaussian(law: GaussianLaw, row: int, arm: int, bits: Bits) -> float:
    return law.mean[row, arm] + law.sd[arm] * normal(bits)
