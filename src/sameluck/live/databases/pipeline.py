"""Statements sent to PostgreSQL before the results of earlier ones have arrived.

A change of a ledger is a handful of small prepared statements, most of whose results are not used. psycopg's cursors
take three to four times as much of the client's time for them as its wrapper of libpq, which is used here.
"""

from __future__ import annotations

import select
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from sameluck.errors import Invalid, optional
from sameluck.live.calls.deadline import deadline
from sameluck.live.databases.base import (
    PARAMETER,
    SqlValue,
    Values,
    for_postgres,
    statements,
    values_of,
)
from sameluck.live.databases.list_statements import ARRAY, ASSIGN, LISTED, PLAN_BY_INDEX, for_list

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.pq.abc import PGresult

CHECK_MS = 100  # how often a wait for the server notices Ctrl-C
LATE_SECONDS = 0.02  # that a server has to report its own timeout
Cells: TypeAlias = tuple[SqlValue, ...]  # of one row
_Encoder: TypeAlias = Callable[[Any], Any]

_POLLIN, _POLLOUT = getattr(select, "POLLIN", 1), getattr(select, "POLLOUT", 4)


class DeadlineExceeded(Exception):
    """The server did not answer before the deadline of the call."""


class _SelectPoll:
    """`select.poll` of one socket by `select.select`, for platforms that have no poll (Windows)."""

    def register(self, socket: int, events: int) -> None:
        self._socket, self._events = socket, events

    modify = register

    def poll(self, milliseconds: float) -> None:
        reading = [self._socket] if self._events & _POLLIN else []
        writing = [self._socket] if self._events & _POLLOUT else []
        select.select(reading, writing, [], milliseconds / 1_000)


_NEVER = float("inf")
_new_poll = getattr(select, "poll", _SelectPoll)


class _Statement(NamedTuple):
    """A statement as PostgreSQL prepares it, and its parameters in their order."""

    name: bytes
    text: bytes
    values: Callable[[Values], Cells]


def _statement(name: str, sql: str) -> _Statement:
    text = for_postgres(sql)
    names = list(dict.fromkeys(PARAMETER.findall(text)))
    by_place = PARAMETER.sub(lambda match: f"${names.index(match[1]) + 1}", text)
    return _Statement(name.encode(), by_place.encode(), values_of(names))


_NAMED = {
    "time_out": "SELECT set_config('statement_timeout', :milliseconds, true)",  # it is prepared first
    **statements(),
    "BEGIN": "BEGIN ISOLATION LEVEL READ COMMITTED",  # whatever the server's default
    "BEGIN_READING": "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
    "COMMIT": "COMMIT",
    "plan_by_index": PLAN_BY_INDEX,
    "plan_again": "DISCARD PLANS",
    "clock": "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint",
    "lock": "SELECT pg_advisory_xact_lock(:number) IS NULL",
    "try_lock": "SELECT pg_try_advisory_xact_lock(:number)",
}
_STATEMENTS = {name: _statement(name, sql) for name, sql in _NAMED.items()}
_LISTS = {  # with the parameters that are arrays
    name: (_statement(f"{name}_list", sql), ARRAY.findall(sql))
    for name, sql in {"assign": ASSIGN, **{each: for_list(_NAMED[each]) for each in LISTED}}.items()
}


def _text(value: str) -> bytes:
    if "\0" in value:  # libpq would end the text there
        raise Invalid(f"PostgreSQL keeps no text with a NUL character, got {value!r}")
    return value.encode()


def _array(values: list[Any]) -> bytes:
    return b"{%b}" % b",".join([_ELEMENTS[type(value)](value) for value in values])


def _quoted(value: str) -> bytes:
    if "\\" in value or '"' in value:
        value = value.replace("\\", "\\\\").replace('"', '\\"')
    return b'"%b"' % _text(value)


class _ByType(dict[type, _Encoder]):
    """How values are encoded, by type; a subclass, such as NumPy's text, is encoded as its base."""

    def __missing__(self, kind: type) -> _Encoder:
        for base in kind.__mro__:
            if base in self:
                return self[base]
        raise KeyError(kind)


_ELEMENTS = _ByType(
    {
        int: lambda value: b"%d" % value,
        float: lambda value: float.__repr__(value).encode(),
        str: _quoted,
        bool: lambda value: b"t" if value else b"f",
        type(None): lambda _: b"NULL",
    }
)
_ENCODERS = _ByType({**_ELEMENTS, str: _text, list: _array, type(None): lambda _: None})
# The format of results. As text a float would have only as many digits as the server is configured to show.
_BINARY = 1
_DECODERS: dict[int, Callable[[bytes], SqlValue]] = {  # by PostgreSQL's number of a type
    16: lambda cell: cell == b"\1",
    20: lambda cell: int.from_bytes(cell, "big", signed=True),
    23: lambda cell: int.from_bytes(cell, "big", signed=True),
    25: bytes.decode,
    701: lambda cell: struct.unpack(">d", cell)[0],
}


