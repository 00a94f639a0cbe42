"""`CircuitBreaker`: calls of a store that is away fail at once."""

from __future__ import annotations

import logging
import threading
import time

from sameluck.errors import Closed, Misconfigured, Unavailable
from sameluck.live.calls.deadline import time_limit

FAILURES = 3  # in a row, until calls are no longer tried
SECONDS = 1.0  # until one call is tried again
QUIET_SECONDS = 10.0  # after a recovery was logged, until a failure is: an overloaded store answers every other call

_log = logging.getLogger("sameluck")


class Attempt(time_limit):
    """One call of a store, as a context manager. Every call of a user has one, so that few functions are called."""

    __slots__ = ("_breaker",)

    def __init__(self, breaker: CircuitBreaker, seconds: float | None) -> None:
        self._breaker, self._seconds = breaker, seconds

    def __enter__(self) -> None:
        if self._breaker.failures >= FAILURES:
            self._breaker.wait_for_turn()
        time_limit.__enter__(self)

    def __exit__(self, *raised: object) -> None:
        time_limit.__exit__(self)
        if raised[1] is not None or self._breaker.failures:
            self._breaker.end(raised[1])


class CircuitBreaker:
    """Whether a store is tried: after some failures in a row, by one call a second only, until one succeeds."""

    def __init__(self) -> None:
        self.failures = 0
        self._error: Unavailable | None = None
        self._closed_until = 0.0
        self._logged: type[Unavailable] | None = None  # the last failure since the store answered
        self._quiet_until = 0.0
        self._lock = threading.Lock()

    def call(self, seconds: float | None) -> Attempt:
        """A call of the store that has so many seconds; raises the last error again if it is not tried."""
        return Attempt(self, seconds)

    def end(self, error: object) -> None:
        """Note how a call ended: the error that it raised, or None."""
        if error is None:
            if self.failures:
                self._succeeded()
        elif isinstance(error, Unavailable) and not isinstance(error, Closed):
            self._failed(error)

    def wait_for_turn(self) -> None:
        """Raise the last error, unless there were few of them or it is time to try again."""
        if self.failures < FAILURES:
            return
        with self._lock:
            now = time.monotonic()
            if now >= self._closed_until:
                self._closed_until = now + SECONDS
            elif self._error is not None:
                raise type(self._error)(f"{self._error} (not tried again at once)")

    def _failed(self, error: Unavailable) -> None:
        now = time.monotonic()
        with self._lock:
            self.failures += 1
            self._error = error
            if self.failures == FAILURES:
                self._closed_until = now + SECONDS
            new = self._logged is not type(error) and now >= self._quiet_until
            if new:
                self._logged = type(error)
        if new:
            level = logging.ERROR if isinstance(error, Misconfigured) else logging.WARNING
            _log.log(level, "sameluck: %s", error)

    def _succeeded(self) -> None:
        with self._lock:
            self.failures, self._error = 0, None
            logged, self._logged = self._logged, None
            if logged is not None:
                self._quiet_until = time.monotonic() + QUIET_SECONDS
        if logged is not None:
            _log.warning("sameluck: the store answers again")
