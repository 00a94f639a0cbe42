"""A transaction of SQLite: statements by name, and messages for SQLite's errors."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from threading import Lock
from typing import TypeVar

from sameluck.errors import Unavailable
from sameluck.live.databases.base import Row, SqlValue, Values, Work, contradiction, deleted
from sameluck.live.databases.statements import numbered, statements

T = TypeVar("T")

# Parameters by number: SQLite binds them faster than by name.
_STATEMENTS = {name: numbered(source.text, "?") for name, source in statements().items()}


class SqliteTransaction:
    """A connection that runs statements by name; SQLite has one writer, so that locks are not needed."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.rollback_functions: list[Callable[[], object]] = []
        self.deferred: list[Callable[[], object]] = []

    def run_work(self, work: Work[T]) -> T:
        """Return the result of work after the writes that it has deferred."""
        result = work(self)
        self._flush()
        return result

    def _flush(self) -> None:
        while self.deferred:
            self.deferred.pop(0)()

    def _execute(self, name: str, values: Values) -> sqlite3.Cursor:
        if self.deferred:
            self._flush()
        statement = _STATEMENTS[name]
        return self.connection.execute(statement.text, statement.in_order(values))

    def fetch_one(self, row_class: type[Row], name: str, /, **values: SqlValue) -> Row:
        row = self.find(row_class, name, **values)
        if row is None:
            raise deleted()
        return row

    def find(self, row_class: type[Row], name: str, /, **values: SqlValue) -> Row | None:
        cursor = self._execute(name, values)
        cells = cursor.fetchone()
        cursor.close()  # an unfinished statement would keep the transaction open
        return None if cells is None else tuple.__new__(row_class, cells)

    def find_many(
        self, row_class: type[Row], name: str, /, rows: Sequence[Values]
    ) -> list[Row | None]:
        return [self.find(row_class, name, **values) for values in rows]

    def fetch_all(self, row_class: type[Row], name: str, /, **values: SqlValue) -> list[Row]:
        return [tuple.__new__(row_class, cells) for cells in self._execute(name, values)]

    def iterate(self, row_class: type[Row], name: str, /, **values: SqlValue) -> Iterator[Row]:
        return map(partial(tuple.__new__, row_class), self._execute(name, values))

    def execute(self, name: str, /, **values: SqlValue) -> None:
        self._execute(name, values)

    def execute_many(self, name: str, /, rows: Iterable[Values]) -> None:
        self._flush()
        statement = _STATEMENTS[name]
        self.connection.executemany(statement.text, map(statement.in_order, rows))

    def lock(self, hashes: Sequence[str]) -> None:
        pass

    def try_lock(self, hashes: Sequence[str]) -> list[bool]:
        return [True] * len(hashes)

    def hold_lock(self, lock: Lock) -> None:
        pass

    def on_rollback(self, function: Callable[[], object]) -> None:
        self.rollback_functions.append(function)

    def defer(self, write: Callable[[], object]) -> None:
        self.deferred.append(write)


_REMEDIES = {
    sqlite3.SQLITE_FULL: "; make room on the disk",
    sqlite3.SQLITE_IOERR: "; the disk fails, or its file system has become read-only: see the machine's log",
    sqlite3.SQLITE_READONLY: "; the file has become read-only: check its permissions and its file system",
}


def unavailable(error: BaseException) -> BaseException:
    """Return the error for callers of a transaction that an error has ended."""
    if isinstance(error, sqlite3.IntegrityError):
        return contradiction(error)
    if isinstance(error, sqlite3.Error):
        remedy = _REMEDIES.get(_code(error), "")
        return Unavailable(f"SQLite could not write, nothing was changed: {error}{remedy}")
    if isinstance(error, Exception):
        return error
    return Unavailable("interrupted; nothing was changed")


def is_transient(error: sqlite3.Error) -> bool:
    """Return True if opening may succeed later: the disk is full or fails, or another program holds the file."""
    return _code(error) in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_BUSY)


def _code(error: sqlite3.Error) -> int:
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF
