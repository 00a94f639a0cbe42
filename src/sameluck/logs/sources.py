"""Rows of a log from a file, a DataFrame or records: the values, or the reason why a row cannot be read."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias

from sameluck.errors import Invalid, did_you_mean, optional, shown
from sameluck.logs.values import BadRow, excerpt

LogRow: TypeAlias = tuple[int, Sequence[object] | BadRow]  # its number and its values


class LogColumns(NamedTuple):
    """Names of the columns to read."""

    arm: str
    reward: str
    replication: str | None
    time: str | None

    @property
    def names(self) -> list[str]:
        """Names of the columns that are not None."""
        return [name for name in self if name is not None]


class OpenLog(NamedTuple):
    """A log whose rows can be read."""

    name: str
    unit: str  # of row numbers: "line" or "record"
    rows: Iterator[LogRow]  # values in the order of `LogColumns.names`


def open_log(source: object, columns: LogColumns) -> OpenLog:
    """Return the rows of a file, chosen by its suffix, a DataFrame or records."""
    if isinstance(source, str | os.PathLike):
        return _open_file(Path(source), columns)
    name = f"the {type(source).__name__}"
    if hasattr(source, "collect_schema") and hasattr(source, "collect"):  # polars' LazyFrame
        source = source.collect()
    if hasattr(source, "columns") and hasattr(source, "to_dict"):
        return OpenLog(name, "record", _frame_rows(name, source, columns))
    if isinstance(source, Iterable) and not isinstance(source, Mapping | bytes):
        return OpenLog(name, "record", _read_records(name, enumerate(source, 1), columns))
    raise Invalid(
        f"a log is a path ending in {', '.join(_FORMATS)}, a pandas or polars DataFrame, or records (a list of "
        f"dicts); got {type(source).__name__}"
    )


def file_digest(source: object) -> str:
    """Return the first 16 characters of a file's SHA-256 hash; empty for other sources."""
    if not isinstance(source, str | os.PathLike):
        return ""
    with open(source, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def csv_line(fields: Sequence[str]) -> str:
    """Return fields separated by commas, quoted where necessary."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(fields)
    return line.getvalue()


def _short(path: Path) -> str:
    return str(path)[:200]


def _open_file(path: Path, columns: LogColumns) -> OpenLog:
    file_format = _FORMATS.get(path.suffix.lower())
    if file_format is None:
        raise Invalid(
            f"{_short(path)}: unknown suffix {shown(path.suffix)} of a log; {did_you_mean(path.suffix, _FORMATS)}"
        )
    if not os.path.isfile(path):  # unlike `Path.is_file`, False for a name that is too long
        raise Invalid(f"no file {_short(path)}; give the path of a log")
    unit, rows = file_format
    return OpenLog(str(path), unit, rows(path, columns))


def _require_columns(name: str, existing: Sequence[object], columns: LogColumns) -> None:
    for role, column in columns._asdict().items():
        if column is None:
            continue
        if column not in existing:
            hint = did_you_mean(column, [str(other) for other in existing])
            raise Invalid(f"{name} has no column {shown(column)} for {role}; {hint}")
        if list(existing).count(column) != 1:
            raise Invalid(f"{name} has several columns {column!r}; rename all but one")


def _csv_rows(path: Path, columns: LogColumns) -> Iterator[LogRow]:
    name = str(path)
    not_utf8: list[str] = []  # lines since the last record
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        delimiter = _delimiter(file.readline(), columns)
        file.seek(0)
        reader = csv.reader(_checked_lines(file, not_utf8), strict=True, delimiter=delimiter)
        header = _header(name, reader)
        if not header:
            return
        if not_utf8:
            raise Invalid(f"{name}: its first line is not UTF-8; save the log as UTF-8")
        _require_columns(name, header, columns)
        indices = [header.index(column) for column in columns.names]
        has_decimal_commas = delimiter == ";"  # as spreadsheets write where the comma is decimal
        for row, fields in _records(reader):
            if not_utf8:
                not_utf8.clear()
                yield row, BadRow("bytes that are not UTF-8")
            elif isinstance(fields, BadRow):
                yield row, fields
            elif len(fields) == len(header):
                values = [fields[index] for index in indices]
                yield row, _with_points(values, columns) if has_decimal_commas else values
            elif any(field.strip() for field in fields):
                yield row, BadRow(f"{len(fields)} fields instead of {len(header)}")


def _with_points(values: list[str], columns: LogColumns) -> list[str]:
    """Return the values with a point in place of the decimal comma of a reward or time; names keep their commas."""
    return [
        value.replace(",", ".")
        if name in (columns.reward, columns.time) and _DECIMAL_COMMA.fullmatch(value)
        else value
        for name, value in zip(columns.names, values, strict=True)
    ]


def _delimiter(line: str, columns: LogColumns) -> str:
    """Return the delimiter that splits the first line into all columns to read; the comma if none does."""
    for delimiter in _DELIMITERS:
        header = next(csv.reader([line], delimiter=delimiter), [])
        if {*columns.names} <= {field.strip() for field in header}:
            return delimiter
    return ","


def _checked_lines(lines: Iterable[str], not_utf8: list[str]) -> Iterator[str]:
    """Yield the lines; lines with bytes that are not UTF-8 are also appended to `not_utf8`."""
    for line in lines:
        if not line.isascii() and _SURROGATE.search(line):
            not_utf8.append(line)
        yield line


_DELIMITERS = ",;\t|"
_DECIMAL_COMMA = re.compile(r"\s*[-+]?\d*,\d+(?:[eE][-+]?\d+)?\s*")
_SURROGATE = re.compile("[\udc80-\udcff]")


def _header(name: str, reader: Iterator[list[str]]) -> list[str]:
    try:
        return [field.strip() for field in next(reader, [])]
    except csv.Error as error:
        raise Invalid(f"{name}: its first line is not CSV ({error})") from error


def _records(reader: Any) -> Iterator[tuple[int, list[str] | BadRow]]:
    """Yield the records of a CSV file, each with the number of its first line."""
    while True:
        first = reader.line_num + 1
        try:
            yield first, next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            last = reader.line_num
            upto = f" up to line {last}" if last > first else ""
            yield first, BadRow(f"not CSV{upto} ({error})")


def _json_rows(path: Path, columns: LogColumns) -> Iterator[LogRow]:
    with path.open("rb") as file:
        lines = ((row, line) for row, line in enumerate(file, 1) if not line.isspace())
        records = ((row, _from_json(line.removeprefix(b"\xef\xbb\xbf"))) for row, line in lines)
        yield from _read_records(str(path), records, columns)


def _from_json(line: bytes) -> object:
    try:
        return json.loads(line.decode())
    except UnicodeDecodeError:
        return BadRow("bytes that are not UTF-8")
    except (ValueError, RecursionError) as error:
        return BadRow(f"not JSON ({error})")


def _read_records(
    name: str, records: Iterable[tuple[int, object]], columns: LogColumns
) -> Iterator[LogRow]:
    """Yield the values of each record; a record may lack a column, unless all records lack it."""
    names = columns.names
    unseen = set(names)
    existing: dict[object, None] = {}
    for row, record in records:
        if isinstance(record, Mapping):
            if unseen:
                unseen.difference_update(record)
                existing.update(dict.fromkeys(record))
            yield row, [record.get(column) for column in names]
        elif isinstance(record, BadRow):
            yield row, record
        else:
            yield row, BadRow(f"not a record ({excerpt(record)})")
    if existing:
        _require_columns(name, list(existing), columns)


def _frame_rows(name: str, frame: Any, columns: LogColumns) -> Iterator[LogRow]:
    _require_columns(name, list(frame.columns), columns)
    lists = [_values(frame[column]) for column in columns.names]
    return enumerate(zip(*lists, strict=True), 1)


def _values(column: Any) -> list[object]:
    if hasattr(column, "to_list") and not hasattr(column, "iloc"):
        return column.to_list()
    return column.astype(object).where(column.notna(), None).tolist()


def _parquet_rows(path: Path, columns: LogColumns) -> Iterator[LogRow]:
    arrow, parquet = optional("pyarrow", "data"), optional("pyarrow.parquet", "data")
    names = columns.names
    try:
        with parquet.ParquetFile(path) as file:
            _require_columns(str(path), file.schema_arrow.names, columns)
            batches = file.iter_batches(columns=names)
            rows = (
                zip(*(_arrow_values(arrow, batch.column(name)) for name in names), strict=True)
                for batch in batches
            )
            yield from enumerate(chain.from_iterable(rows), 1)
    except (arrow.ArrowException, OSError) as error:
        raise Invalid(f"{path} cannot be read as Parquet: {error}") from error


def _arrow_values(arrow: ModuleType, column: Any) -> list[object]:
    arrow_type = column.type
    # Python's datetime has no nanoseconds.
    if arrow.types.is_timestamp(arrow_type) and arrow_type.unit == "ns":
        column = column.cast(arrow.timestamp("us", arrow_type.tz), safe=False)
    return column.to_pylist()


_FORMATS: dict[str, tuple[str, Callable[[Path, LogColumns], Iterator[LogRow]]]] = {
    ".csv": ("line", _csv_rows),
    ".tsv": ("line", _csv_rows),
    ".jsonl": ("line", _json_rows),
    ".ndjson": ("line", _json_rows),
    ".parquet": ("record", _parquet_rows),
}
