"""State of an experiment's open replications, in memory, in step with their rows.

Every change is made here, inside a transaction that holds the replication's row. The state in memory only saves
running the policies over the ledger again: it is dropped when a transaction fails, brought up to date when another
process has settled entries, and otherwise rebuilt from the ledger.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from threading import Lock
from typing import NamedTuple, TypeAlias, TypeVar

from sameluck.errors import Diverged, Unplayable
from sameluck.experiment import Experiment
from sameluck.live.databases.base import Database, Transaction, Work
from sameluck.live.databases.rows import (
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
    open_at_once,
    options_from,
    stop_after_of,
)
from sameluck.live.records import ACTIVE
from sameluck.live.settings import StoreSettings

T = TypeVar("T")
# How far a challenger gets in one replication on settled entries: finished, periods replayed, entries wanted
ChallengerProgress: TypeAlias = tuple[bool, int, int]


class Derived(NamedTuple):
    """A replication with one more policy, derived before that policy is added."""

    version: int
    progress: ChallengerProgress
    state: Replication | None  # None if the policy has finished it and nothing is outstanding


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
        self._makers = checked_makers(makers)
        self._definition = self.read_definition(row.definition)
        self.after_fork()

    def after_fork(self) -> None:
        """Forget the states and the locks of the process that this one was forked from."""
        self._states: dict[int, Replication] = {}
        self._locks: dict[int, Lock] = {}
        self._guard = threading.Lock()

    @property
    def experiment(self) -> Experiment:
        """The experiment as this process knows it; reading it prepares no policy."""
        return self._definition.experiment

    @property
    def scheduler(self) -> Scheduler:
        """The policies as this process knows them."""
        return self._definition.scheduler

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
            self._fail(str(error))
            raise

    def read(self, work: Callable[[Ledger], T]) -> T:
        """Run work on one consistent state of the ledger."""
        return self.database.read(
            lambda transaction: work(self._ledger(transaction, self.current(transaction)))
        )

    def _ledger(self, transaction: Transaction, scheduler: Scheduler) -> Ledger:
        rows = transaction.all(ReplicationRow, "replications", experiment=self.id)
        return Ledger(transaction, self.id, scheduler, [row.number for row in rows])

    def verify(self) -> int:
        """Derive every replication from its ledger again; returns how many there are."""
        return self.read(lambda ledger: sum(1 for _ in ledger.replications()))

    def verify_or_fail(self) -> None:
        """As `verify`; a difference sets the status to failed."""
        try:
            self.verify()
        except (Diverged, Unplayable) as error:
            if not self.database.read_only:
                self._fail(str(error))
            raise

    def _fail(self, reason: str) -> None:
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

    def current(self, transaction: Transaction) -> Scheduler:
        """The policies as the database has them now; another process may have added one."""
        row = transaction.one(CurrentRow, "experiment_now", experiment=self.id)
        return self._take(row.definition).scheduler

    def _take(self, text: str) -> Definition:
        """The definition in the database; it becomes that of this process if it has more policies."""
        definition = self._definition
        if text != definition.text:
            definition = self.read_definition(text)
            if len(definition.experiment.policies) > len(self.experiment.policies):
                self._definition = definition
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
        self._write_state(transaction, state, wanted, now, defaulted=source == "default")
        if state.complete:
            self.open_next(transaction, now)

    def void(self, transaction: Transaction, locked: LockedAssignment, now: int) -> None:
        """Void an assignment: its entry is wanted again."""
        transaction.run("void", assignment=locked.id, now=now)
        transaction.run("count_void", experiment=self.id, replication=locked.replication)
        transaction.run("want_again", **locked.key(), assignment=locked.id)

    def _state(self, transaction: Transaction, locked: LockedAssignment) -> Replication:
        number = locked.replication
        self._hold(transaction, number)
        state = self._states.get(number)
        if state is None or state.policies != locked.policies or state.version > locked.version:
            ledger = Ledger(transaction, self.id, self.current(transaction), [number])
            (state,) = ledger.replications()
            self._states[number] = state
        else:
            self._catch_up(transaction, state, locked.version)
        return state

    def _hold(self, transaction: Transaction, number: int) -> None:
        with self._guard:
            lock = self._locks.setdefault(number, Lock())
        transaction.hold(lock)
        transaction.undo(lambda: self._states.pop(number, None))

    def _catch_up(self, transaction: Transaction, state: Replication, version: int) -> None:
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

    def _write_state(
        self,
        transaction: Transaction,
        state: Replication,
        wanted: Sequence[Entry],
        now: int,
        *,
        defaulted: bool = False,
    ) -> None:
        complete = state.complete
        transaction.run(
            "advance_replication",
            experiment=self.id,
            replication=state.number,
            version=state.version,
            policies=state.policies,
            state="complete" if complete else "open",
            complete=complete,
            defaulted=int(defaulted),
            now=now,
        )
        self._want(transaction, state.number, wanted)
        if complete and not state.outstanding:
            self._states.pop(state.number, None)
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
        self._hold(transaction, number)
        state = Replication(scheduler, number)
        wanted = state.start()
        values = {"number": number, "policies": state.policies, "now": now}
        transaction.run("open_replication", experiment=self.id, **values)
        self._want(transaction, number, wanted)
        self._states[number] = state

    def derive_challenger(self, transaction: Transaction, after: Definition) -> dict[int, Derived]:
        """Every replication as a definition with one more policy has it: the long part, which changes nothing."""
        ledger = self._ledger(transaction, after.scheduler)
        return {state.number: _derived(state) for state in ledger.replications(checked=False)}

    def catch_up_all(self, transaction: Transaction, derived: Mapping[int, Derived]) -> None:
        """Bring derived replications up to date, so that less is left while others wait."""
        for row in transaction.all(ReplicationRow, "replications", experiment=self.id):
            one = derived.get(row.number)
            if one is not None and one.state is not None:
                self._catch_up(transaction, one.state, row.version)

    def add_challenger(
        self,
        transaction: Transaction,
        after: Definition,
        derived: Mapping[int, Derived],
        now: int,
    ) -> list[ChallengerProgress]:
        """Use a definition with one more policy; what was settled since the replications were derived is added."""
        before = self._definition
        ledger = self._ledger(transaction, after.scheduler)
        policies = {"experiment": self.id, "policies": len(after.experiment.policies)}
        transaction.run("set_definition", experiment=self.id, definition=after.text)
        transaction.run("set_policies", **policies)
        outstanding: dict[int, set[Entry]] = {}
        for number, *entry in transaction.all(EntryRow, "all_outstanding", experiment=self.id):
            outstanding.setdefault(number, set()).add(Entry(*entry))
        progress = []
        for row in transaction.all(ReplicationRow, "replications", experiment=self.id):
            one = derived.get(row.number)
            if one is None or (one.state is None and one.version != row.version):
                (state,) = ledger._replace(numbers=[row.number]).replications(checked=False)
                one = _derived(state)
            if one.state is not None:
                self._hold(transaction, row.number)
                self._catch_up(transaction, one.state, row.version)
                one.state.outstanding = outstanding.get(row.number, set())
                progress.append(_progress(one.state))
                self._states[row.number] = one.state
                self._write_state(transaction, one.state, one.state.want_afresh(), now)
            else:
                progress.append(one.progress)

        def undo() -> None:
            self._definition = before

        transaction.undo(undo)
        self._definition = after
        return progress


def _derived(state: Replication) -> Derived:
    progress = _progress(state)
    final = progress[0] and state.complete and not state.outstanding and not state.all_audits()
    return Derived(state.version, progress, None if final else state)


def _progress(state: Replication) -> ChallengerProgress:
    challenger = state.policies - 1
    periods = state.periods_done[challenger]
    wanted = len(state.needed_by([challenger]) - state.outstanding)
    return periods == state.scheduler.experiment.horizon, periods, wanted
