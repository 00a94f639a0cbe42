"""`LiveExperiment`: an experiment on real users. Each of its methods is one transaction."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from sameluck.errors import SameluckError
from sameluck.experiment import Experiment
from sameluck.live.calls.call_queue import batches_of
from sameluck.live.control.history import Change, read_changes
from sameluck.live.control.policy_changes import LedgerChanges, PolicyChanges
from sameluck.live.control.removal import erase_unit, forget_units
from sameluck.live.control.switches import Control
from sameluck.live.control.windows import extend_windows
from sameluck.live.databases.base import Transaction
from sameluck.live.databases.rows import AssignmentRow, ExperimentRow
from sameluck.live.diagnostics.check import Check, diagnostics
from sameluck.live.diagnostics.snapshot import Snapshot
from sameluck.live.diagnostics.summaries import Summaries
from sameluck.live.logs.exporting import export
from sameluck.live.options import Maker, Makers
from sameluck.live.records import (
    UNAVAILABLE,
    AddedPolicy,
    Assignment,
    AssignmentDetails,
    Receipt,
    ReplicationStatus,
    Status,
    WindowExtension,
    details_of,
    moment,
    read_replications,
    read_status,
)
from sameluck.live.state.replications import OpenReplications
from sameluck.live.state.results import Results
from sameluck.live.state.verification import verify
from sameluck.live.users.enrolment import Enrolment
from sameluck.live.users.rewards import Expiry, Rewards
from sameluck.live.users.units import Unit, is_id
from sameluck.policies.base import Policy
from sameluck.policies.external import makers_for
from sameluck.runs import Runs
from sameluck.trajectories import Trace
from sameluck.validation import require_flag, require_list

if TYPE_CHECKING:
    from sameluck.inference import Twin

_in_this_process: weakref.WeakSet[LiveExperiment] = weakref.WeakSet()


def _after_fork() -> None:
    # A thread of the parent may hold a lock at the fork, and nobody would release it in the child.
    for live in list(_in_this_process):
        live.enrolment.after_fork()
        live.open_replications.after_fork()
        live.settings.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class LiveExperiment:
    """A running experiment, as `store.start` and `store.load` return it.

    Attributes:
        id: Its number in the store. Another experiment with the same name, after a deletion, has another number.
        name: Its name in the store.
        options: The options that it was started with.
        started_at: When it was started, in UTC.
    """

    def __init__(self, replications: OpenReplications, row: ExperimentRow) -> None:
        row.check_streams()
        self.id, self.name = row.id, row.name
        self.options = replications.options
        self.started_at = moment(row.started_us)
        # Without an underscore, since other modules of this package use them
        self.open_replications = replications
        self.settings = replications.settings
        self._expiry = Expiry(replications)
        self.enrolment = Enrolment(replications, row, self._expiry)
        self.rewards = Rewards(replications, self._expiry)
        self._control = Control(replications)
        self._policy_changes = PolicyChanges(replications)
        self._results = Results(replications)
        self._summaries = Summaries(replications.verified)
        _in_this_process.add(self)

    @property
    def experiment(self) -> Experiment:
        """Experiment with the policies that were added."""
        return self.open_replications.experiment

    def __repr__(self) -> str:
        names = ", ".join(self.experiment.policies)
        return f"<LiveExperiment {self.name!r}: {names}; horizon {self.experiment.horizon:,}>"

    # Users

    def assign(self, unit: Unit, *, strict: bool = False) -> Assignment:
        """Return the arm to show a unit that has just arrived.

        While a unit is enrolled, it gets the same answer at every call. A unit that the experiment does not need gets
        the fallback arm and `enrolled` False, without an error.

        If the store is unavailable, or does not answer in time (`open(timeout=...)`), the unit gets the fallback arm
        with the reason UNAVAILABLE; with `strict`, `Unavailable` is raised. If this process has other code of a
        policy than the experiment, the reason is DIVERGED; with `strict`, `OtherVersion` is raised.
        """
        return self.enrolment.assign(unit, strict=require_flag("strict", strict))

    def assign_many(
        self, units: Iterable[Unit], *, strict: bool = False
    ) -> list[Assignment | SameluckError]:
        """Return the result of `assign` for each of several units, in their order.

        This is much faster than one call per unit, since up to 100 units share a transaction. An invalid unit gets an
        `Invalid`, which is returned and not raised; the other units are not affected.
        """
        return self.enrolment.assign_many(units, strict=require_flag("strict", strict))

    @property
    def fallback_assignment(self) -> Assignment:
        """Answer to a unit while the store is unavailable, without a call to the store."""
        return self.enrolment.not_enrolled(UNAVAILABLE)

    def fallback_arm(self) -> str:
        """Return the fallback arm at this moment."""
        return self.enrolment.read_fallback()

    def expose(self, id: str | None) -> None:
        """Report that the unit has seen its arm: it counts, with the default reward if none comes in time."""
        if id is not None:
            self.rewards.expose(id)

    def reward(self, id: str | None, value: float) -> Receipt:
        """Report the reward of a unit. It is durable once this returns.

        The first value counts, and the same value again changes nothing. Another value, a value after the window, or
        a value for a voided assignment raises `Conflict` and is kept in the audit log. For a unit that is not
        enrolled (`id` None) nothing happens.
        """
        return self.rewards.reward(id, value)

    def reward_many(
        self, pairs: Iterable[tuple[str | None, float]]
    ) -> list[Receipt | SameluckError]:
        """Report several rewards, as pairs of an assignment's id and a value; return the result of `reward` for each.

        The rewards count in their order, and are durable once this returns. Up to 100 rewards share a transaction. An
        error (`Conflict`, `Invalid`, `Unknown`, ...) is returned in its position, not raised, and does not affect the
        other rewards; its `code` is the reason. `Unavailable` is raised; the same call may then be repeated.
        """
        return self.rewards.reward_many(pairs)

    def void(self, id: str | None) -> None:
        """Report that the unit never saw its arm: its entry is wanted again, and the unit may be enrolled again."""
        if id is not None:
            self.rewards.void(id)

    def void_units(self, units: Iterable[Unit]) -> None:
        """Void the assignments of units whose answer was lost, so that they may be enrolled without knowing it.

        Units that are not enrolled, or were exposed or rewarded, stay as they are.
        """
        for unit in chain.from_iterable(batches_of("void_units: units", units)):
            unit_hash = self.enrolment.unit_hash(unit)
            self.rewards.void_if_possible(self.enrolment.assignment_of(unit_hash))

    def tick(self) -> int:
        """Expire every assignment that is due and return their number.

        An exposed unit without a reward within the window gets the default reward. A unit that was not exposed within
        the lease is voided, and its entry is wanted again. `assign` does this about once per second too. A reward
        after its window is late whether or not this was called.
        """
        self.open_replications.advance_lagging()
        return self._expiry.tick()

    def describe(self, id: str) -> AssignmentDetails:
        """Return the details of an assignment, for the analyst; applications that serve users do not need them."""

        def work(transaction: Transaction) -> AssignmentDetails:
            row = transaction.find(AssignmentRow, "describe", assignment=id) if is_id(id) else None
            if row is None or row.experiment != self.id:
                raise self._expiry.unknown(id)
            definition = self.open_replications.current(transaction)
            return details_of(id, self.name, definition, row)

        return self.open_replications.database.read(work)

    # Control

    def pause(self, reason: str = "") -> None:
        """Enrol no unit until `resume`; rewards are still accepted."""
        self._control.change_status("paused", ("running", "draining"), reason)

    def resume(self, reason: str = "") -> None:
        """Continue after a pause, or after a failure once the policies agree with the ledger again."""
        verified = self.open_replications.verified
        self.open_replications.read(partial(verify, verified=verified))
        self._control.change_status("resumed", ("paused", "failed"), reason)

    def stop(
        self, *, drain: bool = True, after_replications: int | None = None, reason: str = ""
    ) -> None:
        """End the experiment before the planned number of replications.

        The number of replications that have begun at a given time depends on their rewards, because a replication's
        duration does. The mean over them is therefore not exactly unbiased. The anytime interval, which `compare`
        uses for a stopped experiment, covers at every number of replications at once and stays valid. The mean over
        the first `after_replications` is unbiased if that number was chosen without looking at the rewards.

        Args:
            drain: Begin no further replication and complete the open ones. False stops at once: results are those of
                the complete prefix, and returning units get the fallback arm too. For an experiment that has ended,
                False has only the latter effect.
            after_replications: Complete exactly the first replications up to this number: at least the begun ones, at
                most the planned ones. A later call of `stop` replaces it.
            reason: For the history.
        """
        self._control.stop(after_replications, reason, drain=drain)

    def disable_arm(
        self, arm: str | int, *, reason: str = "", fallback: str | int | None = None
    ) -> None:
        """Show an arm to nobody: after this returns, no call of `assign` answers it, in any process.

        Units that return to it get the fallback arm and `enrolled` False. Rewards of units that saw it are accepted
        as before. Entries of the arm wait, and so do the replications that need them. Results stay those of the
        complete prefix, whose anytime interval is valid. Leaving out the waiting replications would bias the results,
        since a replication's need of the arm depends on its rewards. `enable_arm` continues the experiment, `stop`
        with `drain=False` ends it.

        Args:
            arm: Its name, or its index.
            reason: For the history.
            fallback: The fallback arm from now on; required if the disabled arm is the fallback arm.
        """
        self.enrolment.use_fallback(self._control.disable_arm(arm, fallback, reason))

    def enable_arm(self, arm: str | int, *, reason: str = "") -> None:
        """Show a disabled arm again: its entries are assigned as before, and the experiment continues.

        The distribution of the estimate is unchanged if the arm's rewards are what they were before.
        """
        self._control.enable_arm(arm, reason)

    def extend_windows(self, seconds: float, *, reason: str = "") -> WindowExtension:
        """Extend the reward windows, after an outage for instance, and return what that has changed.

        Every window that is open, or that has ended without a recorded default reward, ends later. A recorded default
        reward is taken back if no policy has played on it: its replication is open, and no unit was assigned an entry
        that the policies requested only because of it. This condition does not depend on the reward that the default
        hid. The first reward that was refused as late then counts if it came within the extended window; the audit
        log has it a second time, as applied. Otherwise the entry waits again until the extended window ends. All
        other default rewards stay, since users were shown arms because of them.

        Pause the experiment during an outage of rewards, so that no policy plays on a default meanwhile.
        """
        return extend_windows(self.open_replications, seconds, reason)

    def erase(self, unit: Unit, *, reason: str = "") -> int:
        """Erase a unit, so that nothing in the database leads from it to its rewards; return its assignments' number.

        The unit's hash, visits and lines in the audit log are removed. Its assignments get new ids, so that the
        application's ids are unknown from then on, and times rounded to the hour. The rewards stay in the ledger, on
        which policies have acted, and in its digests. An awaited reward cannot come any more: the default reward
        counts, or another unit is assigned the entry if this unit was not exposed. If the unit returns, it is a new
        unit. Erasing it again changes nothing.
        """
        unit_hash = self.enrolment.unit_hash(unit)
        return erase_unit(self.open_replications, self._expiry, unit_hash, reason)

    def forget_units(self, *, reason: str = "") -> None:
        """Destroy the key of the unit hashes of an experiment that has ended, so that no unit can be found in it.

        With the key, which is stored beside the hashes, a guess of a unit's name could be confirmed. Returning units
        get the fallback arm, and no policy that needs users can be added. Other processes keep the key in memory
        until they end.
        """
        forget_units(self.open_replications, reason)
        self.enrolment.forget_key()

    def history(self) -> list[Change]:
        """Return every change of status, policies and arms, with time, actor and reason, the oldest first."""
        return self.open_replications.database.read(partial(read_changes, experiment=self.id))

    # Policies

    def add_policy(
        self, name: str, policy: Policy | str, *, make: Maker | None = None
    ) -> AddedPolicy:
        """Add a challenger, even to a finished experiment.

        It first reads the settled entries, and requests users only for entries that no policy has requested. The
        result holds the number of replayed periods and the least number of users that it needs. Do not tune a
        challenger on the ledger that it is added to.

        Args:
            name: Its name among the policies.
            policy: The policy, or its text form.
            make: For `External(...)`: the maker it names.
        """
        return self._policy_changes.add(name, policy, make)

    def preview_policy(
        self, name: str, policy: Policy | str, *, make: Maker | None = None
    ) -> AddedPolicy:
        """Return the result that `add_policy` would return, without changing anything."""
        return self._policy_changes.preview(name, policy, make)

    def remove_policy(self, name: str, *, reason: str = "") -> LedgerChanges:
        """Remove a policy from the experiment, in all processes; this process does not need its code.

        Its results are removed. Rewards that were requested for it stay known to the other policies, and awaited
        rewards are accepted; no further user is enrolled for it alone. The other policies are not affected: a policy
        reads the same rewards whether or not another policy has requested them. The control cannot be removed.
        """
        return self._policy_changes.remove(name, reason)

    def replace_policy_code(
        self,
        name: str | Sequence[str],
        *,
        makers: Makers | None = None,
        confirm: bool = False,
        reason: str = "",
    ) -> LedgerChanges:
        """Continue with this process's code of one or several policies instead of the experiment's.

        The policies are run on the known rewards from the start, like a challenger. The result shows the
        replications, and the first period of each, in which the ledger differs from the requests of the new code.
        Without `confirm` nothing is changed. Other processes with the old code stop running the policies.

        Args:
            name: The policy, or several.
            makers: The new makers of `External` policies; this process's makers if not given.
            confirm: Make the change.
            reason: For the history.
        """
        names = [name] if isinstance(name, str) else require_list("replace_policy_code: name", name)
        return self._policy_changes.replace_code(names, makers, reason, confirm=confirm)

    def repair(self, *, confirm: bool = False, reason: str = "") -> LedgerChanges:
        """Bring the ledger in line with the policies again, after `Diverged`.

        The process must have the experiment's code of every policy. The result shows the differences; without
        `confirm` nothing is changed. Entries that no policy needs are released, and needed entries are wanted;
        rewards stay as they are. A ledger whose rewards were edited cannot be repaired in this way. `resume`
        continues the experiment.

        Args:
            confirm: Make the change.
            reason: For the history.
        """
        return self._policy_changes.repair(reason, confirm=confirm)

    # Results

    def runs(
        self, checkpoints: Sequence[int] | None = None, *, policies: Sequence[str] | None = None
    ) -> Runs:
        """Return the results so far, for `compare`.

        They hold the complete prefix of replications, never all replications that happen to be finished, because a
        replication's duration depends on its rewards. If later replications are complete, `notes` says what the
        prefix waits for.

        Args:
            checkpoints: Horizons to report; a replication counts once every policy has passed the last of them. The
                experiment's horizon if not given.
            policies: Report only these policies; the other policies need not have passed the checkpoint.
        """
        return self._results.runs(checkpoints, policies)

    def trace(self, replication: int = 0) -> Trace:
        """Return the periods of one replication that each policy has done."""
        return self.open_replications.read(lambda ledger: ledger.trace(replication))

    def twin(
        self,
        /,
        checkpoints: Sequence[int] | None = None,
        *,
        policies: Sequence[str] | None = None,
        **options: Any,
    ) -> Twin:
        """Simulate the policies on a copy of the arms as measured so far: `sameluck.twin` of `runs`.

        Args:
            checkpoints: As for `runs`; an earlier horizon is known sooner.
            policies: As for `runs`.
            options: The options of `sameluck.twin`.
        """
        from sameluck.inference import twin

        runs = self.runs(checkpoints, policies=policies)
        makers = makers_for(runs.experiment.policies, self.open_replications.makers)
        return twin(runs, **{"makers": makers, **options})

    def status(self) -> Status:
        """Return the status of the experiment, with counts."""
        answers = self.enrolment.unwritten_counts()
        with self.settings.in_time():
            work = partial(read_status, id=self.id, name=self.name, unwritten=answers)
            return self.open_replications.database.read(work)

    def replications(self) -> list[ReplicationStatus]:
        """Return the progress of every replication that has begun, in order."""
        return self.open_replications.database.read(partial(read_replications, id=self.id))

    def verify(self) -> int:
        """Derive every replication from its ledger again and return their number.

        Raises `Diverged` if the entries that the policies need differ from the entries that were requested.
        """
        return self.open_replications.read(verify)

    def diagnostics(self, *, silence_is_zero: bool = False) -> tuple[Check, ...]:
        """Check the experiment's assumptions against its data; each check has a sentence and a verdict.

        The checks compare the ledger with the policies, and examine open slots, enrolment, the traffic share, drift,
        loss and delay by arm. They include the replay audit if `audit_share` is set, and equal policies if there are
        any.

        Args:
            silence_is_zero: A missing report means the default reward, for instance if only purchases are reported.
                Arms may then differ in how often no reward comes.
        """
        require_flag("silence_is_zero", silence_is_zero)
        self.enrolment.flush()
        now = self.settings.now()
        return self.open_replications.read(
            lambda ledger: diagnostics(
                Snapshot(
                    ledger,
                    self.options,
                    now,
                    silence_is_zero,
                    self._summaries,
                    self._results.runs_of,
                )
            )
        )

    def export(
        self, path: str | os.PathLike[str], *, what: str = "ledger", format: str | None = None
    ) -> int:
        """Write the ledger to a file, whole or not at all, and return the number of rows.

        There is one row per assignment, and one per entry without an assignment (wanted, or imported): the ledger in
        its order, then the voided assignments. Units are keyed hashes. In CSV, text that a spreadsheet would take for
        a formula gets a leading apostrophe.

        Args:
            path: The file; .csv, .jsonl (or .ndjson) or .parquet decides the format.
            what: "ledger", or "rewards": every reward ever reported and its outcome.
            format: "csv", "jsonl" or "parquet", whatever the path's ending.
        """
        return export(self.open_replications, path, what=what, format=format)
