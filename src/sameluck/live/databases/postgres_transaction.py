"""A transaction of PostgreSQL: statements by name."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from threading import Lock
from typing import Any

import psycopg

from sameluck.live.calls.timing import seconds_left
from sameluck.live.databases.base import Row, SqlValue, Values, deleted
from sameluck.live.databases.postgres_connection import DeadlineConnection
from sameluck.live.databases.statements import (
    Statement,
    for_postgres,
    numbered,
    numbered_for_list,
    statements,
)

MAX_LIST_ROWS = 5_000  # in one statement
# At once: meanwhile psycopg holds the interpreter lock, which users' calls wait for.
FETCHED_ROWS = 2_000
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

    def __init__(self, connection: DeadlineConnection) -> None:
        self._connection = connection
        self._deferred: list[Callable[[], object]] = []
        self._rollback_functions: list[Callable[[], object]] = []
        self._held_locks: list[Lock] = []
        self.on_rollback, self.defer = self._rollback_functions.append, self._deferred.append

    @property
    def connection(self) -> DeadlineConnection:
        """Return psycopg's connection after every statement sent so far has its result."""
        self._run_deferred()
        self._connection.leave_pipeline()
        return self._connection

    def _run_deferred(self) -> None:
        # All are taken out first: a statement of a deferred write runs what is deferred before it.
        while deferred := self._deferred.copy():
            self._deferred.clear()
            for write in deferred:
                write()

    def _send(self, statement: Statement, values: Values) -> None:
        self._run_deferred()
        self._connection.send(statement.text, map(values.__getitem__, statement.names))

    def _receive(self, row_class: type[Row]) -> list[Row]:
        """Return the rows of the statement sent last."""
        return self._connection.rows(row_class, self._connection.receive()[-1])

    def find(self, row_class: type[Row], name: str, /, **values: SqlValue) -> Row | None:
        rows = self.fetch_all(row_class, name, **values)
        return rows[0] if rows else None

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
            self._send_list(name, rows)
            for number, *cells in self._receive(tuple):
                found[number - 1] = tuple.__new__(row_class, cells)
        else:
            for index, values in enumerate(rows):
                found[index] = self.find(row_class, name, **values)
        return found

    def _send_list(self, name: str, rows: Sequence[Values]) -> None:
        """Send one statement for several rows of parameters; each parameter is an array."""
        if name in _LISTS:
            statement = _LISTS[name]
            columns: dict[str, Any] = {key: [row[key] for row in rows] for key in statement.names}
        else:
            statement = _STATEMENTS[f"{name}_list"]
            # Arrays are named in the plural; the other parameters have the same value in every row.
            arrays = [key for key in statement.names if key not in rows[0]]
            columns = {**rows[0], **{key: [row[key[:-1]] for row in rows] for key in arrays}}
        self._send(statement, columns)

    def fetch_all(self, row_class: type[Row], name: str, /, **values: SqlValue) -> list[Row]:
        self._send(_STATEMENTS[name], values)
        return self._receive(row_class)

    def iterate(self, row_class: type[Row], name: str, /, **values: SqlValue) -> Iterator[Row]:
        cursor = psycopg.RawServerCursor(self.connection, "rows")
        # Closed twice, since the first close does nothing if the connection is lost at that moment.
        with contextlib.closing(cursor), cursor:
            text, names = _STATEMENTS[name]
            cursor.execute(text, [values[key] for key in names], binary=True)
            while rows := cursor.fetchmany(FETCHED_ROWS):
                yield from map(partial(tuple.__new__, row_class), rows)
                self._connection.leave_pipeline()  # the caller may have sent a statement between two rows

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
                self._connection.receive()  # bounds the memory for statements that the server has not read

    def lock(self, hashes: Sequence[str]) -> None:
        self.execute_many("lock", [{"number": lock_number(code)} for code in hashes])

    def try_lock(self, hashes: Sequence[str]) -> list[bool]:
        rows = [{"number": lock_number(code)} for code in hashes]
        return [row == (True,) for row in self.find_many(tuple, "try_lock", rows)]

    def hold_lock(self, lock: Lock) -> None:
        if lock in self._held_locks:
            return
        # Not for ever: the other call may wait for a row that this transaction has locked, and the server, which
        # does not know of this process's locks, would see no deadlock.
        if not lock.acquire(timeout=seconds_left(LOCK_SECONDS)):
            raise RetryTransaction("another call of this process is busy with the same replication")
        self._held_locks.append(lock)

    def roll_back(self) -> None:
        """Roll back after any error of a statement; raise only if the connection is lost."""
        with contextlib.suppress(psycopg.DatabaseError):  # the error that led here, again
            self._connection.leave_pipeline()
        self._connection.execute("ROLLBACK")

    def commit(self) -> None:
        """Run what was deferred, commit, and wait until every statement has its result."""
        self._run_deferred()
        # In the same packet as the last statements; after an error of theirs the server skips it.
        self._connection.send("COMMIT")
        self._connection.leave_pipeline()

    def end(self, *, committed: bool) -> None:
        """Call the functions of `on_rollback` unless committed, and release the locks of this process."""
        if not committed:
            for function in self._rollback_functions:
                function()
        # Last: another call of this process may use a cached state only after the functions have dropped it.
        for lock in self._held_locks:
            lock.release()


def lock_number(code: str) -> int:
    """Return the number of a hash's advisory lock."""
    # 60 bits, since the number is signed. Two units with the same number just wait for each other.
    return int(code[:15], 16)
