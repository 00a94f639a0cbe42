"""`LiveExperiment`: an experiment on real users. Each of its methods is one transaction."""

from __future__ import annotations

import os
from collections.abc import Sequence

from sameluck.errors import Diverged, Invalid, Unplayable, did_you_mean
from sameluck.experiment import Experiment, checked_checkpoints
from sameluck.live.assignments import Assignments
from sameluck.live.challengers import join, preview
from sameluck.live.diagnostics import Check
from sameluck.live.diagnostics.registry import diagnostics
from sameluck.live.diagnostics.snapshot import Snapshot
from sameluck.live.ledger import Ledger, read_replications, runs_of, status_of, trace_of
from sameluck.live.logs.exporting import export
from sameluck.live.options import Maker
from sameluck.live.records import Assignment, Description, Joining, Receipt, Status, moment
from sameluck.live.replications import OpenReplications
from sameluck.policies.base import Policy
from sameluck.runs import Runs
from sameluck.trajectories import Trace
from sameluck.validation import is_whole, require_name


class LiveExperiment:
    """A running experiment: what `store.start` and `store.load` return."""

    def __init__(
        self, replications: OpenReplications, assignments: Assignments, started_us: int
    ) -> None:
        self.name = replications.name
        self.live = replications.live
        self.started_at = moment(started_us)
        self._id = replications.id
        self._database = replications.database
        self._clock = assignments.clock
        self._replications = replications
        self._assignments = assignments
        # The last runs, with what they are of: complete replications never change.
        self._runs: tuple[object, Runs] | None = None

    @property
    def experiment(self) -> Experiment:
        """The experiment, policies that were added included."""
        return self._replications.experiment

    def __repr__(self) -> str:
        names = ", ".join(self.experiment.policies)
        return f"<LiveExperiment {self.name!r}: {names}; horizon {self.experiment.horizon:,}>"

    # Users

    def assign(self, unit: str | int) -> Assignment:
        """Return the arm to show a unit that has just arrived.

        The same unit gets the same answer while it is enrolled. A unit that the experiment does not need gets the
        fallback arm and `enrolled` False; that never raises.
        """
        return self._assignments.assign(unit)

    def expose(self, id: str | None) -> None:
        """Report that the unit has seen its arm: it counts, with the default reward if none comes in time."""
        self._assignments.expose(id)

    def reward(self, id: str | None, value: float) -> Receipt:
        """Report the reward of a unit. It is durable once this returns.

        The first value counts. The same value again changes nothing; another value, a value after the window or for a
        voided assignment raises `Conflict` and is kept in the audit log. For a unit that is not enrolled (`id` None)
        nothing happens.
        """
        return self._assignments.reward(id, value)

    def void(self, id: str | None) -> None:
        """Report that the unit never saw its arm: its entry is wanted again, and the unit may be enrolled again."""
        self._assignments.void(id)

    def tick(self) -> int:
        """Expire every assignment that is due; returns how many.

        Exposed, and no reward within the window: the default reward. Not exposed within the lease: voided, and the
        entry is wanted again. `assign` does this about once per second too, and a reward after its window is late
        whether or not this was called.
        """
        return self._assignments.tick()

    # Control

    def pause(self, reason: str = "") -> None:
        """Enrol no unit until `resume`; rewards are still accepted."""
        self._change_status("paused", ("running", "draining"), reason)

    def resume(self) -> None:
        """Continue after a pause; or after a failure, once the policies agree with the ledger again."""
        self.verify()
        self._change_status("resumed", ("paused", "failed"), "")

    def stop(self, *, drain: bool = True, reason: str = "") -> None:
        """End the experiment before the planned number of replications.

        Args:
            drain: Open no further replication and finish every open one: the only way to stop whose results are
                unbiased, since how long a replication takes depends on its rewards. False stops at once, and results
                are those of the complete prefix.
            reason: For the record.
        """
        status = "drained" if drain else "stopped"
        self._change_status(status, ("running", "paused", "draining"), reason)

    def _change_status(self, change: str, allowed: tuple[str, ...], reason: str) -> None:
        if reason:
            require_name("a reason", reason)
        self._replications.change_status(change, allowed, reason, self._assignments.now())

    def add_policy(self, name: str, policy: Policy | str, *, make: Maker | None = None) -> Joining:
        """Add a challenger, even to a finished experiment.

        It first reads the entries that are settled, and requests users only for entries that no policy has requested.
        The result holds how many periods it has replayed and how many users it needs at least. Do not tune a
        challenger on the ledger that it is added to.

        Args:
            name: Its name among the policies.
            policy: The policy, or its text form.
            make: For `External(...)`: the maker it names.
        """
        self._add_maker(name, policy, make)
        now = self._assignments.now()
        return self._database.write(  # not through `write`: a challenger that fails is not added, no more
            lambda transaction: join(transaction, self._replications, name, policy, now)
        )

    def preview_policy(
        self, name: str, policy: Policy | str, *, make: Maker | None = None
    ) -> Joining:
        """Return what `add_policy` would return; nothing is changed."""
        self._add_maker(name, policy, make)
        return self._database.read(
            lambda transaction: preview(transaction, self._replications, name, policy)
        )

    def _add_maker(self, name: str, policy: Policy | str, make: Maker | None) -> None:
        if make is not None:
            self._replications.add_maker(getattr(policy, "name", name), make)

    # Results

    def describe(self, id: str) -> Description:
        """Everything about an assignment, for the analyst; the application that serves users does not need it."""
        return self._assignments.describe(id)

    def runs(
        self, checkpoints: Sequence[int] | None = None, *, policies: Sequence[str] | None = None
    ) -> Runs:
        """The results so far, for `compare`.

        They hold the complete prefix of replications, never "those finished so far": how long a replication takes
        depends on its rewards.

        Args:
            checkpoints: Horizons to report; a replication counts once every policy has passed the last of them. The
                experiment's horizon if not given.
            policies: Only these; others need not have passed it.
        """

        def work(ledger: Ledger) -> Runs:
            experiment = ledger.scheduler.experiment
            known = tuple(experiment.policies)
            for name in policies or ():
                if name not in known:
                    raise Invalid(f"no policy {name!r} here; {did_you_mean(str(name), known)}")
            horizons = checked_checkpoints(experiment, checkpoints)
            some = tuple(policies or known)
            key = experiment.digest, tuple(horizons), some
            before = self._runs[1] if self._runs and self._runs[0] == key else None
            first = before.replications if before else 0
            new = ledger._replace(numbers=ledger.numbers[first:])
            more = runs_of(*new, horizons, some, first)
            runs = Runs.concat([before, more]) if before else more
            self._runs = key, runs
            return runs

        return self._replications.read(work)

    def trace(self, replication: int = 0) -> Trace:
        """Every period of one replication that each policy has done."""

        def work(ledger: Ledger) -> Trace:
            transaction, experiment, scheduler, numbers = ledger
            if not is_whole(replication) or replication not in numbers:
                raise Invalid(
                    f"replication must be from 0 to {len(numbers) - 1:,} (those begun so far), got {replication!r}"
                )
            return trace_of(transaction, experiment, scheduler, replication)

        return self._replications.read(work)

    def verify(self) -> int:
        """Derive every replication from its ledger again; returns how many there are.

        Raises `Diverged` if the entries that the policies need differ from those that were requested.
        """
        return self._replications.read(lambda ledger: sum(1 for _ in read_replications(*ledger)))

    def _write_counts(self) -> None:
        """Write what is only in memory, for the store."""
        self._assignments.write_counts()

    def _verify_or_fail(self) -> None:
        """As `verify`, for the store; a difference sets the status to failed."""
        try:
            self.verify()
        except (Diverged, Unplayable) as error:
            if not self._database.read_only:
                self._replications.fail(str(error))
            raise

    def status(self) -> Status:
        """The status of the experiment, with counts."""
        self._assignments.write_counts()
        return self._database.read(lambda transaction: status_of(transaction, self._id, self.name))

    def diagnostics(self, *, silence_is_zero: bool = False) -> tuple[Check, ...]:
        """Check what the experiment assumes against its data; each check has a sentence and a verdict.

        The ledger against the policies, open slots, enrolment and the traffic share, drift, loss and delay by arm;
        the replay audit if `audit_share` is set; equal policies, if there are any, against each other.

        Args:
            silence_is_zero: No report means the default reward here (only purchases are reported, say): arms may
                differ in how often no reward comes.
        """
        self._assignments.write_counts()
        now = self._assignments.now()
        return self._replications.read(
            lambda ledger: diagnostics(Snapshot(*ledger, self.live, now, silence_is_zero))
        )

    def export(
        self,
        path: str | os.PathLike[str],
        *,
        what: str = "ledger",
        format: str | None = None,
    ) -> int:
        """Write the ledger to a file, whole or not at all; returns the number of rows.

        One row per assignment, and one per entry without an assignment (wanted, or imported): the ledger in its
        order, then the voided assignments. Units are keyed hashes. In CSV, text that a spreadsheet would take for a
        formula gets a leading apostrophe.

        Args:
            path: The file; .csv, .jsonl (or .ndjson) or .parquet decides the format.
            what: "ledger", or "rewards": every reward ever reported and its outcome.
            format: "csv", "jsonl" or "parquet", whatever the path's ending.
        """
        named = (self._id, self.name, self.live.to_dict())
        return export(self._database, *named, path, what=what, format=format)
