"""Reading a log: every row is kept, in order, or is a `Problem`."""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sameluck.arrays import Floats, Ints
from sameluck.errors import Invalid, shown
from sameluck.logs.sources import LogColumns, file_digest, open_log
from sameluck.logs.values import BadRow, excerpt, parse_name, parse_number, parse_time

MAX_LISTED = 10  # problems in a message


class Problem(NamedTuple):
    """A row that cannot be used, and the reason."""

    row: int
    reason: str


class Log(NamedTuple):
    """Usable rows of a log, ordered by replication, then by time or by their order in the log."""

    name: str  # of the file, or the type of the source
    arms: tuple[str, ...]  # as passed, or as in the log, numbers in names by size: a2 before a10
    replications: tuple[str, ...]  # their names in the log, in order of first appearance
    replication: Ints  # index in `replications`
    arm: Ints  # index in `arms`
    reward: Floats
    row: Ints  # line of the file, where a CSV's header is 1; for other sources the record, from 1
    problems: tuple[Problem, ...]  # in the order of rows
    unit: str = "record"  # what `row` counts: "line" or "record"
    digest: str = ""  # first 16 characters of a file's SHA-256 hash


def read_log(  # noqa: PLR0913 all but three are optional
    source: object,
    *,
    arm: str,
    reward: str,
    replication: str | int | None = None,
    time: str | None = None,
    arm_names: Sequence[str] | None = None,
    low: float | None = None,
    high: float | None = None,
    group: str = "replication",
) -> Log:
    """Read a log of one policy.

    A row is a problem, and left out, if

    * it is malformed: bytes that are not UTF-8, a wrong number of fields, no JSON object;
    * its arm is empty or not among `arm_names`, or its replication or time is missing;
    * its reward is missing, not a finite number or out of range;
    * its time is a date where the first valid time is a number, or the other way round;
    * an earlier row of its replication has the same time: it is repeated, or the order of two users is unknown.

    Without times the order of the log counts, and repeated rows cannot be recognised.

    Names are text without surrounding blanks; whole numbers have no decimal point. Rewards may be true and false.
    Times are numbers, or dates of ISO 8601 with or without a zone, all of one kind. Blank lines are skipped.

    Args:
        source: A path ending in .csv, .tsv, .jsonl, .ndjson or .parquet, a DataFrame, or records.
        arm: The column of arms.
        reward: The column of rewards.
        replication: The column of replications, or the number of rows after which the next replication begins; the
            last replication has the remaining rows too. By default all rows belong to a single replication.
        time: The column to order by; by default the order of the log.
        arm_names: All arms, in their order; by default the arms in the log.
        low: The lowest possible reward.
        high: The highest possible reward.
        group: What messages call a replication.
    """
    length = None
    if isinstance(replication, int) and not isinstance(replication, bool) and replication > 0:
        length, replication = replication, None
    columns = LogColumns(arm, reward, replication, time)  # type: ignore[arg-type]  # checked next
    names = _checked(columns, arm_names, group)
    open_source = open_log(source, columns)
    reader = _Reader(columns, names, low, high, open_source.unit, group)
    for row, values in open_source.rows:
        reader.add(row, values)
    log = reader.log(open_source.name)._replace(digest=file_digest(source))
    if log.row.size == 0:
        reason = f": no row can be used: {_listed(log)}" if log.problems else " has no rows"
        raise Invalid(f"{log.name}{reason}; give a log with at least one user")
    return log if length is None else _split(log, length)


def _split(log: Log, length: int) -> Log:
    count = log.row.size // length
    if count == 0:
        raise Invalid(
            f"{log.name} has {log.row.size:,} usable rows, fewer than the {shown(length)} of one replication"
        )
    replication = np.minimum(np.arange(log.row.size) // length, count - 1)
    return log._replace(replications=tuple(map(str, range(1, count + 1))), replication=replication)


def rewards_by_arm(log: Log) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(log.reward[log.arm == arm].tolist()) for arm in range(len(log.arms)))


def refuse_problems(log: Log, remedy: str = "") -> None:
    """Raise `Invalid` if the log has problems, with their number, the first ten and a remedy."""
    if log.problems:
        count = len(log.problems)
        rows, them = ("row", "it") if count == 1 else ("rows", "them")
        remedy = remedy or f"Pass skip_bad=True (--skip-bad) to leave {them} out"
        raise Invalid(f"{log.name}: {count:,} {rows} cannot be used: {_listed(log)}. {remedy}")


def _listed(log: Log) -> str:
    listed = log.problems[:MAX_LISTED]
    texts = [f"{log.unit} {problem.row}: {problem.reason}" for problem in listed]
    left = len(log.problems) - MAX_LISTED
    return "; ".join([*texts, f"and {left:,} more"] if left > 0 else texts)


def _checked(columns: LogColumns, arm_names: Sequence[str] | None, group: str) -> dict[str, int]:
    """Return the arm names with their indices, or raise `Invalid` if an argument is invalid."""
    for role, name in columns._asdict().items():
        is_optional = role in {"replication", "time"}
        if not isinstance(name, str) and not (name is None and is_optional):
            called = group if role == "replication" else role
            raise Invalid(f"{called} must be the name of a column, got {shown(name)}")
    used = columns.names
    if len(set(used)) != len(used):
        raise Invalid(f"each column can have one role only, got {', '.join(used)}")
    try:
        texts = [str(name).strip() for name in (() if arm_names is None else arm_names)]
        is_list = not isinstance(arm_names, str | bytes)
    except Exception:  # not a list, or a list of objects without text
        is_list = False
    if not is_list:
        raise Invalid(f"arm_names must be a list of names, got {shown(arm_names)}")
    names = {name: index for index, name in enumerate(texts)}
    if len(names) != len(texts) or "" in names:
        raise Invalid(f"arm_names must be distinct and not empty, got {shown(arm_names)}")
    return names


