"""`SteadyClock`: the time for deadlines, without the jumps of this machine's clock."""

from __future__ import annotations

import time


class SteadyClock:
    """Clock that was set at one moment and follows `time.monotonic` since.

    It is set from this machine's clock, or repeatedly from a server's clock. It does not change when this machine's
    clock is set, by hand or by a time service.
    """

    def __init__(self) -> None:
        self.set(time.time())

    def set(self, seconds: float, at: float | None = None) -> None:
        """Set the clock to `seconds` since 1970, as of monotonic time `at`, which is now if not given."""
        self._difference = seconds - (time.monotonic() if at is None else at)

    def now(self) -> float:
        """Return the seconds since 1970."""
        return time.monotonic() + self._difference

    def ahead(self) -> float:
        """Return the seconds by which this machine's clock is ahead."""
        return time.time() - self.now()
