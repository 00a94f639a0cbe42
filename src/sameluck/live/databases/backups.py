"""Backups: a consistent copy of a serving store in one SQLite file, and a store restored from a copy."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from sameluck.errors import Conflict, Invalid, Unknown, shown
from sameluck.files import draft_of, file_path
from sameluck.live.databases import open_database
from sameluck.live.databases.base import Database
from sameluck.live.databases.sqlite import migrate, schema_version
from sameluck.live.databases.statements import migrations

# A row refers only to rows of tables before its own. Rows numbered by the database get new numbers in the same order.
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
BATCH_ROWS = 10_000


def write_backup(database: Database, file: str | os.PathLike[str]) -> None:
    """Write a consistent snapshot of the whole database to a new SQLite file."""
    path = file_path("backup", file)
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
            copy.execute("PRAGMA journal_mode = DELETE")  # a single file, without a log


def _copy_rows(connection: Any, copy: sqlite3.Connection) -> None:
    migrate(copy, None)
    for table in TABLES:
        columns = _columns(copy, table)
        with connection.cursor(name=f"backup_{table}") as cursor:
            cursor.itersize = BATCH_ROWS
            cursor.execute(_select(table, columns))
            copy.executemany(_insert(table, columns, "?"), cursor)


def restore(backup: str | os.PathLike[str], url: str) -> None:
    """Make a new store from a backup.

    Args:
        backup: The file that `Store.backup` wrote.
        url: The new store, as for `open`: a SQLite file that does not exist yet, or an empty PostgreSQL database.
    """
    source = file_path("restore", backup)
    if isinstance(url, str) and url.startswith("sqlite:///") and len(url) > len("sqlite:///"):
        path = url.removeprefix("sqlite:///").partition("?")[0]
        _restore_file(source, file_path("restore", path))
        open_database(url, read_only=False, connections=1).close()  # migrates an older schema
        return
    with closing(open_database(url, read_only=False, connections=1)) as database:
        if database.kind == "sqlite":
            raise Invalid("a store in memory ends with the program; restore into a file")
        _restore_rows(source, database)


def _restore_file(backup: Path, path: Path) -> None:
    with _opened(backup) as source, _new_file(path) as copy:
        if path.exists():
            message = f"{str(path)!r} exists already; move it away first, with its -wal and -shm"
            raise Conflict(message, "name_taken")
        _check_alone(path)
        with _naming(path):
            source.backup(copy)


@contextmanager
def _new_file(path: Path) -> Iterator[sqlite3.Connection]:
    """Yield a new SQLite file, which is moved to the path when it is complete and removed after an error."""
    with draft_of(path) as draft, closing(sqlite3.connect(draft, check_same_thread=False)) as copy:
        # A journal file would be left behind on a full disk.
        copy.execute("PRAGMA journal_mode = MEMORY")
        yield copy


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Name the file that cannot be written: SQLite's message does not say which of two it is."""
    try:
        yield
    except sqlite3.Error as error:
        raise Invalid(f"cannot write {shown(str(path))}: {error}") from None


def _check_alone(path: Path) -> None:
    """Raise `Conflict` if an earlier file has left its log here: SQLite would apply the log to the new file."""
    for suffix in ("-wal", "-shm", "-journal"):
        log = Path(f"{os.path.realpath(path)}{suffix}")
        if log.exists():
            raise Conflict(
                f"{str(log)!r} belongs to the database that was at {str(path)!r}; move it to that database, or "
                "delete it if the database is not needed",
                "name_taken",
            )


def _restore_rows(backup: Path, database: Database) -> None:
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
                    "the database has experiments; restore into an empty database", "name_taken"
                )
            for table in TABLES:
                columns = _columns(source, table)
                rows = source.execute(_select(table, columns))
                while batch := rows.fetchmany(BATCH_ROWS):
                    cursor.executemany(_insert(table, columns, "%s"), batch)

        database.write(work)


def _opened(backup: Path) -> closing[sqlite3.Connection]:
    if not os.path.isfile(backup):  # unlike `Path.is_file`, False for a path that no file can have
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


def _select(table: str, columns: list[str]) -> str:
    order = " ORDER BY id" if table in NUMBERED else ""
    return f"SELECT {', '.join(columns)} FROM {table}{order}"


def _insert(table: str, columns: list[str], parameter: str) -> str:
    parameters = ", ".join([parameter] * len(columns))
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({parameters})"
