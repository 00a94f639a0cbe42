"""The rows of statements that reports read: of progress, of diagnostics, of the history.

As in `rows`, fields are named as the columns are, and times end in `_us`.
"""

from __future__ import annotations

from typing import NamedTuple


class ReplicationTimes(NamedTuple):
    """When a replication was opened and completed."""

    number: int
    opened_us: int
    completed_us: int | None


class ReplicationProgress(NamedTuple):
    """The counters of a replication."""

    number: int
    state: str
    version: int
    defaulted: int
    voided: int
    opened_us: int
    completed_us: int | None


class OutcomeRow(NamedTuple):
    """An assignment and how it ended."""

    arm: int
    assigned_us: int
    shown_us: int  # when exposed, or when assigned if not exposed
    exposed: bool
    outcome: int  # a `snapshot.End`, or -1 if it is open
    overdue: bool
    value: float
    settled_us: int


class ChangeRow(NamedTuple):
    """A line of the history."""

    at_us: int
    name: str
    what: str
    subject: str
    actor: str
    reason: str


class NameRow(NamedTuple):
    """An experiment's id and name."""

    id: int
    name: str


class ExperimentAnswerRow(NamedTuple):
    """How many calls of an experiment were answered with a reason."""

    experiment: int
    reason: str
    calls: int


class DisabledRow(NamedTuple):
    """A disabled arm of an experiment."""

    experiment: int
    arm: int


class ArrivalRow(NamedTuple):
    """Units that arrived at least so often, and not twice as often; and how many of them are enrolled."""

    least: int  # visits
    arrived: int
    enrolled: int


class WaitingRow(NamedTuple):
    """What a replication waits for."""

    rewards: int
    users: int
    held: int  # of these, for a disabled arm
    due_us: int | None  # when the last reward is due


class EntryCount(NamedTuple):
    """How many entries have a state and a source."""

    state: str
    source: str | None
    total: int


class ArmCount(NamedTuple):
    """A count of one arm."""

    arm: int
    total: int


class VoidCount(NamedTuple):
    """How often an entry's assignments were voided."""

    replication: int
    arm: int
    position: int
    times: int


class AnswerRow(NamedTuple):
    """How many calls were answered with a reason."""

    reason: str
    calls: int


class AuditRow(NamedTuple):
    """The reward of an audit minus that of the entry it audits; None until both are settled."""

    replication: int
    difference: float | None
