"""The rows of a store, read past it."""

import contextlib
import sqlite3

import psycopg

TABLES = ("schema_version", "experiment", "replication", "entry", "assignment", "reward_event")
TABLES += ("answer", "api_key", "change", "disabled_arm")


@contextlib.contextmanager
def reading(url):
    """A function that returns every row of some tables, by table."""
    if url.startswith("sqlite"):
        path = url.removeprefix("sqlite:///").partition("?")[0]
        connection = sqlite3.connect(path)
    else:
        connection = psycopg.connect(url, autocommit=True)

    def rows(tables=TABLES):
        return {t: sorted(map(str, connection.execute(f"SELECT * FROM {t}"))) for t in tables}

    with contextlib.closing(connection):
        yield rows
