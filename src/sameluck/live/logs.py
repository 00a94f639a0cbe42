"""Reading a production log of one policy: which arm each user got and what it paid, in order.

`read_log` takes a CSV, JSON Lines or Parquet file, a pandas or polars DataFrame, or records (mappings). It keeps what
can be used and says of every other row what is wrong with it; `refuse_problems` makes an error of that.
"""

from __future__ import annotations

import csv
import json
import math
import numbers
import os
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sameluck.errors import Invalid, did_you_mean, optional, require, require_number

Ints: TypeAlias = NDArray[np.int64]
SHOWN = 10  # problems in a message


class Problem(NamedTuple):
    """Why one row cannot be used; a row has at most one."""

    row: int
    what: str


class Log(NamedTuple):
    """The rows of a log that can be used, ordered by replication, then time (or place in the log)."""

    name: str  # of the file, or what was given
    arms: tuple[str, ...]  # as given, or those found, numbers in names by size: a2 before a10
    replications: tuple[str, ...]  # as the log calls them, in order of first appearance
    replication: Ints  # place in `replications`
    arm: Ints  # place in `arms`
    reward: NDArray[np.float64]
    row: Ints  # line of the file, the first (a CSV's header) being 1; for other sources the record, from 1
    problems: tuple[Problem, ...]  # in the order of rows
    unit: str = "record"  # what `row` counts: "line" or "record"


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


class _Bad(Exception):
    """What is wrong with a row."""


_Row: TypeAlias = "tuple[int, Sequence[Any] | _Bad]"


class _Source(NamedTuple):
    name: str
    unit: str
    rows: Iterator[_Row]  # the wanted values, in the order of `Columns.wanted`


def read_log(
    source: Any,
    *,
    arm: str,
    reward: str,
    replication: str | None = None,
    time: str | None = None,
    arm_names: Sequence[str] | None = None,
    low: float | None = None,
    high: float | None = None,
) -> Log:
    """Read a log of one policy.

    A row is a problem, and left out, if it is malformed (bytes that are not UTF-8, a wrong number of fields, no JSON
    object), its arm is empty or not among `arm_names`, its reward is missing, not a finite number or out of range,
    its replication or time is missing, its time is of another kind than the first good one, or its time is that of
    an earlier row of its replication (a repeated row, or two users whose order nobody knows). Without times, rows
    count as they stand, and repeated ones cannot be told.

    Names are text without surrounding blanks; whole numbers are written without a point. Rewards may be true and
    false. Times are numbers, or dates of ISO 8601 with or without a zone, all of one kind. Blank lines are skipped.

    Args:
        source: A path ending in .csv, .jsonl, .ndjson or .parquet, a DataFrame, or records.
        arm: The column of arms.
        reward: The column of rewards.
        replication: The column that says which replication a row belongs to; all are of one if not given.
        time: The column to order by; rows stand in order if not given.
        arm_names: The arms there are, in their order; those found in the log if not given.
        low: The lowest possible reward.
        high: The highest possible reward.
    """
    columns = Columns(arm, reward, replication, time)
    names = _checked(columns, arm_names, low, high)
    opened = _open(source, columns)
    reader = _Reader(columns, names, low, high, opened.unit)
    for row, values in opened.rows:
        reader.add(row, values)
    log = reader.log(opened.name)
    if log.row.size == 0:
        require(
            len(log.problems) > 0, f"{log.name} holds no rows; give a log with at least one user"
        )
        raise Invalid(f"{opened.name}: no row can be used: {_listed(log)}")
    return log


def refuse_problems(log: Log) -> None:
    """Raise `Invalid`, with the first ten problems and their number, if the log has any."""
    if log.problems:
        many = len(log.problems)
        rows = "row" if many == 1 else "rows"
        raise Invalid(
            f"{log.name}: {many:,} {rows} cannot be used: {_listed(log)}. Pass skip_bad=True (--skip-bad) to leave "
            f"{'it' if many == 1 else 'them'} out"
        )


def _listed(log: Log) -> str:
    told = [f"{log.unit} {one.row}: {one.what}" for one in log.problems[:SHOWN]]
    left = len(log.problems) - SHOWN
    return "; ".join([*told, f"and {left:,} more"] if left > 0 else told)


