"""A transaction of PostgreSQL: statements by name, through a pipeline."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from threading import Lock
from typing import TYPE_CHECKING

from sameluck.live.calls.deadline import seconds_left
from sameluck.live.databases.base import (
    PARAMETER,
    Row,
    SqlValue,
    Values,
    deleted,
    for_postgres,
    statements,
)
from sameluck.live.databases.pipeline import Pipeline

if TYPE_CHECKING:
    from psycopg import Connection

MOST_ROWS = 5_000  # of one statement
SOME_ROWS = (
    2_000  # read at once: psycopg holds the interpreter, and with it the calls of users, meanwhile
)
TIMEOUT = 5.0  # seconds to wait for a connection, or for a lock of this process
_SQL = {
    name: PARAMETER.sub(r"%(\1)s", for_postgres(sql)).encode() for name, sql in statements().items()
}


class RetryTransaction(Exception):
    """Another call of this process holds a lock for too long; run the work again."""


class PostgresTransaction:
    """A connection in a transaction that runs statements by name."""

    def __init__(self, connection: Connection, pipeline: Pipeline) -> None:
        self._connection = connection
        self._pipeline = pipeline
        self._deferred: list[Callable[[], object]] = []
        self.forget: list[Callable[[], object]] = []
        self.locked: list[Lock] = []

    @property
    def pipeline(self) -> Pipeline:
        """For the next statement, once what was deferred is done."""
        while self._deferred:
            self._deferred.pop(0)()
        return self._pipeline

    @property
    def connection(self) -> Connection:
        """psycopg's, once every statement sent before has its result."""
        self.pipeline.leave()
        return self._connection

    def fetch_one(self, row: type[Row], name: str, /, **values: SqlValue) -> Row:
        (cells,) = self.pipeline.rows(name, [values])
        if cells is None:
            raise deleted()
        return tuple.__new__(row, cells)

    def find(self, row: type[Row], name: str, /, **values: SqlValue) -> Row | None:
        (cells,) = self.pipeline.rows(name, [values])
        return None if cells is None else tuple.__new__(row, cells)

    def find_many(self, row: type[Row], name: str, /, rows: Sequence[Values]) -> list[Row | None]:
        found = (
            self.pipeline.rows(name, rows) if rows else []
        )  # a pipeline has a statement at least
        return [None if cells is None else tuple.__new__(row, cells) for cells in found]

    def fetch_all(self, row: type[Row], name: str, /, **values: SqlValue) -> list[Row]:
        cursor = self.connection.execute(_SQL[name], values, binary=True)
        return [tuple.__new__(row, cells) for cells in cursor]

    def iterate(self, row: type[Row], name: str, /, **values: SqlValue) -> Iterator[Row]:
        cursor = self.connection.cursor(name="rows", binary=True)
        # Closed twice: the first time leaves it open if the connection is lost just then.
        with contextlib.closing(cursor), cursor:
            cursor.execute(_SQL[name], values)
            while rows := cursor.fetchmany(SOME_ROWS):
                yield from map(partial(tuple.__new__, row), rows)
                self.pipeline.leave()  # a statement may have been sent between two rows

    def execute(self, name: str, /, **values: SqlValue) -> None:
        self.pipeline.send(name, values)

    def execute_many(self, name: str, /, rows: Iterable[Values]) -> None:
        following = iter(rows)
        while some := list(islice(following, MOST_ROWS)):
            self.pipeline.send_list(name, some)
            if len(some) == MOST_ROWS:
                self.pipeline.leave()  # or all that the server has not read yet would be kept in memory

    def lock(self, codes: Sequence[str]) -> None:
        self.pipeline.send_list("lock", [{"number": lock_number(code)} for code in codes])

    def try_lock(self, codes: Sequence[str]) -> list[bool]:
        if not codes:  # a pipeline has a statement at least
            return []
        found = self.pipeline.rows("try_lock", [{"number": lock_number(code)} for code in codes])
        return [cells == (True,) for cells in found]

    def hold_lock(self, lock: Lock) -> None:
        if lock in self.locked:
            return
        if not lock.acquire(timeout=seconds_left(TIMEOUT)):
            raise RetryTransaction("another call of this process is busy with the same replication")
        self.locked.append(lock)

    def on_rollback(self, forget: Callable[[], object]) -> None:
        self.forget.append(forget)

    def defer(self, write: Callable[[], object]) -> None:
        self._deferred.append(write)

    def end(self, *, committed: bool) -> None:
        if not committed:
            for forget in self.forget:
                forget()
        for lock in self.locked:
            lock.release()
        self.forget, self.locked = [], []


def lock_number(code: str) -> int:
    """The number of the advisory lock of a hash."""
    return int(code[:15], 16)
