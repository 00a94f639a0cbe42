"""State of an experiment's open replications, in memory, in step with their rows.

Every change is made here, inside a transaction that holds the replication's row. The state in memory only saves
running the policies over the ledger again: it is dropped when a transaction fails, brought up to date when another
process has settled entries, and otherwise rebuilt from the ledger.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import cached_property
from threading import Lock
from typing import NamedTuple, TypeVar

from sameluck.errors import Diverged, Unplayable
from sameluck.experiment import Experiment
from sameluck.live.databases.base import Database, Transaction, Work
from sameluck.live.databases.rows import (
    ACTIVE,
    CurrentRow,
    EntryRow,
    ExperimentRow,
    LockedAssignment,
    NumberRow,
    ReplicationRow,
    SettledRow,
    ValueRow,
)
from sameluck.live.engine.replication import Fetch, Replication
from sameluck.live.engine.scheduler import Entry, Scheduler
from sameluck.live.history import History
from sameluck.live.ledger import Ledger
from sameluck.live.options import (
    Live,
    Maker,
    Makers,
    checked_makers,
    later_options,
    open_at_once,
    options_from,
    stop_after_of,
)
from sameluck.live.settings import StoreSettings

T = TypeVar("T")


class Counts(NamedTuple):
    """What one change adds to the counters of a replication."""

    settled: int
    defaulted: int
    digest: int


NOTHING = Counts(0, 0, 0)


class Definition:
    """An experiment as it was defined at one time; its policies are prepared when they are first run."""

    def __init__(self, text: str, live: Live, makers: Makers) -> None:
        self.text = text
        self.experiment = Experiment.from_json(text)
        self._live, self._makers = live, makers

    @cached_property
    def scheduler(self) -> Scheduler:
        """The prepared policies."""
        return Scheduler(self.experiment, self._live, self._makers)


class OpenReplications:
    """The open replications of one experiment."""

    def __init__(
        self,
        database: Database,
        row: ExperimentRow,
        settings: StoreSettings,
        makers: Makers | None,
    ) -> None:
        self.database = database
        self.settings = settings
        self.id, self.name = row.id, row.name
        self.history = History(row.id, row.name, settings)
        self.live = options_from(row.options)
        self.later_options = later_options(row.options)
        self._makers = checked_makers(makers)
        self.definition = self.read_definition(row.definition)
        self.after_fork()

    def after_fork(self) -> None:
        """Forget the states and the locks of the process that this one was forked from."""
        self.states: dict[int, Replication] = {}
        self._locks: dict[int, Lock] = {}
        self._guard = threading.Lock()

    @property
    def experiment(self) -> Experiment:
        """The experiment as this process knows it; reading it prepares no policy."""
        return self.definition.experiment

    @property
    def scheduler(self) -> Scheduler:
        """The policies as this process knows them."""
        return self.definition.scheduler

    @property
    def makers(self) -> Makers:
        """How external policies are made, by their makers' names."""
        return self._makers

    def add_maker(self, name: str, make: Maker) -> None:
        """Remember how an external policy is made."""
        self._makers |= checked_makers({name: make})

    def write(self, work: Work[T]) -> T:
        """Run a transaction; if a policy fails or disagrees with the ledger, the experiment's status is failed."""
        try:
            return self.database.write(work)
        except (Diverged, Unplayable) as error:
            self.fail(str(error))
            raise

    def read(self, work: Callable[[Ledger], T]) -> T:
        """Run work on one consistent state of the ledger."""
        return self.database.read(
            lambda transaction: work(self.ledger(transaction, self.current(transaction)))
        )

    def ledger(self, transaction: Transaction, scheduler: Scheduler) -> Ledger:
        """The ledger of every replication, for some policies."""
        rows = transaction.all(ReplicationRow, "replications", experiment=self.id)
        return Ledger(transaction, self.id, scheduler, [row.number for row in rows])

    def fail(self, reason: str) -> None:
        """Set the status to failed."""

        def work(transaction: Transaction) -> None:
            row = transaction.one(CurrentRow, "lock_experiment", experiment=self.id)
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
        transaction.run("set_status", experiment=self.id, status=status, reason=reason)
        self.history.record(transaction, what or status, subject=subject, reason=reason)
        if status in ACTIVE:
            self.open_next(transaction, self.settings.now())

    def outstanding(self, transaction: Transaction) -> dict[int, set[Entry]]:
        """The entries that are wanted or assigned, by replication."""
        entries: dict[int, set[Entry]] = {}
        for number, *entry in transaction.all(EntryRow, "all_outstanding", experiment=self.id):
            entries.setdefault(number, set()).add(Entry(*entry))
        return entries

    def current(self, transaction: Transaction) -> Scheduler:
        """The policies as the database has them now; another process may have added one."""
        row = transaction.one(CurrentRow, "experiment_now", experiment=self.id)
        return self._take(row.definition).scheduler

    def _take(self, text: str) -> Definition:
        """The definition in the database; it becomes that of this process if it has more policies."""
        definition = self.definition
        if text != definition.text:
            definition = self.read_definition(text)
            if len(definition.experiment.policies) > len(self.experiment.policies):
                self.definition = definition
        return definition

    def read_definition(self, text: str) -> Definition:
        """A definition, with the makers of this process."""
        return Definition(text, self.live, self._makers)

    def settle(
        self,
        transaction: Transaction,
        locked: LockedAssignment,
        value: float,
        source: str,
        now: int,
    ) -> None:
        """Settle an entry, advance the policies, and want what they need next."""
        state = self._state(transaction, locked)
        transaction.run(
            "settle",
            **locked.key(),
            assignment=locked.id,
            value=value,
            source=source,
            settled=locked.version + 1,
            now=now,
        )
        entry = Entry(locked.owner, locked.arm, locked.position)
        wanted = state.settle(entry, value, self._fetch(transaction, state.number))
        counts = Counts(1, int(source == "default"), state.digest(entry, value))
        self.write_state(transaction, state, wanted, now, counts)
        if state.complete:
            self.open_next(transaction, now)

    def void(self, transaction: Transaction, locked: LockedAssignment, now: int) -> None:
        """Void an assignment: its entry is wanted again."""
        transaction.run("void", assignment=locked.id, now=now)
        transaction.run("count_void", experiment=self.id, replication=locked.replication)
        transaction.run("want_again", **locked.key(), assignment=locked.id)

    def _state(self, transaction: Transaction, locked: LockedAssignment) -> Replication:
        number = locked.replication
        self.hold(transaction, number)
        state = self.states.get(number)
        if (
            state is None
            or (state.policies, state.taken_back) != (locked.policies, locked.taken_back)
            or state.version > locked.version
        ):
            ledger = Ledger(transaction, self.id, self.current(transaction), [number])
            (state,) = ledger.replications()
            state.taken_back = locked.taken_back
            self.states[number] = state
        else:
            self.catch_up(transaction, state, locked.version)
        return state

    def hold(self, transaction: Transaction, number: int) -> None:
        """Change the state of a replication, in this process alone; it is dropped unless that is committed."""
        with self._guard:
            lock = self._locks.setdefault(number, Lock())
        transaction.hold(lock)
        transaction.undo(lambda: self.states.pop(number, None))

    def catch_up(self, transaction: Transaction, state: Replication, version: int) -> None:
        """Settle what other processes have settled up to a version."""
        if state.version >= version:
            return
        fetch = self._fetch(transaction, state.number)
        key = {"experiment": self.id, "replication": state.number, "version": state.version}
        for *entry, value in transaction.all(SettledRow, "settled_since", **key):
            state.settle(Entry(*entry), value, fetch)

    def _fetch(self, transaction: Transaction, number: int) -> Fetch:
        def fetch(owner: int, arm: int, first: int, stop: int) -> list[float]:
            key = {"experiment": self.id, "replication": number, "owner": owner, "arm": arm}
            rows = transaction.all(ValueRow, "values", **key, first=first, stop=stop)
            return [row.value for row in rows]

        return fetch

    def write_state(
        self,
        transaction: Transaction,
        state: Replication,
        wanted: Sequence[Entry],
        now: int,
        counts: Counts = NOTHING,
    ) -> None:
        """Write the state of a replication, and want entries."""
        complete = state.complete
        transaction.run(
            "advance_replication",
            experiment=self.id,
            replication=state.number,
            version=state.version,
            policies=state.policies,
            state="complete" if complete else "open",
            complete=complete,
            defaulted=counts.defaulted,
            digest=counts.digest,
            before=state.version - counts.settled,
            now=now,
        )
        self._want(transaction, state.number, wanted)
        if complete and not state.outstanding:
            self.states.pop(state.number, None)
            self._locks.pop(state.number, None)

    def _want(self, transaction: Transaction, number: int, wanted: Sequence[Entry]) -> None:
        key = {"experiment": self.id, "replication": number}
        if len(wanted) == 1:
            transaction.run("want", **key, **wanted[0]._asdict())
        elif wanted:
            transaction.many("want", [{**key, **entry._asdict()} for entry in wanted])

    def open_next(self, transaction: Transaction, now: int) -> None:
        """Open the next replications; or end the experiment if no entry is outstanding, not even of an audit."""
        row = transaction.one(CurrentRow, "lock_experiment", experiment=self.id)
        definition = self._take(row.definition)
        open_now = transaction.one(NumberRow, "count_open", experiment=self.id).number
        last = transaction.one(NumberRow, "last_replication", experiment=self.id).number
        planned = definition.experiment.replications
        most = open_at_once(definition.experiment, self.live)
        to_begin = {"running": planned, "draining": stop_after_of(row.options) or 0}
        while last + 1 < to_begin.get(row.status, 0) and open_now < most:
            last, open_now = last + 1, open_now + 1
            self._open(transaction, definition.scheduler, last, now)
        outstanding = transaction.one(NumberRow, "any_outstanding", experiment=self.id).number
        if open_now == 0 and not outstanding and row.status in ACTIVE:
            status = "complete" if last + 1 == planned else "stopped"
            self.set_status(transaction, status, row.reason)

    def _open(self, transaction: Transaction, scheduler: Scheduler, number: int, now: int) -> None:
        self.hold(transaction, number)
        state = Replication(scheduler, number)
        wanted = state.start()
        values = {"number": number, "policies": state.policies, "now": now}
        transaction.run("open_replication", experiment=self.id, **values)
        self._want(transaction, number, wanted)
        self.states[number] = state
