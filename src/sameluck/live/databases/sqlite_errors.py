"""What an error of SQLite means for the caller, and what can be done about it."""

from __future__ import annotations

import sqlite3

from sameluck.errors import Unavailable
from sameluck.live.databases.base import contradiction

REMEDIES = {
    sqlite3.SQLITE_FULL: "; make room on the disk",
    sqlite3.SQLITE_IOERR: "; the disk fails, or its file system has become read-only: see the log of the machine",
    sqlite3.SQLITE_READONLY: "; the file cannot be written any more: see its rights and its file system",
}


def unavailable(error: BaseException) -> BaseException:
    """The error to raise for one that ended a transaction."""
    if isinstance(error, sqlite3.IntegrityError):
        return contradiction(error)
    if isinstance(error, sqlite3.Error):
        remedy = REMEDIES.get(_code(error), "")
        return Unavailable(f"SQLite could not write, nothing was changed: {error}{remedy}")
    if isinstance(error, Exception):
        return error
    return Unavailable("interrupted; nothing was changed")


def is_transient(error: sqlite3.Error) -> bool:
    """Whether a database may be opened later: its disk is full or fails, or another program holds the file."""
    return _code(error) in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_BUSY)


def _code(error: sqlite3.Error) -> int:
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF
