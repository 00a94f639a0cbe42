"""Exports: a ledger, or the audit log of its rewards, as CSV, JSON Lines or Parquet.

Rows are written as they are read, so the memory needed does not grow with the ledger. Parquet (in the file's
metadata, under "sameluck") and JSON Lines (as the first record, of kind "experiment") carry the experiment's
definition, its digest and its options; floats keep every bit in all three.
"""

from __future__ import annotations

import contextlib
import csv
import json
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeAlias

from sameluck.errors import Invalid, did_you_mean, optional
from sameluck.experiment import Experiment
from sameluck.live.databases.base import Database, Row, Transaction
from sameluck.live.engine.scheduler import AUDITED
from sameluck.live.records import moment
from sameluck.live.replications import found
from sameluck.randomness import streams

CHUNK = 20_000  # rows of one Parquet group
FORMULAS = ("=", "+", "-", "@", "\t", "\r")  # what a spreadsheet would run

# A column's kind: whole, number, text, truth, or time (microseconds; ISO 8601 in text, a timestamp in Parquet).
ColumnTypes: TypeAlias = dict[str, str]
LEDGER: ColumnTypes = {
    "replication": "whole",
    "policy": "text",
    "arm": "text",
    "arm_index": "whole",
    "position": "whole",
    "state": "text",
    "value": "number",
    "source": "text",
    "audit": "truth",
    "assignment": "text",
    "unit": "text",
    "assigned_at": "time",
    "exposed_at": "time",
    "voided_at": "time",
    "settled_at": "time",
}
REWARDS: ColumnTypes = {
    "assignment": "text",
    "replication": "whole",
    "arm": "text",
    "arm_index": "whole",
    "position": "whole",
    "value": "number",
    "outcome": "text",
    "received_at": "time",
}
SUFFIXES = {
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
}


class Table(NamedTuple):
    """What to write: columns, rows, and what the rows belong to."""

    kind: str  # of a row
    columns: ColumnTypes
    rows: Iterator[Row]
    about: dict[str, Any]


Writer: TypeAlias = Callable[[Path, Table], int]


def export(
    database: Database,
    named: Row,
    path: str | os.PathLike[str],
    *,
    what: str,
    format: str | None,
) -> int:
    """Write a file, whole or not at all; how many rows it has. `named` is the experiment's id, name and options."""
    sheets = {"ledger": _ledger, "rewards": _rewards}
    if what not in sheets:
        raise Invalid(f"export: what must be {' or '.join(sheets)}, got {what!r}")
    writer = _writer(path, format)
    with _draft(Path(path)) as draft:

        def work(transaction: Transaction) -> int:
            id, name, options = named
            definition, status, _ = found(transaction.one("experiment_now", experiment=id))
            experiment = Experiment.from_json(definition)
            about = {
                "kind": "experiment",
                "name": name,
                "what": what,
                "definition": experiment.to_dict(),
                "digest": experiment.digest,
                "streams": streams.VERSION,
                "options": options,
                "status": status,
            }
            return writer(draft, sheets[what](transaction, id, experiment, about))

        return database.read(work)


def _writer(path: str | os.PathLike[str], format: str | None) -> Writer:
    writers: dict[str, Writer] = {"csv": _as_csv, "jsonl": _as_jsonl, "parquet": _as_parquet}
    if format is None:
        suffix = Path(path).suffix.lower()
        if suffix not in SUFFIXES:
            raise Invalid(
                f"export: the ending of {str(path)!r} says no format; use one of {', '.join(SUFFIXES)}, "
                "or say the format (format=, --format)"
            )
        format = SUFFIXES[suffix]
    if format not in writers:
        raise Invalid(f"export: unknown format {format!r}; {did_you_mean(str(format), writers)}")
    return writers[format]


