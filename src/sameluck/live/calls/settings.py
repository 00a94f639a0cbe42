"""`StoreSettings`: the clock, the actor and the time limits of a store."""

from __future__ import annotations

import getpass
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from sameluck.errors import Invalid, shown
from sameluck.live.calls.timing import CircuitBreaker, SteadyClock, time_limit
from sameluck.live.options import Clock
from sameluck.validation import require_name, require_number

SECOND = 1_000_000  # microseconds
ACTOR_VARIABLE = "SAMELUCK_ACTOR"
MAX_TIME = 6e10  # seconds from 1970: the year 68, or 3871; milliseconds are beyond
ASSIGN_SECONDS, CALL_SECONDS = 0.25, 5.0  # time limits of `assign`, and of other calls for a user

_actor: ContextVar[str | None] = ContextVar("actor", default=None)


@contextmanager
def acting_as(actor: str) -> Iterator[None]:
    """Record changes in the name of another actor than the store's, such as the caller of a service."""
    token = _actor.set(actor)
    try:
        yield
    finally:
        _actor.reset(token)


def default_actor() -> str:
    """Return the variable SAMELUCK_ACTOR, or this process's user and host."""
    name = os.environ.get(ACTOR_VARIABLE)
    if name:
        require_name(ACTOR_VARIABLE, name)
        return name
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # the user has no name, as in a container
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"[:200]


def this_process() -> str:
    """Return the host and the number of this process, for messages and the list of clocks."""
    return f"{socket.gethostname()}:{os.getpid()}"


@dataclass(frozen=True)
class StoreSettings:
    """Settings of one store."""

    clock: Clock
    store_actor: str  # for the history, unless `acting_as` names another actor
    timeout: float | None  # seconds that `assign` may take; None for no deadline
    breaker: CircuitBreaker
    # The database's clock, which this machine's clock is compared with; None if the caller passed a clock.
    machine: SteadyClock | None = None

    @property
    def actor(self) -> str:
        """Actor of the current call's changes."""
        return _actor.get() or self.store_actor

    @property
    def patience(self) -> float | None:
        """Seconds that calls for a user other than `assign` may take; None for no deadline."""
        return None if self.timeout is None else max(self.timeout, CALL_SECONDS)

    def in_time(self) -> time_limit:
        """Return a time limit of `patience`; unlike the circuit breaker's, it tries every call."""
        return time_limit(self.patience)

    def after_fork(self) -> None:
        """Drop the parent's circuit breaker, whose lock may be held there."""
        object.__setattr__(self, "breaker", CircuitBreaker())

    def now(self) -> int:
        seconds = self.clock()
        try:
            if abs(seconds) < MAX_TIME:
                return round(seconds * SECOND)
        except (OverflowError, TypeError, ValueError):
            pass
        raise Invalid(
            f"clock must return seconds since 1970, got {shown(seconds)}; correct the clock"
        )


def check_settings(clock: Clock, actor: str | None, timeout: float | None) -> None:
    if not callable(clock):
        raise Invalid(
            f"clock must be a function that returns seconds since 1970, got {shown(clock)}"
        )
    if actor is not None:
        require_name("actor", actor)
    if timeout is not None:
        require_number("timeout", timeout, above=0)


def store_settings(
    database: object, clock: Clock, actor: str | None, timeout: float | None
) -> StoreSettings:
    """Return the settings of a store, with the database's clock unless a clock other than `time.time` is passed."""
    machine: SteadyClock | None = None
    if clock is time.time:
        machine = getattr(database, "clock", None)
    if machine is not None:
        clock = machine.now
    who = default_actor() if actor is None else actor
    return StoreSettings(clock, who, timeout, CircuitBreaker(), machine)
