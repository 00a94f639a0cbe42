"""Databases of live experiments: SQLite and PostgreSQL, chosen by the address of a store."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from sameluck.errors import Invalid, optional, shown
from sameluck.files import file_path
from sameluck.live.databases.base import Database
from sameluck.validation import require_flag, require_whole

__all__ = ["Database", "open_database", "restore", "without_password", "write_backup"]


def open_database(url: str, *, read_only: bool, connections: int) -> Database:
    """Open the database that an address names."""
    connections = require_whole("connections", connections, 1)
    require_flag("read_only", read_only)
    if not isinstance(url, str):
        raise Invalid(f"a store's address is text such as 'sqlite:///shop.db', got {shown(url)}")
    scheme, separator, location = url.partition("://")
    if separator and scheme == "sqlite":
        from sameluck.live.databases.sqlite import Sqlite

        if location != "" and not location.startswith("/"):
            raise Invalid(f"write sqlite:///{location} (three slashes), got {url!r}")
        if "\x00" in location:
            raise Invalid(f"a file name cannot contain a NUL character, got {shown(url)}")
        path, _, query = location.partition("?")
        setting = query.removeprefix("synchronous=") if query else "full"
        if setting not in ("full", "normal"):
            raise Invalid(
                f"the only option after ? is synchronous=full or synchronous=normal, got {url!r}"
            )
        return Sqlite(path[1:] or None, read_only=read_only, synchronous=setting)
    if separator and scheme in ("postgresql", "postgres"):
        optional("psycopg", "postgres")
        optional("psycopg_pool", "postgres")
        from sameluck.live.databases.postgres import Postgres

        return Postgres(url, connections=connections, read_only=read_only)
    forms = "sqlite:///file.db, sqlite://, postgresql://user@host/database"
    raise Invalid(f"unknown address of a store {shown(without_password(url))}; use one of: {forms}")


def write_backup(database: Database, path: str | os.PathLike[str]) -> None:
    """Write a consistent snapshot of the whole database to a new SQLite file."""
    from sameluck.live.databases import backups

    backups.write_backup(database, file_path("backup", path))


def restore(backup: str | os.PathLike[str], url: str) -> None:
    """Make a new store from a backup.

    Args:
        backup: The file that `Store.backup` wrote.
        url: The new store, as for `open`: a SQLite file that does not exist yet, or an empty PostgreSQL database.
    """
    from sameluck.live.databases import backups

    source = file_path("restore", backup)
    if isinstance(url, str) and url.startswith("sqlite:///") and len(url) > len("sqlite:///"):
        path = url.removeprefix("sqlite:///").partition("?")[0]
        backups.restore_file(source, file_path("restore", path))
        open_database(url, read_only=False, connections=1).close()  # migrates an older schema
        return
    database = open_database(url, read_only=False, connections=1)
    try:
        if database.kind == "sqlite":
            raise Invalid("a store in memory ends with the program; restore into a file")
        backups.restore_rows(source, database)
    finally:
        database.close()


def without_password(url: str) -> str:
    """Return an address without its password, for messages."""
    try:
        parts = urlsplit(url)
        return url.replace(f":{parts.password}@", ":***@") if parts.password else url
    except ValueError:
        return url
