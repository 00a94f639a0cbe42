"""`Bernoulli`: rewards 0 and 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sameluck.arrays import Floats
from sameluck.environments.base import Environment, check_means, draws
from sameluck.randomness.streams import Bits

_11, _63 = np.uint64(11), np.uint64(63)


class _Parameters(NamedTuple):
    means: Sequence[float]


class Bernoulli(_Parameters, Environment):
    """Rewards 0 and 1 with the given success probabilities."""

    __slots__ = ()
    binary = True

    @staticmethod
    def sample() -> str:
        """A text form to show."""
        return "bernoulli(0.7, 0.3)"

    def check(self, arms: int) -> None:
        """Raise `Invalid` for probabilities outside [0, 1]."""
        check_means(self, self.means, arms, at_least=0, at_most=1)

    def compiled_parameters(self, seed: int, replications: range, arms: int) -> CompiledBernoulli:
        """The same instance in all replications."""
        return compiled_bernoulli(self.instance_means(seed, replications, arms))


class CompiledBernoulli(NamedTuple):
    """Success probabilities (replication, arm)."""

    chance: Floats
    threshold: NDArray[np.uint64]  # how many of the 2^53 values of `uniform` lie below the chance


def compiled_bernoulli(chance: Floats) -> CompiledBernoulli:
    """The law with the given success probabilities (replication, arm)."""
    return CompiledBernoulli(chance, np.ceil(chance * 2.0**53).astype(np.uint64))


@draws(CompiledBernoulli)
def _bernoulli(parameters: CompiledBernoulli, row: int, arm: int, bits: Bits) -> float:
    # 1 if uniform(bits) < chance, which is the sign of a difference: a branch on it could not be predicted.
    return float(np.int64(((bits >> _11) - parameters.threshold[row, arm]) >> _63))
