"""Backups: a consistent copy of a store in one SQLite file, made while it serves, and a store from such a copy."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from sameluck.errors import Conflict, Invalid, Unknown, shown
from sameluck.files import draft_of, is_file
from sameluck.live.databases.base import Database
from sameluck.live.databases.sqlite import migrate, schema_version
from sameluck.live.databases.statements import migrations

# In the order in which rows may refer to others; those numbered by the database get new numbers, in the same order.
TABLES = (
    "experiment",
    "replication",
    "entry",
    "assignment",
    "reward_event",
    "answer",
    "api_key",
    "change",
    "disabled_arm",
    "arrival",
)
NUMBERED = ("reward_event", "change")
ROWS = 10_000  # at once


def write_backup(database: Database, path: Path) -> None:
    """Write the whole database, as it is at one moment, to a new SQLite file."""
    if database.kind == "sqlite" and getattr(database, "path", None) is None:
        raise Invalid("a store in memory has no backup; open a file instead")

    def work(transaction: Any) -> None:
        with _naming(path):
            if database.kind == "sqlite":
                transaction.connection.backup(copy)
            else:
                _copy_rows(transaction.connection, copy)

    with _new_file(path) as copy:
        if path.exists():
            raise Invalid(f"{str(path)!r} exists already; a backup is a new file")
        _check_alone(path)
        database.read(work)
        with _naming(path):
            copy.commit()
            copy.execute("PRAGMA journal_mode = DELETE")  # one file, nothing beside it


def _copy_rows(connection: Any, copy: sqlite3.Connection) -> None:
    migrate(copy, None)
    for table in TABLES:
        columns = _columns(copy, table)
        rows = _rows_of_server(connection, table, columns)
        places = ", ".join("?" * len(columns))
        copy.executemany(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places})", rows)


def restore_file(backup: Path, path: Path) -> None:
    """Make the SQLite file of a store from a backup."""
    with _opened(backup) as source, _new_file(path) as copy:
        if path.exists():
            raise Conflict(
                f"{str(path)!r} exists already; move it away first, with its -wal and -shm",
                "name_taken",
            )
        _check_alone(path)
        with _naming(path):
            source.backup(copy)


@contextmanager
def _new_file(path: Path) -> Iterator[sqlite3.Connection]:
    """A SQLite file that is at the path once it is whole; nothing is left if it cannot be written."""
    with draft_of(path) as draft, closing(sqlite3.connect(draft, check_same_thread=False)) as copy:
        copy.execute(
            "PRAGMA journal_mode = MEMORY"
        )  # a file beside it would be left on a full disk
        yield copy


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Name the file that cannot be written: SQLite does not say which of two it is."""
    try:
        yield
    except sqlite3.Error as error:
        raise Invalid(f"cannot write {shown(str(path))}: {error}") from None


def _check_alone(path: Path) -> None:
    """Raise `Conflict` for the log of a file that was at this path: SQLite would apply it to the new file."""
    for end in ("-wal", "-shm", "-journal"):
        left = Path(f"{os.path.realpath(path)}{end}")
        if left.exists():
            raise Conflict(
                f"{str(left)!r} is a part of the database that was at {str(path)!r}; move it to where that is now, "
                "or delete it if that is not needed",
                "name_taken",
            )


def restore_rows(backup: Path, database: Database) -> None:
    """Write the rows of a backup into an empty PostgreSQL database."""
    with _opened(backup) as source:
        version = schema_version(source)
        if version != max(migrations()):
            raise Invalid(
                f"{str(backup)!r} has schema version {version}; restore it as a SQLite file first, open that for "
                "writing, which migrates it, and back it up again"
            )

        def work(transaction: Any) -> None:
            cursor = transaction.connection.cursor()
            if cursor.execute("SELECT 1 FROM experiment LIMIT 1").fetchone():
                raise Conflict(
                    "the database has experiments; restore into an empty one", "name_taken"
                )
            for table in TABLES:
                columns = _columns(source, table)
                places = ", ".join(["%s"] * len(columns))
                sql = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places})"
                for rows in _in_parts(source.execute(_select(table, columns))):
                    cursor.executemany(sql, rows)

        database.write(work)


def _opened(backup: Path) -> closing[sqlite3.Connection]:
    if not is_file(backup):
        raise Unknown(f"no backup {shown(str(backup))}")
    source = sqlite3.connect(f"{backup.resolve().as_uri()}?mode=ro", uri=True)
    try:
        schema_version(source)
    except (Invalid, sqlite3.Error):
        source.close()
        raise Invalid(f"{str(backup)!r} is not a backup of sameluck") from None
    return closing(source)


def _columns(connection: sqlite3.Connection, table: str) -> list[str]:
    names = [str(row[1]) for row in connection.execute(f"PRAGMA table_info({table})")]
    return [name for name in names if not (name == "id" and table in NUMBERED)]


def _select(table: str, columns: Iterable[str]) -> str:
    order = " ORDER BY id" if table in NUMBERED else ""
    return f"SELECT {', '.join(columns)} FROM {table}{order}"


def _rows_of_server(
    connection: Any, table: str, columns: list[str]
) -> Iterator[tuple[object, ...]]:
    with connection.cursor(name=f"backup_{table}") as cursor:
        cursor.itersize = ROWS
        cursor.execute(_select(table, columns))
        yield from cursor


def _in_parts(rows: sqlite3.Cursor) -> Iterator[list[tuple[object, ...]]]:
    while some := rows.fetchmany(ROWS):
        yield some
