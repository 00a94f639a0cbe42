"""`progress=True`: a line for every tenth of the work, readable in terminals, notebooks and logs."""

from __future__ import annotations

import sys
import time

_SILENT = 1.0  # seconds: shorter work prints nothing


class PrintedProgress:
    """Prints a line on standard error for every tenth of the work, from the second second on."""

    def __init__(self) -> None:
        self._started, self._tenths = time.monotonic(), 0

    def __call__(self, done: int, total: int) -> None:
        """Print if another tenth is done."""
        seconds, tenths = time.monotonic() - self._started, 10 * done // max(total, 1)
        if seconds < _SILENT or tenths <= self._tenths:
            return
        self._tenths = tenths
        left = f"about {seconds * (total - done) / done:,.0f} s left"
        state = f"done in {seconds:,.0f} s" if done >= total else left
        # Whole lines: a notebook and a log show control characters as they are.
        print(f"sameluck: {10 * tenths}%, {state}", file=sys.stderr, flush=True)  # noqa: T201
