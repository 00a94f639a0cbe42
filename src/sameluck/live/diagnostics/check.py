"""`Check`, the result of every check, the registered checks, and their order.

Every module of this package registers its own checks by name:

@diagnostic("seasons")
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

# Of the output; a check that is not listed comes last.
ORDER = (
    "rebuild",
    "audit log",
    "open slots",
    "enrolment",
    "visits",
    "sample ratio",
    "moving arms",
    "drift",
    "loss",
    "delay",
    "replay audit",
    "same policy",
)

Details: TypeAlias = dict[str, Any]  # plain values, ready for JSON


class Check(NamedTuple):
    """Result of one check."""

    name: str
    verdict: str  # "fine", "watch", "alarm", or "unknown" where there is too little data
    sentence: str  # what was found and what to do
    p_value: float | None
    details: Details


def verdict_of(p_value: float) -> str:
    if p_value < ALARM:
        return "alarm"
    return "watch" if p_value < WATCH else "fine"


def p_text(p_value: float) -> str:
    return "p < 1e-9" if p_value < 1e-9 else f"p = {p_value:.2g}"


Diagnostic: TypeAlias = Callable[[Snapshot], Iterable[Check]]

_registered: dict[str, Diagnostic] = {}


def diagnostic(name: str) -> Callable[[Diagnostic], Diagnostic]:
    """Register a function that reads a snapshot and returns the checks that apply, under the checks' name."""

    def register(function: Diagnostic) -> Diagnostic:
        _registered[name] = function
        return function

    return register


def diagnostics(snapshot: Snapshot) -> tuple[Check, ...]:
    """Run every check that applies, in order."""
    for module in pkgutil.iter_modules(sys.modules[__package__].__path__, f"{__package__}."):
        import_module(module.name)
    unlisted = [name for name in _registered if name not in ORDER]
    return tuple(check for name in (*ORDER, *unlisted) for check in _registered[name](snapshot))
