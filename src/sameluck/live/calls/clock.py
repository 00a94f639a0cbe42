"""`SteadyClock`: the time that deadlines follow, without the jumps of this machine's clock."""

from __future__ import annotations

import time


class SteadyClock:
    """A moment that was set, and the time that has passed since by `time.monotonic`.

    It is set from this machine's clock, or again and again from that of a server. Setting this machine's clock, by
    hand or by a time service, does not change it.
    """

    def __init__(self) -> None:
        self.set(time.time())

    def set(self, seconds: float, at: float | None = None) -> None:
        """It was so many seconds after 1970 at a moment of `time.monotonic`, now if not given."""
        self._difference = seconds - (time.monotonic() if at is None else at)

    def now(self) -> float:
        """Seconds since 1970."""
        return time.monotonic() + self._difference

    def ahead(self) -> float:
        """By how many seconds this machine's clock is ahead."""
        return time.time() - self.now()
