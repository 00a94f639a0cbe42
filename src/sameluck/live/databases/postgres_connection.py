"""psycopg connections that respect the deadline of a call and keep statements back until a result is needed.

A change of a ledger is about eight small prepared statements, and most of their results are not used. In psycopg's
pipeline mode every statement is a packet of its own, and the server wakes for each: a call then takes twice as much
of the client's processor time. libpq itself, which is used here, keeps statements in its buffer.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any, TypeVar

import psycopg
from psycopg.adapt import Transformer
from psycopg.pq import ConnStatus, ExecStatus, Format
from psycopg.pq.abc import PGconn, PGresult
from psycopg.types.numeric import Int8BinaryDumper
from psycopg.waiting import Wait

from sameluck.live.calls.timing import deadline
from sameluck.live.databases.base import Row
from sameluck.live.databases.postgres_errors import DeadlineExceeded

T = TypeVar("T")

CHECK_SECONDS = 0.1  # between two checks for Ctrl-C while a connection waits
GRACE_SECONDS = 0.02  # after the deadline, for the server's own report of the timeout
_NEVER = float("inf")
_statement_numbers = count()


class DeadlineConnection(psycopg.Connection[Any]):
    """A connection whose waits end at the deadline of the call; psycopg itself waits for ever."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.pool: Any = None  # that lends it
        self.planned_until = 0.0  # moment at which the plans of statements are discarded
        self._last_error: psycopg.Error | None = None
        self._statement_names: dict[str, bytes] = {}  # of prepared statements, by text
        self._unconfirmed: list[str] = []  # statements prepared since the last `receive`
        self._loaders = Transformer()
        self.add_notice_handler(self._note)
        # By default the type of an integer depends on its size, and a statement is prepared once per type.
        self.adapters.register_dumper(int, Int8BinaryDumper)

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
            raise self._last_error or error from None

    def _note(self, notice: psycopg.errors.Diagnostic) -> None:
        """Keep the error with which the server ends the connection."""
        if notice.severity_nonlocalized == "FATAL" and notice.sqlstate:
            with suppress(KeyError):  # a code that psycopg does not know
                error_class = psycopg.errors.lookup(notice.sqlstate)
                self._last_error = error_class(notice.message_primary or "")

    def send(self, sql: str, values: Iterable[object] = ()) -> None:
        """Run a prepared statement in pipeline mode; its result comes with the next `receive`."""
        if not self.pgconn.pipeline_status:
            self.pgconn.enter_pipeline_mode()
        name = self._statement_names.get(sql)
        if name is None:
            name = self._statement_names[sql] = b"sameluck_%d" % next(_statement_numbers)
            self._unconfirmed.append(sql)
            self.pgconn.send_prepare(name, sql.encode())
        encoded = [None if value is None else _encoded(value) for value in values]
        # As text a float would have only as many digits as the server is configured to show.
        self.pgconn.send_query_prepared(name, encoded, result_format=Format.BINARY)

    def receive(self) -> list[PGresult]:
        """Wait for the results of all statements sent, the last one's at the end; raise the first error.

        A sync, not a flush: after a sync the server counts a silent client as idle in its transaction, so
        `idle_in_transaction_session_timeout` can release the client's locks.
        """
        self.pgconn.pipeline_sync()
        try:
            results = self.wait(_results(self.pgconn))
        except psycopg.Error:
            # After an error the server skips the rest of the pipeline, perhaps before these were prepared.
            for sql in self._unconfirmed:
                del self._statement_names[sql]
            raise
        finally:
            self._unconfirmed.clear()
        return results

    def rows(self, row_class: type[Row], result: PGresult) -> list[Row]:
        self._loaders.set_pgresult(result)
        return self._loaders.load_rows(0, result.ntuples, partial(tuple.__new__, row_class))

    def leave_pipeline(self) -> None:
        """Wait for all results and leave pipeline mode, in which psycopg's cursors do not work."""
        if self.pgconn.pipeline_status:
            try:
                self.receive()
            finally:
                with suppress(psycopg.OperationalError):  # results are left after a deadline
                    self.pgconn.exit_pipeline_mode()


def _results(connection: PGconn) -> Generator[Wait, Any, list[PGresult]]:
    """Send what libpq has kept back and collect results up to the next sync."""
    results: list[PGresult] = []
    first_error: psycopg.Error | None = None
    try:
        # Read while sending: a server that cannot send its results stops reading, and both sides would wait for ever.
        while connection.flush():
            yield Wait.RW
            connection.consume_input()
        while True:
            while connection.is_busy():
                yield Wait.R
                connection.consume_input()
            result = connection.get_result()
            if result is None:  # between two statements, or the connection is lost
                if connection.status == ConnStatus.BAD:
                    connection.consume_input()  # raises
            elif result.status == ExecStatus.PIPELINE_SYNC:
                break
            elif result.status == ExecStatus.FATAL_ERROR:
                first_error = first_error or psycopg.errors.error_from_result(result)
            else:
                results.append(result)
    except psycopg.OperationalError as error:
        raise first_error or error from None
    if first_error:
        raise first_error
    return results


def _until(moment: float, generator: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
    """Run a generator of psycopg until a moment of `time.monotonic`; then raise `DeadlineExceeded`."""
    try:
        event = next(generator)
        while True:
            ready = yield event
            event = generator.send(ready)
            # `ready` is empty after an interval in which the server sent nothing; an answer that is there counts.
            if not ready and time.monotonic() >= moment:
                raise DeadlineExceeded("the server did not answer in time")
    except StopIteration as end:
        return end.value


def _encoded(value: object) -> bytes:
    """Return the text form of a parameter; the server knows its type."""
    if isinstance(value, str):
        if "\0" in value:  # libpq would end the text there
            raise psycopg.DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes")
        return value.encode()
    if isinstance(value, list):
        return b"{%b}" % b",".join(map(_encoded_item, value))
    return str(value).encode()


def _encoded_item(value: object) -> bytes:
    if value is None:
        return b"NULL"
    if isinstance(value, str):
        return b'"%b"' % _encoded(value.replace("\\", "\\\\").replace('"', '\\"'))
    return str(value).encode()
