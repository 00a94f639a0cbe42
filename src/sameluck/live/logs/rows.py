"""Reading a log: every row is kept or is a problem; those kept are put in order."""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sameluck.arrays import Ints
from sameluck.errors import Invalid
from sameluck.live.logs.sources import Columns, open_source
from sameluck.live.logs.values import Bad, moment_of, name_of, number_of, short
from sameluck.validation import require_number

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
    opened = open_source(source, columns)
    reader = _Reader(columns, names, low, high, opened.unit)
    for row, values in opened.rows:
        reader.add(row, values)
    log = reader.log(opened.name)
    if log.row.size == 0:
        if len(log.problems) <= 0:
            raise Invalid(f"{log.name} holds no rows; give a log with at least one user")
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
        if not fits:
            raise Invalid(f"{role} must be the name of a column, got {name!r}")
    wanted = columns.wanted
    if len(set(wanted)) != len(wanted):
        raise Invalid(f"each column can be read as one thing only, got {', '.join(wanted)}")
    for bound, value in (("low", low), ("high", high)):
        if value is not None:
            require_number(bound, value)
    if not (low is None or high is None or low <= high):
        raise Invalid(f"low must not exceed high: {low} and {high}")
    if isinstance(arm_names, str):
        raise Invalid(f"arm_names must be several names, got {arm_names!r}")
    names = {str(name).strip(): place for place, name in enumerate(arm_names or ())}
    if not (len(names) == len(arm_names or ()) and "" not in names):
        raise Invalid(f"arm_names must be different and not empty, got {arm_names!r}")
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

    def add(self, row: int, values: Sequence[Any] | Bad) -> None:
        """Keep a row or its problem."""
        try:
            if isinstance(values, Bad):
                raise values
            self._keep(row, values)
        except Bad as problem:
            self._problems.append(Problem(row, str(problem)))

    def _keep(self, row: int, values: Sequence[Any]) -> None:
        arm = name_of("arm", values[0])
        if self._given and arm not in self._arms:
            raise Bad(f"unknown arm {short(arm)}")
        reward = self._in_range(number_of("reward", values[1]))
        replication = name_of("replication", values[2]) if self._replicated else ""
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
            raise Bad(f"reward {reward:g} is below the lowest, {self._low:g}")
        raise Bad(f"reward {reward:g} is above the highest, {self._high:g}")

    def _moment(self, row: int, value: Any) -> int | float:
        kind, moment = moment_of(value)
        if self._clock is None:
            self._clock = kind, row
        if kind != self._clock[0]:
            first, where = self._clock
            raise Bad(f"time is {kind} ({short(value)}), in {self._unit} {where} it is {first}")
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
