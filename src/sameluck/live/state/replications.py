"""One experiment as this process knows it: its definition, and the states of its open replications.

The database holds the state; memory holds a cache of it. Every change is made in a transaction that holds the
replication's row, and the cached state is dropped if the transaction fails. If another process has settled entries
meanwhile, the cached state catches up; otherwise it is rebuilt from the ledger. The entries that this process derives
must then be the entries that other processes have requested.

A process that lacks the experiment's code of a policy settles entries without running the policies. The replication
is then behind, until a process with the code advances it.

Lock order, the same in every transaction, so that no two transactions wait for each other:

1. the units' locks (`Transaction.lock`, sorted by hash),
2. the rows of an assignment, its entry and its replication (`lock_assignment`, or `lock_all_replications`),
3. this process's lock of the replication's cached state (`hold`),
4. the experiment's row (`lock_experiment`), only when a replication is complete or an operator changes something.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from functools import partial
from threading import Lock
from typing import Any, TypeVar

from sameluck.errors import Diverged, Invalid, OtherVersion, Unplayable
from sameluck.experiment import Experiment
from sameluck.live.calls.settings import StoreSettings
from sameluck.live.control.history import History
from sameluck.live.databases.base import Database, SqlValue, Transaction, Work
from sameluck.live.databases.rows import (
    ACTIVE,
    DefinitionRow,
    EntryRow,
    ExperimentRow,
    LockedAssignment,
    LockedReplication,
    NumberRow,
    ReplicationMark,
    ReplicationRow,
    SettledRow,
    ValueRow,
)
from sameluck.live.engine.digest import MODULUS, entry_digest
from sameluck.live.engine.protocol import Engine, Entry, Fetch, ReplicationState
from sameluck.live.options import (
    Maker,
    Makers,
    checked_makers,
    later_options,
    open_at_once,
    options_from,
    stop_after_of,
)
from sameluck.live.state.definition import Definition
from sameluck.live.state.digests import digest_after, edited
from sameluck.live.state.ledger import Ledger

T = TypeVar("T")


class PendingWrites:
    """Rows that a transaction writes just before its next other statement, the rows of one statement together.

    A batch of rewards then takes as few statements as a single reward, and a replication with several rewards is
    written once. Without it PostgreSQL settles 3,400 rewards per second in batches of 100, with it 6,800 (medians of
    three interleaved runs on two busy cores); so this layer stays beside the call queue and SQLite's group commit.
    """

    def __init__(self, transaction: Transaction) -> None:
        self.transaction = transaction
        self._clear()

    def _clear(self) -> None:
        # Written in this order: a row that becomes wanted again may be settled next, but not the other way round.
        self._rows: dict[str, list[dict[str, SqlValue]]] = {
            "want": [],
            "settle": [],
            "note_reward": [],
        }
        self._replications: dict[int, dict[str, Any]] = {}
        self._is_deferred = False

    def add(self, statement: str, **values: SqlValue) -> None:
        self._defer()
        self._rows[statement].append(values)

    def advance(self, replication: int, defaulted: int, digest: int, **values: SqlValue) -> None:
        """Add the state of a replication; it replaces an earlier state that is still pending."""
        self._defer()
        if earlier := self._replications.get(replication):
            values["before"] = earlier["before"]
            defaulted += earlier["defaulted"]
            digest = (digest + earlier["digest"]) % MODULUS
        counts = {"replication": replication, "defaulted": defaulted, "digest": digest}
        self._replications[replication] = {**values, **counts}

    def _defer(self) -> None:
        if not self._is_deferred:
            self._is_deferred = True
            self.transaction.defer(self._write)

    def _write(self) -> None:
        pending, replications = self._rows, self._replications
        self._clear()
        for statement, rows in pending.items():
            if rows:
                self.transaction.execute_many(statement, rows)
        if replications:
            self.transaction.execute_many("advance_replication", list(replications.values()))


class OpenReplications:
    """Definition and open replications of one experiment; `definition` is its row's, if it is prepared already."""

    def __init__(
        self,
        database: Database,
        row: ExperimentRow,
        settings: StoreSettings,
        makers: Makers | None,
        definition: Definition | None = None,
    ) -> None:
        self.database = database
        self.settings = settings
        self.id, self.name = row.id, row.name
        self.history = History(row.id, row.name, settings)
        self.options = options_from(row.options)
        self.later_options = later_options(row.options)
        self.makers = checked_makers(makers)
        self.definition = definition or self.define(row.policies)
        self.after_fork()

    def after_fork(self) -> None:
        """Drop the states and locks of the parent process, which may be in use there."""
        self.definition.after_fork()
        self.states: dict[int, ReplicationState] = {}
        # Complete replications whose ledger agreed with the policies, by number; see `verification.verify`
        self.verified: dict[int, ReplicationMark] = {}
        self._locks: dict[int, Lock] = {}
        self._guard = threading.Lock()

    @property
    def experiment(self) -> Experiment:
        """Experiment with the policies that this process knows; reading it prepares no policy."""
        return self.definition.experiment

    def add_maker(self, name: str, make: Maker) -> None:
        self.makers |= checked_makers({name: make})

    # The definition

    def define(self, row: DefinitionRow, makers: Makers | None = None) -> Definition:
        """Return the definition in a row, with the makers of this process unless others are passed."""
        return Definition(row, self.options, self.makers if makers is None else makers)

    def current(self, transaction: Transaction, row: ExperimentRow | None = None) -> Definition:
        """Return the definition in the database, which another process may have changed.

        This process uses it from then on, unless it has a later definition already: a reader may see an older state.
        `row` is the experiment's row, if the transaction has read it.
        """
        if row is None:
            row = transaction.fetch_one(ExperimentRow, "experiment_now", experiment=self.id)
        definition = self.definition
        if row.policies != definition.row:
            definition = self.define(row.policies)
            if row.policy_revision >= self.definition.row.revision:
                self.definition = definition
        return definition

    def set_definition(self, transaction: Transaction, after: Definition) -> None:
        """Use another definition from now on, in all processes; the caller has locked all replications."""
        key, before, row = {"experiment": self.id}, self.definition, after.row
        transaction.execute("set_definition", **key, **row._asdict())
        policies = len(after.experiment.policies)
        transaction.execute("set_policies", **key, policies=policies, revision=row.revision)
        # Used at once, since the rest of the transaction runs the new policies.
        transaction.on_rollback(lambda: setattr(self, "definition", before))
        self.definition = after

    # Transactions

    def read(self, work: Callable[[Ledger], T], *, needs: Collection[str] | None = None) -> T:
        """Run work on one consistent state of the ledger.

        `needs` are the policies that the work needs. The process may then lack the code of other policies.
        """

        def read_ledger(transaction: Transaction) -> T:
            definition = self.current(transaction)
            partial = needs is not None and definition.lacks_only_others(needs)
            engine = definition.playable if partial else definition.engine
            return work(self.ledger(transaction, engine)._replace(partial=partial))

        return self.database.read(read_ledger)

    def write(self, work: Work[T]) -> T:
        """Run a transaction; if a policy fails or disagrees with the ledger, the experiment fails.

        A process that merely has another version of a policy does not fail the experiment: other processes carry on.
        """
        try:
            return self.database.write(work)
        except OtherVersion:
            raise
        except (Diverged, Unplayable) as error:
            # In a transaction of its own: the failed one was rolled back.
            self.fail(str(error))
            raise

    def fail(self, reason: str) -> None:

        def work(transaction: Transaction) -> None:
            row = transaction.fetch_one(ExperimentRow, "lock_experiment", experiment=self.id)
            if (row.status, row.reason) != ("failed", reason):
                self.set_status(transaction, "failed", reason)

        self.database.write(work)

    def set_status(
        self,
        transaction: Transaction,
        status: str,
        reason: str,
        *,
        change: str | None = None,
        subject: str = "",
    ) -> None:
        """Set the status and record it in the history; an active status opens the next replications."""
        transaction.execute("set_status", experiment=self.id, status=status, reason=reason)
        self.history.record(transaction, change or status, subject=subject, reason=reason)
        if status in ACTIVE:
            self.open_next(transaction, self.settings.now())

    def ledger(self, transaction: Transaction, engine: Engine) -> Ledger:
        """Return the ledger of every replication, for the policies of an engine."""
        rows = transaction.fetch_all(ReplicationRow, "replications", experiment=self.id)
        behind = {row.number for row in rows if row.behind}
        return Ledger(transaction, self.id, engine, [row.number for row in rows], behind)

    def outstanding(self, transaction: Transaction) -> dict[int, set[Entry]]:
        """Return the wanted and the assigned entries by replication."""
        entries: dict[int, set[Entry]] = {}
        rows = transaction.fetch_all(EntryRow, "all_outstanding", experiment=self.id)
        for number, *entry in rows:
            entries.setdefault(number, set()).add(Entry(*entry))
        return entries

    # Entries

    def settle(
        self, writes: PendingWrites, locked: LockedAssignment, value: float, source: str, now: int
    ) -> None:
        """Settle an entry, advance the policies, and want the entries that they need next.

        If this process does not run the policies, the replication falls behind.
        """
        transaction, number = writes.transaction, locked.replication
        state, needed = self._state(transaction, locked)
        value += 0.0  # SQLite does not keep a default of -0.0
        entry = Entry(locked.stack_owner, locked.arm, locked.position)
        key = {"experiment": self.id, "replication": number}
        writes.add(
            "settle",
            **key,
            stack_owner=entry.stack_owner,
            arm=entry.cell,
            position=entry.position,
            assignment=locked.id,
            value=value,
            source=source,
            settled=locked.version + 1,
            now=now,
        )
        defaulted = int(source == "default")
        if state is None:
            # The reward must be durable now; a process with the code runs the policies later.
            counts = {"defaulted": defaulted, "digest": entry_digest(*entry, value)}
            transaction.execute("fall_behind", **key, version=locked.version + 1, **counts)
            return
        digest_before = state.digest
        wanted = state.settle(entry, value, self._fetch(transaction, number))
        if needed:  # the entry may be among them, if it was released before
            wanted = sorted({*needed, *wanted} - {entry})
        counts = {"defaulted": defaulted, "digest": (state.digest - digest_before) % MODULUS}
        if self.write_state(writes, state, wanted, now, settled=1, **counts):
            self.open_next(transaction, now)

    def void(self, transaction: Transaction, locked: LockedAssignment, now: int) -> None:
        """Void an assignment; its entry is wanted again, or released if the replication's state does not want it."""
        transaction.execute("void", assignment=locked.id, now=now)
        transaction.execute("count_void", experiment=self.id, replication=locked.replication)
        transaction.execute("want_again", **locked.key(), assignment=locked.id)
        if not self._wants_again(transaction, locked):
            transaction.execute("release", **locked.key())

    def _wants_again(self, transaction: Transaction, locked: LockedAssignment) -> bool:
        """Return True if a voided entry is wanted again, also where this process cannot derive the state."""
        if locked.behind:  # the state lacks entries that only a process with the code can request
            return True
        try:
            state, _ = self._state(transaction, locked)
        except (Diverged, Unplayable):  # the next reward reports it; a void does not depend on it
            self.states.pop(locked.replication, None)
            return True
        entry = Entry(locked.stack_owner, locked.arm, locked.position)
        return state is None or entry in state.void(entry)

    def write_state(
        self,
        writes: PendingWrites,
        state: ReplicationState,
        wanted: Sequence[Entry],
        now: int,
        *,
        settled: int = 0,
        defaulted: int = 0,
        digest: int = 0,
    ) -> bool:
        """Write the state of a replication and want entries; return True if the replication is complete.

        The change has settled `settled` entries, `defaulted` of them with the default reward; `digest` is the
        difference that they make to the replication's digest.
        """
        complete, number = state.complete, state.number
        writes.advance(
            number,
            experiment=self.id,
            version=state.version,
            policies=state.policies,
            state="complete" if complete else "open",
            complete=complete,
            defaulted=defaulted,
            digest=digest,
            before=state.version - settled,
            now=now,
        )
        for entry in wanted:
            writes.add("want", experiment=self.id, replication=number, **entry.columns())
        if complete and not state.outstanding:
            # No reward can come any more. If the transaction fails, the state is rebuilt when it is next needed.
            self.states.pop(number, None)
            self._locks.pop(number, None)
        return complete

    # Replications that are behind

    def advance_lagging(self) -> int:
        """Run the policies of replications that are behind and return their number."""
        rows = self.database.read(lambda t: t.fetch_all(NumberRow, "behind", experiment=self.id))
        if rows and self.definition.refusal is None:
            # A transaction for each replication: users do not wait for all of them.
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
        if self.write_state(PendingWrites(transaction), state, needed, now):
            self.open_next(transaction, now)
        return True

    # States in memory

    def _state(
        self, transaction: Transaction, locked: LockedAssignment | LockedReplication
    ) -> tuple[ReplicationState | None, list[Entry]]:
        """Return a replication's state, and the entries that it needs if it is behind.

        The state is None if this process does not run the policies.
        """
        number = locked.replication
        self.hold(transaction, number)
        definition = self.definition  # once the lock is held: another thread may have changed it
        if definition.row.revision != locked.policy_revision:
            definition = self.current(transaction)
        if definition.refusal is not None:
            return None, []
        engine = definition.playable  # every policy, since none is missing
        state, needed = self.states.get(number), None
        if state is not None and state.engine is engine:
            needed = self._catch_up(transaction, state, locked)
        if state is None or needed is None:
            ledger = Ledger(transaction, self.id, engine, [number])
            (state,) = ledger.replications(checked=False)
            if not _agrees(locked, state.version, state.digest):
                raise edited(ledger, number)
            state.taken_back = locked.taken_back
            needed = state.check(behind=locked.behind > 0)
            self.states[number] = state
        return state, needed

    def hold(self, transaction: Transaction, number: int) -> None:
        """Lock a replication's cached state until the transaction ends, and drop the state if it fails.

        The row's lock alone does not suffice: the server releases it at the commit, before this thread knows whether
        the commit has succeeded. Another thread must not see the state until then.
        """
        if transaction.hold_lock is not None:
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
        """Settle the entries that other processes have settled meanwhile, and check the entries they requested.

        If the replication is behind, return the entries that it needs and no process has requested. Return None if
        the state does not precede the ledger's: defaults were taken back, or a backup was restored.
        """
        since: list[SettledRow] = []
        digest = state.digest
        if state.version != locked.version:
            since = self._settled_since(transaction, state)
            digest = digest_after(digest, since)
        precedes = _agrees(locked, state.version + len(since), digest)
        if not precedes or state.taken_back != locked.taken_back:
            return None
        if not since:
            return []
        self._settle_rows(transaction, state, since)
        span = {"experiment": self.id, "first": state.number, "stop": state.number + 1}
        rows = transaction.fetch_all(EntryRow, "outstanding", **span)
        requested = {Entry(*entry) for _, *entry in rows}
        return state.adopt(requested, behind=locked.behind > 0)

    def settle_since(self, transaction: Transaction, state: ReplicationState) -> list[float]:
        """Settle in a state the entries settled in the database since, and return their rewards."""
        since = self._settled_since(transaction, state)
        self._settle_rows(transaction, state, since)
        return [row.value for row in since]

    def _settled_since(self, transaction: Transaction, state: ReplicationState) -> list[SettledRow]:
        key = {"experiment": self.id, "replication": state.number, "version": state.version}
        return transaction.fetch_all(SettledRow, "settled_since", **key)

    def _settle_rows(
        self, transaction: Transaction, state: ReplicationState, rows: Sequence[SettledRow]
    ) -> None:
        fetch = self._fetch(transaction, state.number)
        for *entry, value in rows:
            state.settle(Entry(*entry), value, fetch)

    def _fetch(self, transaction: Transaction, number: int) -> Fetch:
        def fetch(stack_owner: int, arm: int, first: int, stop: int) -> list[float]:
            key = {"experiment": self.id, "replication": number}
            span = {"stack_owner": stack_owner, "arm": arm, "first": first, "stop": stop}
            rows = transaction.fetch_all(ValueRow, "values", **key, **span)
            return [row.value for row in rows]

        return fetch

    # Replications that begin

    def open_next(self, transaction: Transaction, now: int) -> None:
        """Open the next replications, or end the experiment if no entry is outstanding, not even of an audit."""
        # Two replications may be completed at the same moment. The experiment's row makes their transactions open the
        # next ones in sequence, so that no number is opened twice and none is left out.
        row = transaction.fetch_one(ExperimentRow, "lock_experiment", experiment=self.id)
        definition = self.current(transaction, row)
        open_now = transaction.fetch_one(NumberRow, "count_open", experiment=self.id).number
        last = transaction.fetch_one(NumberRow, "last_replication", experiment=self.id).number
        planned = definition.experiment.replications
        max_open = open_at_once(definition.experiment, self.options)
        to_begin = {"running": planned, "draining": stop_after_of(row.options) or 0}
        while last + 1 < to_begin.get(row.status, 0) and open_now < max_open:
            last, open_now = last + 1, open_now + 1
            self._open(transaction, definition.engine, row.policy_revision, last, now)
        outstanding = transaction.fetch_one(NumberRow, "any_outstanding", experiment=self.id).number
        if open_now == 0 and not outstanding and row.status in ACTIVE:
            status = "complete" if last + 1 == planned else "stopped"
            self.set_status(transaction, status, row.reason)

    def _open(
        self, transaction: Transaction, engine: Engine, revision: int, number: int, now: int
    ) -> None:
        # The row does not exist yet; the experiment's row, which is locked, stands in for it.
        self.hold(transaction, number)
        state, wanted = engine.start(number)
        values = {"policies": state.policies, "revision": revision, "now": now}
        transaction.execute("open_replication", experiment=self.id, number=number, **values)
        key = {"experiment": self.id, "replication": number}
        transaction.execute_many("want", [{**key, **entry.columns()} for entry in wanted])
        self.states[number] = state

    def continue_after(
        self, transaction: Transaction, before: ExperimentRow, open_before: int
    ) -> None:
        """Continue after a change of the policies: an ended experiment runs again if it needs users."""
        status, key = before.status, {"experiment": self.id}
        drained = status == "stopped" and not open_before  # an experiment stopped at once stays so
        open_now = transaction.fetch_one(NumberRow, "count_open", **key).number
        if (status == "complete" or drained) and open_now:
            if not before.salt:
                raise Invalid(
                    "the policies need users, but this experiment's units were forgotten; start another experiment"
                )
            transaction.execute("set_sticky", **key, sticky=1)
            again = "running" if status == "complete" else "draining"
            self.set_status(transaction, again, before.reason)
        elif status in ACTIVE:
            self.open_next(transaction, self.settings.now())


def _agrees(locked: LockedAssignment | LockedReplication, version: int, digest: int) -> bool:
    """Return True if a row has this number of settled entries, and this digest unless it has none."""
    has_digest = locked.digested == locked.version
    return version == locked.version and (digest == locked.digest or not has_digest)
