"""Export of a ledger, or of the reported rewards, as CSV, JSON Lines or Parquet.

Rows are written as they are read, so that memory does not grow with the ledger. Parquet (in the file's metadata,
under "sameluck") and JSON Lines (as the first record, of kind "experiment") contain the experiment's definition,
digest and options. Floats keep every bit in all three formats.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from io import TextIOWrapper
from itertools import count, islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeAlias

from sameluck.errors import Invalid, optional, shown
from sameluck.files import draft_of, file_path
from sameluck.live.databases.base import Transaction
from sameluck.live.databases.rows import EventRow, ExperimentRow, HistoryRow
from sameluck.live.engine.protocol import AUDITED
from sameluck.live.records import moment
from sameluck.live.state.definition import Definition
from sameluck.live.state.replications import OpenReplications
from sameluck.randomness import streams
from sameluck.validation import require_one_of

CHUNK = 20_000  # rows of one Parquet group
FORMULAS = ("=", "+", "-", "@", "\t", "\r")  # first characters of text that a spreadsheet evaluates

# A column's type: whole, number, text, truth, or time (microseconds; ISO 8601 in text, a timestamp in Parquet).
ColumnTypes: TypeAlias = dict[str, str]
Row: TypeAlias = tuple[Any, ...]
Rows: TypeAlias = Generator[Row, None, None]
_ADDRESS: ColumnTypes = {"arm": "text", "arm_index": "whole", "position": "whole"}
LEDGER: ColumnTypes = (
    {"replication": "whole", "policy": "text"}
    | _ADDRESS
    | {"state": "text", "value": "number", "source": "text", "audit": "truth"}
    | {"assignment": "text", "unit": "text"}
    | dict.fromkeys(("assigned_at", "exposed_at", "voided_at", "settled_at"), "time")
)
REWARDS: ColumnTypes = (
    {"assignment": "text", "replication": "whole"}
    | _ADDRESS
    | {"value": "number", "outcome": "text", "received_at": "time"}
)
SUFFIXES = {
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
}
MEDIA_TYPES = {
    "csv": "text/csv",
    "jsonl": "application/x-ndjson",
    "parquet": "application/vnd.apache.parquet",
}


class ExportTable(NamedTuple):
    """Columns and rows to write, and the experiment they belong to."""

    row_kind: str  # the field "kind" of a row in JSON Lines
    columns: ColumnTypes
    rows: Iterator[Row]
    about: Mapping[str, object]


Writer: TypeAlias = Callable[[BinaryIO, ExportTable], None]


def export(
    replications: OpenReplications, path: str | os.PathLike[str], *, what: str, format: str | None
) -> int:
    """Write a file of an experiment, whole or not at all, and return the number of its rows."""
    if not isinstance(what, str) or what not in TABLES:
        raise Invalid(f"export: what must be {' or '.join(TABLES)}, got {shown(what)}")
    target = file_path("export", path)
    format = format_of(target, format)
    with draft_of(target) as draft, draft.open("wb") as file:
        return write_export(replications, file, what=what, format=format)


def write_export(replications: OpenReplications, file: BinaryIO, *, what: str, format: str) -> int:
    """Write the bytes of an export to a file as they are read, and return the number of its rows."""

    def work(transaction: Transaction) -> int:
        row = transaction.fetch_one(ExperimentRow, "experiment_now", experiment=replications.id)
        definition = replications.current(transaction, row)
        experiment = definition.experiment
        about = {
            "kind": "experiment",
            "name": replications.name,
            "what": what,
            "definition": experiment.to_dict(),
            "digest": experiment.digest,
            "streams": streams.VERSION,
            "options": replications.options.to_dict(),
            "status": row.status,
        }
        read, row_kind, columns = TABLES[what]
        counter = count()  # takes a number per row
        # Closed before the transaction ends, also if the file cannot be written: a server's cursor is part of it.
        with closing(read(transaction, replications.id, definition)) as source:
            rows = (row for row, _ in zip(source, counter, strict=False))
            FORMATS[format](file, ExportTable(row_kind, columns, rows, about))
        return next(counter)

    return replications.database.read(work)


def format_of(path: Path, format: str | None) -> str:
    """Return the format of an export, by default the format of the path's suffix."""
    if format is None:
        suffix = path.suffix.lower()
        if suffix not in SUFFIXES:
            raise Invalid(
                f"export: no format for the suffix of {shown(str(path))}; use one of {', '.join(SUFFIXES)}, "
                "or give the format (format=, --format)"
            )
        format = SUFFIXES[suffix]
    require_one_of("format", format, list(FORMATS))
    return format


