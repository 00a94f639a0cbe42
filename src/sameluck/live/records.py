"""Records that a live experiment returns, made from its rows, with their statuses and reasons."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from sameluck.experiment import Experiment
from sameluck.live.databases.base import Transaction
from sameluck.live.databases.rows import (
    ACTIVE,
    ENDED,
    AnswerRow,
    AssignmentRow,
    DisabledRow,
    ExperimentAnswerRow,
    NameRow,
    NumberRow,
    ProgressRow,
    ReplicationProgress,
    TextRow,
)
from sameluck.live.engine.protocol import AUDITED
from sameluck.live.options import stop_after_of
from sameluck.live.state.definition import Definition, arms_of
from sameluck.live.users.units import is_id
from sameluck.wording import counted

ASSIGNED = "ASSIGNED"
STICKY = "STICKY"
NO_OPEN_SLOT = "NO_OPEN_SLOT"
NOT_RUNNING = "NOT_RUNNING"
NOT_IN_TRAFFIC_SHARE = "NOT_IN_TRAFFIC_SHARE"
DRAINING = "DRAINING"
ARM_DISABLED = "ARM_DISABLED"
EXCLUDED = "EXCLUDED"
UNAVAILABLE = "UNAVAILABLE"
DIVERGED = "DIVERGED"

REASONS = {
    ASSIGNED: "a new unit was enrolled",
    STICKY: "the unit is enrolled already: the same arm again",
    NO_OPEN_SLOT: "every open replication waits for rewards, or for a disabled arm",
    NOT_RUNNING: "the experiment is paused, stopped or complete",
    NOT_IN_TRAFFIC_SHARE: "the unit is outside the traffic share",
    DRAINING: "the experiment is being stopped and needs no unit at the moment",
    EXCLUDED: "the unit was turned away before, and stays excluded",
    ARM_DISABLED: "the unit is enrolled, but its arm is disabled",
    UNAVAILABLE: "the store was unavailable, or did not answer in time",
    DIVERGED: "this process has another version of a policy than the experiment",
}


class Assignment(NamedTuple):
    """Arm to show a unit, without the policy that requested it and without the replication."""

    id: str | None  # None if the unit is not enrolled: no reward is expected
    arm: str
    enrolled: bool
    reason: str  # one of REASONS


class Receipt(NamedTuple):
    """Outcome of a reported reward."""

    applied: bool  # it settled its entry
    duplicate: bool  # the same value was reported before
    value: float  # the value that counts


class AssignmentDetails(NamedTuple):
    """Details of an assignment, for the analyst."""

    id: str
    experiment: str
    replication: int
    policy: str | None  # whose stacks the entry is in; None if all policies share them
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
    """Status of an experiment, with counts."""

    name: str
    status: str
    reason: str
    planned: int  # replications
    opened: int
    complete: int
    prefix: int  # replications 0..prefix-1 are complete, and results use them
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
    disabled: tuple[str, ...] = ()  # arms shown to nobody
    held: int = 0  # wanted entries of disabled arms
    behind: int = 0  # replications that wait for a process that has the code of every policy

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
            *([f"  behind        {self._behind()}"] if self.behind else []),
            f"  calls         {calls:,}",
            *not_enrolled,
        ]
        return "\n".join(lines)

    def _wanted(self) -> str:
        if self.status in ENDED:
            return "no more users"
        when = "at this moment" if self.status in ACTIVE else "once it is resumed"
        return f"{counted(self.wanted - self.held, 'more user')}, {when}"

    def _behind(self) -> str:
        waits = counted(self.behind, "replication waits", "replications wait")
        return f"{waits} for a process that has the code of every policy"

    @property
    def disabled_note(self) -> str:
        """Sentence on disabled arms and the results; empty if no arm is disabled."""
        if not self.disabled:
            return ""
        arms = ("arm " if len(self.disabled) == 1 else "arms ") + ", ".join(self.disabled)
        return (
            f"{arms}: {counted(self.held, 'entry waits', 'entries wait')}. Replications that need a disabled arm do "
            f"not end, and results use the first {self.prefix:,} until it is enabled. Leaving out the waiting "
            "replications would bias the results, since a replication's need of the arm depends on its rewards"
        )


class ReplicationStatus(NamedTuple):
    """Progress of one replication."""

    replication: int
    state: str  # open or complete
    settled: int  # entries, imported ones included
    defaulted: int
    voided: int
    opened_at: str
    completed_at: str | None


class AddedPolicy(NamedTuple):
    """Progress and needs of a policy that is added to a running experiment."""

    policy: str
    replications: int  # already begun, which it reads first
    finished: int  # of these replications, without a user
    replayed: int  # periods it has played on settled entries
    users_at_least: int  # entries it requests at this moment; more later unless it has finished
    users_so_far: int  # real users of the experiment before it was added

    def __str__(self) -> str:
        is_finished = self.finished == self.replications
        later = "none in these replications later" if is_finished else "will request more later"
        return (
            f"{self.policy} has replayed {counted(self.replayed, 'period')} of "
            f"{counted(self.replications, 'replication')} without a user and finished {self.finished:,} of them; at "
            f"this moment it requests {counted(self.users_at_least, 'new user')}, and {later} (the "
            f"experiment has used {self.users_so_far:,}). Do not tune it on this ledger: it would be judged on the "
            "data that it was tuned on."
        )


class WindowExtension(NamedTuple):
    """Changes made by extending the reward windows."""

    awaited: int  # rewards that may come later, including `reopened`
    reopened: int  # of these, entries whose default reward was taken back
    accepted: int  # late rewards that count now
    kept: int  # default rewards of open replications that stay, because a policy has played on them

    def __str__(self) -> str:
        return (
            f"{counted(self.awaited, 'reward')} may come later ({self.reopened:,} had the default already), "
            f"{counted(self.accepted, 'late reward counts', 'late rewards count')} now, "
            f"{counted(self.kept, 'default reward stays', 'default rewards stay')} (policies have played on them)"
        )


def moment(microseconds: int | None) -> str | None:
    if microseconds is None:
        return None
    seconds, fraction = divmod(int(microseconds), 1_000_000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=fraction).isoformat()


def details_of(id: str, name: str, definition: Definition, row: AssignmentRow) -> AssignmentDetails:
    """Return the details of an assignment of an experiment."""
    owners, arm = definition.owner_names, definition.arm_of(row.arm)
    voided = row.voided_us is not None
    exposed = row.exposed_us is not None and row.state == "assigned"
    return AssignmentDetails(
        id=id,
        experiment=name,
        replication=row.replication,
        policy=owners[row.stack_owner] if row.stack_owner > 0 else None,
        arm=definition.experiment.arm_names[arm],
        arm_index=arm,
        position=row.position,
        status="voided" if voided else "exposed" if exposed else row.state,
        value=None if voided else row.value,
        source=None if voided else row.source,
        audit=row.stack_owner == AUDITED,
        assigned_at=str(moment(row.assigned_us)),
        exposed_at=moment(row.exposed_us),
        settled_at=None if voided else moment(row.settled_us),
        due_at=moment(row.due_us) if row.state == "assigned" and not voided else None,
    )


def status_of(
    name: str, row: ProgressRow, answers: dict[str, int], disabled: Sequence[int]
) -> Status:
    """Return the status of an experiment; `disabled` are cells."""
    definition = json.loads(row.definition)  # `Experiment` would check it again
    arms: list[str] = []
    if disabled:
        experiment = Experiment.from_dict(definition)
        arms = [experiment.arm_names[arm] for arm in arms_of(experiment, disabled)]
    fields = {field: value for field, value in row._asdict().items() if field in Status._fields}
    fields |= {
        "planned": definition["replications"],
        "prefix": row.opened if row.first_open is None else row.first_open,
        "horizon": definition["horizon"],
        "users": row.settled - row.imported + row.waiting,
        "settled": row.settled - row.imported,
        "stop_after": stop_after_of(row.options),
        "disabled": tuple(arms),
    }
    return Status(name=name, answers=answers, **fields)


def read_status(
    transaction: Transaction, id: int, name: str, unwritten: Mapping[str, int]
) -> Status:
    """Read the status of an experiment in constant time; `unwritten` are counts not in the database yet."""
    key = {"experiment": id}
    answers = Counter(dict(transaction.fetch_all(AnswerRow, "answers", **key))) + Counter(unwritten)
    disabled = [cell for (cell,) in transaction.fetch_all(NumberRow, "disabled_arms", **key)]
    row = transaction.fetch_one(ProgressRow, "progress", **key)
    return status_of(name, row, dict(sorted(answers.items())), disabled)


def read_statuses(transaction: Transaction) -> list[Status]:
    """Read the statuses of all experiments, the oldest first, with a fixed number of statements."""
    names = transaction.fetch_all(NameRow, "experiments")
    answers: dict[int, dict[str, int]] = {id: {} for id, _ in names}
    disabled: dict[int, list[int]] = {id: [] for id, _ in names}
    for id, reason, calls in transaction.fetch_all(ExperimentAnswerRow, "all_answers"):
        answers[id][reason] = calls
    for id, cell in transaction.fetch_all(DisabledRow, "all_disabled_arms"):
        disabled[id].append(cell)
    rows = transaction.find_many(ProgressRow, "progress", [{"experiment": id} for id, _ in names])
    return [
        status_of(name, row, answers[id], disabled[id])
        for (id, name), row in zip(names, rows, strict=True)
        if row is not None
    ]


def read_experiments_of(transaction: Transaction, ids: Sequence[str]) -> list[str | None]:
    """Read the names of the experiments of assignments; None for an unknown id."""
    values = [{"assignment": id if is_id(id) else ""} for id in ids]
    rows = transaction.find_many(TextRow, "experiment_of", values)
    return [row and row.text for row in rows]


def read_replications(transaction: Transaction, id: int) -> list[ReplicationStatus]:
    """Read the progress of every replication of an experiment, in order."""
    rows = transaction.fetch_all(ReplicationProgress, "replication_progress", experiment=id)
    return [
        ReplicationStatus(*row[:5], str(moment(row.opened_us)), moment(row.completed_us))
        for row in rows
    ]
