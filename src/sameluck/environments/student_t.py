"""`StudentT`: rewards with heavy tails."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sameluck.arrays import Floats
from sameluck.environments.base import LIMITS, Environment, check_each, check_means, draws, per_arm
from sameluck.randomness.samplers import student_t
from sameluck.randomness.streams import Bits


class _Parameters(NamedTuple):
    means: Sequence[float]
    scale: float | Sequence[float] = 1.0
    df: float | Sequence[float] = 3.0


class StudentT(_Parameters, Environment):
    """Student t rewards with heavy tails: mean + scale * t, with `df` degrees of freedom.

    `scale` and `df` are one number, or one per arm. The variance, scale^2 df / (df - 2), must be finite, as intervals
    of a mean assume: df > 2. For df <= 4 there is no fourth moment, and estimated variances are unstable.
    """

    __slots__ = ()

    @staticmethod
    def sample() -> str:
        """A text form to show."""
        return "student_t(0.3, 0, scale=1, df=3)"

    def check(self, arms: int) -> None:
        """Raise `Invalid` for means that are not finite, a negative scale and df <= 2."""
        check_means(self, self.means, arms, **LIMITS)
        check_each("StudentT.scale", self.scale, arms, at_least=0, at_most=1e30)
        check_each("StudentT.df", self.df, arms, above=2, at_most=1e9)

    def compiled_parameters(self, seed: int, replications: range, arms: int) -> CompiledStudentT:
        """The same instance in all replications."""
        return CompiledStudentT(*(per_arm(each, arms) for each in self))


class CompiledStudentT(NamedTuple):
    """Mean, scale and degrees of freedom of each arm (arm,)."""

    mean: Floats
    scale: Floats
    df: Floats


@draws(CompiledStudentT)
def _student_t(parameters: CompiledStudentT, row: int, arm: int, bits: Bits) -> float:
    return parameters.mean[arm] + parameters.scale[arm] * student_t(bits, parameters.df[arm])
