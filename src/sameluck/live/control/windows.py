"""Extension of reward windows: rewards may come later, and some default rewards are taken back."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from sameluck.errors import Diverged
from sameluck.live.calls.settings import SECOND
from sameluck.live.control.history import check_reason
from sameluck.live.databases.base import Transaction
from sameluck.live.databases.rows import (
    DefaultRow,
    ExperimentRow,
    LockedAssignment,
    NumberRow,
    ReplicationRow,
    TouchedRow,
)
from sameluck.live.engine.digest import MODULUS, entry_digest
from sameluck.live.engine.protocol import Entry, SettledEntries, StackState, stack_engine
from sameluck.live.options import MAX_SECONDS
from sameluck.live.records import WindowExtension
from sameluck.live.state.ledger import Ledger
from sameluck.live.state.replications import OpenReplications, PendingWrites
from sameluck.validation import require_number


def extend_windows(replications: OpenReplications, seconds: float, reason: str) -> WindowExtension:
    check_reason(reason)
    require_number("seconds", seconds, above=0, at_most=MAX_SECONDS)
    more = round(seconds * SECOND)
    return replications.write(lambda transaction: _extend(transaction, replications, more, reason))


def _extend(
    transaction: Transaction, replications: OpenReplications, more: int, reason: str
) -> WindowExtension:
    key = {"experiment": replications.id}
    # The lock order of a reward: its replication, then the experiment.
    rows = transaction.fetch_all(ReplicationRow, "lock_all_replications", **key)
    transaction.fetch_one(ExperimentRow, "lock_experiment", **key)
    # Under implicit exposure the lease is the window, so that leases are extended too.
    leases = int(replications.options.exposure == "implicit")
    transaction.execute("extend_windows", **key, more=more, leases=leases)
    now, window = replications.settings.now(), replications.options.reward.window_seconds
    values = {"more": more, "window": round(window * SECOND), "now": now}
    defaults = transaction.fetch_all(DefaultRow, "defaults", **key, **values)
    taken: list[DefaultRow] = []
    for number, group in groupby(defaults, attrgetter("replication")):
        taken += _Defaults(transaction, replications, rows[number], now).take_back(list(group))
    late = sorted(
        (row.event, row.assignment, row.late)
        for row in taken
        if row.event is not None and row.late is not None
    )
    for _, id, value in late:
        locked = transaction.fetch_one(LockedAssignment, "lock_assignment", assignment=id)
        transaction.execute("note_reward", assignment=id, value=value, now=now, outcome="applied")
        replications.settle(PendingWrites(transaction), locked, value, "observed", now)
    awaited = transaction.fetch_one(NumberRow, "count_awaited", **key, leases=leases).number
    counts = len(taken) - len(late), len(late), len(defaults) - len(taken)
    subject = f"by {more / SECOND:g} seconds"
    if defaults:
        subject += f"; {len(late):,} late rewards accepted, {counts[0]:,} awaited again, {counts[2]:,} defaults stay"
    replications.history.record(transaction, "windows extended", subject=subject, reason=reason)
    return WindowExtension(awaited, *counts)


class _Defaults(NamedTuple):
    """Default rewards of one replication, whose row is locked."""

    transaction: Transaction
    replications: OpenReplications
    row: ReplicationRow
    now: int

    @property
    def key(self) -> dict[str, int]:
        return {"experiment": self.replications.id, "replication": self.row.number}

    def take_back(self, defaults: Sequence[DefaultRow]) -> list[DefaultRow]:
        """Take back the default rewards that no policy has played on, and return them.

        The last are tried first, since a later default may have been requested because of an earlier one.
        """
        definition = self.replications.current(self.transaction)
        engine = stack_engine(definition.engine, "extend_windows")
        ledger = Ledger(self.transaction, self.replications.id, engine, [self.row.number])
        ((_, settled, _),) = ledger.entries()
        outstanding = self.transaction.fetch_all(TouchedRow, "touched", **self.key)
        touched = {_entry(row) for row in outstanding if row.touched}
        taken: list[DefaultRow] = []
        final: StackState | None = None
        for attempt in [list(defaults), *([row] for row in defaults)]:  # all at once, or one by one
            removed = {_entry(row) for row in [*taken, *attempt]}
            remaining = _without(settled, removed)
            state = engine.rebuild(self.row.number, remaining, touched | removed)
            if _all_requested(state):
                taken, final = [*taken, *attempt], state
            if len(taken) == len(defaults):
                break
        if final is not None:
            wanted = {_entry(row) for row in outstanding if row.wanted and not row.touched}
            self._write(taken, final, wanted)
        return taken

    def _write(
        self, taken: Sequence[DefaultRow], state: StackState, wanted_before: set[Entry]
    ) -> None:
        self.replications.hold(self.transaction, self.row.number)
        digest = 0
        for row in sorted(taken, key=attrgetter("settled"), reverse=True):
            entry = _entry(row)
            self.transaction.execute("unsettle", **self.key, **entry.columns(), due=row.due_us)
            self.transaction.execute("close_gap", **self.key, settled=row.settled)
            digest -= entry_digest(*entry, row.value)
        values = {"taken": len(taken), "digest": digest % MODULUS}
        self.transaction.execute("take_back", **self.key, **values)
        wanted = set(state.want_afresh())
        for entry in sorted(wanted_before - wanted):
            self.transaction.execute("withdraw", **self.key, **entry.columns())
        state.taken_back = self.row.taken_back + 1
        self.replications.states[self.row.number] = state
        writes = PendingWrites(self.transaction)
        self.replications.write_state(writes, state, sorted(wanted - wanted_before), self.now)


def _without(settled: SettledEntries, entries: set[Entry]) -> SettledEntries:
    columns = (settled.stack_owner.tolist(), settled.cell.tolist(), settled.position.tolist())
    kept = np.array([Entry(*entry) not in entries for entry in zip(*columns, strict=True)], bool)
    return SettledEntries(*(column[kept] for column in settled if column is not None))


def _all_requested(state: StackState) -> bool:
    """Return True if the policies have requested every entry that a unit was assigned."""
    try:
        state.check_requested()
    except Diverged:
        return False
    return True


def _entry(row: DefaultRow | TouchedRow) -> Entry:
    return Entry(row.stack_owner, row.arm, row.position)
