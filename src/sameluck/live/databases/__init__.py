"""Databases of live experiments: SQLite and PostgreSQL, chosen by the address of a store."""

from __future__ import annotations

from urllib.parse import urlsplit

from sameluck.errors import Invalid, optional, shown
from sameluck.live.databases.base import Database
from sameluck.validation import require_flag, require_whole


def open_database(url: str, *, read_only: bool, connections: int) -> Database:
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


def without_password(url: str) -> str:
    try:
        parts = urlsplit(url)
        return url.replace(f":{parts.password}@", ":***@") if parts.password else url
    except ValueError:
        return url