def _ledger(transaction: Transaction, id: int, definition: Definition) -> Rows:
    """Yield every entry in order with its assignment, then the voided assignments."""
    arms, policies = definition.experiment.arm_names, definition.owner_names
    for statement in ("history", "voided"):
        for row in transaction.iterate(HistoryRow, statement, experiment=id):
            policy = policies[row.stack_owner] if row.stack_owner > 0 else None
            exposed = row.state == "assigned" and row.exposed_us is not None
            state = "exposed" if exposed else row.state
            arm = definition.arm_of(row.arm)
            entry = row.replication, policy, arms[arm], arm, row.position
            times = row.assigned_us, row.exposed_us, row.voided_us, row.settled_us
            audit = row.stack_owner == AUDITED
            yield *entry, state, row.value, row.source, audit, row.id, row.unit, *times


def _rewards(transaction: Transaction, id: int, definition: Definition) -> Rows:
    """Yield every reported reward with its outcome, in order of arrival."""
    arms = definition.experiment.arm_names
    for row in transaction.iterate(EventRow, "events", experiment=id):
        assignment, replication, cell, *fields = row
        arm = definition.arm_of(cell)
        yield assignment, replication, arms[arm], arm, *fields


TABLES = {"ledger": (_ledger, "entry", LEDGER), "rewards": (_rewards, "reward", REWARDS)}


def _with_text_times(columns: ColumnTypes, rows: Iterable[Row]) -> Iterator[list[object]]:
    times = [index for index, type_name in enumerate(columns.values()) if type_name == "time"]
    for row in rows:
        values = list(row)
        for index in times:
            values[index] = moment(values[index])
        yield values


@contextmanager
def _text(file: BinaryIO) -> Iterator[TextIOWrapper]:
    """Yield a file for text in UTF-8; the binary file stays open."""
    text = TextIOWrapper(file, encoding="utf-8", newline="")
    yield text
    text.detach()


def _write_csv(file: BinaryIO, table: ExportTable) -> None:
    with _text(file) as text:
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(table.columns)
        for values in _with_text_times(table.columns, table.rows):
            writer.writerow([_cell(value) for value in values])


def _cell(value: object) -> object:
    if isinstance(value, bool):
        return "true" if value else "false"
    # Names come from users; a spreadsheet must not evaluate them.
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULAS) else value


def _write_jsonl(file: BinaryIO, table: ExportTable) -> None:
    names, encode = ["kind", *table.columns], json.JSONEncoder(ensure_ascii=False).encode
    with _text(file) as text:
        text.write(encode(table.about) + "\n")
        for values in _with_text_times(table.columns, table.rows):
            text.write(encode(dict(zip(names, [table.row_kind, *values], strict=True))) + "\n")


def _write_parquet(file: BinaryIO, table: ExportTable) -> None:
    arrow, parquet = optional("pyarrow", "data"), optional("pyarrow.parquet", "data")
    types = {
        "whole": arrow.int64(),
        "number": arrow.float64(),
        "text": arrow.string(),
        "truth": arrow.bool_(),
        "time": arrow.timestamp("us", tz="UTC"),
    }
    schema = arrow.schema(
        [(name, types[type_name]) for name, type_name in table.columns.items()],
        metadata={"sameluck": json.dumps(table.about, ensure_ascii=False)},
    )
    with parquet.ParquetWriter(file, schema) as writer:
        while rows := list(islice(table.rows, CHUNK)):
            columns = zip(*rows, strict=True)
            pairs = zip(columns, schema, strict=True)
            arrays = [arrow.array(column, field.type) for column, field in pairs]
            writer.write_table(arrow.Table.from_arrays(arrays, schema=schema))


FORMATS: dict[str, Writer] = {"csv": _write_csv, "jsonl": _write_jsonl, "parquet": _write_parquet}
