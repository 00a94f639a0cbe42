"""The rows of a log, wherever it is: the wanted values of each row, or what is wrong with the row as a whole."""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from sameluck.errors import Invalid, did_you_mean, optional
from sameluck.live.logs.values import Bad, short

Row: TypeAlias = tuple[int, Sequence[Any] | Bad]


class Columns(NamedTuple):
    """Which columns of a log to read."""

    arm: str
    reward: str
    replication: str | None
    time: str | None

    @property
    def wanted(self) -> list[str]:
        """The names of those to read."""
        return [name for name in self if name is not None]


class Source(NamedTuple):
    """A log that was opened."""

    name: str
    unit: str
    rows: Iterator[Row]  # the wanted values, in the order of `Columns.wanted`


def open_source(source: Any, columns: Columns) -> Source:
    """The rows of whatever holds a log: a file by its ending, a DataFrame or records."""
    if isinstance(source, str | os.PathLike):
        return _open_file(Path(source), columns)
    name = f"the {type(source).__name__}"
    if hasattr(source, "columns") and hasattr(source, "to_dict"):
        return Source(name, "record", _frame_rows(name, source, columns))
    if isinstance(source, Iterable) and not isinstance(source, Mapping | bytes):
        return Source(name, "record", _record_rows(name, source, columns))
    raise Invalid(
        f"a log is a path ending in {', '.join(_KINDS)}, a pandas or polars DataFrame, or records (a list of dicts); "
        f"got {type(source).__name__}"
    )


def _open_file(path: Path, columns: Columns) -> Source:
    kind = _KINDS.get(path.suffix.lower())
    if kind is None:
        raise Invalid(
            f"{path}: its ending {path.suffix!r} does not say what kind of log it is; "
            f"{did_you_mean(path.suffix, _KINDS)}"
        )
    if not path.is_file():
        raise Invalid(f"there is no file {path}; give the path of a log")
    unit, rows = kind
    return Source(str(path), unit, rows(path, columns))


def _require_columns(name: str, known: Sequence[Any], columns: Columns) -> None:
    for role, column in columns._asdict().items():
        if column is None:
            continue
        if column not in known:
            shown = did_you_mean(column, [str(one) for one in known])
            raise Invalid(f"{name} has no column {column!r} for {role}; {shown}")
        if list(known).count(column) != 1:
            raise Invalid(f"{name} has several columns {column!r}; rename all but one")


def _csv_rows(path: Path, columns: Columns) -> Iterator[Row]:
    name = str(path)
    spoilt: list[bool] = []
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        reader = csv.reader(_watched(file, spoilt), strict=True)
        header = _header(name, reader)
        if not header:
            return
        if spoilt:
            raise Invalid(f"{name}: its first line is not UTF-8; save the log as UTF-8")
        _require_columns(name, header, columns)
        places = [header.index(column) for column in columns.wanted]
        for row, fields in _records(reader):
            if spoilt:
                spoilt.clear()
                yield row, Bad("bytes that are not UTF-8")
            elif isinstance(fields, Bad):
                yield row, fields
            elif len(fields) == len(header):
                yield row, [fields[place] for place in places]
            elif any(field.strip() for field in fields):
                yield row, Bad(f"{len(fields)} fields instead of {len(header)}")


def _watched(lines: Iterable[str], spoilt: list[bool]) -> Iterator[str]:
    """The lines; those with bytes that are not UTF-8 leave a mark."""
    for line in lines:
        if not line.isascii() and _SURROGATE.search(line):
            spoilt.append(True)
        yield line


_SURROGATE = re.compile("[\udc80-\udcff]")


def _header(name: str, reader: Iterator[list[str]]) -> list[str]:
    try:
        return [field.strip() for field in next(reader, [])]
    except csv.Error as error:
        raise Invalid(f"{name}: its first line is not CSV ({error})") from error


def _records(reader: Any) -> Iterator[tuple[int, list[str] | Bad]]:
    """The records of a CSV, each with the line it begins at."""
    while True:
        begins = reader.line_num + 1
        try:
            yield begins, next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            ends = reader.line_num
            reach = f" up to line {ends}" if ends > begins else ""
            yield begins, Bad(f"not CSV{reach} ({error})")


def _json_rows(path: Path, columns: Columns) -> Iterator[Row]:
    with path.open("rb") as file:
        lines = ((row, line) for row, line in enumerate(file, 1) if not line.isspace())
        records = ((row, _from_json(line.removeprefix(b"\xef\xbb\xbf"))) for row, line in lines)
        yield from _picked(str(path), records, columns)


def _from_json(line: bytes) -> Any:
    try:
        return json.loads(line.decode())
    except UnicodeDecodeError:
        return Bad("bytes that are not UTF-8")
    except (ValueError, RecursionError) as error:
        return Bad(f"not JSON ({error})")


def _record_rows(name: str, records: Iterable[Any], columns: Columns) -> Iterator[Row]:
    return _picked(name, enumerate(records, 1), columns)


def _picked(name: str, records: Iterable[tuple[int, Any]], columns: Columns) -> Iterator[Row]:
    """The wanted values of each record; a record may lack one, but not all may lack it."""
    wanted = columns.wanted
    unseen = set(wanted)
    known: dict[Any, None] = {}
    for row, record in records:
        if isinstance(record, Mapping):
            if unseen:
                unseen.difference_update(record)
                known.update(dict.fromkeys(record))
            yield row, [record.get(column) for column in wanted]
        else:
            bad = isinstance(record, Bad)
            yield row, record if bad else Bad(f"not a record ({short(record)})")
    if known:
        _require_columns(name, list(known), columns)


def _frame_rows(name: str, frame: Any, columns: Columns) -> Iterator[Row]:
    _require_columns(name, list(frame.columns), columns)
    lists = [_values(frame[column]) for column in columns.wanted]
    return enumerate(zip(*lists, strict=True), 1)


def _values(column: Any) -> list[Any]:
    if hasattr(column, "to_list") and not hasattr(column, "iloc"):
        return column.to_list()
    return column.astype(object).where(column.notna(), None).tolist()


def _parquet_rows(path: Path, columns: Columns) -> Iterator[Row]:
    arrow: Any = optional("pyarrow", "data")
    parquet: Any = optional("pyarrow.parquet", "data")
    wanted = columns.wanted
    try:
        with parquet.ParquetFile(path) as file:
            _require_columns(str(path), file.schema_arrow.names, columns)
            batches = file.iter_batches(columns=wanted)
            rows = (
                zip(*(_arrow_values(arrow, batch.column(name)) for name in wanted), strict=True)
                for batch in batches
            )
            yield from enumerate(chain.from_iterable(rows), 1)
    except (arrow.ArrowException, OSError) as error:
        raise Invalid(f"{path} cannot be read as Parquet: {error}") from error


def _arrow_values(arrow: Any, column: Any) -> list[Any]:
    kind = column.type
    if arrow.types.is_timestamp(kind) and kind.unit == "ns":  # Python's dates have no nanoseconds
        column = column.cast(arrow.timestamp("us", kind.tz), safe=False)
    return column.to_pylist()


_KINDS: dict[str, tuple[str, Callable[[Path, Columns], Iterator[Row]]]] = {
    ".csv": ("line", _csv_rows),
    ".jsonl": ("line", _json_rows),
    ".ndjson": ("line", _json_rows),
    ".parquet": ("record", _parquet_rows),
}
