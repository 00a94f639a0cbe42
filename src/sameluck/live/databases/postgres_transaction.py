"""A transaction of PostgreSQL: statements by name, sent before the results of earlier statements have arrived.

A change of a ledger is about eight small prepared statements, and most of their results are not used. psycopg's
pipeline mode lets the transaction wait for the network only when it reads a result. Direct calls of libpq would halve
the client's processor time per call, but save only 8% of the service's.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from threading import Lock
from typing import Any, TypeAlias

import psycopg

from sameluck.live.calls.timing import seconds_left
from sameluck.live.databases.base import Row, SqlValue, Values, deleted
from sameluck.live.databases.statements import (
    Statement,
    for_postgres,
    numbered,
    numbered_for_list,
    statements,
)

Connection: TypeAlias = psycopg.Connection[Any]
Cursor: TypeAlias = psycopg.RawCursor[Any]

MAX_LIST_ROWS = 5_000  # in one statement
FETCHED_ROWS = (
    2_000  # at once: meanwhile psycopg holds the interpreter lock, which users' calls wait for
)
LOCK_SECONDS = 5.0  # to wait for a lock of this process
_SOURCES = {name: for_postgres(source.text) for name, source in statements().items()}
_STATEMENTS = {name: numbered(sql, "$") for name, sql in _SOURCES.items()}
_LISTS = {
    name: numbered_for_list(_SOURCES[name])
    for name, source in statements().items()
    if source.for_lists
}


class RetryTransaction(Exception):
    """Raised when another call of this process holds a lock for too long; the work is run again."""


class PostgresTransaction:
    """A connection in a transaction that runs statements by name."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._cursor: Cursor = psycopg.RawCursor(connection)
        self._pipeline: psycopg.Pipeline | None = None
        self._pipeline_mode = contextlib.ExitStack()
        self._deferred: list[Callable[[], object]] = []
        self._rollback_functions: list[Callable[[], object]] = []
        self._held_locks: list[Lock] = []

    @property
    def connection(self) -> Connection:
        """Return psycopg's connection after every statement sent so far has its result."""
        self._run_deferred()
        self.leave_pipeline()
        return self._connection

    def _run_deferred(self) -> None:
        while self._deferred:
            self._deferred.pop(0)()

    def _send(self, statement: Statement, values: Values) -> Cursor:
        """Send a statement; its result is in the cursor after the next `_sync`."""
        self._run_deferred()
        self._enter_pipeline()
        parameters = statement.in_order(values)
        return self._cursor.execute(statement.text, parameters, prepare=True, binary=True)

    def _sync(self) -> None:
        """Wait for every result; raise the first error.

        A sync, not a flush: after a sync the server counts a silent client as idle in its transaction, so
        `idle_in_transaction_session_timeout` can release the client's locks.
        """
        assert self._pipeline is not None
        self._pipeline.sync()

    def _enter_pipeline(self) -> None:
        if self._pipeline is None:
            self._pipeline = self._pipeline_mode.enter_context(self._connection.pipeline())

    def leave_pipeline(self) -> None:
        """Wait for every result and leave pipeline mode, in which server-side cursors do not work."""
        self._pipeline = None
        self._pipeline_mode.close()

    def find(self, row_class: type[Row], name: str, /, **values: SqlValue) -> Row | None:
        cursor = self._send(_STATEMENTS[name], values)
        self._sync()
        cells = cursor.fetchone()
        return None if cells is None else tuple.__new__(row_class, cells)

    def fetch_one(self, row_class: type[Row], name: str, /, **values: SqlValue) -> Row:
        row = self.find(row_class, name, **values)
        if row is None:
            raise deleted()
        return row

    def find_many(
        self, row_class: type[Row], name: str, /, rows: Sequence[Values]
    ) -> list[Row | None]:
        found: list[Row | None] = [None] * len(rows)
        if len(rows) > 1 and (name in _LISTS or f"{name}_list" in _STATEMENTS):
            cursor = self._send_list(name, rows)
            self._sync()
            for number, *cells in cursor:
                found[number - 1] = tuple.__new__(row_class, cells)
        else:
            for index, values in enumerate(rows):
                found[index] = self.find(row_class, name, **values)
        return found

    def _send_list(self, name: str, rows: Sequence[Values]) -> Cursor:
        """Send one statement for several rows of parameters; each parameter is an array."""
        if name in _LISTS:
            statement = _LISTS[name]
            columns: dict[str, Any] = {key: [row[key] for row in rows] for key in statement.names}
            return self._send(statement, columns)
        statement = _STATEMENTS[f"{name}_list"]
        # Arrays are named in the plural; the other parameters have the same value in every row.
        columns = {
            key: [row[key[:-1]] for row in rows] for key in statement.names if key not in rows[0]
        }
        return self._send(statement, {**rows[0], **columns})

    def fetch_all(self, row_class: type[Row], name: str, /, **values: SqlValue) -> list[Row]:
        cursor = self._send(_STATEMENTS[name], values)
        self._sync()
        return [tuple.__new__(row_class, cells) for cells in cursor]

    def iterate(self, row_class: type[Row], name: str, /, **values: SqlValue) -> Iterator[Row]:
        cursor = psycopg.RawServerCursor(self.connection, "rows")
        # Closed twice, since the first close does nothing if the connection is lost at that moment.
        with contextlib.closing(cursor), cursor:
            statement = _STATEMENTS[name]
            cursor.execute(statement.text, statement.in_order(values), binary=True)
            while rows := cursor.fetchmany(FETCHED_ROWS):
                yield from map(partial(tuple.__new__, row_class), rows)
                self.leave_pipeline()  # the caller may have sent a statement between two rows

    def execute(self, name: str, /, **values: SqlValue) -> None:
        self._send(_STATEMENTS[name], values)

    def execute_many(self, name: str, /, rows: Iterable[Values]) -> None:
        following = iter(rows)
        while batch := list(islice(following, MAX_LIST_ROWS)):
            if len(batch) > 1 and name in _LISTS:
                self._send_list(name, batch)
            else:
                for values in batch:
                    self.execute(name, **values)
            if len(batch) == MAX_LIST_ROWS:
                self._sync()  # bounds the memory for statements that the server has not read

    def lock(self, hashes: Sequence[str]) -> None:
        self.execute_many("lock", [{"number": lock_number(code)} for code in hashes])

    def try_lock(self, hashes: Sequence[str]) -> list[bool]:
        rows = [{"number": lock_number(code)} for code in hashes]
        return [row == (True,) for row in self.find_many(tuple, "try_lock", rows)]

    def hold_lock(self, lock: Lock) -> None:
        if lock in self._held_locks:
            return
        if not lock.acquire(timeout=seconds_left(LOCK_SECONDS)):
            raise RetryTransaction("another call of this process is busy with the same replication")
        self._held_locks.append(lock)

    def on_rollback(self, function: Callable[[], object]) -> None:
        self._rollback_functions.append(function)

    def defer(self, write: Callable[[], object]) -> None:
        self._deferred.append(write)

    def begin(self, command: str) -> None:
        """Send the command that begins the transaction."""
        self._enter_pipeline()
        self._cursor.execute(command)

    def roll_back(self) -> None:
        """Roll back after any error of a statement; raise only if the connection is lost."""
        with contextlib.suppress(psycopg.DatabaseError):
            self.leave_pipeline()
        self._connection.execute("ROLLBACK")

    def commit(self) -> None:
        """Run what was deferred, commit, and wait until every statement has its result."""
        self._run_deferred()
        self._cursor.execute("COMMIT")
        self.leave_pipeline()

    def end(self, *, committed: bool) -> None:
        """Call the functions of `on_rollback` unless committed, and release the locks of this process."""
        if not committed:
            for function in self._rollback_functions:
                function()
        for lock in self._held_locks:
            lock.release()
        self._rollback_functions, self._held_locks = [], []
        with contextlib.suppress(psycopg.Error):  # the connection may be closed
            self.leave_pipeline()


def lock_number(code: str) -> int:
    """Return the number of a hash's advisory lock."""
    return int(code[:15], 16)
