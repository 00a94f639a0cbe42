"""`ByFamily`: arms whose rewards are of different families."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sameluck import text_forms
from sameluck.compilation.functions import is_builtin
from sameluck.environments.base import Environment, draw, draws
from sameluck.errors import Invalid, shown
from sameluck.randomness.streams import Bits
from sameluck.validation import is_listed

_MOST = 10  # environments: each combination of families has machine code of its own


class _Parameters(NamedTuple):
    environments: Sequence[text_forms.Parameters]


class ByFamily(_Parameters, Environment):
    """Arms of different families: those of the first environment, then those of the next, and so on.

    An arm pays what it pays in its own environment with the same arms, bit for bit. The environments are sameluck's
    own, 1 to 10 of them; no priors, and none that drifts or switches.
    """

    __slots__ = ()

    def __init__(self, *_values: object, **_named: object) -> None:
        """Raise `Invalid` for what is not a list of environments."""
        self._check_environments()

    @staticmethod
    def sample() -> str:
        """A text form to show."""
        return "by_family(bernoulli(0.3, 0.2), lognormal(0.4, sigma=2))"

    @property
    def _families(self) -> Sequence[Environment]:
        return self.environments  # type: ignore[return-value]  # as `_check_environments` has found

    @property
    def arms(self) -> int | None:
        return len(self.means)

    @property
    def binary(self) -> bool:  # type: ignore[override]  # it depends on the environments
        """Whether all of them pay 0 and 1 only."""
        return all(one.binary for one in self._families)

    @property
    def means(self) -> tuple[float, ...]:
        """The mean reward of each arm."""
        return tuple(float(mean) for one in self._families for mean in one.means)

    def check(self, arms: int) -> None:
        """Raise `Invalid` unless the environments have so many arms together."""
        self._check_environments()
        if self.arms != arms:
            raise Invalid(
                f"ByFamily.environments have {self.arms} arms together, but there are {arms}; give one law per arm"
            )

    def _check_environments(self) -> None:
        listed = self.environments
        if (
            not is_listed(listed)
            or text_forms.is_parameters(listed)
            or not 0 < len(listed) <= _MOST
        ):
            raise Invalid(
                f"ByFamily.environments must be a list of 1 to {_MOST} environments, got {shown(listed)}"
            )
        for place, one in enumerate(listed):
            if not isinstance(one, Environment) or not _is_family(one):
                raise Invalid(
                    f"ByFamily.environments[{place}] must be an environment of sameluck with a given number of "
                    f"arms, neither a prior nor one that drifts or switches, got {shown(one)}"
                )
            text_forms.normal_form(one).check(one.arms or 0)

    def compiled_parameters(
        self, seed: int, replications: range, arms: int
    ) -> text_forms.Parameters:
        """The law of the first environment, then those of the others."""
        *others, last = self._families
        parameters = last.compiled_parameters(seed, replications, len(last.means))
        for one in reversed(others):
            parameters = CompiledByFamily(
                one.compiled_parameters(seed, replications, len(one.means)),
                parameters,
                len(one.means),
            )
        return parameters


def _is_family(one: Environment) -> bool:
    fixed = one.arms is not None and not one.is_prior and not one.is_moving
    return fixed and is_builtin(type(one)) and not isinstance(one, ByFamily)


class CompiledByFamily(NamedTuple):
    """The law of the first arms, that of the others, and how many the first are."""

    first: text_forms.Parameters
    others: text_forms.Parameters
    arms: int


@draws(CompiledByFamily)
def _by_family(parameters: CompiledByFamily, row: int, arm: int, bits: Bits) -> float:
    if arm < parameters.arms:
        return draw(parameters.first, row, arm, bits)
    return draw(parameters.others, row, arm - parameters.arms, bits)
