"""Where an experiment's open replications stand, in memory, in step with their rows.

Every change goes through here inside a transaction that holds the replication's row. What is kept in memory only
saves walking the history again: it is forgotten when a transaction fails, caught up when another process has gone
on, and rebuilt from the ledger when there is nothing to catch up from.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any, NamedTuple

from sameluck.experiment import Experiment
from sameluck.live.databases.base import Transaction
from sameluck.live.engine.replication import Fetch, Replication
from sameluck.live.engine.scheduler import Entry, Scheduler
from sameluck.live.engine.walker import Maker
from sameluck.live.ledger import read_replications
from sameluck.live.options import Live, open_at_once

GOING = ("running", "draining")


class LockedAssignment(NamedTuple):
    """An assignment with its entry and its replication, their rows locked."""

    id: str
    replication: int
    entry: Entry
    exposed: bool
    live: bool  # not voided
    state: str
    due: int | None
    value: float | None
    source: str | None
    version: int
    policies: int

    def is_due(self, now: int) -> bool:
        """Whether its lease or its window has run out and nobody has acted on that."""
        return self.live and self.state == "assigned" and self.due is not None and self.due <= now


class ChallengerProgress(NamedTuple):
    """How far a challenger came in one replication on what was known."""

    finished: bool
    replayed: int
    wanted: int


class OpenReplications:
    """The open replications of one experiment."""

    def __init__(self, id: int, definition: str, live: Live, makers: Mapping[str, Maker]) -> None:
        self.id = id
        self.live = live
        self.makers = dict(makers)
        self._states: dict[int, Replication] = {}
        self._locks: dict[int, Lock] = {}
        self._guard = threading.Lock()
        self.take_definition(definition)

    def take_definition(self, definition: str) -> None:
        """Play the experiment as it is defined now."""
        self._experiment = Experiment.from_json(definition)
        self._played: tuple[str, Scheduler | None] = definition, None

    @property
    def experiment(self) -> Experiment:
        """What is being compared, as this process knows it; to look at it or to pause it takes no policies."""
        return self._experiment

    @property
    def scheduler(self) -> Scheduler:
        """The policies as this process knows them, made ready when somebody plays."""
        definition, scheduler = self._played
        if scheduler is None:
            scheduler = self.scheduler_of(definition)
            self._played = definition, scheduler
        return scheduler

    @property
    def definition(self) -> str:
        """The experiment as this process knows it."""
        return self._played[0]

    def scheduler_of(self, definition: str) -> Scheduler:
        """The policies of a definition, made ready."""
        order, share = self.live.order, self.live.audit_share
        experiment = Experiment.from_json(definition)
        return Scheduler(experiment, order=order, audit_share=share, makers=self.makers)

    def current(self, transaction: Transaction) -> Scheduler:
        """The policies as the database has them now; a challenger may have progress elsewhere."""
        definition, _, _ = found(transaction.one("experiment_now", experiment=self.id))
        if definition == self.definition:
            return self.scheduler
        scheduler = self.scheduler_of(definition)
        if len(scheduler.prepared) > len(self.experiment.policies):  # policies are only ever added
            self._experiment, self._played = scheduler.experiment, (definition, scheduler)
        return scheduler

    def refresh(self, transaction: Transaction) -> None:
        """Play the experiment as the database has it now."""
        definition, _, _ = found(transaction.one("experiment_now", experiment=self.id))
        if definition != self.definition:
            self.take_definition(definition)

    def key(self, locked: LockedAssignment) -> dict[str, int]:
        """An entry's place in the database."""
        return {"experiment": self.id, "replication": locked.replication, **locked.entry._asdict()}

    def settle(
        self,
        transaction: Transaction,
        locked: LockedAssignment,
        value: float,
        source: str,
        now: int,
    ) -> None:
        """Write a reward into its entry, let the policies go on, and ask for what they need next."""
        state = self._state(transaction, locked)
        settled = {"value": value, "source": source, "settled": locked.version + 1, "now": now}
        transaction.run("settle", **self.key(locked), assignment=locked.id, **settled)
        wants = state.settle(locked.entry, value, self._fetch(transaction, state.number))
        self._write(transaction, state, wants, now)
        if state.complete:
            self.go_on(transaction, now)

    def _state(self, transaction: Transaction, locked: LockedAssignment) -> Replication:
        number = locked.replication
        self._hold(transaction, number)
        state = self._states.get(number)
        if state is None or state.policies != locked.policies or state.version > locked.version:
            state = self._states[number] = self._rebuilt(transaction, locked)
        elif state.version < locked.version:
            self._catch_up(transaction, state)
        return state

    def _hold(self, transaction: Transaction, number: int) -> None:
        with self._guard:
            lock = self._locks.setdefault(number, Lock())
        transaction.hold(lock)
        transaction.undo(lambda: self._states.pop(number, None))

    def _rebuilt(self, transaction: Transaction, locked: LockedAssignment) -> Replication:
        scheduler = self.current(transaction)
        (state,) = read_replications(transaction, self.id, scheduler, [locked.replication])
        return state

    def _catch_up(self, transaction: Transaction, state: Replication) -> None:
        fetch = self._fetch(transaction, state.number)
        since = {"replication": state.number, "version": state.version}
        for owner, arm, place, value in transaction.all(
            "settled_since", experiment=self.id, **since
        ):
            state.settle(Entry(owner, arm, place), value, fetch)

    def _fetch(self, transaction: Transaction, number: int) -> Fetch:
        def fetch(owner: int, arm: int, first: int, stop: int) -> list[float]:
            span = {"owner": owner, "arm": arm, "first": first, "stop": stop}
            rows = transaction.all("values", experiment=self.id, replication=number, **span)
            return [value for (value,) in rows]

        return fetch

    def _write(
        self, transaction: Transaction, state: Replication, wants: Sequence[Entry], now: int
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
        self._want(transaction, state.number, wants)
        if complete and not state.asked:
            self._states.pop(state.number, None)
            self._locks.pop(state.number, None)

    def _want(self, transaction: Transaction, number: int, wants: Sequence[Entry]) -> None:
        key = {"experiment": self.id, "replication": number}
        if len(wants) == 1:
            transaction.run("want", **key, **wants[0]._asdict())
        elif wants:
            transaction.many("want", [{**key, **entry._asdict()} for entry in wants])

    def go_on(self, transaction: Transaction, now: int) -> None:
        """Open the next replications; or end the experiment if nobody is needed any more, not even for an audit."""
        definition, status, reason = found(transaction.one("lock_experiment", experiment=self.id))
        if definition != self.definition:
            self.take_definition(definition)
        (opened,) = found(transaction.one("count_open", experiment=self.id))
        (last,) = found(transaction.one("last_replication", experiment=self.id))
        experiment = self.experiment
        most = open_at_once(experiment, self.live)
        while status == "running" and last + 1 < experiment.replications and opened < most:
            last, opened = last + 1, opened + 1
            self._open(transaction, last, now)
        (needed,) = found(transaction.one("any_outstanding", experiment=self.id))
        if opened == 0 and not needed and status in GOING:
            ended = "complete" if last + 1 == experiment.replications else "stopped"
            transaction.run("set_status", experiment=self.id, status=ended, reason=reason)

    def _open(self, transaction: Transaction, number: int, now: int) -> None:
        self._hold(transaction, number)
        state = Replication(self.scheduler, number)
        wants = state.begin()
        values = {"number": number, "policies": state.policies, "now": now}
        transaction.run("open_replication", experiment=self.id, **values)
        self._want(transaction, number, wants)
        self._states[number] = state

    def join(self, transaction: Transaction, definition: str, now: int) -> list[ChallengerProgress]:
        """Let the policy that a new definition adds walk through every replication begun so far."""
        before, scheduler = self.definition, self.scheduler_of(definition)
        transaction.run("set_definition", experiment=self.id, definition=definition)
        progress = []
        for number, *_ in transaction.all("replications", experiment=self.id):
            transaction.one("lock_replication", experiment=self.id, replication=number)
            self._hold(transaction, number)
            (state,) = read_replications(transaction, self.id, scheduler, [number], checked=False)
            progress.append(_progress(state))
            self._states[number] = state
            self._write(transaction, state, state.ask(), now)
        transaction.undo(lambda: self.take_definition(before))
        self.take_definition(definition)
        return progress

    def preview(self, transaction: Transaction, definition: str) -> list[ChallengerProgress]:
        """What `join` would come to; nothing is changed."""
        numbers = [number for number, *_ in transaction.all("replications", experiment=self.id)]
        scheduler = self.scheduler_of(definition)
        states = read_replications(transaction, self.id, scheduler, numbers, checked=False)
        return [_progress(state) for state in states]


def _progress(state: Replication) -> ChallengerProgress:
    challenger = state.policies - 1
    reach = state.reaches[challenger]
    wanted = len(state.wants([challenger]) - state.asked)
    return ChallengerProgress(reach == state.scheduler.experiment.horizon, reach, wanted)


def found(row: tuple[object, ...] | None) -> tuple[Any, ...]:
    """A row that must be there."""
    assert row is not None
    return row
