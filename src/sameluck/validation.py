"""Checks of arguments; each message names the argument, the rule and the value."""

from __future__ import annotations

import numbers
import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, SupportsIndex, TypeGuard, TypeVar

import numpy as np

from sameluck.errors import Invalid, did_you_mean, shown

T = TypeVar("T")


def is_whole(value: object) -> TypeGuard[SupportsIndex]:
    """Return whether a value is a whole number; True and False are not."""
    try:
        operator.index(value)  # type: ignore[arg-type]
    except Exception:  # TypeError, or an error of the object's __index__
        return False
    return not isinstance(value, bool)


def is_listed(value: object) -> TypeGuard[Sequence[object]]:
    """Return whether a value is a sequence other than text."""
    return isinstance(value, Sequence) and not isinstance(value, str)


def require_whole(name: str, value: object, low: int, high: int | None = None) -> int:
    """Return the value as an int, or raise `Invalid` unless it is a whole number from `low` to `high`."""
    number = operator.index(value) if is_whole(value) else low - 1
    if number < low or (high is not None and number > high):
        raise Invalid(f"{name} must be a whole number {_span(low, high)}, got {shown(value)}")
    return number


def _span(low: int, high: int | None) -> str:
    if high is None:
        return f">= {low}"
    power = max(high, 1).bit_length() - 1
    as_power = {1 << power: f"2^{power}", (2 << power) - 1: f"2^{power + 1} - 1"}.get(high)
    return f"from {low} to {as_power if as_power and high > 1 << 32 else f'{high:,}'}"


def _finite(value: object) -> float | None:
    """Return a number as a float; None for anything that is not a finite number."""
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if abs(number) < float("inf") else None


def require_number(
    name: str,
    value: object,
    *,
    above: float = -float("inf"),
    at_least: float = -float("inf"),
    at_most: float = float("inf"),
    below: float = float("inf"),
) -> None:
    """Raise `Invalid` unless the value is a finite number within its bounds."""
    number = _finite(value)
    if number is None:
        raise Invalid(f"{name} must be a finite number, got {shown(value)}")
    bounds = [(number > above, f"> {above:g}"), (number >= at_least, f">= {at_least:g}")]
    bounds += [(number <= at_most, f"<= {at_most:g}"), (number < below, f"< {below:g}")]
    broken = [rule for holds, rule in bounds if not holds]
    if broken:
        raise Invalid(f"{name} must be {' and '.join(broken)}, got {shown(value)}")


def require_flag(name: str, value: object) -> bool:
    """Return the value as a bool, or raise `Invalid` unless it is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise Invalid(f"{name} must be True or False, got {shown(value)}")
    return bool(value)


def require_callable(name: str, value: object) -> None:
    """Raise `Invalid` unless the value is None or can be called."""
    if value is not None and not callable(value):
        raise Invalid(f"{name} must be a function, got {shown(value)}")


def require_fields(subject: str, values: object, fields: Sequence[str]) -> Mapping[str, Any]:
    """Return the values, or raise `Invalid` unless they are a mapping whose keys are all in `fields`."""
    if not isinstance(values, Mapping):
        raise Invalid(f"{subject} must be an object, got {shown(values)}")
    for name in values:
        if name not in fields:
            raise Invalid(f"unknown field {name!r} in {subject}; {did_you_mean(str(name), fields)}")
    return values


def require_one_of(name: str, value: object, words: Sequence[str]) -> None:
    """Raise `Invalid` unless the value is one of the words."""
    if not isinstance(value, str) or value not in words:
        raise Invalid(f"unknown {name} {shown(value)}; {did_you_mean(value, words)}")


def require_list(subject: str, items: Iterable[T]) -> list[T]:
    """Return the items as a list, or raise `Invalid` unless they can be listed; text and mappings cannot."""
    try:
        if not isinstance(items, str | bytes | Mapping):
            return list(items)
    except TypeError:
        pass
    raise Invalid(f"{subject} must be a list, got {shown(items)}")


def require_name(subject: str, name: object) -> None:
    """Raise `Invalid` unless a name is 1 to 200 printable characters."""
    has_length = isinstance(name, str) and 0 < len(name) <= 200
    if not has_length or re.search(r"[\x00-\x1f\x7f]", str(name)):
        raise Invalid(f"{subject} must be 1 to 200 printable characters, got {shown(name)}")
    try:
        str(name).encode()
    except UnicodeEncodeError:
        raise Invalid(f"{subject} must be valid Unicode, got {shown(name)}") from None
