"""Numerical checks of a theorem: what was measured, what the theorem says, and how far apart they may be.

A check of one theorem looks at several numbers and raises a false alarm with probability about `ALARM` in all:
its budget is shared among the looks. A bound on a standardised mean takes the normal law for granted, which
with some hundred replications is right to a small factor even out there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import kolmogorov, ndtri

from sameluck.paper.parts import Estimate, Findings

ALARM = 1e-6


class Look(NamedTuple):
    """One number of a check."""

    quantity: str
    case: str  # which of several with the same name, such as the arm
    measured: float
    error: float | None  # Monte Carlo standard error; None where the number is exact
    relation: str  # measured = expected, measured <= expected, measured >= expected
    expected: float
    z: float | None
    far: float | None  # the z from which it fails
    passes: bool


# A look is made in two steps, because how far off it may be depends on how many looks there are.
Pending = Callable[[int], Look]


def equal(quantity: str, measured: Estimate, expected: float, case: str = "") -> Pending:
    """The measured mean is the expected number."""
    return partial(_look, (quantity, case), measured, "=", expected)


def at_most(quantity: str, measured: Estimate, limit: float, case: str = "") -> Pending:
    """The measured mean is not above the limit."""
    return partial(_look, (quantity, case), measured, "<=", limit)


def _look(
    names: tuple[str, str], measured: Estimate, relation: str, expected: float, looks: int
) -> Look:
    gap, error = measured.value - expected, measured.error
    z = gap / error if error else math.copysign(math.inf, gap) if gap else 0.0
    sides = 2 if relation == "=" else 1
    far = float(-ndtri(ALARM / looks / sides))
    passes = (abs(z) if sides == 2 else z) <= far
    return Look(*names, measured.value, error, relation, expected, z, far, passes)


def never(quantity: str, count: int, case: str = "") -> Pending:
    """Something that must not happen at all did not."""
    return lambda looks: Look(quantity, case, count, None, "=", 0, None, None, count == 0)  # noqa: ARG005


def same_law(quantity: str, one: NDArray[Any], other: NDArray[Any], case: str = "") -> Pending:
    """Two independent samples come from one law: Kolmogorov and Smirnov, which with ties is only milder."""
    values = np.unique(np.concatenate([one, other]))
    steps = [np.searchsorted(np.sort(s), values, side="right") / len(s) for s in (one, other)]
    size = len(one) * len(other) / (len(one) + len(other))
    p_value = float(kolmogorov(math.sqrt(size) * float(np.abs(steps[0] - steps[1]).max())))

    def look(looks: int) -> Look:
        rare = ALARM / looks
        return Look(
            f"{quantity}, p-value", case, p_value, None, ">=", rare, None, None, p_value >= rare
        )

    return look


def difference(one: Estimate, other: Estimate) -> Estimate:
    """Of two independent estimates."""
    return Estimate(one.value - other.value, math.hypot(one.error, other.error))


def verdict(statement: str, setting: str, pending: Sequence[Pending], **more: Any) -> Findings:
    """What a theorem's part finds: its statement, where it was tried, every look, and whether all pass."""
    looks = [make(len(pending)) for make in pending]
    return {
        "statement": statement,
        "setting": setting,
        "budget": ALARM,
        "looks": [one._asdict() for one in looks],
        "passes": all(one.passes for one in looks),
        **more,
    }
