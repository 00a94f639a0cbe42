"""History of experiments: every change with its time, actor and reason."""

from __future__ import annotations

from typing import NamedTuple

from sameluck.live.calls.settings import StoreSettings
from sameluck.live.databases.base import Transaction, Values
from sameluck.live.databases.rows import ChangeRow
from sameluck.live.records import moment
from sameluck.validation import require_name


def check_reason(reason: str) -> None:
    """Raise `Invalid` unless a reason is empty or short enough to be stored."""
    if not isinstance(reason, str) or reason:
        require_name("a reason", reason)


class Change(NamedTuple):
    """Line in an experiment's history."""

    at: str
    experiment: str
    what: str  # started, paused, arm disabled, ...
    subject: str  # the arm, the policy, ... or empty
    actor: str  # who
    reason: str

    def __str__(self) -> str:
        subject = f" {self.subject}" if self.subject else ""
        reason = f": {self.reason}" if self.reason else ""
        by = f", by {self.actor}" if self.actor else ""
        return f"{self.at}  {self.experiment}: {self.what}{subject}{by}{reason}"


class History(NamedTuple):
    """Recorder of one experiment's changes."""

    id: int  # of the experiment
    name: str
    settings: StoreSettings

    def record(
        self, transaction: Transaction, what: str, *, subject: str = "", reason: str = ""
    ) -> None:
        """Add a change, in the transaction that makes it."""
        key: Values = {"experiment": self.id, "name": self.name, "now": self.settings.now()}
        change = {"what": what, "subject": subject, "actor": self.settings.actor, "reason": reason}
        transaction.execute("record_change", **key, **change)


def read_changes(transaction: Transaction, experiment: int | None = None) -> list[Change]:
    """Return the changes of an experiment, or of all experiments if None, the oldest first."""
    if experiment is None:
        rows = transaction.fetch_all(ChangeRow, "all_changes")
    else:
        rows = transaction.fetch_all(ChangeRow, "changes", experiment=experiment)
    return [Change(str(moment(at_us)), *fields) for at_us, *fields in rows]