@contextlib.contextmanager
def _draft(path: Path) -> Iterator[Path]:
    """Where to write; what was written takes its place at the end, so that a reader sees all of it or nothing."""
    draft = path.parent / f".{secrets.token_hex(8)}.part"
    if "\x00" in str(path):
        raise Invalid(f"cannot write {str(path)!r}: a file's name has no NUL")
    try:
        draft.touch()
        yield draft
        draft.replace(path)
    except OSError as error:
        raise Invalid(f"cannot write {str(path)!r}: {error.strerror or error}") from None
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()


def _ledger(
    transaction: Transaction, id: int, experiment: Experiment, about: dict[str, Any]
) -> Table:
    """Every entry in order, with the assignment that holds it; after them the assignments that were voided."""
    arms, policies = experiment.arm_names, tuple(experiment.policies)

    def rows() -> Iterator[Row]:
        for statement in ("history", "voided"):
            for row in transaction.each(statement, experiment=id):
                replication, owner, arm, position, state, value, source, settled, *rest = row
                policy = policies[owner - 1] if owner > 0 else None
                shown = state == "assigned" and rest[3] is not None
                state = "exposed" if shown else state
                entry = replication, policy, arms[arm], arm, position, state, value, source
                yield *entry, owner == AUDITED, *rest, settled

    return Table("entry", LEDGER, rows(), about)


def _rewards(
    transaction: Transaction, id: int, experiment: Experiment, about: dict[str, Any]
) -> Table:
    """Every reward ever reported, in order of arrival, and what became of it."""
    arms = experiment.arm_names

    def rows() -> Iterator[Row]:
        for row in transaction.each("events", experiment=id):
            assignment, replication, arm, position, value, outcome, received = row
            yield assignment, replication, arms[arm], arm, position, value, outcome, received

    return Table("reward", REWARDS, rows(), about)


def _shown(columns: ColumnTypes, rows: Iterable[Row]) -> Iterator[list[Any]]:
    """Rows with their times as text."""
    times = [place for place, kind in enumerate(columns.values()) if kind == "time"]
    for row in rows:
        values = list(row)
        for place in times:
            values[place] = moment(values[place])
        yield values


def _as_csv(path: Path, table: Table) -> int:
    with _text(path) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(table.columns)
        count = 0
        for values in _shown(table.columns, table.rows):
            writer.writerow([_cell(value) for value in values])
            count += 1
    return count


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    # Names are other people's text; a spreadsheet must not take one for a formula.
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULAS) else value


def _as_jsonl(path: Path, table: Table) -> int:
    names = ["kind", *table.columns]
    with _text(path) as file:
        file.write(_line(table.about))
        count = 0
        for values in _shown(table.columns, table.rows):
            file.write(_line(dict(zip(names, [table.kind, *values], strict=True))))
            count += 1
    return count


def _text(path: Path) -> IO[str]:
    return path.open("w", encoding="utf-8", newline="")


_encode = json.JSONEncoder(ensure_ascii=False).encode


def _line(values: dict[str, Any]) -> str:
    return _encode(values) + "\n"


def _as_parquet(path: Path, table: Table) -> int:
    arrow: Any = optional("pyarrow", "data")
    parquet: Any = optional("pyarrow.parquet", "data")
    kinds = {
        "whole": arrow.int64(),
        "number": arrow.float64(),
        "text": arrow.string(),
        "truth": arrow.bool_(),
        "time": arrow.timestamp("us", tz="UTC"),
    }
    schema = arrow.schema(
        [(name, kinds[kind]) for name, kind in table.columns.items()],
        metadata={"sameluck": json.dumps(table.about, ensure_ascii=False)},
    )
    count = 0
    with parquet.ParquetWriter(path, schema) as writer:
        for some in _chunks(table.rows):
            columns = zip(*some, strict=True)
            arrays = [
                arrow.array(column, field.type)
                for column, field in zip(columns, schema, strict=True)
            ]
            writer.write_table(arrow.Table.from_arrays(arrays, schema=schema))
            count += len(some)
    return count


def _chunks(rows: Iterator[Row]) -> Iterator[Sequence[Row]]:
    while some := list(islice(rows, CHUNK)):
        yield some
