"""Summaries of replications, which the checks of the diagnostics read instead of the whole ledger.

The summary of a complete replication is kept as long as its mark is the same. A look therefore reads the open
replications, the replications that changed since the last look, and some of the others in turn: an edit of the
database changes no mark and is found by this turn.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sameluck.live.databases.base import Row
from sameluck.live.databases.rows import (
    AuditRow,
    EditedRow,
    LateRow,
    LoggedRow,
    NumberCount,
    NumberRow,
    OutcomeRow,
    ReplicationMark,
    VoidCount,
)
from sameluck.live.engine.digest import entries_digest
from sameluck.live.engine.protocol import StackEngine
from sameluck.live.state.digests import marks_of
from sameluck.live.state.ledger import Ledger

MAX_SAMPLE = 100_000  # assignments that the checks use; more hardly change a check
MAX_TURN = 20_000  # entries of unchanged replications that a look reads again
MAX_VOIDS = 20  # of one entry; more deserve attention
OPEN = -1  # outcome of an assignment that has not ended
EVENT_MARGIN = (
    10_000  # events that a look reads again: PostgreSQL numbers events before they are committed
)
_TYPES = ("i8", "i8", "i8", "i8", "i8", "?", "i8", "?", "f8", "i8")
_ASSIGNMENT = np.dtype(list(zip(OutcomeRow._fields, _TYPES, strict=True)))
AssignmentRows: TypeAlias = NDArray[Any]  # of `_ASSIGNMENT`
NO_ASSIGNMENTS: AssignmentRows = np.empty(0, _ASSIGNMENT)


class Summary(NamedTuple):
    """Facts about one replication."""

    mark: ReplicationMark  # while it and `erased` are the same, so are the facts of a replication that is `final`
    erased: int  # assignments
    assignments: AssignmentRows  # of every step-th entry
    edited: tuple[EditedRow, ...]  # rewards that differ from the audit log
    unlogged: tuple[int, int]  # number and digest of the rewards that are not in the audit log
    voided_often: tuple[VoidCount, ...]
    audit: (
        float | None
    )  # sum of audited differences, NaN if a step is not settled; None without audited steps

    @property
    def final(self) -> bool:
        """True if the replication is complete and awaits nothing."""
        awaits_audit = self.audit is not None and math.isnan(self.audit)
        awaits = awaits_audit or bool((self.assignments["outcome"] == OPEN).any())
        return self.mark.state == "complete" and not awaits


class Summaries:
    """Summaries of one experiment's replications that are kept from one look to the next.

    Args:
        verified: The marks of replications that `verification.verify` need not derive again.
    """

    def __init__(self, verified: dict[int, ReplicationMark] | None = None) -> None:
        self.verified = {} if verified is None else verified
        self._kept: dict[int, Summary] = {}
        self._step = 1
        self._turn = 0  # the next number of an unchanged replication to read again
        self._late: dict[str, int] = {}  # arms of late rewards, by assignment
        self._late_until = (0, 0)  # last event, and changes of the audit log

    def read(self, ledger: Ledger, step: int, now: int) -> dict[int, Summary]:
        """Return the summaries of all replications by number; `step` is the sample's, a power of two."""
        key = {"experiment": ledger.id}
        erased = dict(ledger.transaction.fetch_all(NumberCount, "count_erased", **key))
        states = {mark.number: (mark, erased.get(mark.number, 0)) for mark in marks_of(ledger)}
        kept = {
            number: _thinned(summary, step)
            for number, summary in self._kept.items()
            if states.get(number) == summary[:2] and step % self._step == 0
        }
        for number in self._next_turn(kept):
            del kept[number]
            self.verified.pop(number, None)
        missing = [number for number in states if number not in kept]
        for span in ledger.spans(missing):
            read = _read_span(ledger, [states[number] for number in span], step, now)
            kept |= {summary.mark.number: summary for summary in read}
        # Replaced as a whole: another thread may look at the same time.
        self._kept, self._step = {n: summary for n, summary in kept.items() if summary.final}, step
        return dict(sorted(kept.items()))

    def _next_turn(self, kept: Mapping[int, Summary]) -> list[int]:
        """Return the next unchanged replications to read again, after the replications of the last look."""
        numbers: list[int] = []
        entries = 0
        for number in sorted(kept, key=lambda number: (number < self._turn, number)):
            entries += kept[number].mark.version
            if entries > MAX_TURN and numbers:
                break
            numbers.append(number)
        self._turn = numbers[-1] + 1 if numbers else 0
        return numbers

    def late_by_arm(self, ledger: Ledger, arms: int) -> list[int]:
        """Return the number of rewards that came after their window, by arm."""
        transaction, key = ledger.transaction, {"experiment": ledger.id}
        changes = transaction.fetch_one(NumberRow, "count_log_changes", **key).number
        last = transaction.fetch_one(NumberRow, "last_event").number
        event, known_changes = self._late_until
        late = self._late if changes == known_changes and last >= event else {}
        first = max(0, event - EVENT_MARGIN) if late is self._late else 0
        rows = transaction.fetch_all(LateRow, "late", **key, event=first)
        self._late = late | {row.assignment: row.arm for row in rows}
        self._late_until = last, changes
        return np.bincount(list(self._late.values()), minlength=arms).tolist()


