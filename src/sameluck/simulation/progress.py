"""Printed progress: a line for every tenth of the work, readable in terminals, notebooks and logs."""

from __future__ import annotations

import sys
import time

_SILENT_SECONDS = 1.0  # shorter work prints nothing


class PrintedProgress:
    """Prints a line on standard error for every tenth of the work, from the second second on."""

    def __init__(self) -> None:
        self._started, self._tenths = time.monotonic(), 0

    def __call__(self, done: int, total: int) -> None:
        """Print if another tenth is done."""
        seconds, tenths = time.monotonic() - self._started, 10 * done // max(total, 1)
        if seconds < _SILENT_SECONDS or tenths <= self._tenths:
            return
        self._tenths = tenths
        left = f"about {seconds * (total - done) / done:,.0f} s left"
        state = f"done in {seconds:,.0f} s" if done >= total else left
        _print_line(f"{10 * tenths}%, {state}")


class PrintedRace:
    """Prints a race's progress on standard error: for every tenth and every drop-out, at most once per second."""

    def __init__(self, max_replications: int) -> None:
        self._max_replications, self._printed, self._last = (
            max_replications,
            time.monotonic(),
            (0, 0),
        )

    def __call__(self, replications: int, names: tuple[str, ...]) -> None:
        """Print if another tenth is done, or if fewer policies remain than in the last line."""
        now, state = time.monotonic(), (len(names), 10 * replications // self._max_replications)
        if now - self._printed < _SILENT_SECONDS or state == self._last:
            return
        self._printed, self._last = now, state
        policies = "policy" if len(names) == 1 else "policies"
        left = f"{len(names):,} {policies} left"
        _print_line(f"{replications:,} of at most {self._max_replications:,} replications, {left}")


def _print_line(text: str) -> None:
    # Whole lines: a notebook and a log show control characters as they are.
    print(f"sameluck: {text}", file=sys.stderr, flush=True)  # noqa: T201
