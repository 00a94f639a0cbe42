"""SQL texts: the statements of live experiments by name, in each database's form, and the steps of the schema."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from string import Template
from typing import NamedTuple, get_type_hints

from sameluck.errors import Invalid, Unknown
from sameluck.live.databases.rows import ListParameters

SQL_TYPES = {bool: "boolean", int: "bigint", float: "float8", str: "text"}
LIST_TYPES = {name: SQL_TYPES[hint] for name, hint in get_type_hints(ListParameters).items()}

# Every transaction locks assignments in this order, so that no two transactions wait for each other.
_IN_LOCK_ORDER = """(SELECT item.* FROM {items} JOIN assignment a ON a.id = item._assignment
      ORDER BY a.experiment, a.replication, item._index) AS item"""


class _Sql(Template):
    """A statement with parameters such as :experiment."""

    delimiter = ":"


class Statement(NamedTuple):
    """A statement with numbered parameters, and their names in that order."""

    text: str
    names: list[str]


def numbered(sql: str, sign: str) -> Statement:
    """Return a statement whose parameters are written as `sign` and a number from 1 on."""
    names = _Sql(sql).get_identifiers()
    numbers = {name: f"{sign}{number}" for number, name in enumerate(names, start=1)}
    return Statement(_Sql(sql).substitute(numbers), names)


def numbered_for_list(sql: str) -> Statement:
    """Return a statement of PostgreSQL for a list of rows: its parameters are arrays of the same length.

    A SELECT returns the row's number in the list first, from 1 on. VALUES and the WHERE of an UPDATE begin a line.
    No two rows of a list may change the same row of a table.
    """
    names = _Sql(sql).get_identifiers()
    arrays = (f"CAST(${k} AS {LIST_TYPES[name]}[])" for k, name in enumerate(names, start=1))
    columns = ", ".join(f"_{name}" for name in names)
    items = f"unnest({', '.join(arrays)}) WITH ORDINALITY AS item({columns}, _index)"
    text = _Sql(sql).substitute({name: f"item._{name}" for name in names})
    if text.startswith("SELECT"):
        if " FOR UPDATE" in text:
            items = _IN_LOCK_ORDER.format(items=items)
        text = f"SELECT item._index, row.* FROM {items}\nCROSS JOIN LATERAL ({text}) AS row"
    else:
        begin, values, end = text.partition("\nVALUES (")
        if values:
            expressions, _, end = end.partition("\n")
            text = f"{begin}\nSELECT {expressions.removesuffix(')')} FROM {items}\n{end}"
        else:
            text = text.replace("\nWHERE ", f"\nFROM {items}\nWHERE ", 1)
    return Statement(text, names)


class Source(NamedTuple):
    """A statement as `statements.sql` has it."""

    text: str
    for_lists: bool  # a call may run it for several rows


@cache
def statements() -> dict[str, Source]:
    text = (files("sameluck.live.databases") / "statements.sql").read_text(encoding="utf-8")
    by_name: dict[str, Source] = {}
    for section in text.split("\n-- name: ")[1:]:
        heading, _, body = section.partition("\n")
        name, _, form = heading.partition(", ")
        lines = [line for line in body.splitlines() if not line.startswith("--")]
        assert name not in by_name, f"two statements are named {name}"
        by_name[name] = Source("\n".join(lines).strip(), form == "for lists")
    return by_name


def migrations() -> dict[int, str]:
    """Return every step of the schema by its number; a database of version n has all steps up to n."""
    folder = files("sameluck.live.databases") / "schema"
    names = sorted(item.name for item in folder.iterdir() if item.name.endswith(".sql"))
    return {int(name[:4]): (folder / name).read_text(encoding="utf-8") for name in names}


def check_schema(name: str, version: int, *, read_only: bool) -> list[str]:
    """Return the steps that bring a schema up to date; raise `Invalid` or `Unknown` if there are none that do."""
    steps = migrations()
    newest = max(steps)
    if read_only and version == 0:
        raise Unknown(f"no experiment was ever started in {name}; start one first")
    if version > newest or (read_only and version < newest):
        newer = version > newest
        remedy = "upgrade sameluck" if newer else "open it for writing once to migrate it"
        raise Invalid(
            f"{name} has schema version {version}, this sameluck reads {newest}; {remedy}"
        )
    newer_steps = [steps[step] for step in range(version + 1, newest + 1)]
    note = f"DELETE FROM schema_version; INSERT INTO schema_version VALUES ({newest});"
    return [*newer_steps, note] if newer_steps else []


def for_postgres(sql: str) -> str:
    """Return SQL text for PostgreSQL: comments that begin with pg are part of it."""
    return sql.replace("/*pg ", "").replace("*/", "").replace(" WITHOUT ROWID", "")
