"""`ContinuousUniform`: rewards from an interval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

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
from sameluck.randomness.samplers import uniform
from sameluck.randomness.streams import Bits


class _Parameters(NamedTuple):
    low: Sequence[float]
    high: float | Sequence[float] = 1.0


class ContinuousUniform(_Parameters, Environment):
    """Rewards uniform between `low`, one number per arm, and `high`, one number or one per arm."""

    __slots__ = ()

    @staticmethod
    def sample() -> str:
        """A text form to show."""
        return "continuous_uniform(0.2, 0, high=1)"

    @property
    def means(self) -> tuple[float, ...]:
        """The middle of each arm's interval."""
        return tuple((np.asarray(self.low, float) / 2 + np.asarray(self.high, float) / 2).tolist())

    def check(self, arms: int) -> None:
        """Raise `Invalid` for bounds that are not finite, and for a `high` below its `low`."""
        check_length("ContinuousUniform.low", self.low, arms)
        check_each("ContinuousUniform.low", self.low, arms, **LIMITS)
        check_each("ContinuousUniform.high", self.high, arms, **LIMITS)
        check_order("ContinuousUniform", self.low, self.high, arms)

    def compiled_parameters(
        self, seed: int, replications: range, arms: int
    ) -> CompiledContinuousUniform:
        """The same instance in all replications."""
        low = per_arm(self.low, arms)
        return CompiledContinuousUniform(low, per_arm(self.high, arms) - low)


class CompiledContinuousUniform(NamedTuple):
    """The lower end and the width of each arm's interval (arm,)."""

    low: Floats
    width: Floats


@draws(CompiledContinuousUniform)
def _continuous_uniform(
    parameters: CompiledContinuousUniform, row: int, arm: int, bits: Bits
) -> float:
    return parameters.low[arm] + parameters.width[arm] * uniform(bits)
