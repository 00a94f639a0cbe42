"""State of an experiment's open replications, in memory, in step with their rows.

Every change is made here, inside a transaction that holds the replication's row. The state in memory only saves
running the policies over the ledger again: it is dropped when a transaction fails, brought up to date when another
process has settled entries, and otherwise rebuilt from the ledger. What this process derives must then be what the
others have requested.

A process that does not have the experiment's code of every policy settles entries without running the policies: the
replication is behind, until a process that has the code derives what follows.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial
from threading import Lock
from typing import NamedTuple, TypeVar

from sameluck.errors import Diverged, Invalid, OtherVersion, Unplayable
from sameluck.live.calls.settings import StoreSettings
from sameluck.live.databases.base import Database, Transaction, Work
from sameluck.live.databases.rows import (
    ACTIVE,
    CurrentRow,
    EntryRow,
    ExperimentRow,
    LockedAssignment,
    LockedReplication,
    NumberRow,
    SettledRow,
    TextRow,
    ValueRow,
)
from sameluck.live.engine.protocol import Engine, Entry, Fetch, ReplicationState
from sameluck.live.options import Makers, open_at_once, stop_after_of
from sameluck.live.state.digests import digest_after, digest_between, edited
from sameluck.live.state.ledger import Ledger
from sameluck.live.state.stored_experiment import StoredExperiment
from sameluck.live.users.pending_writes import PendingWrites

T = TypeVar("T")


class Counts(NamedTuple):
    """What one change adds to the counters of a replication."""

    settled: int
    defaulted: int
    digest: int


NOTHING = Counts(0, 0, 0)


class OpenReplications(StoredExperiment):
    """The open replications of one experiment."""

    def __init__(
        self,
        database: Database,
        row: ExperimentRow,
        settings: StoreSettings,
        makers: Makers | None,
    ) -> None:
        super().__init__(database, row, settings, makers)
        self.after_fork()

    def after_fork(self) -> None:
        """Forget the states and the locks of the process that this one was forked from."""
        self.definition.after_fork()
        self.states: dict[int, ReplicationState] = {}
        self._locks: dict[int, Lock] = {}
        self._guard = threading.Lock()

    def write(self, work: Work[T]) -> T:
        """Run a transaction; if a policy fails or disagrees with the ledger, the experiment's status is failed.

        Not if this process has another version of a policy: the others carry on.
        """
        try:
            return self.database.write(work)
        except OtherVersion:
            raise
        except (Diverged, Unplayable) as error:
            self.fail(str(error))
            raise

    def fail(self, reason: str) -> None:
        """Set the status to failed."""

        def work(transaction: Transaction) -> None:
            row = transaction.fetch_one(CurrentRow, "lock_experiment", experiment=self.id)
            if (row.status, row.reason) != ("failed", reason):
                self.set_status(transaction, "failed", reason)

        self.database.write(work)

    def set_status(
        self,
        transaction: Transaction,
        status: str,
        reason: str,
        *,
        what: str | None = None,
        subject: str = "",
    ) -> None:
        """Set the status and record it; the next replications are opened if it is active."""
        transaction.execute("set_status", experiment=self.id, status=status, reason=reason)
        self.history.record(transaction, what or status, subject=subject, reason=reason)
        if status in ACTIVE:
            self.open_next(transaction, self.settings.now())

    def settle(
        self,
        settlements: PendingWrites,
        locked: LockedAssignment,
        value: float,
        source: str,
        now: int,
    ) -> None:
        """Settle an entry, advance the policies, and want what they need next.

        If this process does not run them, the replication is behind.
        """
        transaction = settlements.transaction
        state, needed = self._state(transaction, locked)
        value += 0.0  # a default of -0.0, which SQLite does not keep
        settlements.add(
            "settle",
            **locked.key(),
            assignment=locked.id,
            value=value,
            source=source,
            settled=locked.version + 1,
            now=now,
        )
        entry, defaulted = (
            Entry(locked.stack_owner, locked.arm, locked.position),
            int(source == "default"),
        )
        if state is None:
            digest = digest_after(0, [SettledRow(*entry, value)])
            self._fall_behind(transaction, locked, Counts(1, defaulted, digest))
            return
        before = state.digest
        wanted = state.settle(entry, value, self._fetch(transaction, state.number))
        counts = Counts(1, defaulted, digest_between(before, state.digest))
        if needed:  # what is settled may be among them, if it was released before
            wanted = sorted({*needed, *wanted} - {entry})
        self.write_state(settlements, state, wanted, now, counts)
        if state.complete:
            self.open_next(transaction, now)

    def _fall_behind(
        self, transaction: Transaction, locked: LockedAssignment, counts: Counts
    ) -> None:
        transaction.execute(
            "fall_behind",
            experiment=self.id,
            replication=locked.replication,
            version=locked.version + 1,
            defaulted=counts.defaulted,
            digest=counts.digest,
        )

    def advance_behind(self) -> int:
        """Run the policies of replications that are behind; returns how many there were."""
        rows = self.database.read(lambda t: t.fetch_all(NumberRow, "behind", experiment=self.id))
        if rows and self.definition.refusal is None:
            return sum(self.write(partial(self._advance, number=number)) for (number,) in rows)
        return 0

    def _advance(self, transaction: Transaction, number: int) -> bool:
        key = {"experiment": self.id, "replication": number}
        locked = transaction.find(LockedReplication, "lock_replication", **key)
        if locked is None or not locked.behind:
            return False
        state, needed = self._state(transaction, locked)
        if state is None:
            return False
        now = self.settings.now()
        self.write_state(PendingWrites(transaction), state, needed, now)
        if state.complete:
            self.open_next(transaction, now)
        return True

    def void(self, transaction: Transaction, locked: LockedAssignment, now: int) -> None:
        """Void an assignment: its entry is wanted again."""
        transaction.execute("void", assignment=locked.id, now=now)
        transaction.execute("count_void", experiment=self.id, replication=locked.replication)
        transaction.execute("want_again", **locked.key(), assignment=locked.id)

    def _state(
        self, transaction: Transaction, locked: LockedAssignment | LockedReplication
    ) -> tuple[ReplicationState | None, list[Entry]]:
        """The state of a replication, None if this process does not run the policies; and what it needs if behind."""
        number = locked.replication
        self.hold(transaction, number)
        definition = self.definition
        if definition.row.revision != locked.policy_revision:
            definition = self.current(transaction)
        if definition.refusal is not None:
            return None, []
        state, needed = self.states.get(number), None
        if state is not None and state.engine is definition.engine:
            needed = self._catch_up(transaction, state, locked)
        if state is None or needed is None:
            ledger = Ledger(transaction, self.id, definition.engine, [number])
            (state,) = ledger.replications(checked=False)
            if not _is_of(locked, state.version, state.digest):
                raise edited(ledger, number)
            state.taken_back = locked.taken_back
            needed = state.check(behind=locked.behind > 0)
            self.states[number] = state
        return state, needed

    def hold(self, transaction: Transaction, number: int) -> None:
        """Change the state of a replication, in this process alone; it is dropped unless that is committed."""
        with self._guard:
            lock = self._locks.setdefault(number, Lock())
        transaction.hold_lock(lock)
        transaction.on_rollback(lambda: self.states.pop(number, None))

    def _catch_up(
        self,
        transaction: Transaction,
        state: ReplicationState,
        locked: LockedAssignment | LockedReplication,
    ) -> list[Entry] | None:
        """Settle what other processes have settled meanwhile, and check what they have requested.

        If the replication is behind, returns the entries that it needs and no process has requested. None if the
        state is not that of the ledger any more: defaults were taken back, or a backup was restored.
        """
        since = [] if state.version == locked.version else self._settled_since(transaction, state)
        digest = digest_after(state.digest, since)
        same = _is_of(locked, state.version + len(since), digest)
        if not same or state.taken_back != locked.taken_back:
            return None
        if not since:
            return []
        self._settle_each(transaction, state, since)
        span = {"experiment": self.id, "first": state.number, "stop": state.number + 1}
        rows = transaction.fetch_all(EntryRow, "outstanding", **span)
        requested = {Entry(*entry) for _, *entry in rows}
        return state.adopt(requested, behind=locked.behind > 0)

    def settle_since(self, transaction: Transaction, state: ReplicationState) -> list[float]:
        """Settle in a state what was settled in the database since; returns the rewards."""
        since = self._settled_since(transaction, state)
        self._settle_each(transaction, state, since)
        return [row.value for row in since]

    def _settled_since(self, transaction: Transaction, state: ReplicationState) -> list[SettledRow]:
        key = {"experiment": self.id, "replication": state.number, "version": state.version}
        return transaction.fetch_all(SettledRow, "settled_since", **key)

    def _settle_each(
        self, transaction: Transaction, state: ReplicationState, rows: Sequence[SettledRow]
    ) -> None:
        fetch = self._fetch(transaction, state.number)
        for *entry, value in rows:
            state.settle(Entry(*entry), value, fetch)

    def _fetch(self, transaction: Transaction, number: int) -> Fetch:
        def fetch(stack_owner: int, arm: int, first: int, stop: int) -> list[float]:
            key = {
                "experiment": self.id,
                "replication": number,
                "stack_owner": stack_owner,
                "arm": arm,
            }
            rows = transaction.fetch_all(ValueRow, "values", **key, first=first, stop=stop)
            return [row.value for row in rows]

        return fetch

    def write_state(
        self,
        settlements: PendingWrites,
        state: ReplicationState,
        wanted: Sequence[Entry],
        now: int,
        counts: Counts = NOTHING,
    ) -> None:
        """Write the state of a replication, and want entries."""
        complete = state.complete
        settlements.advance(
            state.number,
            experiment=self.id,
            version=state.version,
            policies=state.policies,
            state="complete" if complete else "open",
            complete=complete,
            defaulted=counts.defaulted,
            digest=counts.digest,
            before=state.version - counts.settled,
            now=now,
        )
        for entry in wanted:
            settlements.add("want", experiment=self.id, replication=state.number, **entry._asdict())
        if complete and not state.outstanding:
            self.states.pop(state.number, None)
            self._locks.pop(state.number, None)

    def open_next(self, transaction: Transaction, now: int) -> None:
        """Open the next replications; or end the experiment if no entry is outstanding, not even of an audit."""
        row = transaction.fetch_one(CurrentRow, "lock_experiment", experiment=self.id)
        definition = self._take(row)
        open_now = transaction.fetch_one(NumberRow, "count_open", experiment=self.id).number
        last = transaction.fetch_one(NumberRow, "last_replication", experiment=self.id).number
        planned = definition.experiment.replications
        most = open_at_once(definition.experiment, self.options)
        to_begin = {"running": planned, "draining": stop_after_of(row.options) or 0}
        while last + 1 < to_begin.get(row.status, 0) and open_now < most:
            last, open_now = last + 1, open_now + 1
            self._open(transaction, definition.engine, row.policy_revision, last, now)
        outstanding = transaction.fetch_one(NumberRow, "any_outstanding", experiment=self.id).number
        if open_now == 0 and not outstanding and row.status in ACTIVE:
            status = "complete" if last + 1 == planned else "stopped"
            self.set_status(transaction, status, row.reason)

    def continue_after(
        self, transaction: Transaction, before: CurrentRow, open_before: int
    ) -> None:
        """Go on after a change of the policies: one that had ended is running again if it needs users."""
        status, key = before.status, {"experiment": self.id}
        drained = status == "stopped" and not open_before  # stopped at once: it stays stopped
        if (status == "complete" or drained) and transaction.fetch_one(
            NumberRow, "count_open", **key
        ).number:
            if not transaction.fetch_one(TextRow, "salt", **key).text:
                raise Invalid(
                    "the policies need users, but those of this experiment were forgotten; start another"
                )
            transaction.execute("set_sticky", **key, sticky=1)
            again = "running" if status == "complete" else "draining"
            self.set_status(transaction, again, before.reason)
        elif status in ACTIVE:
            self.open_next(transaction, self.settings.now())

    def _open(
        self, transaction: Transaction, engine: Engine, revision: int, number: int, now: int
    ) -> None:
        self.hold(transaction, number)
        state, wanted = engine.start(number)
        values = {"policies": state.policies, "revision": revision, "now": now}
        transaction.execute("open_replication", experiment=self.id, number=number, **values)
        key = {"experiment": self.id, "replication": number}
        transaction.execute_many("want", [{**key, **entry._asdict()} for entry in wanted])
        self.states[number] = state


def _is_of(locked: LockedAssignment | LockedReplication, version: int, digest: int) -> bool:
    """Whether the entries of a replication are so many, and have this digest if one is known."""
    known = locked.digested == locked.version
    return version == locked.version and (digest == locked.digest or not known)
