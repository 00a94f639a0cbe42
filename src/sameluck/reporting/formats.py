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


def times(ratio: float) -> str:
    """A variance ratio as text."""
    if math.isnan(ratio):
        return "-"
    if math.isinf(ratio):
        return "none left"
    size = max(ratio, 1 / ratio)
    digits = f"{size:,.0f}" if size >= 100 else f"{size:.3g}"
    return f"{digits}x {'less' if ratio >= 1 else 'more'}"
