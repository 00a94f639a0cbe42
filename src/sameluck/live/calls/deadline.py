"""Deadline of a call, which databases respect wherever they wait."""

from __future__ import annotations

import time
from contextvars import ContextVar

_deadline: ContextVar[float] = ContextVar("deadline", default=float("inf"))  # of time.monotonic


class time_limit:  # noqa: N801 a context manager, and faster than one from a generator
    """Set a deadline in some seconds for the calls inside, unless there is an earlier one; None sets no deadline."""

    __slots__ = ("_seconds", "_token")

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds

    def __enter__(self) -> None:
        if self._seconds is not None:
            earlier, moment = _deadline.get(), time.monotonic() + self._seconds
            self._token = _deadline.set(moment if moment < earlier else earlier)

    def __exit__(self, *_: object) -> None:
        if self._seconds is not None:
            _deadline.reset(self._token)


deadline = (
    _deadline.get
)  # returns the deadline of the current call, in the time of `time.monotonic`


def seconds_left(limit: float = float("inf")) -> float:
    """Return the seconds until the deadline, at most `limit` and at least 0."""
    moment = _deadline.get()
    if moment == float("inf"):
        return limit
    return max(0.0, min(limit, moment - time.monotonic()))
