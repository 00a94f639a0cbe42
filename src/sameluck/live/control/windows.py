"""Reward windows that are extended: rewards may come later, and some default rewards are taken back."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from sameluck.errors import Diverged
from sameluck.live.calls.settings import SECOND
from sameluck.live.databases.base import Transaction
from sameluck.live.databases.rows import (
    CurrentRow,
    DefaultRow,
    LockedAssignment,
    NumberRow,
    ReplicationRow,
    TouchedRow,
)
from sameluck.live.engine.digest import MODULUS, entry_digest
from sameluck.live.engine.protocol import Entry, ReplicationState, SettledEntries
from sameluck.live.records import WindowExtension
from sameluck.live.state.ledger import Ledger
from sameluck.live.state.replications import OpenReplications, PendingWrites


def extend(
    transaction: Transaction, replications: OpenReplications, seconds: float, reason: str
) -> WindowExtension:
    """Extend every window by some seconds."""
    more = round(seconds * SECOND)
    key = {"experiment": replications.id}
    # In the order in which a reward locks them: its replication, then the experiment if that is complete.
    rows = transaction.fetch_all(ReplicationRow, "lock_all_replications", **key)
    transaction.fetch_one(CurrentRow, "lock_experiment", **key)
    leases = int(replications.options.exposure == "implicit")
    transaction.execute("extend_windows", **key, more=more, leases=leases)
    now, window = replications.settings.now(), replications.options.reward.window_seconds
    values = {"more": more, "window": round(window * SECOND), "now": now}
    defaults = transaction.fetch_all(DefaultRow, "defaults", **key, **values)
    taken: list[DefaultRow] = []
    for number, some in groupby(defaults, attrgetter("replication")):
        taken += _TakingBack(transaction, replications, rows[number], now).take_back(list(some))
    late = sorted(
        (one.event, one.assignment, one.late)
        for one in taken
        if one.event is not None and one.late is not None
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


class _TakingBack(NamedTuple):
    """The default rewards of one replication, its row locked."""

    transaction: Transaction
    replications: OpenReplications
    row: ReplicationRow
    now: int

    @property
    def key(self) -> dict[str, int]:
        return {"experiment": self.replications.id, "replication": self.row.number}

    def take_back(self, defaults: Sequence[DefaultRow]) -> list[DefaultRow]:
        """Take back those that no policy has played on; the last first, since others may have led to them."""
        engine = self.replications.current(self.transaction).engine
        ledger = Ledger(self.transaction, self.replications.id, engine, [self.row.number])
        ((_, settled, _),) = ledger.entries()
        outstanding = self.transaction.fetch_all(TouchedRow, "touched", **self.key)
        touched = {_entry(one) for one in outstanding if one.touched}
        taken: list[DefaultRow] = []
        final: ReplicationState | None = None
        for some in [list(defaults), *([one] for one in defaults)]:  # all of them, or one by one
            without = {_entry(one) for one in [*taken, *some]}
            left = _without(settled, without)
            state = engine.rebuild(self.row.number, left, touched | without)
            if _all_requested(state):
                taken, final = [*taken, *some], state
            if len(taken) == len(defaults):
                break
        if final is not None:
            wanted = {_entry(one) for one in outstanding if one.wanted and not one.touched}
            self._write(taken, final, wanted)
        return taken

    def _write(
        self, taken: Sequence[DefaultRow], state: ReplicationState, wanted_before: set[Entry]
    ) -> None:
        self.replications.hold(self.transaction, self.row.number)
        digest = 0
        for one in sorted(taken, key=attrgetter("settled"), reverse=True):
            entry = _entry(one)
            self.transaction.execute("unsettle", **self.key, **entry._asdict(), due=one.due_us)
            self.transaction.execute("close_gap", **self.key, settled=one.settled)
            digest -= entry_digest(*entry, one.value)
        values = {"taken": len(taken), "digest": digest % MODULUS}
        self.transaction.execute("take_back", **self.key, **values)
        wanted = set(state.want_afresh())
        for entry in sorted(wanted_before - wanted):
            self.transaction.execute("withdraw", **self.key, **entry._asdict())
        state.taken_back = self.row.taken_back + 1
        self.replications.states[self.row.number] = state
        writes = PendingWrites(self.transaction)
        self.replications.write_state(writes, state, sorted(wanted - wanted_before), self.now)


def _without(settled: SettledEntries, entries: set[Entry]) -> SettledEntries:
    columns = (settled.stack_owner.tolist(), settled.arm.tolist(), settled.position.tolist())
    kept = np.array([Entry(*one) not in entries for one in zip(*columns, strict=True)], bool)
    return SettledEntries(*(column[kept] for column in settled if column is not None))


def _all_requested(state: ReplicationState) -> bool:
    """Whether the policies have requested every entry that a unit was assigned."""
    try:
        state.check_requested()
    except Diverged:
        return False
    return True


def _entry(row: DefaultRow | TouchedRow) -> Entry:
    return Entry(row.stack_owner, row.arm, row.position)
