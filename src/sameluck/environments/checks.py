"""Checks of environments' parameters, each a number or one number per arm."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sameluck.arrays import Floats
from sameluck.errors import Invalid, shown
from sameluck.validation import is_listed, require_number

MAX_REWARD = 1e50  # sums of fourth powers of larger rewards would overflow
REWARD_LIMITS = {"at_least": -MAX_REWARD, "at_most": MAX_REWARD}
SUM_TOLERANCE = 1e-9  # of probabilities


def per_arm(value: float | Sequence[float], arms: int) -> Floats:
    """Return one number, or one per arm, as a new array with one number per arm."""
    # A copy, because a broadcast view is read-only: Numba would compile the loop for both array types.
    return np.array(np.broadcast_to(np.asarray(value, float), (arms,)))


def check_list(name: str, values: object, arms: int, **bounds: float) -> None:
    """Raise `Invalid` unless there is one number per arm, each within its bounds."""
    check_length(name, values, arms)
    check_each(name, values, arms, **bounds)


def check_length(name: str, values: object, arms: int) -> None:
    """Raise `Invalid` unless there is one value per arm."""
    if not is_listed(values):
        raise Invalid(f"{name} must be a list with one entry per arm, got {shown(values)}")
    if len(values) != arms:
        raise Invalid(
            f"{name} has {len(values)} entries, but there are {arms} arms; give one entry per arm"
        )


def check_each(name: str, value: object, arms: int, **bounds: float) -> None:
    """Raise `Invalid` unless a number, or each number of a list with one per arm, is within its bounds."""
    if not is_listed(value):
        require_number(name, value, **bounds)
        return
    check_length(name, value, arms)
    for arm, entry in enumerate(value):
        require_number(f"{name}[{arm}]", entry, **bounds)


def check_order(
    name: str, low: float | Sequence[float], high: float | Sequence[float], arms: int
) -> None:
    """Raise `Invalid` unless `low` is at most `high`, for each arm."""
    for arm, ends in enumerate(zip(per_arm(low, arms), per_arm(high, arms), strict=True)):
        if ends[0] > ends[1]:
            raise Invalid(
                f"{name}.high of arm {arm} must be >= its low, {ends[0]:g}, got {ends[1]:g}"
            )


def check_table(name: str, rows: object, arms: int, columns: int | None, **bounds: float) -> int:
    """Return the number of columns, or raise `Invalid` unless there is one row of numbers per arm, equally long."""
    check_length(name, rows, arms)
    assert is_listed(rows)
    for arm, row in enumerate(rows):
        columns = check_row(f"{name}[{arm}]", row, columns, **bounds)
    return columns or 0


def check_row(name: str, values: object, columns: int | None, **bounds: float) -> int:
    """Return the length of a list of numbers, or raise `Invalid`; `columns` is the length it must have, if any."""
    if not is_listed(values) or not values:
        raise Invalid(f"{name} must be a list of numbers, got {shown(values)}")
    if columns not in (None, len(values)):
        raise Invalid(f"{name} has {len(values)} entries, but must have {columns}")
    for index, value in enumerate(values):
        require_number(f"{name}[{index}]", value, **bounds)
    return len(values)


def check_probabilities(name: str, rows: object, arms: int, columns: int | None = None) -> int:
    """Return the number of columns, or raise `Invalid` unless each arm has a list of probabilities whose sum is 1."""
    columns = check_table(name, rows, arms, columns, at_least=0, at_most=1)
    for arm, total in enumerate(np.sum(np.asarray(rows, float), axis=1)):
        if abs(total - 1) > SUM_TOLERANCE:
            raise Invalid(f"{name}[{arm}] must have the sum 1, got {total:.12g}")
    return columns
