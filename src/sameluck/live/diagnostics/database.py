"""Checks of the database itself, for `sameluck live doctor`."""

from __future__ import annotations

import sqlite3
from typing import Any

from sameluck.live.databases.base import Database
from sameluck.live.databases.statements import migrations
from sameluck.live.diagnostics.check import Check
from sameluck.live.store import Store
from sameluck.wording import duration

# Two processes that write or checkpoint at the same time may corrupt a database in WAL mode: sqlite.org/wal.html
WAL_BUG = (3, 7, 0), (3, 51, 2)
SECOND = 1_000_000  # microseconds
DAY = 86_400 * SECOND
MAX_OFF_SECONDS = 2.0  # by which a clock may be wrong


def examine(store: Store) -> tuple[Check, ...]:
    """Check that the database is sound and keeps acknowledged rewards."""
    database = store.database
    checks = {"sqlite": _sqlite, "postgresql": _postgres}[database.kind]
    rows = _rows(database, "SELECT process, ahead_us, seen_us FROM process_clock ORDER BY process")
    clocks = {str(process): (int(ahead), int(seen)) for process, ahead, seen in rows}
    return (
        *checks(database),
        _schema(int(_one(database, "SELECT version FROM schema_version"))),
        *([_clocks(clocks)] if clocks else []),
    )


def _check(name: str, verdict: str, sentence: str, **details: object) -> Check:
    return Check(name, verdict, sentence, None, details)


def _rows(database: Database, sql: str) -> list[tuple[Any, ...]]:
    def work(transaction: Any) -> list[tuple[object, ...]]:
        return [tuple(row) for row in transaction.connection.execute(sql).fetchall()]

    return database.read(work)


def _one(database: Database, sql: str) -> str:
    return str(_rows(database, sql)[0][0])


def _sqlite(database: Database) -> tuple[Check, ...]:
    return (
        _sqlite_version(sqlite3.sqlite_version_info),
        _journal(_one(database, "PRAGMA journal_mode")),
        _integrity([str(row[0]) for row in _rows(database, "PRAGMA integrity_check")]),
    )


def _sqlite_version(version: tuple[int, ...]) -> Check:
    text = ".".join(map(str, version))
    sentence = f"SQLite {text}."
    if WAL_BUG[0] <= version <= WAL_BUG[1]:
        sentence = (
            f"SQLite {text}. Versions 3.7.0 to 3.51.2 can corrupt a file that several processes write; sameluck "
            "lets one process write, so let no other program write to this file."
        )
    return _check("sqlite", "fine", sentence, version=text)


def _journal(mode: str) -> Check:
    if mode == "wal":
        return _check(
            "journal", "fine", "Write-ahead log: readers do not block writers.", mode=mode
        )
    if mode == "memory":
        return _check("journal", "watch", "In memory: lost when the program ends.", mode=mode)
    sentence = (
        f"The journal mode is {mode}, not wal: another program changed it, or the file system has no shared memory "
        "(a network drive). Put the file on a local disk and open it once for writing."
    )
    return _check("journal", "alarm", sentence, mode=mode)


def _integrity(messages: list[str]) -> Check:
    if messages == ["ok"]:
        return _check("integrity", "fine", "Every page and index of the file is sound.")
    sentence = (
        f"The file is damaged: {messages[0]}. Stop writing, keep a copy, and restore a backup or try "
        "`sqlite3 FILE .recover`."
    )
    return _check("integrity", "alarm", sentence, found=messages[:20])


def _clocks(clocks: dict[str, tuple[int, int]]) -> Check:
    """Check the clocks of serving processes, from the microseconds that each is ahead and the time it was seen."""
    latest = max(seen for _, seen in clocks.values())
    ahead = {
        process: microseconds / SECOND
        for process, (microseconds, seen) in clocks.items()
        if seen > latest - DAY
    }
    off = {process: seconds for process, seconds in ahead.items() if abs(seconds) > MAX_OFF_SECONDS}
    if not off:
        sentence = "The clocks of the serving processes agree with the time for deadlines."
        return _check("clocks", "fine", sentence, seconds_ahead=ahead)
    texts = [
        f"the clock of {process} is {duration(abs(seconds))} {'ahead' if seconds > 0 else 'behind'}"
        for process, seconds in off.items()
    ]
    sentence = (
        f"A machine's clock is wrong, or jumped: {', '.join(texts)}. Deadlines do not follow it, but synchronise it "
        "(NTP) before the process is started again."
    )
    return _check("clocks", "watch", sentence, seconds_ahead=ahead)


def _schema(version: int) -> Check:
    newest = max(migrations())
    sentence = f"Schema version {version}, which this version of sameluck reads and writes."
    if version == newest:
        return _check("schema", "fine", sentence, version=version)
    sentence = f"Schema version {version}; this version of sameluck has {newest}. Open it for writing once."
    return _check("schema", "alarm", sentence, version=version)


def _postgres(database: Database) -> tuple[Check, ...]:
    version = _one(database, "SHOW server_version")
    names = ("fsync", "full_page_writes", "synchronous_commit")
    settings = {name: _one(database, f"SHOW {name}") for name in names}
    return (
        _check("postgresql", "fine", f"PostgreSQL {version}.", version=version),
        _durability(settings),
    )


def _durability(settings: dict[str, str]) -> Check:
    off = [name for name, value in settings.items() if value == "off"]
    if not off:
        sentence = "Acknowledged rewards survive a crash of the server."
        return _check("durability", "fine", sentence, **settings)
    sentence = (
        f"{' and '.join(off)} {'is' if len(off) == 1 else 'are'} off: a crash of the server may lose "
        f"acknowledged rewards. Turn {'it' if len(off) == 1 else 'them'} on in postgresql.conf."
    )
    return _check("durability", "alarm", sentence, **settings)