class _Reader:
    """Collector of the rows' values, in columns, and of the problems."""

    def __init__(
        self,
        columns: LogColumns,
        names: dict[str, int],
        low: float | None,
        high: float | None,
        unit: str,
        group: str,
    ) -> None:
        self._group = group
        self._has_fixed_arms = bool(names)
        self._unit = unit
        self._arms = dict(names)
        self._replications: dict[str, int] = {}
        self._low = -math.inf if low is None else low
        self._high = math.inf if high is None else high
        self._has_replication = columns.replication is not None
        self._has_time = columns.time is not None
        # Of all times, and the first row with a time.
        self._time_type: tuple[str, int] | None = None
        self._row, self._arm, self._replication = array("q"), array("q"), array("q")
        self._reward = array("d")
        self._time: list[int | float] = []  # whole numbers stay exact beyond 2^53
        self._problems: list[Problem] = []

    def add(self, row: int, values: Sequence[object] | BadRow) -> None:
        try:
            if isinstance(values, BadRow):
                raise values
            self._keep(row, values)
        except BadRow as error:
            self._problems.append(Problem(row, str(error)))

    def _keep(self, row: int, values: Sequence[object]) -> None:
        arm = parse_name("arm", values[0])
        if self._has_fixed_arms and arm not in self._arms:
            raise BadRow(f"unknown arm {excerpt(arm)}")
        reward = parse_number("reward", values[1])
        if reward < self._low:
            raise BadRow(f"reward {reward:g} is below the lowest, {self._low:g}")
        if reward > self._high:
            raise BadRow(f"reward {reward:g} is above the highest, {self._high:g}")
        replication = parse_name(self._group, values[2]) if self._has_replication else ""
        if self._has_time:
            self._time.append(self._checked_time(row, values[-1]))
        # A row with a problem defines no arm or replication, so all is checked before the first name is added.
        self._arm.append(self._arms.setdefault(arm, len(self._arms)))
        indices = self._replications
        self._replication.append(indices.setdefault(replication, len(indices)))
        self._reward.append(reward)
        self._row.append(row)

    def _checked_time(self, row: int, value: object) -> int | float:
        time_type, time = parse_time(value)
        self._time_type = expected, first = self._time_type or (time_type, row)
        if time_type != expected:
            raise BadRow(
                f"time is {time_type} ({excerpt(value)}), in {self._unit} {first} it is {expected}"
            )
        return time

    def log(self, name: str) -> Log:
        """Return the rows kept so far, in order."""
        row, replication = np.array(self._row), np.array(self._replication)
        times = np.array(self._time) if self._has_time else row
        order = np.lexsort((row, times, replication))
        if self._has_time:
            order = self._without_ties(order, replication, times)
        arms, indices = self._arm_names()
        return Log(
            name=name,
            arms=arms,
            replications=tuple(self._replications),
            replication=replication[order],
            arm=indices[np.array(self._arm)[order]],
            reward=np.array(self._reward, np.float64)[order],
            row=row[order],
            problems=tuple(sorted(self._problems)),
            unit=self._unit,
        )

    def _without_ties(self, order: Ints, replication: Ints, times: NDArray[np.generic]) -> Ints:
        """Return the order without rows that have the time of an earlier row of their replication."""
        tied = np.zeros(order.size, bool)
        tied[1:] = np.diff(replication[order]) == 0
        tied[1:] &= times[order][1:] == times[order][:-1]
        seen: dict[tuple[int, float], int] = {}
        for rank in np.flatnonzero(tied):
            if not tied[rank - 1]:
                seen = dict([self._user(int(order[rank - 1]))])
            user, row = self._user(int(order[rank]))
            first = f"{self._unit} {next(iter(seen.values()))} in the same replication"
            reason = f"its time is that of {first}: their order is unknown"
            if user in seen:
                reason = f"the same as {self._unit} {seen[user]}"
            seen.setdefault(user, row)
            self._problems.append(Problem(row, reason))
        return order[~tied]

    def _user(self, index: int) -> tuple[tuple[int, float], int]:
        return (self._arm[index], self._reward[index]), self._row[index]

    def _arm_names(self) -> tuple[tuple[str, ...], Ints]:
        """Return the arms in their order, and the index of each arm by order of appearance."""
        names = list(self._arms)
        ordered = names if self._has_fixed_arms else sorted(names, key=natural_order)
        index = {name: position for position, name in enumerate(ordered)}
        return tuple(ordered), np.array([index[name] for name in names], np.int64)


def natural_order(name: str) -> tuple[list[tuple[int, str]], str]:
    """Return a sort key with a2 before a10: digits by size, everything else as text."""
    runs = re.findall(r"[0-9]+|[^0-9]+", name)
    return [(int(run), "") if run[0] in "0123456789" else (-1, run) for run in runs], name
