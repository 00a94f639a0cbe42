"""`StoreSettings`: who uses a store, and by which clock."""

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
from sameluck.live.calls.breaker import CircuitBreaker
from sameluck.live.calls.clock import SteadyClock
from sameluck.live.calls.deadline import time_limit
from sameluck.live.options import Clock
from sameluck.validation import require_name, require_number

SECOND = 1_000_000  # microseconds
ACTOR_VARIABLE = "SAMELUCK_ACTOR"
FARTHEST = 6e10  # seconds from 1970: the year 68, or 3871; milliseconds are beyond
TIMEOUT, PATIENCE = 0.25, 5.0  # seconds: for an arm, and for the other calls

_actor: ContextVar[str | None] = ContextVar("actor", default=None)


@contextmanager
def acting_as(actor: str) -> Iterator[None]:
    """Record the changes made within in the name of somebody else than the store's actor: of a service's caller."""
    token = _actor.set(actor)
    try:
        yield
    finally:
        _actor.reset(token)


def default_actor() -> str:
    """The variable SAMELUCK_ACTOR, or the user and the host of this process."""
    name = os.environ.get(ACTOR_VARIABLE)
    if name:
        require_name(ACTOR_VARIABLE, name)
        return name
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container whose user has no name
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"[:200]


def this_process() -> str:
    """The host and the number of this process, for messages and the list of clocks."""
    return f"{socket.gethostname()}:{os.getpid()}"


@dataclass(frozen=True)
class StoreSettings:
    """How the experiments of one store are used."""

    clock: Clock
    store_actor: str  # for the history, unless `acting_as` names another
    timeout: float | None  # seconds that `assign` may take; None for no deadline
    breaker: CircuitBreaker
    machine: SteadyClock | None = (
        None  # by which this machine's clock is compared; None with a clock of the caller's
    )

    @property
    def actor(self) -> str:
        """Who makes the changes of this call."""
        return _actor.get() or self.store_actor

    @property
    def patience(self) -> float | None:
        """The seconds that the other calls for a user may take."""
        return None if self.timeout is None else max(self.timeout, PATIENCE)

    def in_time(self) -> time_limit:
        """A call within that many seconds, also while the circuit breaker keeps the calls of users back."""
        return time_limit(self.patience)

    def after_fork(self) -> None:
        """Forget the failures of the process that this one was forked from."""
        object.__setattr__(self, "breaker", CircuitBreaker())

    def now(self) -> int:
        """Microseconds since 1970."""
        seconds = self.clock()
        try:
            if abs(seconds) < FARTHEST:  # or a date would have no name
                return round(seconds * SECOND)
        except (OverflowError, TypeError, ValueError):
            pass
        raise Invalid(
            f"clock must return seconds since 1970, got {shown(seconds)}; correct the clock"
        )


def check_settings(clock: Clock, actor: str | None, timeout: float | None) -> None:
    """Raise `Invalid` for settings that no store can have."""
    if not callable(clock):
        raise Invalid(
            f"clock must be a function that returns seconds since 1970, got {shown(clock)}"
        )
    if actor is not None:
        require_name("actor", actor)
    if timeout is not None:
        require_number("timeout", timeout, above=0)


def timeout_of(clock: Clock, timeout: float | None) -> float | None:
    """The seconds that `assign` may take; None for no deadline."""
    if timeout is not None:
        return float(timeout)
    return TIMEOUT if clock is time.time else None


def store_settings(
    database: object, clock: Clock, actor: str | None, timeout: float | None
) -> StoreSettings:
    """The settings of a store; its clock is that of the database unless another than `time.time` is given."""
    machine: SteadyClock | None = None
    if clock is time.time:
        machine = getattr(database, "clock", None)
    if machine is not None:
        clock = machine.now
    who = default_actor() if actor is None else actor
    return StoreSettings(clock, who, timeout, CircuitBreaker(), machine)
