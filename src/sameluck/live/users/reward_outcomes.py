"""Reported rewards: which are valid, and what each of them leads to."""

from __future__ import annotations

from decimal import Decimal
from typing import NamedTuple

import numpy as np

from sameluck.errors import Conflict, Invalid, shown
from sameluck.live.databases.rows import LockedAssignment
from sameluck.validation import require_number


class Report(NamedTuple):
    """A valid reward that was reported."""

    id: str
    value: float


def checked_reward(value: object, bounds: tuple[float, float], *, binary: bool) -> float:
    """The reward as a float, or `Invalid` if some policy cannot take it; True and False are 1 and 0."""
    low, high = bounds
    if isinstance(value, bool | np.bool_) or (isinstance(value, Decimal) and value.is_finite()):
        value = float(value)
    if type(value) is not float or not low <= value <= high:  # or the usual case
        require_number("a reward", value, at_least=low, at_most=high)
    number = float(value) + 0.0  # type: ignore[arg-type] # not -0.0: SQLite does not keep it
    if number not in (0, 1) and binary:
        raise Invalid(f"a reward must be 0 or 1 (a policy counts successes), got {shown(value)}")
    return number


def outcome_of(locked: LockedAssignment, value: float) -> tuple[str, Conflict | None]:
    """The outcome of a reported reward, and the error to raise if it does not count."""
    name = f"assignment {locked.id!r}"
    if locked.voided:
        return "voided", voided(locked.id)
    if locked.state == "assigned":
        return "applied", None
    if locked.source == "default":
        message = f"{name}: its window is over, and the default reward {locked.value!r} counts"
        return "late", Conflict(message, "reward_late")
    if locked.value == value:
        return "duplicate", None
    message = (
        f"{name} was rewarded with {locked.value!r}; the first value counts, {value!r} does not"
    )
    return "conflict", Conflict(message, "reward_conflict")


def voided(id: str) -> Conflict:
    """The error for a voided assignment."""
    message = "was voided (not exposed in time, or by request); its entry goes to another unit"
    return Conflict(f"assignment {id!r} {message}", "assignment_voided")


def is_id(id: object) -> bool:
    """Whether this could be an assignment's id."""
    return isinstance(id, str) and id.isascii() and id.isprintable() and len(id) <= 100