def _checked(
    columns: Columns, arm_names: Sequence[str] | None, low: float | None, high: float | None
) -> dict[str, int]:
    """The given arm names and their places; none if there are none."""
    for role, name in columns._asdict().items():
        fits = isinstance(name, str) or (name is None and role in {"replication", "time"})
        require(fits, f"{role} must be the name of a column, got {name!r}")
    wanted = columns.wanted
    require(
        len(set(wanted)) == len(wanted),
        f"each column can be read as one thing only, got {', '.join(wanted)}",
    )
    for bound, value in (("low", low), ("high", high)):
        if value is not None:
            require_number(bound, value)
    require(
        low is None or high is None or low <= high, f"low must not exceed high: {low} and {high}"
    )
    require(not isinstance(arm_names, str), f"arm_names must be several names, got {arm_names!r}")
    names = {str(name).strip(): place for place, name in enumerate(arm_names or ())}
    require(
        len(names) == len(arm_names or ()) and "" not in names,
        f"arm_names must be different and not empty, got {arm_names!r}",
    )
    return names


class _Reader:
    """Turns rows into columns of numbers; keeps the problems."""

    def __init__(
        self,
        columns: Columns,
        names: dict[str, int],
        low: float | None,
        high: float | None,
        unit: str,
    ) -> None:
        self._given = bool(names)
        self._unit = unit
        self._arms = dict(names)
        self._replications: dict[str, int] = {}
        self._low = -math.inf if low is None else low
        self._high = math.inf if high is None else high
        self._replicated = columns.replication is not None
        self._timed = columns.time is not None
        self._clock: tuple[str, int] | None = None  # the kind of all times, and the row that set it
        self._row, self._arm, self._replication = array("q"), array("q"), array("q")
        self._reward = array("d")
        self._time: list[int | float] = []  # whole numbers stay exact beyond 2^53
        self._problems: list[Problem] = []

    def add(self, row: int, values: Sequence[Any] | _Bad) -> None:
        """Keep a row or its problem."""
        try:
            if isinstance(values, _Bad):
                raise values
            self._keep(row, values)
        except _Bad as problem:
            self._problems.append(Problem(row, str(problem)))

    def _keep(self, row: int, values: Sequence[Any]) -> None:
        arm = _name("arm", values[0])
        if self._given and arm not in self._arms:
            raise _Bad(f"unknown arm {_short(arm)}")
        reward = self._in_range(_number("reward", values[1]))
        replication = _name("replication", values[2]) if self._replicated else ""
        if self._timed:
            self._time.append(self._moment(row, values[-1]))
        # Only what a good row names is an arm or a replication, so nothing is named before all is checked.
        self._arm.append(self._arms.setdefault(arm, len(self._arms)))
        self._replication.append(
            self._replications.setdefault(replication, len(self._replications))
        )
        self._reward.append(reward)
        self._row.append(row)

    def _in_range(self, reward: float) -> float:
        if self._low <= reward <= self._high:
            return reward
        if reward < self._low:
            raise _Bad(f"reward {reward:g} is below the lowest, {self._low:g}")
        raise _Bad(f"reward {reward:g} is above the highest, {self._high:g}")

    def _moment(self, row: int, value: Any) -> int | float:
        kind, moment = _moment(value)
        if self._clock is None:
            self._clock = kind, row
        if kind != self._clock[0]:
            first, where = self._clock
            raise _Bad(f"time is {kind} ({_short(value)}), in {self._unit} {where} it is {first}")
        return moment

    def log(self, name: str) -> Log:
        """Everything kept so far, in order."""
        row, replication = _ints(self._row), _ints(self._replication)
        moments = np.array(self._time) if self._timed else row
        order = np.lexsort((row, moments, replication))
        if self._timed:
            order = self._without_ties(order, replication, moments)
        arms, places = self._arm_names()
        return Log(
            name=name,
            arms=arms,
            replications=tuple(self._replications),
            replication=replication[order],
            arm=places[_ints(self._arm)[order]],
            reward=np.array(self._reward, np.float64)[order],
            row=row[order],
            problems=tuple(sorted(self._problems)),
            unit=self._unit,
        )

    def _without_ties(self, order: Ints, replication: Ints, moments: NDArray[np.generic]) -> Ints:
        """The order without rows at a time that an earlier row of their replication has."""
        again = np.zeros(order.size, bool)
        again[1:] = np.diff(replication[order]) == 0
        again[1:] &= moments[order][1:] == moments[order][:-1]
        seen: dict[tuple[int, float], int] = {}
        for place in np.flatnonzero(again):
            if not again[place - 1]:
                seen = dict([self._user(int(order[place - 1]))])
            user, row = self._user(int(order[place]))
            if user in seen:
                what = f"the same as {self._unit} {seen[user]}"
            else:
                what = (
                    f"its time is that of {self._unit} {next(iter(seen.values()))} in the same replication: "
                    "which came first is unknown"
                )
            seen.setdefault(user, row)
            self._problems.append(Problem(row, what))
        return order[~again]

    def _user(self, place: int) -> tuple[tuple[int, float], int]:
        return (self._arm[place], self._reward[place]), self._row[place]

    def _arm_names(self) -> tuple[tuple[str, ...], Ints]:
        """The arms in their order, and where each stands in it, by the number it was given when met."""
        names = list(self._arms)
        ordered = names if self._given else sorted(names, key=_natural)
        places = {name: place for place, name in enumerate(ordered)}
        return tuple(ordered), np.array([places[name] for name in names], np.int64)


