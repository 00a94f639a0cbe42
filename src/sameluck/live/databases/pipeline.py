"""Statements sent to PostgreSQL ahead of their answers.

A change of a ledger is a handful of small prepared statements, and few of their answers are looked at. psycopg's
cursors spend three to four times as much of the client's time on them as its wrapper of libpq, which is used here.
"""

from __future__ import annotations

import select
import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from sameluck.errors import Invalid, optional
from sameluck.live.databases.base import PARAMETER, Row, for_postgres, statements, values_of

CHECK_MS = 100  # so often a wait for the server looks whether somebody pressed Ctrl-C


class _Statement(NamedTuple):
    """A statement as PostgreSQL prepares it, and its parameters in their order."""

    name: bytes
    text: bytes
    values: Callable[[dict[str, Any]], Sequence[Any]]


def _statement(name: str, sql: str) -> _Statement:
    text = for_postgres(sql)
    names = list(dict.fromkeys(PARAMETER.findall(text)))
    by_place = PARAMETER.sub(lambda found: f"${names.index(found[1]) + 1}", text)
    return _Statement(name.encode(), by_place.encode(), values_of(names))


_STATEMENTS = {
    name: _statement(name, sql)
    for name, sql in {
        **statements(),
        "BEGIN": "BEGIN ISOLATION LEVEL READ COMMITTED",  # whatever the server's default
        "BEGIN_READING": "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
        "COMMIT": "COMMIT",
        "lock": "SELECT pg_advisory_xact_lock(:number)",
    }.items()
}


def _text(value: str) -> bytes:
    if "\0" in value:  # libpq would end the text there
        raise Invalid(f"PostgreSQL keeps no text with a NUL character, got {value!r}")
    return value.encode()


_WRITTEN: dict[type, Callable[[Any], bytes | None]] = {
    int: lambda value: b"%d" % value,
    float: lambda value: repr(value).encode(),
    str: _text,
    bool: lambda value: b"t" if value else b"f",
    type(None): lambda _: None,
}
# How answers come. As text a float would have only as many digits as the server is configured to show.
_BINARY = 1
_READ: dict[int, Callable[[bytes], Any]] = {  # by PostgreSQL's number for a type
    16: lambda cell: cell == b"\1",
    20: lambda cell: int.from_bytes(cell, "big", signed=True),
    23: lambda cell: int.from_bytes(cell, "big", signed=True),
    25: bytes.decode,
    701: lambda cell: struct.unpack(">d", cell)[0],
}


class Pipeline:
    """What one transaction says to the server."""

    def __init__(self, connection: Any) -> None:
        self._psycopg = optional("psycopg", "postgres")
        self._wire = connection.pgconn
        self._ready = select.poll()
        self._entered = False

    def prepare(self) -> None:
        """Make every statement known to the connection, once."""
        self._enter()
        for statement in _STATEMENTS.values():
            self._wire.send_prepare(statement.name, statement.text)
        self.leave()

    def send(self, name: str, values: dict[str, Any]) -> None:
        """Run a statement; its answer is looked at later."""
        self._enter()
        statement = _STATEMENTS[name]
        written = [_WRITTEN[type(value)](value) for value in statement.values(values)]
        self._wire.send_query_prepared(statement.name, written, result_format=_BINARY)

    def row(self, name: str, values: dict[str, Any]) -> Row | None:
        """The first row of a statement's answer, or None."""
        self.send(name, values)
        last, error = self._answers()
        if error is not None:
            raise error
        return _first_row(last)

    def leave(self) -> None:
        """Wait until every statement has been answered: from here on psycopg's cursors may be used."""
        if not self._entered:
            return
        _, error = self._answers()
        self._wire.exit_pipeline_mode()
        self._entered = False
        if error is not None:
            raise error

    def abandon(self) -> None:
        """Leave, whatever the answers; a lost connection raises."""
        try:
            self.leave()
        except self._psycopg.DatabaseError:
            if self._entered:
                raise

    def _enter(self) -> None:
        if not self._entered:
            self._ready.register(self._wire.socket, select.POLLIN)
            self._wire.enter_pipeline_mode()
            self._entered = True

    def _answers(self) -> tuple[Any, Exception | None]:
        """The answer to the last statement sent, and the first error of any.

        A sync rather than a flush: the server then takes a client that falls silent for idle in its transaction, and
        `idle_in_transaction_session_timeout` can free what it holds.
        """
        self._wire.pipeline_sync()
        last, first = None, None
        synced = self._psycopg.pq.ExecStatus.PIPELINE_SYNC
        while True:
            try:
                result = self._answer()
            except self._psycopg.DatabaseError as error:
                first = first or error
                if self._wire.status == self._psycopg.pq.ConnStatus.BAD:
                    raise first  # noqa: B904 what the server said last, rather than that it says no more
                continue
            if result is None:
                continue
            if result.status == synced:
                return last, first
            last = result

    def _answer(self) -> Any:
        """The next answer, or None between two statements; an error raises."""
        self._wait()
        result, status = self._wire.get_result(), self._psycopg.pq.ExecStatus
        if result is None:
            if self._wire.status == self._psycopg.pq.ConnStatus.BAD:
                raise self._psycopg.OperationalError("the connection was lost")
        elif result.status in (status.FATAL_ERROR, status.PIPELINE_ABORTED):
            raise self._psycopg.errors.error_from_result(result)
        return result

    def _wait(self) -> None:
        """Until there is an answer to read. libpq would wait too, but keep every other thread waiting with it."""
        wire = self._wire
        while wire.flush():
            self._ready.modify(wire.socket, select.POLLIN | select.POLLOUT)
            self._ready.poll(CHECK_MS)
            self._ready.modify(wire.socket, select.POLLIN)
            wire.consume_input()
        while wire.is_busy():
            self._ready.poll(CHECK_MS)
            wire.consume_input()  # even if nothing came: under TLS something may have been read before


def _first_row(result: Any) -> Row | None:
    if result.ntuples == 0:
        return None
    cells = [(result.get_value(0, place), result.ftype(place)) for place in range(result.nfields)]
    return tuple(None if cell is None else _READ[kind](cell) for cell, kind in cells)
