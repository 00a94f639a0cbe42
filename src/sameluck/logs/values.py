"""Parsing the values of a log: names, numbers and times, as text or as objects of any library."""

from __future__ import annotations

import contextlib
import math
import numbers
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta

import numpy as np


class BadRow(Exception):
    """A row that cannot be used; the message becomes a `Problem`."""


def parse_name(role: str, value: object) -> str:
    """Return a name: text without surrounding blanks, or a whole number without a decimal point."""
    text = value.strip() if type(value) is str else _name_of(role, value)
    if not text:
        raise BadRow(f"{role} is missing")
    return text


def _name_of(role: str, value: object) -> str:
    if type(value) is int:
        return str(value)
    if isinstance(value, float) and value.is_integer():
        return str(int(value))  # pandas turns 1 into 1.0 if another row is empty
    if isinstance(value, Mapping | list | tuple | set | bytes):
        raise BadRow(f"{role} is not a name ({excerpt(value)})")
    return "" if _is_missing(value) else str(value).strip()


def _is_missing(value: object) -> bool:
    # The missing values of pandas are recognised by name: pandas may not be installed, and they cannot be compared.
    nan = isinstance(value, float) and math.isnan(value)
    return value is None or nan or type(value).__name__ in {"NAType", "NaTType"}


_TRUTH_VALUES = {"true": 1.0, "false": 0.0}


def parse_number(role: str, value: object) -> float:
    """Return a finite number; true and false are 1 and 0."""
    try:
        number = value if type(value) is float else _as_float(value)
    except OverflowError:
        number = math.inf
    except (TypeError, ValueError):
        raise BadRow(f"{role} is not a number ({excerpt(value)})") from None
    if number is None:
        raise BadRow(f"{role} is missing")
    if not math.isfinite(number):
        raise BadRow(f"{role} is {'NaN' if math.isnan(number) else 'infinite'}")
    return number


def _as_float(value: object) -> float | None:
    if isinstance(value, str):
        text = value.strip()
        truth = _TRUTH_VALUES.get(text.lower())
        if "_" in text:  # Python reads 1_000 as a number, but a log does not mean it
            raise ValueError
        return float(text) if text and truth is None else truth
    if type(value) is int:
        return float(value)
    if not isinstance(value, float) and _is_missing(value):
        return None
    if not isinstance(value, numbers.Number | np.bool_):
        raise TypeError
    return float(value)  # type: ignore[arg-type]


_NUMBER, _DATE, _ZONED = "a number", "a date without a zone", "a date with a zone"
_EPOCH = datetime(1970, 1, 1)
_ZONED_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def parse_time(value: object) -> tuple[str, int | float]:
    """Return the type of a time and the time itself: a number, or microseconds since 1970."""
    if isinstance(value, str):
        value = _from_text(value.strip())
        if type(value) is datetime:
            return _since_epoch(value)
    elif isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]").item()
    if _is_missing(value):
        raise BadRow("time is missing")
    if isinstance(value, date):
        return _since_epoch(value)
    if isinstance(value, bool):
        raise BadRow(f"time is neither a number nor a date of ISO 8601 ({excerpt(value)})")
    if isinstance(value, numbers.Integral) and abs(int(value)) < 2**63:
        return _NUMBER, int(value)
    return _NUMBER, parse_number("time", value)


def _since_epoch(value: date) -> tuple[str, int]:
    if not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    if value.tzinfo is None:
        return _DATE, (value - _EPOCH) // _MICROSECOND
    return _ZONED, (value - _ZONED_EPOCH) // _MICROSECOND


def _from_text(text: str) -> float | datetime | None:
    """Return the number or the date in a text; None if it is empty."""
    if not text:
        return None
    parsers: list[Callable[[str], float | datetime]] = [datetime.fromisoformat]
    if "_" not in text:
        parsers += [float, int]
    for parse in parsers if text[4:5] == "-" else reversed(parsers):  # the likelier parser first
        with contextlib.suppress(ValueError):
            return parse(text)
    raise BadRow(f"time is neither a number nor a date of ISO 8601 ({excerpt(text)})")


def excerpt(value: object) -> str:
    """Return a value as messages show it, in at most 40 characters."""
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
