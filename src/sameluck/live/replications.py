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
from typing import TypeAlias, TypeVar

from sameluck.errors import Conflict, Diverged, Invalid, Unplayable
from sameluck.experiment import Experiment
from sameluck.live.databases.base import Database, Transaction, Values, Work
from sameluck.live.databases.rows import (
    CurrentRow,
    ExperimentRow,
    LockedAssignment,
    NumberRow,
    ReplicationRow,
    SettledRow,
    TextRow,
    ValueRow,
)
from sameluck.live.engine.replication import Fetch, Replication
from sameluck.live.engine.scheduler import Entry, Scheduler
from sameluck.live.ledger import Ledger
from sameluck.live.options import (
    Live,
    Maker,
    Makers,
    checked_makers,
    open_at_once,
    options_from,
    options_text,
    stop_after_of,
)
from sameluck.live.records import ACTIVE, ENDED
from sameluck.validation import require_name, require_whole

T = TypeVar("T")
# How far a challenger gets in one replication on settled entries: finished, periods replayed, entries wanted
ChallengerProgress: TypeAlias = tuple[bool, int, int]


class _Definition:
    """An experiment as it was defined at one time; its policies are prepared when they are first run."""

    def __init__(self, text: str, live: Live, makers: Makers) -> None:
        self.text = text
        self.experiment = Experiment.from_json(text)
        self._live, self._makers = live, makers

    @cached_property
    def scheduler(self) -> Scheduler:
        return Scheduler(self.experiment, self._live, self._makers)


