"""Changes by operators: pause, stop, disable arms and more. Each change is recorded in the history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from sameluck.errors import Conflict, Invalid
from sameluck.live.control.history import check_reason
from sameluck.live.databases.base import Transaction, Work
from sameluck.live.databases.rows import ACTIVE, ENDED, ExperimentRow, NumberRow
from sameluck.live.options import arm_index, fallback_arm, options_text, stop_after_of
from sameluck.live.state.definition import arms_of, engine_class
from sameluck.live.state.replications import OpenReplications
from sameluck.validation import require_flag, require_whole

T = TypeVar("T")


class Control(NamedTuple):
    """Changes that operators make to one experiment."""

    replications: OpenReplications

    def change_status(self, change: str, allowed: Sequence[str], reason: str) -> None:
        """Pause or resume, if the present status is allowed."""
        check_reason(reason)

        def work(transaction: Transaction) -> None:
            row = self._lock(transaction)
            after = row.resumes_as if change == "resumed" else change
            if row.status != after:
                self._check_transition(row.status, change, allowed)
                self.replications.set_status(transaction, after, reason, change=change)

        # Resuming has no time limit, since it may open many replications.
        (self._write if change == "paused" else self.replications.write)(work)

    def _write(self, work: Work[T]) -> T:
        """Use the user-call timeout, so that a lock held by another session is reported quickly."""
        with self.replications.settings.in_time():
            return self.replications.write(work)

    def stop(self, stop_after: int | None, reason: str, *, drain: bool) -> None:
        """Stop at once, or drain; `stop_after` is the `after_replications` of `LiveExperiment.stop`."""
        check_reason(reason)
        require_flag("drain", drain)
        if stop_after is not None:
            stop_after = require_whole("after_replications", stop_after, 1)
            if not drain:
                raise Invalid(
                    "after_replications completes the first replications, and drain=False stops at once; give one"
                )
        if not drain:
            self._write(lambda transaction: self._stop_at_once(transaction, reason))
            return
        done = ("draining", *ENDED) if stop_after else ("draining",)

        def work(transaction: Transaction) -> None:
            row = self._lock(transaction)
            changed = stop_after_of(row.options) != stop_after
            if row.status in done and not changed:
                return
            self._check_transition(row.status, "drained", (*ACTIVE, "paused"))
            if changed:
                self._set_stop_after(transaction, stop_after)
            subject = f"after replication {stop_after:,}" if stop_after else ""
            self.replications.set_status(transaction, "draining", reason, subject=subject)

        self.replications.write(work)

    def _stop_at_once(self, transaction: Transaction, reason: str) -> None:
        """Enrol no unit any more and give returning units the fallback arm; an ended experiment keeps its status."""
        row = self._lock(transaction)
        if row.status not in ENDED:
            self._check_transition(row.status, "stopped", (*ACTIVE, "paused", "failed"))
            if stop_after_of(row.options) is not None:
                self._set_stop_after(transaction, None)
            self.replications.set_status(transaction, "stopped", reason, subject="at once")
        elif row.sticky:
            self.replications.history.record(transaction, "stickiness ended", reason=reason)
        if row.sticky:
            transaction.execute("set_sticky", experiment=self.replications.id, sticky=0)

    def _set_stop_after(self, transaction: Transaction, stop_after: int | None) -> None:
        key = {"experiment": self.replications.id}
        if stop_after is not None:
            last = transaction.fetch_one(NumberRow, "last_replication", **key).number
            name = f"after_replications ({last + 1:,} have begun and are completed)"
            require_whole(name, stop_after, last + 1, self.replications.experiment.replications)
        text = options_text(self.replications.options, stop_after)
        transaction.execute("set_options", **key, options=text)

    def disable_arm(self, arm: str | int, fallback: str | int | None, reason: str) -> int:
        check_reason(reason)
        experiment = self.replications.experiment
        index = arm_index("disable_arm", arm, experiment.arm_names)
        new_fallback = None
        if fallback is not None:
            new_fallback = arm_index("disable_arm: fallback", fallback, experiment.arm_names)

        def work(transaction: Transaction) -> int:
            row, disabled = self._lock(transaction), self._disabled(transaction)
            used = fallback_arm(experiment, self.replications.options, row.fallback)
            if index in disabled:
                return used
            shown = used if new_fallback is None else new_fallback
            self._check_fallback(index, shown, disabled)
            key = {"experiment": self.replications.id}
            if shown != used:
                transaction.execute("set_fallback", **key, fallback=shown)
            for cell in self._cells_of(index):
                transaction.execute("disable_arm", **key, arm=cell)
            subject = experiment.arm_names[index]
            record = self.replications.history.record
            record(transaction, "arm disabled", subject=subject, reason=reason)
            return shown

        return self._write(work)

    def _check_fallback(self, arm: int, fallback: int, disabled: Sequence[int]) -> None:
        names = self.replications.experiment.arm_names
        if fallback == arm:
            raise Invalid(
                f"arm {names[arm]!r} is the fallback arm, which units that are not enrolled see; name another: "
                "disable_arm(..., fallback=...)"
            )
        if fallback in disabled:
            raise Invalid(
                f"arm {names[fallback]!r} is disabled and cannot be the fallback arm; name another"
            )

    def enable_arm(self, arm: str | int, reason: str) -> None:
        """Enable an arm; the fallback arm does not change."""
        check_reason(reason)
        names = self.replications.experiment.arm_names
        index = arm_index("enable_arm", arm, names)

        def work(transaction: Transaction) -> None:
            self._lock(transaction)
            if index in self._disabled(transaction):
                key = {"experiment": self.replications.id}
                for cell in self._cells_of(index):
                    transaction.execute("enable_arm", **key, arm=cell)
                record = self.replications.history.record
                record(transaction, "arm enabled", subject=names[index], reason=reason)

        self._write(work)

    def _disabled(self, transaction: Transaction) -> list[int]:
        rows = transaction.fetch_all(NumberRow, "disabled_arms", experiment=self.replications.id)
        return arms_of(self.replications.experiment, (row.number for row in rows))

    def _cells_of(self, arm: int) -> Sequence[int]:
        # The database compares the cells of entries with disabled cells, and knows no arm.
        experiment = self.replications.experiment
        return engine_class(experiment.design).cells_of(experiment, arm)

    def _lock(self, transaction: Transaction) -> ExperimentRow:
        return transaction.fetch_one(
            ExperimentRow, "lock_experiment", experiment=self.replications.id
        )

    def _check_transition(self, before: str, change: str, allowed: Sequence[str]) -> None:
        if before not in allowed:
            message = f"experiment {self.replications.name!r} is {before} and cannot be {change}"
            raise Conflict(message, "invalid_transition")
