"""`VirtualClock`: the clock of rehearsals and of tests."""

from __future__ import annotations

from sameluck.validation import require_number


class VirtualClock:
    """A clock that changes only when it is advanced: `sl.open(url, clock=sl.VirtualClock())` for `rehearse`."""

    def __init__(self, start: float = 0.0) -> None:
        require_number("VirtualClock.start", start, at_least=0)
        self.seconds = float(start)

    def __call__(self) -> float:
        """Seconds since 1970."""
        return self.seconds

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        require_number("the time to pass", seconds, at_least=0)
        self.seconds += seconds
