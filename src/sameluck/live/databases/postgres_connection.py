"""psycopg connections that respect the deadline of a call."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import suppress
from typing import Any, TypeVar

import psycopg
from psycopg.adapt import Dumper
from psycopg.types.numeric import Int8BinaryDumper

from sameluck.live.calls.timing import deadline
from sameluck.live.databases.postgres_errors import DeadlineExceeded

T = TypeVar("T")

CHECK_SECONDS = 0.1  # between two checks for Ctrl-C while a connection waits
GRACE_SECONDS = 0.02  # after the deadline, for the server's own report of the timeout
_NEVER = float("inf")


class DeadlineConnection(psycopg.Connection[Any]):
    """A connection whose waits end at the deadline of the call; psycopg itself waits for ever."""

    last_error: psycopg.Error | None = None

    def wait(self, gen: Generator[Any, Any, T], *arguments: Any, **settings: Any) -> T:
        """Wait like psycopg, but raise `DeadlineExceeded` if the server does not answer in time."""
        if (moment := deadline()) < _NEVER:
            until = moment + GRACE_SECONDS
            gen = _until(until, gen)
            settings["interval"] = min(CHECK_SECONDS, max(0.001, until - time.monotonic()))
        try:
            return super().wait(gen, *arguments, **settings)
        except psycopg.OperationalError as error:
            # psycopg reports only the lost connection. The server sent its reason before, as a notice.
            raise self.last_error or error from None

    def note(self, notice: psycopg.errors.Diagnostic) -> None:
        """Keep the error with which the server ends the connection."""
        if notice.severity_nonlocalized == "FATAL" and notice.sqlstate:
            with suppress(KeyError):  # a code that psycopg does not know
                self.last_error = psycopg.errors.lookup(notice.sqlstate)(
                    notice.message_primary or ""
                )


def _until(moment: float, generator: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
    """Run a generator of psycopg until a moment of `time.monotonic`; then raise `DeadlineExceeded`."""
    try:
        event = next(generator)
        while True:
            ready = yield event
            event = generator.send(ready)
            if not ready and time.monotonic() >= moment:
                raise DeadlineExceeded("the server did not answer in time")
    except StopIteration as end:
        return end.value


class ArrayDumper(Dumper):
    """Text form of a list of numbers or texts.

    psycopg's own dumper looks for the type of every item, which takes five times as long.
    """

    def dump(self, obj: list[Any]) -> bytes:
        return b"{%b}" % b",".join(map(_item, obj))


def _item(value: object) -> bytes:
    if value is None:
        return b"NULL"
    if isinstance(value, str):
        if "\0" in value:
            raise psycopg.DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes")
        return b'"%b"' % value.replace("\\", "\\\\").replace('"', '\\"').encode()
    return repr(value).encode()


def configure(connection: DeadlineConnection) -> None:
    """Set the format of parameters and keep every statement prepared."""
    connection.add_notice_handler(connection.note)
    # By default the type of an integer depends on its size, and a statement is prepared once per type.
    connection.adapters.register_dumper(int, Int8BinaryDumper)
    connection.adapters.register_dumper(list, ArrayDumper)
    connection.prepared_max = 1_000
