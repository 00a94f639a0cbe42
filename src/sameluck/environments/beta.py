"""`Beta`: rewards between 0 and 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sameluck.arrays import Floats
from sameluck.environments.base import Environment, check_each, check_means, draws, per_arm
from sameluck.randomness.samplers import beta
from sameluck.randomness.streams import Bits

_SMALLEST = 1e-200  # of a shape; such an arm pays 0


class _Parameters(NamedTuple):
    means: Sequence[float]
    concentration: float | Sequence[float] = 2.0


class Beta(_Parameters, Environment):
    """Beta rewards, between 0 and 1, with the given means.

    The shapes of an arm are a = mean * concentration and b = (1 - mean) * concentration; `concentration` is one
    number, or one per arm. Mean 0.5 and concentration 2 are the uniform law on [0, 1].
    """

    __slots__ = ()

    @staticmethod
    def sample() -> str:
        """A text form to show."""
        return "beta(0.7, 0.3, concentration=5)"

    def check(self, arms: int) -> None:
        """Raise `Invalid` for means outside (0, 1) and a concentration that is not positive."""
        check_means(self, self.means, arms, above=0, below=1)
        check_each("Beta.concentration", self.concentration, arms, at_least=1e-6, at_most=1e12)

    def compiled_parameters(self, seed: int, replications: range, arms: int) -> CompiledBeta:
        """The same instance in all replications."""
        means, concentration = np.asarray(self.means, float), per_arm(self.concentration, arms)
        return CompiledBeta(
            np.maximum(means * concentration, _SMALLEST), (1 - means) * concentration
        )


class CompiledBeta(NamedTuple):
    """The shapes of each arm (arm,)."""

    a: Floats
    b: Floats


@draws(CompiledBeta)
def _beta(parameters: CompiledBeta, row: int, arm: int, bits: Bits) -> float:
    return beta(bits, parameters.a[arm], parameters.b[arm])
