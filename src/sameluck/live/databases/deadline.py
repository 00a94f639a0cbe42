"""The deadline of a call, which databases ask for wherever they wait."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_deadline: ContextVar[float] = ContextVar("deadline", default=float("inf"))  # of time.monotonic


@contextmanager
def within(seconds: float | None) -> Iterator[None]:
    """Give what is called within so many seconds, or fewer if there is an earlier deadline; None sets no deadline."""
    if seconds is None:
        yield
        return
    token = _deadline.set(min(_deadline.get(), time.monotonic() + seconds))
    try:
        yield
    finally:
        _deadline.reset(token)


def deadline() -> float:
    """The moment of `time.monotonic` until which a call has time."""
    return _deadline.get()


def seconds_left(most: float = float("inf")) -> float:
    """Seconds until the deadline, at most `most` and at least 0."""
    moment = _deadline.get()
    if moment == float("inf"):
        return most
    return max(0.0, min(most, moment - time.monotonic()))