class OpenReplications:
    """The open replications of one experiment."""

    def __init__(self, database: Database, row: ExperimentRow, makers: Makers | None) -> None:
        self.database = database
        self.id, self.name = row.id, row.name
        self.live = options_from(row.options)
        self._makers = checked_makers(makers)
        self._states: dict[int, Replication] = {}
        self._locks: dict[int, Lock] = {}
        self._guard = threading.Lock()
        self._definition = self._read_definition(row.definition)

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
        values: Values = {"experiment": self.id, "status": "failed", "reason": reason}
        self.database.write(lambda transaction: transaction.run("set_status", **values))

    def change_status(self, change: str, allowed: Sequence[str], reason: str, now: int) -> None:
        """Set the status that a change (paused or resumed) leads to, from those allowed."""
        if reason:
            require_name("a reason", reason)

        def work(transaction: Transaction) -> None:
            before = transaction.one(CurrentRow, "lock_experiment", experiment=self.id).status
            resumed = transaction.one(TextRow, "resumes_as", experiment=self.id).text
            after = resumed if change == "resumed" else change
            if before != after:
                self._check_transition(before, change, allowed)
                self._set_status(transaction, after, reason, now)

        self.write(work)

    def stop(self, stop_after: int | None, reason: str, now: int, *, drain: bool) -> None:
        """Stop at once, or drain; `stop_after` is the `after_replications` of `LiveExperiment.stop`."""
        if reason:
            require_name("a reason", reason)
        if stop_after is not None:
            stop_after = require_whole("after_replications", stop_after, 1)
            if not drain:
                raise Invalid(
                    "after_replications completes the first replications, and drain=False stops at once; give one"
                )
        change, after = ("drained", "draining") if drain else ("stopped", "stopped")
        done = (after, *ENDED) if stop_after else (after,)

        def work(transaction: Transaction) -> None:
            row = transaction.one(CurrentRow, "lock_experiment", experiment=self.id)
            changed = stop_after_of(row.options) != stop_after
            if row.status in done and not (changed and drain):
                return
            self._check_transition(row.status, change, (*ACTIVE, "paused"))
            if changed:
                self._set_stop_after(transaction, stop_after)
            self._set_status(transaction, after, reason, now)

        self.write(work)

    def _set_stop_after(self, transaction: Transaction, stop_after: int | None) -> None:
        if stop_after is not None:
            last = transaction.one(NumberRow, "last_replication", experiment=self.id).number
            name = f"after_replications ({last + 1:,} have begun and are completed)"
            require_whole(name, stop_after, last + 1, self.experiment.replications)
        text = options_text(self.live, stop_after)
        transaction.run("set_options", experiment=self.id, options=text)

    def _check_transition(self, before: str, change: str, allowed: Sequence[str]) -> None:
        if before not in allowed:
            message = f"experiment {self.name!r} is {before} and cannot be {change}"
            raise Conflict(message, "invalid_transition")

    def _set_status(self, transaction: Transaction, status: str, reason: str, now: int) -> None:
        transaction.run("set_status", experiment=self.id, status=status, reason=reason)
        if status in ACTIVE:
            self.open_next(transaction, now)

    def current(self, transaction: Transaction) -> Scheduler:
        """The policies as the database has them now; another process may have added one."""
        row = transaction.one(CurrentRow, "experiment_now", experiment=self.id)
        return self._take(row.definition).scheduler

    def _take(self, text: str) -> _Definition:
        """The definition in the database; it becomes that of this process if it has more policies."""
        definition = self._definition
        if text != definition.text:
            definition = self._read_definition(text)
            if len(definition.experiment.policies) > len(self.experiment.policies):
                self._definition = definition
        return definition

    def _read_definition(self, text: str) -> _Definition:
        return _Definition(text, self.live, self._makers)

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
        self._write_state(transaction, state, wanted, now)
        if state.complete:
            self.open_next(transaction, now)

    def _state(self, transaction: Transaction, locked: LockedAssignment) -> Replication:
        number = locked.replication
        self._hold(transaction, number)
        state = self._states.get(number)
        if state is None or state.policies != locked.policies or state.version > locked.version:
            ledger = Ledger(transaction, self.id, self.current(transaction), [number])
            (state,) = ledger.replications()
            self._states[number] = state
        elif state.version < locked.version:
            self._catch_up(transaction, state)
        return state

    def _hold(self, transaction: Transaction, number: int) -> None:
        with self._guard:
            lock = self._locks.setdefault(number, Lock())
        transaction.hold(lock)
        transaction.undo(lambda: self._states.pop(number, None))

    def _catch_up(self, transaction: Transaction, state: Replication) -> None:
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
        self, transaction: Transaction, state: Replication, wanted: Sequence[Entry], now: int
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
            transaction.run("set_status", experiment=self.id, status=status, reason=row.reason)

    def _open(self, transaction: Transaction, scheduler: Scheduler, number: int, now: int) -> None:
        self._hold(transaction, number)
        state = Replication(scheduler, number)
        wanted = state.start()
        values = {"number": number, "policies": state.policies, "now": now}
        transaction.run("open_replication", experiment=self.id, **values)
        self._want(transaction, number, wanted)
        self._states[number] = state

    def add_challenger(
        self, transaction: Transaction, definition: str, now: int
    ) -> list[ChallengerProgress]:
        """Use a definition with one more policy, which reads every open or complete replication first."""
        before, after = self._definition, self._read_definition(definition)
        transaction.run("set_definition", experiment=self.id, definition=definition)
        progress = []
        ledger = self._ledger(transaction, after.scheduler)
        for number in ledger.numbers:
            key = {"experiment": self.id, "replication": number}
            transaction.one(ReplicationRow, "lock_replication", **key)
            self._hold(transaction, number)
            (state,) = ledger._replace(numbers=[number]).replications(checked=False)
            progress.append(_progress(state))
            self._states[number] = state
            self._write_state(transaction, state, state.want(), now)

        def undo() -> None:
            self._definition = before

        transaction.undo(undo)
        self._definition = after
        return progress

    def preview_challenger(
        self, transaction: Transaction, definition: str
    ) -> list[ChallengerProgress]:
        """What `add_challenger` would return; nothing is changed."""
        ledger = self._ledger(transaction, self._read_definition(definition).scheduler)
        return [_progress(state) for state in ledger.replications(checked=False)]


def _progress(state: Replication) -> ChallengerProgress:
    challenger = state.policies - 1
    periods = state.periods_done[challenger]
    wanted = len(state.needed_by([challenger]) - state.outstanding)
    return periods == state.scheduler.experiment.horizon, periods, wanted
