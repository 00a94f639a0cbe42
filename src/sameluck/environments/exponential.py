"""`Exponential`: waiting times, or amounts with a long tail."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sameluck.environments.base import LARGEST, Environment, check_means, draws
from sameluck.randomness.samplers import exponential
from sameluck.randomness.streams import Bits


class _Parameters(NamedTuple):
    means: Sequence[float]


class Exponential(_Parameters, Environment):
    """Exponential rewards with the given means, such as times until an event."""

    __slots__ = ()

    @staticmethod
    def sample() -> str:
        """A text form to show."""
        return "exponential(1.2, 1.0)"

    def check(self, arms: int) -> None:
        """Raise `Invalid` for means below 0."""
        check_means(self, self.means, arms, at_least=0, at_most=LARGEST)


@draws(Exponential)
def _exponential(parameters: Exponential, row: int, arm: int, bits: Bits) -> float:
    return parameters.means[arm] * exponential(bits)
