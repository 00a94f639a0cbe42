"""`Poisson`: rewards that are counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sameluck.environments.base import Environment, check_means, draws
from sameluck.randomness.samplers import poisson
from sameluck.randomness.streams import Bits


class _Parameters(NamedTuple):
    means: Sequence[float]


class Poisson(_Parameters, Environment):
    """Poisson counts with the given means, such as clicks or orders per visit."""

    __slots__ = ()

    @staticmethod
    def sample() -> str:
        """A text form to show."""
        return "poisson(3.0, 2.0)"

    def check(self, arms: int) -> None:
        """Raise `Invalid` for means that are negative or too large."""
        check_means(self, self.means, arms, at_least=0, at_most=1e6)


@draws(Poisson)
def _poisson(parameters: Poisson, row: int, arm: int, bits: Bits) -> float:
    return poisson(bits, parameters.means[arm])
