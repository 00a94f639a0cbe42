"""Policies that do not learn, as baselines: `Uniform` and `Always`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sameluck.arrays import Floats
from sameluck.policies.base import Tally, probabilities, selects
from sameluck.randomness.samplers import uniform
from sameluck.randomness.streams import Key, at
from sameluck.validation import require_whole


class Uniform(NamedTuple):
    """Play an arm chosen uniformly at random in each period."""


@selects(Uniform)
def _uniform(policy: Uniform, tally: Tally, period: int, noise: Key) -> np.int64:
    return np.int64(uniform(at(noise, period, 0)) * tally.pulls.size)


@probabilities(Uniform)
def _even_probabilities(policy: Uniform, tally: Tally, period: int, probabilities: Floats) -> None:
    for arm in range(probabilities.size):
        probabilities[arm] = 1.0 / probabilities.size


class Always(NamedTuple):
    """Play the same arm, an index from 0, in every period."""

    arm: int

    @staticmethod
    def sample() -> str:
        return "always(0)"

    def check(self, arms: int) -> None:
        require_whole("Always.arm", self.arm, 0, arms - 1)


@selects(Always)
def _always(policy: Always, tally: Tally, period: int, noise: Key) -> int:
    return policy.arm
