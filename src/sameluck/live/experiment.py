"""`LiveExperiment`: an experiment on real users. Each of its methods is one transaction."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from sameluck.errors import Conflict, Diverged, Invalid, Unplayable, did_you_mean
from sameluck.experiment import Experiment, checked_checkpoints
from sameluck.live import records as say
from sameluck.live.assignments import SECOND, SWEEP_AT_ONCE, Assignments, Clock, is_id
from sameluck.live.challengers import join, preview
from sameluck.live.databases.base import Database, Row, Transaction, Work
from sameluck.live.diagnostics import Check
from sameluck.live.diagnostics.registry import diagnostics
from sameluck.live.diagnostics.snapshot import Snapshot
from sameluck.live.engine.scheduler import Scheduler
from sameluck.live.engine.walker import Maker
from sameluck.live.ledger import read_replications, runs_of, trace_of
from sameluck.live.logs.exporting import export
from sameluck.live.options import Live
from sameluck.live.records import Assignment, Description, Joining, Receipt, Status, moment
from sameluck.live.replications import GOING, OpenReplications, found
from sameluck.live.status import description, status
from sameluck.runs import Runs
from sameluck.trajectories import Trace
from sameluck.validation import require_name

T = TypeVar("T")


class LiveExperiment:
    """A running experiment: what `store.start` and `store.load` return."""

    def __init__(
        self, database: Database, row: Row, makers: Mapping[str, Maker] | None, clock: Clock
    ) -> None:
        id, self.name, definition, options, _, _, salt, _, started = row
        self.live = Live.from_dict(json.loads(options))
        self.started_at = moment(started)
        self._database = database
        self._clock = clock
        self._replications = OpenReplications(id, definition, self.live, makers or {})
        self._assignments = Assignments(self.name, self._replications, salt, clock)
        self._seen: dict[Any, Runs] = {}  # complete replications never change
        self._next_sweep = 0

    @property
    def experiment(self) -> Experiment:
        """What is being compared, policies that progress late included."""
        return self._replications.experiment

    @property
    def _id(self) -> int:
        return self._replications.id

    def __repr__(self) -> str:
        names = ", ".join(self.experiment.policies)
        return f"<LiveExperiment {self.name!r}: {names}; horizon {self.experiment.horizon:,}>"

    # Assignments

    def assign(self, unit: str | int) -> Assignment:
        """Which arm to show the unit that has just arrived.

        The same unit always gets the same answer while it takes part. A unit the experiment has no use for gets the
        fallback arm and `enrolled` False; that never raises.
        """
        assignments = self._assignments
        code = assignments.code(unit)
        if not assignments.takes_part(code):
            return assignments.count(assignments.turned_away(say.NOT_IN_TRAFFIC_SHARE))
        now = assignments.now()
        if now >= self._next_sweep:
            self._next_sweep = now + SECOND
            self._sweep()
        answer = self._write(partial(assignments.assign, code=code))
        if answer.reason in (say.NO_OPEN_SLOT, say.DRAINING) and self._sweep():
            answer = self._write(partial(assignments.assign, code=code))
        return assignments.count(answer)

    def expose(self, id: str | None) -> None:
        """The unit has seen its arm: from now on it counts, with the default reward if none comes in the window."""
        if id is not None:
            _raise(self._write(partial(self._assignments.expose, id=id)))

    def reward(self, id: str | None, value: float) -> Receipt:
        """Report what a unit brought. Durable once this returns.

        The first value counts. The same value again is no more than a retry; another value, a value after the window
        or for a voided assignment raises `Conflict` and is kept in the audit log. For a unit that does not take part
        (`id` None) nothing happens.
        """
        value = self._assignments.checked_reward(value)
        if id is None:
            return Receipt(applied=False, duplicate=False, value=value)
        receipt, conflict = self._write(partial(self._assignments.reward, id=id, value=value))
        _raise(conflict)
        return receipt

    def void(self, id: str | None) -> None:
        """The unit never saw its arm: offer the entry to somebody else, and let the unit take part again."""
        if id is not None:
            _raise(self._write(partial(self._assignments.void, id=id)))

    def tick(self) -> int:
        """Deal with everything whose time is up; how many assignments that were.

        Exposed and no reward within the window: the default reward. Not exposed within the lease: void, and offer the
        entry again. `assign` does this now and then too, and a reward after its window is late whether or not anybody
        has ticked.
        """
        done = 0
        while True:
            due = self._database.read(self._assignments.overdue)
            for id in due:
                done += self._write(partial(self._assignments.expire_if_due, id=id))
            if len(due) < SWEEP_AT_ONCE:
                return done

    def _sweep(self) -> int:
        try:
            return self.tick()
        except (Diverged, Unplayable):
            return 0  # the experiment has failed, and says so; the user who came gets the fallback

    def begin(self, transaction: Transaction) -> None:
        """Open the first replications; part of the transaction that starts the experiment."""
        self._replications.go_on(transaction, self._assignments.now())

    # Steering

    def pause(self, reason: str = "") -> None:
        """Enrol nobody for now; rewards are taken all the same."""
        self._steer("paused", ("running", "draining"), reason)

    def resume(self) -> None:
        """Go on after a pause; or after a failure, once the policies agree with the ledger again."""
        self.verify()
        self._steer("resumed", ("paused", "failed"), "")

    def stop(self, *, drain: bool = True, reason: str = "") -> None:
        """End the experiment before the planned number of replications.

        Args:
            drain: Open no further replication and finish every one that was begun: the only way to stop whose
                results are unbiased, since how long a replication takes depends on how it goes. False stops at once,
                and results are those of the complete prefix.
            reason: For the record.
        """
        status = "drained" if drain else "stopped"
        self._steer(status, ("running", "paused", "draining"), reason)

    def _steer(self, status: str, allowed: tuple[str, ...], reason: str) -> None:
        if reason:
            require_name("a reason", reason)

        def work(transaction: Transaction) -> Conflict | None:
            _, before, _ = found(transaction.one("lock_experiment", experiment=self._id))
            (resumes,) = found(transaction.one("resumes_as", experiment=self._id))
            after = {"resumed": resumes, "drained": "draining"}.get(status, status)
            if before == after:
                return None
            if before not in allowed:
                said = f"experiment {self.name!r} is {before} and cannot be {status}"
                return Conflict(said, "invalid_transition")
            transaction.run("set_status", experiment=self._id, status=after, reason=reason)
            if after in GOING:
                self._replications.go_on(transaction, self._assignments.now())
            return None

        _raise(self._write(work))

    def add_policy(self, name: str, policy: Any, *, make: Maker | None = None) -> Joining:
        """Let a challenger join, even a finished experiment.

        It walks through what is known first and asks for users only where no policy has been before. The answer says
        how far that carried it and how many users it needs at least. Do not tune a challenger on the ledger it joins.

        Args:
            name: Its name among the policies.
            policy: The policy, or its text form.
            make: For `External(...)`: the maker it names.
        """
        self._take_maker(name, policy, make)

        def work(transaction: Transaction) -> Joining:
            return join(transaction, self._replications, name, policy, self._assignments.now())

        return self._database.write(work)  # a challenger that fails does not join, and that is all

    def preview_policy(self, name: str, policy: Any, *, make: Maker | None = None) -> Joining:
        """What `add_policy` would answer; nothing is changed."""
        self._take_maker(name, policy, make)
        return self._database.read(
            lambda transaction: preview(transaction, self._replications, name, policy)
        )

    def _take_maker(self, name: str, policy: Any, make: Maker | None) -> None:
        if make is not None:
            self._replications.makers[getattr(policy, "name", name)] = make

    # Looking

    def describe(self, id: str) -> Description:
        """Everything about an assignment, for the analyst; the application that serves users need not know it."""

        def work(transaction: Transaction) -> Description:
            row = transaction.one("describe", assignment=id) if is_id(id) else None
            if row is None or row[0] != self._id:
                raise self._assignments.unknown(id)
            return description(
                id, self.name, self._replications.current(transaction).experiment, row
            )

        return self._database.read(work)

    def runs(
        self, checkpoints: Sequence[int] | None = None, *, policies: Sequence[str] | None = None
    ) -> Runs:
        """What has happened so far, for `compare`.

        It holds the complete prefix of replications, never "those finished so far": how long a replication takes
        depends on how it goes.

        Args:
            checkpoints: Horizons to report; a replication counts once every policy has passed the last of them. The
                experiment's horizon if not given.
            policies: Only these; others need not have come as far.
        """

        def work(transaction: Transaction, scheduler: Scheduler, numbers: Sequence[int]) -> Runs:
            known = tuple(scheduler.experiment.policies)
            for name in policies or ():
                if name not in known:
                    raise Invalid(f"no policy {name!r} here; {did_you_mean(str(name), known)}")
            horizons = checked_checkpoints(scheduler.experiment, checkpoints)
            chosen = tuple(policies or known)
            before = self._seen.get((scheduler.experiment.digest, tuple(horizons), chosen))
            first = before.replications if before else 0
            span = numbers[first:]
            more = runs_of(transaction, self._id, scheduler, span, horizons, chosen, first)
            together = Runs.concat([before, more]) if before else more
            self._seen = {(scheduler.experiment.digest, tuple(horizons), chosen): together}
            return together

        return self._read(work)

    def trace(self, replication: int = 0) -> Trace:
        """Every period of one replication, as far as it has come."""

        def work(transaction: Transaction, scheduler: Scheduler, numbers: Sequence[int]) -> Trace:
            whole = isinstance(replication, int) and not isinstance(replication, bool)
            if not whole or replication not in numbers:
                raise Invalid(
                    f"replication must be from 0 to {len(numbers) - 1:,} (those begun so far), got {replication!r}"
                )
            return trace_of(transaction, self._id, scheduler, replication)

        return self._read(work)

    def _read(self, work: Callable[[Transaction, Scheduler, Sequence[int]], T]) -> T:
        def on_one_state(transaction: Transaction) -> T:
            scheduler = self._replications.current(transaction)
            rows = transaction.all("replications", experiment=self._id)
            return work(transaction, scheduler, [number for number, *_ in rows])

        return self._database.read(on_one_state)

    def verify(self) -> int:
        """Derive every replication from its ledger again; how many there are.

        A difference between what the policies make of the ledger and what was asked for raises `Diverged`.
        """

        def work(transaction: Transaction, scheduler: Scheduler, numbers: Sequence[int]) -> int:
            return sum(1 for _ in read_replications(transaction, self._id, scheduler, numbers))

        return self._read(work)

    def verify_or_fail(self) -> None:
        """As `verify`; a difference stops the experiment."""
        try:
            self.verify()
        except (Diverged, Unplayable) as error:
            if not self._database.read_only:
                self._fail(str(error))
            raise

    def status(self) -> Status:
        """How far the experiment has come."""
        self.count_calls()
        return self._database.read(lambda transaction: status(transaction, self._id, self.name))

    def diagnostics(self, *, silence_is_zero: bool = False) -> tuple[Check, ...]:
        """Whether what the experiment assumes can be seen to be wrong; each check with a sentence and a verdict.

        The ledger against the policies, what is waited for, enrolment and the traffic gate, drift, loss and delay by
        arm; the replay audit if `audit_share` is set; equal policies, if there are any, against each other.

        Args:
            silence_is_zero: Silence is how the default reward is reported here (only purchases are sent, say): arms
                may differ in how often no reward comes.
        """
        self.count_calls()

        def work(
            transaction: Transaction, scheduler: Scheduler, numbers: Sequence[int]
        ) -> tuple[Check, ...]:
            now = self._assignments.now()
            ledger = transaction, self._id, scheduler, numbers
            return diagnostics(Snapshot(*ledger, self.live, now, silence_is_zero))

        return self._read(work)

    def export(
        self,
        path: str | os.PathLike[str],
        *,
        what: str = "ledger",
        format: str | None = None,
    ) -> int:
        """Write the ledger to a file, whole or not at all; how many rows it has.

        One row an assignment, and one an entry that nobody was assigned (wanted, or imported): the ledger in its
        order, after it the assignments that were voided. Units are keyed hashes. In CSV, text that a spreadsheet
        would take for a formula gets a leading apostrophe.

        Args:
            path: Where to; .csv, .jsonl (or .ndjson) or .parquet says which format.
            what: "ledger", or "rewards": every reward ever reported and what became of it.
            format: "csv", "jsonl" or "parquet", whatever the path's ending.
        """
        named = (self._id, self.name, self.live.to_dict())
        return export(self._database, *named, path, what=what, format=format)

    # Small things

    def _write(self, work: Work[T]) -> T:
        """A transaction; if a policy fails or does not agree with the ledger, the experiment is stopped."""
        try:
            return self._database.write(work)
        except (Diverged, Unplayable) as error:
            self._fail(str(error))
            raise

    def _fail(self, reason: str) -> None:
        values = {"experiment": self._id, "status": "failed", "reason": reason}
        self._database.write(lambda transaction: transaction.run("set_status", **values))

    def count_calls(self) -> None:
        """Write down how calls were answered since the last time."""
        if self._assignments.uncounted and not self._database.read_only:
            self._write(self._assignments.count_calls)


def _raise(conflict: Conflict | None) -> None:
    if conflict is not None:
        raise conflict
