"""What `sameluck live doctor` looks at beside the diagnostics: the database that ledgers are kept in."""

from __future__ import annotations

import sqlite3
from typing import Any

from sameluck.live.databases.base import Database, migrations
from sameluck.live.diagnostics import Check
from sameluck.live.store import Store

# Two processes that write (or checkpoint) at the same moment may corrupt a database in WAL mode: sqlite.org/wal.html
WAL_BUG = (3, 7, 0), (3, 51, 2)


def examine(store: Store) -> tuple[Check, ...]:
    """Whether the database can be relied upon."""
    database = store._database
    if type(database).__name__ == "Sqlite":
        return _sqlite(database)
    return _postgres(database)


def _check(name: str, verdict: str, sentence: str, **details: Any) -> Check:
    return Check(name, verdict, sentence, None, details)


def _rows(database: Database, sql: str) -> list[tuple[Any, ...]]:
    def work(transaction: Any) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in transaction.connection.execute(sql).fetchall()]

    return database.read(work)


def _one(database: Database, sql: str) -> Any:
    return _rows(database, sql)[0][0]


def _sqlite(database: Database) -> tuple[Check, ...]:
    return (
        _sqlite_version(sqlite3.sqlite_version_info),
        _journal(str(_one(database, "PRAGMA journal_mode"))),
        _integrity([str(row[0]) for row in _rows(database, "PRAGMA integrity_check")]),
        _schema(int(_one(database, "SELECT version FROM schema_version"))),
    )


def _sqlite_version(version: tuple[int, ...]) -> Check:
    words = ".".join(map(str, version))
    sentence = f"SQLite {words}."
    if WAL_BUG[0] <= version <= WAL_BUG[1]:
        sentence = (
            f"SQLite {words}. Versions 3.7.0 to 3.51.2 can corrupt a file that several processes write; sameluck "
            "lets one process write, so let no other program write to this file."
        )
    return _check("sqlite", "fine", sentence, version=words)


def _journal(mode: str) -> Check:
    if mode == "wal":
        return _check("journal", "fine", "Write-ahead log: readers hold up nobody.", mode=mode)
    if mode == "memory":
        return _check("journal", "watch", "In memory: gone when the program ends.", mode=mode)
    sentence = (
        f"The journal mode is {mode}, not wal: another program changed it, or the file system has no shared memory "
        "(a network drive). Put the file on a local disk and open it once for writing."
    )
    return _check("journal", "alarm", sentence, mode=mode)


def _integrity(found: list[str]) -> Check:
    if found == ["ok"]:
        return _check("integrity", "fine", "Every page and index of the file is sound.")
    sentence = (
        f"The file is damaged: {found[0]}. Stop writing, keep a copy, and restore a backup or try "
        "`sqlite3 FILE .recover`."
    )
    return _check("integrity", "alarm", sentence, found=found[:20])


def _schema(version: int) -> Check:
    newest = max(migrations())
    sentence = f"Schema version {version}, which this sameluck reads and writes."
    if version == newest:
        return _check("schema", "fine", sentence, version=version)
    sentence = f"Schema version {version}; this sameluck has {newest}. Open it for writing once."
    return _check("schema", "alarm", sentence, version=version)


def _postgres(database: Database) -> tuple[Check, ...]:
    version = str(_one(database, "SHOW server_version"))
    names = ("fsync", "full_page_writes", "synchronous_commit")
    settings = {name: str(_one(database, f"SHOW {name}")) for name in names}
    return (
        _check("postgresql", "fine", f"PostgreSQL {version}.", version=version),
        _durability(settings),
        _schema(int(_one(database, "SELECT version FROM schema_version"))),
    )


def _durability(settings: dict[str, str]) -> Check:
    off = [name for name, value in settings.items() if value == "off"]
    if not off:
        said = "What was acknowledged survives a crash of the server."
        return _check("durability", "fine", said, **settings)
    said = (
        f"{' and '.join(off)} {'is' if len(off) == 1 else 'are'} off: a crash of the server may lose what was "
        f"acknowledged. Turn {'it' if len(off) == 1 else 'them'} on in postgresql.conf."
    )
    return _check("durability", "alarm", said, **settings)
