"""`Check`, the result of every check, and the verdict that follows from a p-value."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

WATCH, ALARM = 0.01, 0.001  # p-values below

Details: TypeAlias = dict[str, Any]  # plain values, ready for JSON


class Check(NamedTuple):
    """The result of one check."""

    name: str
    verdict: str  # "fine", "watch", "alarm", or "unknown" where there is too little data
    sentence: str  # what was found and what to do
    p_value: float | None
    details: Details


def verdict_of(p_value: float) -> str:
    """The verdict that follows from a p-value."""
    if p_value < ALARM:
        return "alarm"
    return "watch" if p_value < WATCH else "fine"


def p_text(p_value: float) -> str:
    """A p-value as text."""
    return "p < 1e-9" if p_value < 1e-9 else f"p = {p_value:.2g}"