def _ints(values: array[int]) -> Ints:
    return np.array(values, np.int64)


def _natural(name: str) -> tuple[list[tuple[int, str]], str]:
    """Sorts a2 before a10: runs of digits by size, everything else as text."""
    parts = re.findall(r"[0-9]+|[^0-9]+", name)
    return [(int(part), "") if part[0] in "0123456789" else (-1, part) for part in parts], name


def _name(role: str, value: Any) -> str:
    text = value.strip() if type(value) is str else _named(role, value)
    if not text:
        raise _Bad(f"{role} is missing")
    return text


def _named(role: str, value: Any) -> str:
    if type(value) is int:
        return str(value)
    if isinstance(value, float) and value.is_integer():
        return str(int(value))  # pandas makes 1.0 of 1 where another row has none
    if isinstance(value, Mapping | list | tuple | set | bytes):
        raise _Bad(f"{role} is not a name ({_short(value)})")
    return "" if _is_missing(value) else str(value).strip()


def _is_missing(value: Any) -> bool:
    # pandas' own two are known by name: it need not be installed, and they cannot be compared.
    nan = isinstance(value, float) and math.isnan(value)
    return value is None or nan or type(value).__name__ in {"NAType", "NaTType"}


_TRUTH = {"true": 1.0, "false": 0.0}


def _number(role: str, value: Any) -> float:
    try:
        number = value if type(value) is float else _as_float(value)
    except OverflowError:
        number = math.inf
    except (TypeError, ValueError):
        raise _Bad(f"{role} is not a number ({_short(value)})") from None
    if number is None:
        raise _Bad(f"{role} is missing")
    if not math.isfinite(number):
        raise _Bad(f"{role} is {'NaN' if math.isnan(number) else 'infinite'}")
    return number


def _as_float(value: Any) -> float | None:
    if isinstance(value, str):
        text = value.strip()
        truth = _TRUTH.get(text.lower())
        return float(_plain(text)) if text and truth is None else truth
    if type(value) is int:
        return float(value)
    if not isinstance(value, float) and _is_missing(value):
        return None
    if not isinstance(value, numbers.Number | np.bool_):
        raise TypeError
    return float(value)  # type: ignore[arg-type]


def _plain(text: str) -> str:
    if "_" in text:  # Python reads 1_000 as a number; whoever wrote the log did not mean that
        raise ValueError
    return text


_NUMBER, _DATE, _ZONED = "a number", "a date without a zone", "a date with a zone"
_EPOCH = datetime(1970, 1, 1)
_ZONED_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def _moment(value: Any) -> tuple[str, int | float]:
    """The kind of a time and the time itself: a number, or microseconds."""
    if isinstance(value, str):
        value = _parsed(value.strip())
        if type(value) is datetime:
            return _since_epoch(value)
    elif isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]").item()
    if _is_missing(value):
        raise _Bad("time is missing")
    if isinstance(value, date):
        return _since_epoch(value)
    if isinstance(value, bool):
        raise _Bad(f"time is neither a number nor a date of ISO 8601 ({_short(value)})")
    if isinstance(value, numbers.Integral) and abs(int(value)) < 2**63:
        return _NUMBER, int(value)
    return _NUMBER, _number("time", value)


def _since_epoch(value: date) -> tuple[str, int]:
    if not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    if value.tzinfo is None:
        return _DATE, (value - _EPOCH) // _MICROSECOND
    return _ZONED, (value - _ZONED_EPOCH) // _MICROSECOND


def _parsed(text: str) -> Any:
    """A number or a date from text; None if there is none."""
    if not text:
        return None
    looks_like_a_date = text[4:5] == "-"  # saves two failing attempts a row
    ways: list[Callable[[str], Any]] = [_whole, _fraction, datetime.fromisoformat]
    for way in reversed(ways) if looks_like_a_date else ways:
        try:
            return way(text)
        except ValueError:
            continue
    raise _Bad(f"time is neither a number nor a date of ISO 8601 ({_short(text)})")


def _whole(text: str) -> int:
    return int(_plain(text))


