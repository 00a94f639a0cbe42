"""The registered checks: every module of this package registers its own.

@diagnostic(order=55)
def _read_seasons(snapshot: Snapshot) -> Iterator[Check]:
    yield seasons(snapshot.ended.arm, snapshot.ended.value)
"""

from __future__ import annotations

import pkgutil
import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import TypeAlias

from sameluck.live.diagnostics.check import Check
from sameluck.live.diagnostics.snapshot import Snapshot

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
