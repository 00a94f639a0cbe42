"""`ByFamily`: arms whose rewards have distributions of different families."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

import numpy as np

from sameluck import text_forms
from sameluck.arrays import Floats
from sameluck.compilation.functions import is_builtin
from sameluck.environments.base import (
    Environment,
    check_environments,
    draw,
    draws,
    is_stationary,
)
from sameluck.errors import Invalid
from sameluck.randomness.streams import Bits


class _ByFamilyFields(NamedTuple):
    environments: Sequence[text_forms.Parameters]


class ByFamily(_ByFamilyFields, Environment):
    """Arms of several environments together: the arms of the first environment, then the arms of the next.

    An arm has the distribution that it has in its environment, and the same rewards, bit for bit. The 1 to 10
    environments are built in; priors, and environments that drift or switch, are refused.
    """

    __slots__ = ()

    def __init__(self, *_values: object, **_named: object) -> None:
        self._check_environments()

    sample = "by_family(bernoulli(0.3, 0.2), lognormal(0.4, sigma=2))"

    @property
    def _families(self) -> Sequence[Environment]:
        return cast(Sequence[Environment], self.environments)  # checked by `_check_environments`

    @property
    def arms(self) -> int | None:
        return len(self.means)

    @property
    def binary(self) -> bool:
        """Whether all environments pay 0 and 1 only."""
        return all(family.binary for family in self._families)

    @property
    def means(self) -> tuple[float, ...]:
        return tuple(float(mean) for family in self._families for mean in family.means)

    @property
    def standard_deviations(self) -> Floats | None:
        by_family = [family.standard_deviations for family in self._families]
        exact = [deviations for deviations in by_family if deviations is not None]
        return np.concatenate(exact) if len(exact) == len(by_family) else None

    def check(self, arms: int) -> None:
        self._check_environments()
        if self.arms != arms:
            raise Invalid(
                f"ByFamily.environments have {self.arms} arms together, but there are {arms}; give one distribution "
                "per arm"
            )

    def _check_environments(self) -> None:
        rule = "a built-in environment with a fixed number of arms, not a prior and not drifting or switching"
        check_environments("ByFamily.environments", self.environments, 1, _is_family, rule)

    def compiled_parameters(
        self, seed: int, replications: range, arms: int
    ) -> text_forms.Parameters:
        # A linked list, because Numba cannot index a tuple of different types by a variable.
        *before, last = self._families
        parameters = last.compiled_parameters(seed, replications, len(last.means))
        for family in reversed(before):
            arms_of_family = len(family.means)
            first = family.compiled_parameters(seed, replications, arms_of_family)
            parameters = CompiledByFamily(first, parameters, arms_of_family)
        return parameters


def _is_family(value: object) -> bool:
    return is_stationary(value) and is_builtin(type(value)) and not isinstance(value, ByFamily)


class CompiledByFamily(NamedTuple):
    """Parameters of the first environment and of the environments after it."""

    first: text_forms.Parameters
    remaining: text_forms.Parameters
    arms: int  # of the first environment


@draws(CompiledByFamily)
def _by_family(parameters: CompiledByFamily, row: int, arm: int, bits: Bits) -> float:
    if arm < parameters.arms:
        return draw(parameters.first, row, None, arm, bits)
    return draw(parameters.remaining, row, None, arm - parameters.arms, bits)
