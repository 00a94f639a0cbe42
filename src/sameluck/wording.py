"""Numbers, counts, arms, durations and lists as text, for sentences and tables."""

from __future__ import annotations

import math
from collections.abc import Iterable

MAX_LISTED = 10  # items in a sentence
_MAX_DIGITS = 6  # decimals


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun: `1 user`, `2 users`; `plural` is for nouns such as `entries`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def arm_in(name: str) -> str:
    """Return an arm as an item of a list: its name, or `arm 0` if the name is a number."""
    return f"arm {name}" if name.isdigit() else name


def listed(items: Iterable[str], at_most: int = MAX_LISTED) -> str:
    """Return items separated by commas; items after the first `at_most` are counted."""
    words = list(items)
    surplus = len(words) - at_most
    return ", ".join(words if surplus <= 0 else [*words[:at_most], f"and {surplus:,} more"])


def listed_with_or(items: Iterable[str]) -> str:
    """Return `a`, `a or b`, `a, b or c`."""
    *first, last = items
    return f"{', '.join(first)} or {last}" if first else last


def duration(seconds: float) -> str:
    """Return a time in days, hours, minutes or seconds: `2 h`."""
    for size, unit in ((86_400, "days"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            number = seconds / size
            return f"{number:,.0f} {unit}" if number >= 1_000 else f"{number:.3g} {unit}"
    return f"{seconds:.3g} s"


def sentence(text: str) -> str:
    return text[:1].upper() + text[1:].removesuffix(".") + "."


def amount(value: float) -> str:
    """Return a number with two to four significant digits, or all digits of its whole part."""
    size = abs(value)
    if math.isinf(value):
        return "no bound"
    if size >= 1000:
        return f"{value:,.0f}"
    if size >= 100:
        return f"{value:.1f}"
    return f"{value:.2f}" if size >= 0.1 or value == 0 else f"{value:.2g}"


def digits_for(half_width: float) -> int:
    """Return the decimals with which a half-width has two significant digits."""
    if half_width <= 0 or not math.isfinite(half_width):
        return 1
    return max(0, 1 - math.floor(math.log10(half_width)))


def digits_of(low: float, high: float) -> int:
    """Return the decimals of an interval: its half-width's, or more if a nonzero end would be shown as 0."""
    digits = digits_for((high - low) / 2)
    while digits < _MAX_DIGITS and any(end and round(end, digits) == 0 for end in (low, high)):
        digits += 1
    return digits


def signed(value: float, digits: int) -> str:
    """Return a number with a minus sign (U+2212) if it is negative."""
    text = f"{abs(value):,.{digits}f}"
    return f"\N{MINUS SIGN}{text}" if value < 0 and float(text.replace(",", "")) else text


def percent(level: float) -> str:
    return f"{float(f'{100 * level:.6g}'):g}%"


def probability(value: float) -> str:
    return "< 1e-15" if value < 1e-15 else f"{value:.2g}"


def times(ratio: float, low: float, high: float) -> str:
    """Return a variance ratio with its interval as text."""
    if math.isnan(ratio):
        return "-"
    if math.isinf(ratio):
        return "none left"
    more = ratio < 1
    if more:
        ratio, low, high = 1 / ratio, 1 / high, 1 / low if low else math.inf
    bounds = " to ".join(_digits(bound) for bound in (low, high))
    if _digits(ratio) == "1":
        return f"about equal ({bounds})"
    return f"{_digits(ratio)}x {'more' if more else 'less'} ({bounds})"


def _digits(value: float) -> str:
    if math.isinf(value):
        return "no bound"
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}" if value < 10 else f"{value:.3g}"
