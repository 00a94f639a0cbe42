"""Rewards that depend on features: `Linear`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sameluck.arrays import Floats
from sameluck.compilation.products import dot
from sameluck.context import Features
from sameluck.environments.base import draws
from sameluck.environments.checks import (
    MAX_REWARD,
    REWARD_LIMITS,
    check_each,
    check_table,
    per_arm,
)
from sameluck.environments.contextual.base import ContextualEnvironment, contexts, expected, expects
from sameluck.randomness.samplers import normal
from sameluck.randomness.streams import Bits, Key, at


class _LinearFields(NamedTuple):
    weights: Sequence[Sequence[float]]
    sd: float | Sequence[float] = 1.0


class Linear(_LinearFields, ContextualEnvironment):
    """Normal rewards whose mean is linear in the features: `weights[arm] . context`, with standard deviation `sd`.

    The features of a user are independent standard normal numbers.

    Args:
        weights: One list of weights per arm, one weight per feature. No intercept is added.
        sd: Standard deviation of the rewards around their mean, one number or one per arm.
    """

    __slots__ = ()
    sample = "linear([0.5, 0.0, -0.2], [0.3, 0.4, 0.1], sd=1)"

    @property
    def arms(self) -> int | None:
        return len(self.weights)

    @property
    def context(self) -> Features:
        return Features(len(self.weights[0]))

    @property
    def standard_deviations(self) -> Floats:
        return per_arm(self.sd, len(self.weights))

    def check(self, arms: int) -> None:
        check_table("Linear.weights", self.weights, arms, None, **REWARD_LIMITS)
        check_each("Linear.sd", self.sd, arms, at_least=0, at_most=MAX_REWARD)

    def compiled_parameters(self, seed: int, replications: range, arms: int) -> CompiledLinear:
        weights = np.tile(np.array(self.weights, float), (len(replications), 1, 1))
        return CompiledLinear(weights, per_arm(self.sd, arms))


class CompiledLinear(NamedTuple):
    """Parameters of linear rewards."""

    weights: Floats  # (replication, arm, feature)
    sd: Floats  # (arm,)


@contexts(CompiledLinear)
def _standard_normal(
    parameters: CompiledLinear, row: int, period: int, noise: Key, context: Floats
) -> None:
    for feature in range(context.size):
        context[feature] = normal(at(noise, period, feature))


@expects(CompiledLinear)
def _linear_mean(parameters: CompiledLinear, row: int, context: Floats, arm: int) -> float:
    return dot(parameters.weights[row, arm], context)


@draws(CompiledLinear)
def _linear(parameters: CompiledLinear, row: int, context: Floats, arm: int, bits: Bits) -> float:
    return expected(parameters, row, context, arm) + parameters.sd[arm] * normal(bits)
