"""The records that a live experiment returns, from its rows, and the statuses and reasons in them."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import NamedTuple

from sameluck.experiment import Experiment
from sameluck.live.databases.base import Transaction
from sameluck.live.databases.rows import (
    AnswerRow,
    AssignmentRow,
    CurrentRow,
    EntryCount,
    NumberRow,
    ReplicationRow,
)
from sameluck.live.engine.scheduler import AUDITED
from sameluck.live.options import stop_after_of
from sameluck.reporting.wording import counted

ACTIVE = ("running", "draining")  # statuses in which units are enrolled
ENDED = ("stopped", "complete")  # statuses in which no unit ever will be, unless a policy is added

ASSIGNED = "ASSIGNED"
STICKY = "STICKY"
NO_OPEN_SLOT = "NO_OPEN_SLOT"
NOT_RUNNING = "NOT_RUNNING"
NOT_IN_TRAFFIC_SHARE = "NOT_IN_TRAFFIC_SHARE"
DRAINING = "DRAINING"
ARM_DISABLED = "ARM_DISABLED"
UNAVAILABLE = "UNAVAILABLE"

REASONS = {
    ASSIGNED: "a new unit was enrolled",
    STICKY: "the unit is enrolled already: the same arm again",
    NO_OPEN_SLOT: "every open replication waits for rewards, or for a disabled arm",
    NOT_RUNNING: "the experiment is paused, stopped or complete",
    NOT_IN_TRAFFIC_SHARE: "the unit is outside the traffic share",
    DRAINING: "the experiment is being stopped and needs no unit at the moment",
    ARM_DISABLED: "the unit is enrolled, but its arm is disabled",
    UNAVAILABLE: "the store was away, or did not answer in time",
}


class Assignment(NamedTuple):
    """The arm to show a unit; neither the policy that requested it nor the replication is in it."""

    id: str | None  # None if the unit is not enrolled: no reward is expected
    arm: str
    enrolled: bool
    reason: str  # one of REASONS


class Receipt(NamedTuple):
    """The outcome of a reported reward."""

    applied: bool  # it settled its entry
    duplicate: bool  # the same value was reported before
    value: float  # the value that counts


class Description(NamedTuple):
    """Everything about an assignment, for the analyst."""

    id: str
    experiment: str
    replication: int
    policy: str | None  # the owner of the entry; None where all policies share it
    arm: str
    arm_index: int
    position: int
    status: str  # assigned, exposed, settled or voided
    value: float | None
    source: str | None  # observed or default
    audit: bool
    assigned_at: str
    exposed_at: str | None
    settled_at: str | None
    due_at: str | None


class Status(NamedTuple):
    """The status of an experiment, with counts."""

    name: str
    status: str
    reason: str
    planned: int  # replications
    opened: int
    complete: int
    prefix: int  # replications 0..prefix-1 are complete: what results use
    horizon: int
    users: int  # real users so far, audits included
    settled: int
    defaulted: int
    imported: int
    waiting: int  # assigned, no reward yet
    wanted: int  # entries without a user yet
    voided: int
    answers: dict[str, int]  # calls by reason
    stop_after: int | None  # replications after which it is stopped; None if that was not requested
    disabled: tuple[str, ...] = ()  # arms that are shown to nobody
    held: int = 0  # of the wanted entries, those of disabled arms

    def __str__(self) -> str:
        calls = sum(self.answers.values())
        not_enrolled = [
            f"                {count:,} not enrolled: {REASONS.get(reason, reason)}"
            for reason, count in self.answers.items()
            if reason not in (ASSIGNED, STICKY)
        ]
        stops = "" if self.stop_after is None else f" (stop after {self.stop_after:,})"
        lines = [
            f"{self.name}: {self.status}" + (f" ({self.reason})" if self.reason else ""),
            f"  replications  {self.complete:,} complete of {self.planned:,} planned{stops}, "
            f"{self.opened - self.complete:,} open; results use the first {self.prefix:,}",
            f"  users         {self.users:,} assigned, {self.settled:,} settled"
            f" ({self.defaulted:,} by default), {self.waiting:,} awaited, {self.voided:,} voided"
            + (f"; {self.imported:,} entries imported" if self.imported else ""),
            f"  wanted        {self._wanted()}",
            *([f"  disabled      {self.disabled_note}"] if self.disabled else []),
            f"  calls         {calls:,}",
            *not_enrolled,
        ]
        return "\n".join(lines)

    def _wanted(self) -> str:
        if self.status in ENDED:
            return "no more users"
        when = "at this moment" if self.status in ACTIVE else "once it is resumed"
        return f"{counted(self.wanted - self.held, 'more user')}, {when}"

    @property
    def disabled_note(self) -> str:
        """What disabled arms mean for the results; empty if there are none."""
        if not self.disabled:
            return ""
        arms = (
            "arm " + self.disabled[0]
            if len(self.disabled) == 1
            else "arms " + ", ".join(self.disabled)
        )
        return (
            f"{arms}: {counted(self.held, 'entry waits', 'entries wait')}. Replications that need a disabled arm do "
            f"not end, and results stay those of the first {self.prefix:,} until it is enabled: leaving out the "
            "replications that wait would bias them, since it depends on their rewards which do"
        )


class Joining(NamedTuple):
    """What a policy that is added to a running experiment will need."""

    policy: str
    replications: int  # already begun, which it reads first
    finished: int  # of those, without a user
    replayed: int  # periods it has played on settled entries
    users_at_least: int  # entries it requests at this moment; it will request more later
    users_so_far: int  # real users of the experiment before it was added

    def __str__(self) -> str:
        return (
            f"{self.policy} has replayed {counted(self.replayed, 'period')} of "
            f"{counted(self.replications, 'replication')} without a user and finished {self.finished:,} of them; at "
            f"this moment it requests {counted(self.users_at_least, 'new user')}, and will request more later (the "
            f"experiment has used {self.users_so_far:,}). Do not tune it on this ledger: it would be judged "
            "on what it was tuned on."
        )


def moment(microseconds: int | None) -> str | None:
    """A time as text, UTC."""
    if microseconds is None:
        return None
    seconds, rest = divmod(int(microseconds), 1_000_000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest).isoformat()


def description_of(id: str, name: str, experiment: Experiment, row: AssignmentRow) -> Description:
    """An assignment of an experiment."""
    voided = row.voided_us is not None
    exposed = row.exposed_us is not None and row.state == "assigned"
    return Description(
        id=id,
        experiment=name,
        replication=row.replication,
        policy=tuple(experiment.policies)[row.owner - 1] if row.owner > 0 else None,
        arm=experiment.arm_names[row.arm],
        arm_index=row.arm,
        position=row.position,
        status="voided" if voided else "exposed" if exposed else row.state,
        value=None if voided else row.value,
        source=None if voided else row.source,
        audit=row.owner == AUDITED,
        assigned_at=str(moment(row.assigned_us)),
        exposed_at=moment(row.exposed_us),
        settled_at=None if voided else moment(row.settled_us),
        due_at=None if voided else moment(row.due_us),
    )


def status_of(transaction: Transaction, id: int, name: str) -> Status:
    """The status of an experiment, with counts of everything."""
    current = transaction.one(CurrentRow, "experiment_now", experiment=id)
    experiment = Experiment.from_json(current.definition)
    replications = transaction.all(ReplicationRow, "replications", experiment=id)
    complete = [row.number for row in replications if row.state == "complete"]
    disabled = transaction.all(NumberRow, "disabled_arms", experiment=id)
    entries: Counter[str] = Counter()
    for state, source, count in transaction.all(EntryCount, "count_entries", experiment=id):
        entries[state] += count
        entries[source or ""] += count
    return Status(
        name=name,
        status=current.status,
        reason=current.reason,
        planned=experiment.replications,
        opened=len(replications),
        complete=len(complete),
        prefix=next((n for n, number in enumerate(complete) if n != number), len(complete)),
        horizon=experiment.horizon,
        users=transaction.one(NumberRow, "count_assigned", experiment=id).number,
        settled=entries["settled"] - entries["imported"],
        defaulted=entries["default"],
        imported=entries["imported"],
        waiting=entries["assigned"],
        wanted=entries["wanted"],
        voided=transaction.one(NumberRow, "count_voided", experiment=id).number,
        answers=dict(transaction.all(AnswerRow, "answers", experiment=id)),
        stop_after=stop_after_of(current.options),
        disabled=tuple(experiment.arm_names[arm] for (arm,) in disabled),
        held=transaction.one(NumberRow, "count_held", experiment=id).number if disabled else 0,
    )
