"""What the values of a row mean: names, numbers and times, as text or as any library has them; `Bad` if nothing."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np


class Bad(Exception):
    """What is wrong with a row; its message becomes the row's problem."""


def name_of(role: str, value: Any) -> str:
    """A name: text without surrounding blanks; a whole number without its point."""
    text = value.strip() if type(value) is str else _named(role, value)
    if not text:
        raise Bad(f"{role} is missing")
    return text


def _named(role: str, value: Any) -> str:
    if type(value) is int:
        return str(value)
    if isinstance(value, float) and value.is_integer():
        return str(int(value))  # pandas makes 1.0 of 1 where another row has none
    if isinstance(value, Mapping | list | tuple | set | bytes):
        raise Bad(f"{role} is not a name ({short(value)})")
    return "" if _is_missing(value) else str(value).strip()


def _is_missing(value: Any) -> bool:
    # pandas' own two are known by name: it need not be installed, and they cannot be compared.
    nan = isinstance(value, float) and math.isnan(value)
    return value is None or nan or type(value).__name__ in {"NAType", "NaTType"}


_TRUTH = {"true": 1.0, "false": 0.0}


def number_of(role: str, value: Any) -> float:
    """A finite number; true and false are 1 and 0."""
    try:
        number = value if type(value) is float else _as_float(value)
    except OverflowError:
        number = math.inf
    except (TypeError, ValueError):
        raise Bad(f"{role} is not a number ({short(value)})") from None
    if number is None:
        raise Bad(f"{role} is missing")
    if not math.isfinite(number):
        raise Bad(f"{role} is {'NaN' if math.isnan(number) else 'infinite'}")
    return number


def _as_float(value: Any) -> float | None:
    if isinstance(value, str):
        text = value.strip()
        truth = _TRUTH.get(text.lower())
        return float(_plain(text)) if text and truth is None else truth
    if type(value) is int:
        return float(value)
    if not isinstance(value, float) and _is_missing(value):
        return None
    if not isinstance(value, numbers.Number | np.bool_):
        raise TypeError
    return float(value)  # type: ignore[arg-type]


def _plain(text: str) -> str:
    if "_" in text:  # Python reads 1_000 as a number; whoever wrote the log did not mean that
        raise ValueError
    return text


_NUMBER, _DATE, _ZONED = "a number", "a date without a zone", "a date with a zone"
_EPOCH = datetime(1970, 1, 1)
_ZONED_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def moment_of(value: Any) -> tuple[str, int | float]:
    """The kind of a time and the time itself: a number, or microseconds."""
    if isinstance(value, str):
        value = _parsed(value.strip())
        if type(value) is datetime:
            return _since_epoch(value)
    elif isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]").item()
    if _is_missing(value):
        raise Bad("time is missing")
    if isinstance(value, date):
        return _since_epoch(value)
    if isinstance(value, bool):
        raise Bad(f"time is neither a number nor a date of ISO 8601 ({short(value)})")
    if isinstance(value, numbers.Integral) and abs(int(value)) < 2**63:
        return _NUMBER, int(value)
    return _NUMBER, number_of("time", value)


def _since_epoch(value: date) -> tuple[str, int]:
    if not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    if value.tzinfo is None:
        return _DATE, (value - _EPOCH) // _MICROSECOND
    return _ZONED, (value - _ZONED_EPOCH) // _MICROSECOND


def _parsed(text: str) -> Any:
    """A number or a date from text; None if there is none."""
    if not text:
        return None
    looks_like_a_date = text[4:5] == "-"  # saves two failing attempts a row
    ways: list[Callable[[str], Any]] = [_whole, _fraction, datetime.fromisoformat]
    for way in reversed(ways) if looks_like_a_date else ways:
        try:
            return way(text)
        except ValueError:
            continue
    raise Bad(f"time is neither a number nor a date of ISO 8601 ({short(text)})")


def _whole(text: str) -> int:
    return int(_plain(text))


def _fraction(text: str) -> float:
    return float(_plain(text))


def short(value: Any) -> str:
    """A value as a message shows it."""
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