def _fraction(text: str) -> float:
    return float(_plain(text))


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _open(source: Any, columns: Columns) -> _Source:
    if isinstance(source, str | os.PathLike):
        return _open_file(Path(source), columns)
    name = f"the {type(source).__name__}"
    if hasattr(source, "columns") and hasattr(source, "to_dict"):
        return _Source(name, "record", _frame_rows(name, source, columns))
    if isinstance(source, Iterable) and not isinstance(source, Mapping | bytes):
        return _Source(name, "record", _record_rows(name, source, columns))
    raise Invalid(
        f"a log is a path ending in {', '.join(_KINDS)}, a pandas or polars DataFrame, or records (a list of dicts); "
        f"got {type(source).__name__}"
    )


def _open_file(path: Path, columns: Columns) -> _Source:
    kind = _KINDS.get(path.suffix.lower())
    if kind is None:
        raise Invalid(
            f"{path}: its ending {path.suffix!r} does not say what kind of log it is; "
            f"{did_you_mean(path.suffix, _KINDS)}"
        )
    require(path.is_file(), f"there is no file {path}; give the path of a log")
    unit, rows = kind
    return _Source(str(path), unit, rows(path, columns))


def _require_columns(name: str, known: Sequence[Any], columns: Columns) -> None:
    for role, column in columns._asdict().items():
        if column is None:
            continue
        if column not in known:
            shown = did_you_mean(column, [str(one) for one in known])
            raise Invalid(f"{name} has no column {column!r} for {role}; {shown}")
        require(
            list(known).count(column) == 1,
            f"{name} has several columns {column!r}; rename all but one",
        )


def _csv_rows(path: Path, columns: Columns) -> Iterator[_Row]:
    name = str(path)
    spoilt: list[bool] = []
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        reader = csv.reader(_watched(file, spoilt), strict=True)
        header = _header(name, reader)
        if not header:
            return
        require(not spoilt, f"{name}: its first line is not UTF-8; save the log as UTF-8")
        _require_columns(name, header, columns)
        places = [header.index(column) for column in columns.wanted]
        for row, fields in _records(reader):
            if spoilt:
                spoilt.clear()
                yield row, _Bad("bytes that are not UTF-8")
            elif isinstance(fields, _Bad):
                yield row, fields
            elif len(fields) == len(header):
                yield row, [fields[place] for place in places]
            elif any(field.strip() for field in fields):
                yield row, _Bad(f"{len(fields)} fields instead of {len(header)}")


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


def _records(reader: Any) -> Iterator[tuple[int, list[str] | _Bad]]:
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
            yield begins, _Bad(f"not CSV{reach} ({error})")


def _json_rows(path: Path, columns: Columns) -> Iterator[_Row]:
    with path.open("rb") as file:
        lines = ((row, line) for row, line in enumerate(file, 1) if not line.isspace())
        records = ((row, _from_json(line.removeprefix(b"\xef\xbb\xbf"))) for row, line in lines)
        yield from _picked(str(path), records, columns)


def _from_json(line: bytes) -> Any:
    try:
        return json.loads(line.decode())
    except UnicodeDecodeError:
        return _Bad("bytes that are not UTF-8")
    except (ValueError, RecursionError) as error:
        return _Bad(f"not JSON ({error})")


def _record_rows(name: str, records: Iterable[Any], columns: Columns) -> Iterator[_Row]:
    return _picked(name, enumerate(records, 1), columns)


def _picked(name: str, records: Iterable[tuple[int, Any]], columns: Columns) -> Iterator[_Row]:
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
            bad = isinstance(record, _Bad)
            yield row, record if bad else _Bad(f"not a record ({_short(record)})")
    if known:
        _require_columns(name, list(known), columns)


def _frame_rows(name: str, frame: Any, columns: Columns) -> Iterator[_Row]:
    _require_columns(name, list(frame.columns), columns)
    lists = [_values(frame[column]) for column in columns.wanted]
    return enumerate(zip(*lists, strict=True), 1)


def _values(column: Any) -> list[Any]:
    if hasattr(column, "to_list") and not hasattr(column, "iloc"):
        return column.to_list()
    return column.astype(object).where(column.notna(), None).tolist()


def _parquet_rows(path: Path, columns: Columns) -> Iterator[_Row]:
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


_KINDS: dict[str, tuple[str, Callable[[Path, Columns], Iterator[_Row]]]] = {
    ".csv": ("line", _csv_rows),
    ".jsonl": ("line", _json_rows),
    ".ndjson": ("line", _json_rows),
    ".parquet": ("record", _parquet_rows),
}