class Pipeline:
    """The statements of one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._psycopg = optional("psycopg", "postgres")
        self._connection = connection.pgconn
        self._ready = _new_poll()
        self._entered = False

    def prepare(self, seconds: float | None = None) -> None:
        """Prepare every statement on the connection, once; the server gives up after so many seconds."""
        self._enter()
        for statement in (*_STATEMENTS.values(), *(each for each, _ in _LISTS.values())):
            self._connection.send_prepare(statement.name, statement.text)
            if statement.name == b"time_out":
                self.time_out(seconds)
        self.leave()

    def time_out(self, seconds: float | None) -> None:
        """Let the server give up after so many seconds: a wait for a lock must not outlive the call."""
        if seconds is not None:
            self.send("time_out", {"milliseconds": str(round(1_000 * seconds) + 1)})

    def send(self, name: str, values: Values) -> None:
        """Run a statement without waiting for its result."""
        self._send(_STATEMENTS[name], values)

    def send_list(self, name: str, rows: Sequence[Values]) -> None:
        """Run a statement for several rows of parameters: at once if it has a form for lists."""
        if len(rows) > 1 and name in _LISTS:
            statement, arrays = _LISTS[name]
            columns: dict[str, Any] = {each: [row[each] for row in rows] for each in arrays}
            self._send(statement, {**rows[0], **columns})
        else:
            for values in rows:
                self.send(name, values)

    def _send(self, statement: _Statement, values: Mapping[str, Any]) -> None:
        self._enter()
        encoded = [_ENCODERS[type(value)](value) for value in statement.values(values)]
        self._connection.send_query_prepared(statement.name, encoded, result_format=_BINARY)

    def rows(self, name: str, rows: Sequence[Values]) -> list[Cells | None]:
        """The first row of a statement's result, or None, for each of several rows of parameters."""
        self.send_list(name, rows)
        results, error = self._results()
        if error is not None:
            raise error
        if len(rows) == 1 or name not in _LISTS:
            return [_row(result, 0) for result in results[len(results) - len(rows) :]]
        found: list[Cells | None] = [None] * len(rows)
        for number in range(results[-1].ntuples):
            place, *cells = _cells(results[-1], number)
            found[place - 1] = tuple(cells)
        return found

    def leave(self) -> None:
        """Wait for every result; then psycopg's cursors may be used."""
        if not self._entered:
            return
        _, error = self._results()
        self._connection.exit_pipeline_mode()
        self._entered = False
        if error is not None:
            raise error

    def abandon(self) -> None:
        """As `leave`, but only a lost connection raises."""
        try:
            self.leave()
        except self._psycopg.DatabaseError:
            if self._entered:
                raise

    def _enter(self) -> None:
        if not self._entered:
            self._ready.register(self._connection.socket, _POLLIN)
            self._connection.enter_pipeline_mode()
            self._entered = True

    def _results(self) -> tuple[list[PGresult], Exception | None]:
        """The results of the statements sent, and the first error of any.

        A sync rather than a flush: the server then considers a client that stops idle in its transaction, and
        `idle_in_transaction_session_timeout` can release its locks.
        """
        self._connection.pipeline_sync()
        self._flush()
        results: list[PGresult] = []
        first: Exception | None = None
        synced = self._psycopg.pq.ExecStatus.PIPELINE_SYNC
        while True:
            try:
                result = self._result()
            except self._psycopg.DatabaseError as error:
                first = first or error
                if self._connection.status == self._psycopg.pq.ConnStatus.BAD:
                    raise first  # noqa: B904 the server's last error rather than that the connection is lost
                continue
            if result is None:
                continue
            if result.status == synced:
                return results, first
            results.append(result)

    def _result(self) -> PGresult | None:
        """The next result, or None between two statements; an error raises."""
        # libpq would wait too, but block every other thread meanwhile.
        while self._connection.is_busy():
            self._poll()
            self._connection.consume_input()  # even after a timeout: under TLS bytes may have been read before
        result, status = self._connection.get_result(), self._psycopg.pq.ExecStatus
        if result is None:
            if self._connection.status == self._psycopg.pq.ConnStatus.BAD:
                raise self._psycopg.OperationalError("the connection was lost")
        elif result.status in (status.FATAL_ERROR, status.PIPELINE_ABORTED):
            raise self._psycopg.errors.error_from_result(result)
        return result

    def _flush(self) -> None:
        """Send what was not sent yet."""
        connection = self._connection
        while connection.flush():
            self._ready.modify(connection.socket, _POLLIN | _POLLOUT)
            self._poll()
            self._ready.modify(connection.socket, _POLLIN)
            connection.consume_input()

    def _poll(self) -> None:
        milliseconds: float = CHECK_MS
        if (moment := deadline()) < _NEVER:
            left = moment + LATE_SECONDS - time.monotonic()
            if left <= 0:
                raise DeadlineExceeded("the server did not answer in time")
            milliseconds = min(CHECK_MS, 1 + 1_000 * left)
        self._ready.poll(milliseconds)


def _row(result: PGresult, number: int) -> Cells | None:
    return tuple(_cells(result, number)) if number < result.ntuples else None


def _cells(result: PGresult, number: int) -> list[Any]:
    places = range(result.nfields)
    cells = [(result.get_value(number, place), result.ftype(place)) for place in places]
    return [None if cell is None else _DECODERS[kind](cell) for cell, kind in cells]
