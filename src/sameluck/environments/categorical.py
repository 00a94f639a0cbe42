"""`Categorical`: ratings, and other rewards with few values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sameluck.arrays import Floats
from sameluck.environments.base import (
    LIMITS,
    Environment,
    check_probabilities,
    check_row,
    draws,
)
from sameluck.randomness.samplers import discrete
from sameluck.randomness.streams import Bits


class _Parameters(NamedTuple):
    chances: Sequence[Sequence[float]]
    values: Sequence[float] | None = None


class Categorical(_Parameters, Environment):
    """Rewards with few values, such as ratings: `chances` holds a list of probabilities per arm.

    `values` are the rewards that they belong to, the same for all arms; 1, 2, ... if not given.
    """

    __slots__ = ()

    @staticmethod
    def sample() -> str:
        """A text form to show."""
        return "categorical([0.1, 0.3, 0.6], [0.2, 0.4, 0.4], values=[1, 2, 3])"

    @property
    def arms(self) -> int | None:
        return len(self.chances)

    @property
    def binary(self) -> bool:  # type: ignore[override]  # it depends on the values
        """Whether every value is 0 or 1."""
        return all(value in (0, 1) for value in self._rewards())

    @property
    def means(self) -> tuple[float, ...]:
        """The mean reward of each arm."""
        chances = np.asarray(self.chances, float)
        return tuple((chances @ self._rewards() / chances.sum(axis=1)).tolist())

    def _rewards(self) -> Floats:
        some = self.values is not None
        return np.asarray(self.values if some else range(1, len(self.chances[0]) + 1), float)

    def check(self, arms: int) -> None:
        """Raise `Invalid` unless each arm has probabilities whose sum is 1, one per value."""
        many = check_probabilities("Categorical.chances", self.chances, arms)
        if self.values is not None:
            check_row("Categorical.values", self.values, many, **LIMITS)

    def compiled_parameters(self, seed: int, replications: range, arms: int) -> CompiledCategorical:
        """The same instance in all replications."""
        return CompiledCategorical(np.cumsum(self.chances, axis=1), self._rewards())


class CompiledCategorical(NamedTuple):
    """Running sums of each arm's probabilities, and the rewards."""

    cumulative: Floats  # (arm, value)
    values: Floats  # (value,)


@draws(CompiledCategorical)
def _categorical(parameters: CompiledCategorical, row: int, arm: int, bits: Bits) -> float:
    return parameters.values[discrete(bits, parameters.cumulative[arm])]
