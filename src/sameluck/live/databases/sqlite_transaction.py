"""Statements by name on a SQLite connection."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from threading import Lock
from typing import TypeVar

from sameluck.live.databases.base import Row, SqlValue, Transaction, Values, Work, deleted
from sameluck.live.databases.statements import numbered, statements

T = TypeVar("T")


# Parameters by number: SQLite binds them faster than by name.
_STATEMENTS = {name: numbered(source.text, "?") for name, source in statements().items()}


class SqliteTransaction:
    """A connection that runs statements by name."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.forget: list[Callable[[], object]] = []
        self.deferred: list[Callable[[], object]] = []

    def run_work(self, work: Work[T]) -> T:
        """The result of work, once what it has deferred is done."""
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

    def fetch_one(self, row: type[Row], name: str, /, **values: SqlValue) -> Row:
        cursor = self._execute(name, values)
        cells = cursor.fetchone()
        cursor.close()  # a statement that is not finished would keep the transaction open
        if cells is None:
            raise deleted()
        return tuple.__new__(row, cells)

    def find(self, row: type[Row], name: str, /, **values: SqlValue) -> Row | None:
        cursor = self._execute(name, values)
        cells = cursor.fetchone()
        cursor.close()
        return None if cells is None else tuple.__new__(row, cells)

    def find_many(self, row: type[Row], name: str, /, rows: Sequence[Values]) -> list[Row | None]:
        return [self.find(row, name, **values) for values in rows]

    def fetch_all(self, row: type[Row], name: str, /, **values: SqlValue) -> list[Row]:
        return [tuple.__new__(row, cells) for cells in self._execute(name, values)]

    def iterate(self, row: type[Row], name: str, /, **values: SqlValue) -> Iterator[Row]:
        return map(partial(tuple.__new__, row), self._execute(name, values))

    def execute(self, name: str, /, **values: SqlValue) -> None:
        self._execute(name, values)

    def execute_many(self, name: str, /, rows: Iterable[Values]) -> None:
        self._flush()
        statement = _STATEMENTS[name]
        self.connection.executemany(statement.text, map(statement.in_order, rows))

    def lock(self, codes: Sequence[str]) -> None:
        """There is one writer."""

    def try_lock(self, codes: Sequence[str]) -> list[bool]:
        """There is one writer."""
        return [True] * len(codes)

    def hold_lock(self, lock: Lock) -> None:
        """There is one writer."""

    def on_rollback(self, forget: Callable[[], object]) -> None:
        self.forget.append(forget)

    def defer(self, write: Callable[[], object]) -> None:
        self.deferred.append(write)


_: type[Transaction] = SqliteTransaction
