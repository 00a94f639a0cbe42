"""`LiveExperiment`: an experiment on real users. Each of its methods is one transaction."""

from __future__ import annotations

import os
from typing import SupportsIndex
from uuid import UUID

from sameluck.live.control.history import Change
from sameluck.live.control.switches import Control
from sameluck.live.diagnostics import Check, Snapshot, diagnostics
from sameluck.live.logs.exporting import export
from sameluck.live.policies import Policies
from sameluck.live.records import (
    ReplicationStatus,
    Status,
    WindowExtension,
    read_replications,
    read_status,
)
from sameluck.validation import require_flag


class LiveExperiment(Policies):
    """A running experiment: what `store.start` and `store.load` return."""

    # Control

    def pause(self, reason: str = "") -> None:
        """Enrol no unit until `resume`; rewards are still accepted."""
        self._control.change_status("paused", ("running", "draining"), reason)

    def resume(self, reason: str = "") -> None:
        """Continue after a pause; or after a failure, once the policies agree with the ledger again."""
        self.verify()
        self._control.change_status("resumed", ("paused", "failed"), reason)

    def stop(
        self, *, drain: bool = True, after_replications: int | None = None, reason: str = ""
    ) -> None:
        """End the experiment before the planned number of replications.

        How long a replication takes depends on its rewards, and so does the number of those that have begun at a
        given user or time, or when the results look a certain way: their mean is not exactly unbiased then. The
        anytime interval, which `compare` uses for a stopped experiment, covers at every number of replications at
        once and stays valid. The mean over the first `after_replications` is unbiased if that number was chosen
        without looking at the rewards.

        Args:
            drain: Begin no further replication and complete those that have begun. False stops at once: results are
                those of the complete prefix, and units that return get the fallback arm too. On an experiment that
                has ended it does only the latter.
            after_replications: Complete exactly this many, the first ones: at least as many as have begun, at most
                as many as are planned. A later call of `stop` replaces it.
            reason: For the record.
        """
        self._control.stop(after_replications, reason, drain=drain)

    def disable_arm(
        self, arm: str | int, *, reason: str = "", fallback: str | int | None = None
    ) -> None:
        """Show an arm to nobody: no call of `assign` that begins after this returns answers it, in any process.

        Units that return to it get the fallback arm and `enrolled` False. Rewards of those who saw it are accepted
        as before. Entries of the arm wait, and so do the replications that need one: results stay those of the
        complete prefix, of which the anytime interval is valid. Leaving out the replications that wait would bias the
        result, since whether one needs the arm depends on its rewards. `enable_arm` continues the experiment, `stop`
        with `drain=False` ends it.

        Args:
            arm: Its name, or its index.
            reason: For the history.
            fallback: The fallback arm from now on; needed if the arm is the fallback arm itself.
        """
        self._enrolment.use_fallback(self._control.disable_arm(arm, fallback, reason))

    def enable_arm(self, arm: str | int, *, reason: str = "") -> None:
        """Show a disabled arm again: its entries are assigned as before, and the experiment continues.

        The law of the estimate is unchanged if the arm's rewards are what they were before.
        """
        self._control.enable_arm(arm, reason)

    def extend_windows(self, seconds: float, *, reason: str = "") -> WindowExtension:
        """Let rewards come so many seconds later, after an outage for instance; returns what that has changed.

        Every window that is open, or over without its default reward recorded, ends so much later. A default reward
        that was recorded (by `tick`, or by a call of `assign` or `reward`) is taken back if no policy has played on
        it: its replication is not complete, and no unit was ever assigned an entry that the policies requested only
        because of it. Whether that is so does not depend on the reward that it hid. The first reward that came
        meanwhile, and was refused as late, counts then if it came within the extended window; the audit log has it a
        second time, as applied. Otherwise the entry waits again until the extended window ends. Every other default
        reward stays, since users have been shown arms because of it.

        Pause the experiment during an outage of rewards: then no policy plays on a default meanwhile.
        """
        return self._control.extend_windows(seconds, reason)

    def erase(self, unit: str | SupportsIndex | UUID, *, reason: str = "") -> int:
        """Erase a unit: nothing in the database leads from it to its rewards; returns how many assignments it had.

        Its hash, its visits and its lines in the audit log go; its assignments get other ids, so that the ids which
        the application knows are unknown from then on, and times to the hour. The rewards stay in the ledger, on
        which policies have acted, and in the digests that protect it. A reward that is awaited cannot come any more:
        the default reward counts, or another unit is assigned the entry if this one was not exposed. A unit that
        returns is a new one. Erasing it again changes nothing.
        """
        return self._control.erase(self._enrolment.code(unit), reason)

    def forget_units(self, *, reason: str = "") -> None:
        """Destroy the key of the hashes of an experiment that has ended: no unit can be found in it any more.

        Who has the database and a guess of a unit's name could confirm it with the key, which is stored beside the
        hashes. Units that return get the fallback arm, and no policy can be added that needs users. Other processes
        have the key in memory until they end.
        """
        self._control.forget_units(reason)
        self._enrolment.forget_key()

    def history(self) -> list[Change]:
        """Every change of status, policies and arms: when, what, by whom and why; the oldest first."""
        return self._database.read(self._replications.history.changes)

    @property
    def _control(self) -> Control:
        return Control(self._replications)

    # Results

    def status(self) -> Status:
        """The status of the experiment, with counts."""
        answers = self._enrolment.answers_not_written()
        with self._settings.in_time():
            return self._database.read(
                lambda transaction: read_status(transaction, self._id, self.name, answers)
            )

    def replications(self) -> list[ReplicationStatus]:
        """The progress of every replication that has begun, in order."""
        return self._database.read(lambda transaction: read_replications(transaction, self._id))

    def diagnostics(self, *, silence_is_zero: bool = False) -> tuple[Check, ...]:
        """Check what the experiment assumes against its data; each check has a sentence and a verdict.

        The ledger against the policies, open slots, enrolment and the traffic share, drift, loss and delay by arm;
        the replay audit if `audit_share` is set; equal policies, if there are any, against each other.

        Args:
            silence_is_zero: No report means the default reward here (only purchases are reported, say): arms may
                differ in how often no reward comes.
        """
        require_flag("silence_is_zero", silence_is_zero)
        self._enrolment.flush()
        now = self._settings.now()
        return self._replications.read(
            lambda ledger: diagnostics(Snapshot(ledger, self.options, now, silence_is_zero))
        )

    def export(
        self, path: str | os.PathLike[str], *, what: str = "ledger", format: str | None = None
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
        return export(self, path, what=what, format=format)
