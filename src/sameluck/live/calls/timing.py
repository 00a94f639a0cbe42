"""Time of a store's calls: the clock, the deadline of a call, looks that may take long, and the circuit breaker.

Databases respect the deadline wherever they wait.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from sameluck.errors import Closed, Misconfigured, Unavailable

MAX_FAILURES = 3  # in a row, until calls are no longer tried
RETRY_SECONDS = 1.0  # until one call is tried again
# After a recovery was logged, until a failure is logged: an overloaded store answers every other call.
QUIET_SECONDS = 10.0

_deadline: ContextVar[float] = ContextVar("deadline", default=float("inf"))  # of time.monotonic
_is_look: ContextVar[bool] = ContextVar("is_look", default=False)
_log = logging.getLogger("sameluck")


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
        return time.monotonic() + self._difference

    def ahead(self) -> float:
        """Return the seconds by which this machine's clock is ahead."""
        return time.time() - self.now()


class time_limit:  # noqa: N801 a context manager
    """Set a deadline in some seconds for the calls inside, unless there is an earlier one; None sets no deadline.

    With a circuit breaker, entering raises the last error if the call is not tried. It is a class with slots, and not
    a generator, because every call of a user has one: it costs few function calls.
    """

    __slots__ = ("_breaker", "_seconds", "_token")

    def __init__(self, seconds: float | None, breaker: CircuitBreaker | None = None) -> None:
        self._seconds, self._breaker = seconds, breaker

    def __enter__(self) -> None:
        if self._breaker is not None and self._breaker.failures >= MAX_FAILURES:
            self._breaker.wait_for_turn()
        if self._seconds is not None:
            earlier, moment = _deadline.get(), time.monotonic() + self._seconds
            self._token = _deadline.set(moment if moment < earlier else earlier)

    def __exit__(self, _: object, error: object, *__: object) -> None:
        if self._seconds is not None:
            _deadline.reset(self._token)
        if self._breaker is not None and (error is not None or self._breaker.failures):
            self._breaker.end(error)


# Returns the deadline of the current call, in the time of `time.monotonic`.
deadline = _deadline.get


def seconds_left(limit: float = float("inf")) -> float:
    """Return the seconds until the deadline, at most `limit` and at least 0."""
    moment = _deadline.get()
    if moment == float("inf"):
        return limit
    return max(0.0, min(limit, moment - time.monotonic()))


@contextmanager
def looking() -> Iterator[None]:
    """Mark the reads inside as looks, which may take long; PostgreSQL makes them on connections of their own."""
    token = _is_look.set(True)
    try:
        yield
    finally:
        _is_look.reset(token)


# Returns True inside `looking`.
is_look = _is_look.get


class CircuitBreaker:
    """Decides which calls of a store are tried.

    After some failures in a row, one call a second is tried and the others fail at once, until a call succeeds.
    `failures` is read without the lock: a call that reads an old value is tried once more, or fails once more.
    """

    def __init__(self) -> None:
        self.failures = 0
        self._error: Unavailable | None = None
        self._next_try = 0.0
        self._logged: type[Unavailable] | None = None  # the last failure since the store answered
        self._quiet_until = 0.0
        self._lock = threading.Lock()

    def end(self, error: object) -> None:
        """Record the end of a call: the error that it raised, or None."""
        if error is None:
            if self.failures:
                self._record_success()
        elif isinstance(error, Unavailable) and not isinstance(error, Closed):
            self._record_failure(error)

    def wait_for_turn(self) -> None:
        """Raise the last error, unless there were few failures or it is time to try again."""
        if self.failures < MAX_FAILURES:
            return
        with self._lock:
            now = time.monotonic()
            if now >= self._next_try:  # moved on under the lock, so that one caller a second tries
                self._next_try = now + RETRY_SECONDS
            elif self._error is not None:
                raise type(self._error)(f"{self._error} (not tried again at once)")

    def _record_failure(self, error: Unavailable) -> None:
        now = time.monotonic()
        with self._lock:
            self.failures += 1
            self._error = error
            if self.failures == MAX_FAILURES:
                self._next_try = now + RETRY_SECONDS
            is_new = self._logged is not type(error) and now >= self._quiet_until
            if is_new:
                self._logged = type(error)
        if is_new:  # logged outside the lock: a handler may be slow
            level = logging.ERROR if isinstance(error, Misconfigured) else logging.WARNING
            _log.log(level, "sameluck: %s", error)

    def _record_success(self) -> None:
        with self._lock:
            self.failures, self._error = 0, None
            logged, self._logged = self._logged, None
            if logged is not None:
                self._quiet_until = time.monotonic() + QUIET_SECONDS
        if logged is not None:
            _log.warning("sameluck: the store answers again")
