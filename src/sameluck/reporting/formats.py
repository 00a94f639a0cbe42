"""Numbers as text: amounts, levels, p-values and variance ratios."""

from __future__ import annotations

import math


def amount(value: float) -> str:
    """A number with two to four significant digits, or all digits of its whole part."""
    size = abs(value)
    if math.isinf(value):
        return "no bound"
    if size >= 1000:
        return f"{value:,.0f}"
    if size >= 100:
        return f"{value:.1f}"
    return f"{value:.2f}" if size >= 0.1 or value == 0 else f"{value:.2g}"


def percent(level: float) -> str:
    """A level of confidence as text."""
    return f"{float(f'{100 * level:.6g}'):g}%"


def probability(value: float) -> str:
    """A p-value as text."""
    return "< 1e-15" if value < 1e-15 else f"{value:.2g}"


def times(ratio: float, low: float, high: float) -> str:
    """A variance ratio with its interval as text."""
    if math.isnan(ratio):
        return "-"
    if math.isinf(ratio):
        return "none left"
    more, bounds = ratio < 1, (low, high)
    if more:
        ratio, bounds = 1 / ratio, (1 / high if high else math.inf, 1 / low if low else math.inf)
    near, far = (_digits(bound) if math.isfinite(bound) else "no bound" for bound in bounds)
    return f"{_digits(ratio)}x {'more' if more else 'less'} ({near} to {far})"


def _digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}" if value < 10 else f"{value:.3g}"
