"""Rewards with countably many values: `Bernoulli`, `Categorical` and `Poisson`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sameluck.arrays import Floats
from sameluck.environments.base import Environment, draws
from sameluck.environments.checks import REWARD_LIMITS, check_list, check_probabilities, check_row
from sameluck.randomness.samplers import discrete, poisson
from sameluck.randomness.streams import Bits

_11, _63 = np.uint64(11), np.uint64(63)


class _BernoulliFields(NamedTuple):
    means: Sequence[float]


class Bernoulli(_BernoulliFields, Environment):
    """Bernoulli distribution: reward 1 with probability `means[arm]`, otherwise 0."""

    __slots__ = ()
    binary = True
    sample = "bernoulli(0.7, 0.3)"

    @property
    def standard_deviations(self) -> Floats:
        means = np.asarray(self.means, float)
        return np.sqrt(means * (1 - means))

    def check(self, arms: int) -> None:
        check_list("Bernoulli.means", self.means, arms, at_least=0, at_most=1)

    def compiled_parameters(self, seed: int, replications: range, arms: int) -> CompiledBernoulli:
        return compiled_bernoulli(self.instance_means(seed, replications, arms))


class CompiledBernoulli(NamedTuple):
    """Success probabilities (replication, arm)."""

    probability: Floats
    threshold: NDArray[np.uint64]  # how many of the 2^53 values of `uniform` are below it


def compiled_bernoulli(probability: Floats) -> CompiledBernoulli:
    """Return the compiled parameters for success probabilities (replication, arm)."""
    return CompiledBernoulli(probability, np.ceil(probability * 2.0**53).astype(np.uint64))


@draws(CompiledBernoulli)
def _bernoulli(parameters: CompiledBernoulli, row: int, arm: int, bits: Bits) -> float:
    # 1 if uniform(bits) < probability, computed as the sign of a difference: no processor predicts a branch on it.
    return float(np.int64(((bits >> _11) - parameters.threshold[row, arm]) >> _63))


class _CategoricalFields(NamedTuple):
    chances: Sequence[Sequence[float]]
    values: Sequence[float] | None = None


class Categorical(_CategoricalFields, Environment):
    """Categorical distribution, such as ratings: reward `values[i]` with probability `chances[arm][i]`.

    The values are the same for all arms; 1, 2, ... if not given.
    """

    __slots__ = ()
    sample = "categorical([0.1, 0.3, 0.6], [0.2, 0.4, 0.4], values=[1, 2, 3])"

    @property
    def arms(self) -> int | None:
        return len(self.chances)

    @property
    def binary(self) -> bool:
        """Whether every value is 0 or 1."""
        return all(value in (0, 1) for value in self._rewards())

    @property
    def means(self) -> tuple[float, ...]:
        probabilities = np.asarray(self.chances, float)
        return tuple((probabilities @ self._rewards() / probabilities.sum(axis=1)).tolist())

    @property
    def standard_deviations(self) -> Floats:
        probabilities = np.asarray(self.chances, float)
        deviations = self._rewards() - np.array(self.means)[:, None]
        return np.sqrt((probabilities * deviations**2).sum(axis=1) / probabilities.sum(axis=1))

    def _rewards(self) -> Floats:
        if self.values is None:
            return np.arange(1.0, len(self.chances[0]) + 1)
        return np.asarray(self.values, float)

    def check(self, arms: int) -> None:
        count = check_probabilities("Categorical.chances", self.chances, arms)
        if self.values is not None:
            check_row("Categorical.values", self.values, count, **REWARD_LIMITS)

    def compiled_parameters(self, seed: int, replications: range, arms: int) -> CompiledCategorical:
        return CompiledCategorical(np.cumsum(self.chances, axis=1), self._rewards())


class CompiledCategorical(NamedTuple):
    """Cumulative probabilities and their rewards."""

    cumulative: Floats  # (arm, value)
    values: Floats  # (value,)


@draws(CompiledCategorical)
def _categorical(parameters: CompiledCategorical, row: int, arm: int, bits: Bits) -> float:
    return parameters.values[discrete(bits, parameters.cumulative[arm])]


class _PoissonFields(NamedTuple):
    means: Sequence[float]


class Poisson(_PoissonFields, Environment):
    """Poisson distribution with mean `means[arm]`, such as clicks or orders per visit."""

    __slots__ = ()
    sample = "poisson(3.0, 2.0)"

    @property
    def standard_deviations(self) -> Floats:
        return np.sqrt(np.asarray(self.means, float))

    def check(self, arms: int) -> None:
        check_list("Poisson.means", self.means, arms, at_least=0, at_most=1e6)


@draws(Poisson)
def _poisson(parameters: Poisson, row: int, arm: int, bits: Bits) -> float:
    return poisson(bits, parameters.means[arm])
