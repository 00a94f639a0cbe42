"""`Check`, the result of every check, the verdict that follows from a p-value, and the registered checks.

Every module of this package registers its own:

@diagnostic(order=55)
def _read_seasons(snapshot: Snapshot) -> Iterator[Check]:
    yield seasons(snapshot.ended.arm, snapshot.ended.value)
"""

from __future__ import annotations

import pkgutil
import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any, NamedTuple, TypeAlias

from sameluck.live.diagnostics.snapshot import Snapshot

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


Diagnostic: TypeAlias = Callable[[Snapshot], Iterable[Check]]

_ORDER: dict[Diagnostic, int] = {}


def diagnostic(order: int = 1_000) -> Callable[[Diagnostic], Diagnostic]:
    """Register a function that reads a snapshot and returns the checks that apply, at this place of the output."""

    def register(function: Diagnostic) -> Diagnostic:
        _ORDER[function] = order
        return function

    return register


def diagnostics(snapshot: Snapshot) -> tuple[Check, ...]:
    """Every check that applies, in order."""
    for module in pkgutil.iter_modules(sys.modules[__package__].__path__, f"{__package__}."):
        import_module(module.name)
    functions = sorted(_ORDER, key=_ORDER.__getitem__)
    return tuple(check for function in functions for check in function(snapshot))
