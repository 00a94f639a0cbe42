"""`GaussianMixture`: rewards of several kinds of users."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sameluck.arrays import Floats
from sameluck.environments.base import (
    LARGEST,
    LIMITS,
    Environment,
    check_probabilities,
    check_table,
    draws,
)
from sameluck.randomness.samplers import discrete, normal
from sameluck.randomness.streams import Bits, again
from sameluck.validation import require_number

_NOISE = np.uint64(1 << 60)  # another use of the word than which component it is


class _Parameters(NamedTuple):
    components: Sequence[Sequence[float]]
    sd: float = 1.0
    weights: Sequence[Sequence[float]] | None = None


class GaussianMixture(_Parameters, Environment):
    """Each reward is normal around one of an arm's several means, as if users were of several kinds.

    `components` holds a list of means per arm, `sd` is the standard deviation around each, and `weights` holds their
    probabilities, a list per arm; equal ones if not given.
    """

    __slots__ = ()

    @staticmethod
    def sample() -> str:
        """A text form to show."""
        return "gaussian_mixture([0, 5], [1, 2], sd=0.5, weights=[[0.9, 0.1], [0.5, 0.5]])"

    @property
    def arms(self) -> int | None:
        return len(self.components)

    @property
    def means(self) -> tuple[float, ...]:
        """The mean reward of each arm."""
        weights = self._weights()
        return tuple(((weights * self.components).sum(axis=1) / weights.sum(axis=1)).tolist())

    def _weights(self) -> Floats:
        if self.weights is not None:
            return np.asarray(self.weights, float)
        return np.full((len(self.components), len(self.components[0])), 1 / len(self.components[0]))

    def check(self, arms: int) -> None:
        """Raise `Invalid` for components that are not numbers and weights whose sum is not 1."""
        components = check_table(
            "GaussianMixture.components", self.components, arms, None, **LIMITS
        )
        require_number("GaussianMixture.sd", self.sd, at_least=0, at_most=LARGEST)
        if self.weights is not None:
            check_probabilities("GaussianMixture.weights", self.weights, arms, columns=components)

    def compiled_parameters(
        self, seed: int, replications: range, arms: int
    ) -> CompiledGaussianMixture:
        """The same instance in all replications."""
        components = np.asarray(self.components, float)
        return CompiledGaussianMixture(np.cumsum(self._weights(), axis=1), components, self.sd)


class CompiledGaussianMixture(NamedTuple):
    """Running sums of each arm's weights, the means of its components, and the standard deviation around them."""

    cumulative: Floats  # (arm, component)
    mean: Floats  # (arm, component)
    sd: float


@draws(CompiledGaussianMixture)
def _gaussian_mixture(parameters: CompiledGaussianMixture, row: int, arm: int, bits: Bits) -> float:
    component = discrete(bits, parameters.cumulative[arm])
    return parameters.mean[arm, component] + parameters.sd * normal(again(bits, _NOISE))
