"""A transaction of PostgreSQL: statements by name, through a pipeline."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from threading import Lock
from typing import TYPE_CHECKING

from sameluck.live.databases.base import (
    PARAMETER,
    Row,
    SqlValue,
    Values,
    deleted,
    for_postgres,
    statements,
)
from sameluck.live.databases.deadline import seconds_left
from sameluck.live.databases.pipeline import Pipeline

if TYPE_CHECKING:
    from psycopg import Connection

MOST_ROWS, FEW_ROWS = 5_000, 20  # of one statement; rows that are sent one by one
SOME_ROWS = (
    2_000  # read at once: psycopg holds the interpreter, and with it the calls of users, meanwhile
)
TIMEOUT = 5.0  # seconds to wait for a connection, or for a lock of this process
_ARRAYS = {int: "bigint[]", float: "float8[]", str: "text[]"}
_PLAIN = re.compile(r"(INSERT INTO \w+ \([\w, ]+\))\s+VALUES \(((?::\w+(?:, )?)+)\)")


def _by_columns(name: str, rows: list[Values]) -> tuple[bytes, dict[str, list[SqlValue]]] | None:
    """An INSERT of parameters as one of arrays, which is many times faster; None for any other statement."""
    plain = _PLAIN.fullmatch(_NAMED[name])
    if plain is None:
        return None
    columns = {each: [row[each] for row in rows] for each in re.findall(r"\w+", plain[2])}
    arrays = (f"%({each})s::{_ARRAYS[type(values[0])]}" for each, values in columns.items())
    return f"{plain[1]} SELECT * FROM unnest({', '.join(arrays)})".encode(), columns


_NAMED = statements()
_SQL = {name: PARAMETER.sub(r"%(\1)s", for_postgres(sql)).encode() for name, sql in _NAMED.items()}


class Again(Exception):
    """Another call of this process holds a lock for too long; run the work again."""


class PostgresTransaction:
    """A connection in a transaction that runs statements by name."""

    def __init__(self, connection: Connection, pipeline: Pipeline) -> None:
        self._connection = connection
        self.pipeline = pipeline
        self.forget: list[Callable[[], object]] = []
        self.locked: list[Lock] = []

    @property
    def connection(self) -> Connection:
        """psycopg's, once every statement sent before has its result."""
        self.pipeline.leave()
        return self._connection

    def one(self, row: type[Row], name: str, /, **values: SqlValue) -> Row:  # noqa: D102
        (cells,) = self.pipeline.rows(name, [values])
        if cells is None:
            raise deleted()
        return tuple.__new__(row, cells)

    def find(self, row: type[Row], name: str, /, **values: SqlValue) -> Row | None:  # noqa: D102
        (cells,) = self.pipeline.rows(name, [values])
        return None if cells is None else tuple.__new__(row, cells)

    def find_many(self, row: type[Row], name: str, /, rows: Sequence[Values]) -> list[Row | None]:  # noqa: D102
        found = (
            self.pipeline.rows(name, rows) if rows else []
        )  # a pipeline has a statement at least
        return [None if cells is None else tuple.__new__(row, cells) for cells in found]

    def all(self, row: type[Row], name: str, /, **values: SqlValue) -> list[Row]:  # noqa: D102
        cursor = self.connection.execute(_SQL[name], values, binary=True)
        return [tuple.__new__(row, cells) for cells in cursor]

    def each(self, row: type[Row], name: str, /, **values: SqlValue) -> Iterator[Row]:  # noqa: D102
        cursor = self.connection.cursor(name="rows", binary=True)
        # Closed twice: the first time leaves it open if the connection is lost just then.
        with contextlib.closing(cursor), cursor:
            cursor.execute(_SQL[name], values)
            while rows := cursor.fetchmany(SOME_ROWS):
                yield from map(partial(tuple.__new__, row), rows)
                self.pipeline.leave()  # a statement may have been sent between two rows

    def run(self, name: str, /, **values: SqlValue) -> None:  # noqa: D102
        self.pipeline.send(name, values)

    def many(self, name: str, /, rows: Iterable[Values]) -> None:  # noqa: D102
        following = iter(rows)
        while some := list(islice(following, MOST_ROWS)):
            together = _by_columns(name, some) if len(some) > FEW_ROWS else None
            if together:
                self.connection.execute(*together)
                continue
            for row in some:
                self.pipeline.send(name, row)

    def lock(self, code: str) -> None:  # noqa: D102
        self.pipeline.send("lock", {"number": lock_number(code)})

    def try_lock(self, codes: Sequence[str]) -> list[bool]:  # noqa: D102
        if not codes:  # a pipeline has a statement at least
            return []
        found = self.pipeline.rows("try_lock", [{"number": lock_number(code)} for code in codes])
        return [cells == (True,) for cells in found]

    def hold(self, lock: Lock) -> None:  # noqa: D102
        if lock in self.locked:
            return
        if not lock.acquire(timeout=seconds_left(TIMEOUT)):
            raise Again("another call of this process is busy with the same replication")
        self.locked.append(lock)

    def undo(self, forget: Callable[[], object]) -> None:  # noqa: D102
        self.forget.append(forget)

    def end(self, *, committed: bool) -> None:  # noqa: D102
        if not committed:
            for forget in self.forget:
                forget()
        for lock in self.locked:
            lock.release()
        self.forget, self.locked = [], []


def lock_number(code: str) -> int:
    """The number of the advisory lock of a hash."""
    return int(code[:15], 16)
