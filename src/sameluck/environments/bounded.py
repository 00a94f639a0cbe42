"""Continuous rewards in an interval: `Beta` and `ContinuousUniform`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sameluck.arrays import Floats
from sameluck.environments.base import Environment, draws
from sameluck.environments.checks import (
    REWARD_LIMITS,
    check_each,
    check_list,
    check_order,
    per_arm,
)
from sameluck.randomness.samplers import beta, uniform
from sameluck.randomness.streams import Bits

_MIN_SHAPE = 1e-200  # an arm with a smaller shape pays 0


class _BetaFields(NamedTuple):
    means: Sequence[float]
    concentration: float | Sequence[float] = 2.0


class Beta(_BetaFields, Environment):
    """Beta distribution on [0, 1] with mean `means[arm]`.

    Its shapes are a = mean * concentration and b = (1 - mean) * concentration; `concentration` is one number, or one
    per arm. Mean 0.5 and concentration 2 give the uniform distribution on [0, 1].
    """

    __slots__ = ()
    sample = "beta(0.7, 0.3, concentration=5)"

    @property
    def standard_deviations(self) -> Floats:
        means = np.asarray(self.means, float)
        return np.sqrt(means * (1 - means) / (1 + per_arm(self.concentration, means.size)))

    def check(self, arms: int) -> None:
        check_list("Beta.means", self.means, arms, above=0, below=1)
        check_each("Beta.concentration", self.concentration, arms, at_least=1e-6, at_most=1e12)

    def compiled_parameters(self, seed: int, replications: range, arms: int) -> CompiledBeta:
        means, concentration = np.asarray(self.means, float), per_arm(self.concentration, arms)
        a = np.maximum(means * concentration, _MIN_SHAPE)
        return CompiledBeta(a, (1 - means) * concentration)


class CompiledBeta(NamedTuple):
    """Shapes of each arm (arm,)."""

    a: Floats
    b: Floats


@draws(CompiledBeta)
def _beta(parameters: CompiledBeta, row: int, arm: int, bits: Bits) -> float:
    return beta(bits, parameters.a[arm], parameters.b[arm])


class _ContinuousUniformFields(NamedTuple):
    low: Sequence[float]
    high: float | Sequence[float] = 1.0


class ContinuousUniform(_ContinuousUniformFields, Environment):
    """Uniform distribution on the interval from `low[arm]` to `high`, which is one number, or one per arm."""

    __slots__ = ()
    sample = "continuous_uniform(0.2, 0, high=1)"

    @property
    def means(self) -> tuple[float, ...]:
        """Middle of each arm's interval."""
        return tuple((np.asarray(self.low, float) / 2 + np.asarray(self.high, float) / 2).tolist())

    @property
    def standard_deviations(self) -> Floats:
        return self.compiled_parameters(0, range(1), len(self.low)).width / np.sqrt(12)

    def check(self, arms: int) -> None:
        name = "ContinuousUniform"
        check_list(f"{name}.low", self.low, arms, **REWARD_LIMITS)
        check_each(f"{name}.high", self.high, arms, **REWARD_LIMITS)
        check_order(name, self.low, self.high, arms)

    def compiled_parameters(
        self, seed: int, replications: range, arms: int
    ) -> CompiledContinuousUniform:
        low = per_arm(self.low, arms)
        return CompiledContinuousUniform(low, per_arm(self.high, arms) - low)


class CompiledContinuousUniform(NamedTuple):
    """Lower end and width of each arm's interval (arm,)."""

    low: Floats
    width: Floats


@draws(CompiledContinuousUniform)
def _continuous_uniform(
    parameters: CompiledContinuousUniform, row: int, arm: int, bits: Bits
) -> float:
    return parameters.low[arm] + parameters.width[arm] * uniform(bits)