def _thinned(summary: Summary, step: int) -> Summary:
    rows = summary.assignments
    chosen = (rows["position"] + rows["arm"] + rows["replication"]) % step == 0
    return summary if chosen.all() else summary._replace(assignments=rows[chosen])


def _read_span(
    ledger: Ledger, states: Sequence[tuple[ReplicationMark, int]], step: int, now: int
) -> Iterator[Summary]:
    """Read consecutive replications, given by their marks and their numbers of erased assignments."""
    transaction = ledger.transaction
    first, last = states[0][0].number, states[-1][0].number
    span = {"experiment": ledger.id, "first": first, "stop": last + 1}
    rows = transaction.iterate(OutcomeRow, "assignments", **span, step=step, now=now)
    assignments = np.fromiter(rows, _ASSIGNMENT)
    logged = _by_replication(transaction.iterate(LoggedRow, "unlogged", **span))
    voided = {}
    if any(mark.voided > MAX_VOIDS for mark, _ in states):
        often = transaction.fetch_all(VoidCount, "often_voided", **span, often=MAX_VOIDS)
        voided = _by_replication(sorted(often, key=attrgetter("replication")))
    audits = {}
    if isinstance(ledger.engine, StackEngine) and ledger.engine.audit_share:
        audits = _by_replication(transaction.iterate(AuditRow, "audits", **span))
    for mark, erased in states:
        number = mark.number
        start, stop = np.searchsorted(assignments["replication"], [number, number + 1])
        yield Summary(
            mark,
            erased,
            assignments[start:stop].copy(),  # a view would keep the rows of the whole span
            *_compared(logged.get(number, [])),
            tuple(voided.get(number, [])),
            _audit_sum(audits[number]) if number in audits else None,
        )


def _by_replication(rows: Iterable[Row]) -> dict[int, list[Row]]:
    return {number: list(group) for number, group in groupby(rows, attrgetter("replication"))}


def _compared(rows: list[LoggedRow]) -> tuple[tuple[EditedRow, ...], tuple[int, int]]:
    """Return the rewards that differ from the audit log, and the number and digest of rewards that are not in it."""
    edited = [
        EditedRow(row.replication, row.arm, row.position, row.value, row.reported, row.assignment)
        for row in rows
        if row.reported is not None
    ]
    missing = [row[1:5] for row in rows if row.reported is None]
    if not missing:
        return tuple(sorted(edited)), (0, 0)
    stack_owner, arm, position, value = map(np.array, zip(*missing, strict=True))
    digest = entries_digest(stack_owner, arm, position, value.astype(float))
    return tuple(sorted(edited)), (len(missing), digest)


def _audit_sum(rows: list[AuditRow]) -> float:
    return sum((math.nan if row.difference is None else row.difference for row in rows), 0.0)
