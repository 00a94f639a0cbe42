"""Rows that statements return: a class per list of columns, with the columns' names and order.

Times end in `_us` and are microseconds since 1970. `ListParameters` declares the parameters of statements for lists.
"""

from __future__ import annotations

from typing import NamedTuple, TypedDict

from sameluck.errors import Invalid
from sameluck.randomness import streams

ACTIVE = ("running", "draining")  # statuses in which units are enrolled
ENDED = ("stopped", "complete")  # final statuses, unless a policy is added


class ListParameters(TypedDict):
    """Parameters of the statements that PostgreSQL runs for lists; their SQL types are derived from these types."""

    experiment: int
    replication: int
    stack_owner: int
    arm: int
    position: int
    assignment: str
    unit: str
    state: str
    value: float
    source: str
    outcome: str
    settled: int
    version: int
    before: int  # version of the replication that the process has read
    policies: int
    complete: bool
    defaulted: int
    digest: int
    visits: int
    now: int
    until: int
    number: int  # replication, or advisory lock


class TextRow(NamedTuple):
    text: str


class StateRow(NamedTuple):
    name: str
    status: str
    reason: str


class NumberRow(NamedTuple):
    number: int


class ValueRow(NamedTuple):
    value: float


class DefinitionRow(NamedTuple):
    """Policies of an experiment and the identity of their code."""

    definition: str  # JSON of the `Experiment`
    fingerprints: str  # JSON: see `definitions.PolicyRecord`
    revision: int  # grows with every change of definition or fingerprints


class ExperimentRow(NamedTuple):
    id: int
    name: str
    definition: str
    options: str  # only `options.STOP_AFTER` may change
    status: str
    reason: str
    salt: str  # key of the unit hashes; empty once it was destroyed
    streams: int
    started_us: int
    fallback: int | None  # replaces a fallback arm that was disabled
    sticky: int  # 0: returning units get the fallback arm
    resumes_as: str  # status after a pause or a failure
    fingerprints: str
    policy_revision: int

    @property
    def policies(self) -> DefinitionRow:
        return DefinitionRow(self.definition, self.fingerprints, self.policy_revision)

    def check_streams(self) -> None:
        """Raise `Invalid` if the experiment was started with another version of the random streams."""
        if self.streams != streams.VERSION:
            raise Invalid(
                f"experiment {self.name!r} uses stream version {self.streams}, this sameluck has {streams.VERSION}; "
                "use the sameluck version it was started with"
            )


class ReplicationRow(NamedTuple):
    number: int
    state: str
    version: int
    behind: int  # settled entries after which the policies were not run
    taken_back: int  # how often default rewards were taken back


class LockedReplication(NamedTuple):
    replication: int
    version: int
    taken_back: int
    policy_revision: int
    behind: int
    digest: int
    digested: int


class DigestRow(NamedTuple):
    number: int
    version: int
    digest: int
    digested: int  # version of the digest

    @property
    def is_known(self) -> bool:
        """True if the digest belongs to the present version."""
        return self.version == self.digested


class ReplicationMark(NamedTuple):
    """State of a replication: while its mark is the same, so are its settled entries and ended assignments."""

    number: int
    state: str
    version: int
    digest: int
    digested: int
    taken_back: int
    behind: int
    policy_revision: int
    voided: int  # assignments
    pruned: int  # rewards that left the audit log
    pruned_digest: int

    @property
    def known_digest(self) -> int | None:
        """Digest of the settled entries; None if it does not belong to the present version."""
        return self.digest if self.version == self.digested else None


class EditedRow(NamedTuple):
    """A reward of the ledger that differs from the audit log."""

    replication: int
    arm: int
    position: int
    value: float
    reported: float
    assignment: str


class ApiKeyRow(NamedTuple):
    id: str
    secret_sha256: str
    scopes: str
    created_us: int
    revoked_us: int | None


class EntryRow(NamedTuple):
    replication: int
    stack_owner: int
    arm: int
    position: int


class SettledRow(NamedTuple):
    stack_owner: int
    arm: int
    position: int
    value: float


class LoggedRow(NamedTuple):
    """A reward of the ledger, and the reward in the audit log; None if the audit log does not have it."""

    replication: int
    stack_owner: int
    arm: int
    position: int
    value: float
    reported: float | None
    assignment: str


class RewardRow(NamedTuple):
    replication: int
    stack_owner: int
    arm: int
    position: int
    value: float


class DefaultRow(NamedTuple):
    """A default reward, and the late reward of the same assignment, if any."""

    replication: int
    stack_owner: int
    arm: int
    position: int
    value: float
    settled: int
    assignment: str
    due_us: int  # end of the extended window
    event: int | None  # in the audit log
    late: float | None


class TouchedRow(NamedTuple):
    stack_owner: int
    arm: int
    position: int
    wanted: bool
    touched: bool  # has had an assignment


class LedgerRow(NamedTuple):
    replication: int
    stack_owner: int
    arm: int
    position: int
    value: float
    imported: bool
    released: bool  # no policy has to read it


class EnrolmentRow(NamedTuple):
    """Status of an experiment, and a unit's assignment, if any."""

    status: str
    fallback: int | None
    sticky: int
    id: str | None
    arm: int | None
    told: int | None  # 1 if delivered again to a returning unit
    disabled: bool  # arm
    behind: bool  # any replication
    # End of the unit's exclusion; None if the unit has not arrived before.
    away_until_us: int | None


class LockedAssignment(NamedTuple):
    """An assignment with its entry and its replication; their rows are locked."""

    id: str
    experiment: int
    replication: int
    stack_owner: int
    arm: int
    position: int
    exposed_us: int | None
    assignment: str | None  # present assignment of the entry
    state: str
    due_us: int | None
    value: float | None
    source: str | None
    told: int  # 1 if delivered again to a returning unit
    version: int
    taken_back: int
    policy_revision: int  # of the experiment's policies
    behind: int
    digest: int  # settled entries of the replication
    digested: int

    @property
    def voided(self) -> bool:
        """True if the entry has another assignment now, or none."""
        return self.assignment != self.id

    def is_due(self, now: int) -> bool:
        """Return True if the lease or the window has ended and the entry is still assigned."""
        due = self.due_us is not None and self.due_us <= now
        return due and self.state == "assigned" and not self.voided

    def key(self) -> dict[str, int]:
        return {
            "experiment": self.experiment,
            "replication": self.replication,
            "stack_owner": self.stack_owner,
            "arm": self.arm,
            "position": self.position,
        }


class AssignmentRow(NamedTuple):
    experiment: int
    replication: int
    stack_owner: int
    arm: int
    position: int
    assigned_us: int
    exposed_us: int | None
    voided_us: int | None
    state: str
    value: float | None
    source: str | None
    settled_us: int | None
    due_us: int | None


class HistoryRow(NamedTuple):
    """An entry with its assignment, if any, or a voided assignment."""

    replication: int
    stack_owner: int
    arm: int
    position: int
    state: str
    value: float | None
    source: str | None
    settled_us: int | None
    id: str | None
    unit: str | None
    assigned_us: int | None
    exposed_us: int | None
    voided_us: int | None


class EventRow(NamedTuple):
    assignment: str
    replication: int
    arm: int
    position: int
    value: float
    outcome: str
    received_us: int


class ProgressRow(NamedTuple):
    definition: str
    status: str
    reason: str
    options: str
    opened: int
    complete: int
    first_open: int | None  # replication
    settled: int
    imported: int
    defaulted: int
    voided: int
    behind: int  # replications
    wanted: int
    waiting: int
    held: int  # wanted entries of disabled arms


# Rows of reports: progress, diagnostics, history


class ReplicationProgress(NamedTuple):
    number: int
    state: str
    version: int
    defaulted: int
    voided: int
    opened_us: int
    completed_us: int | None


class OutcomeRow(NamedTuple):
    replication: int
    arm: int
    position: int
    assigned_us: int
    shown_us: int  # exposed_us, or assigned_us if not exposed
    exposed: bool
    outcome: int  # a `snapshot.End`, or -1 if open
    overdue: bool
    value: float
    settled_us: int


class ChangeRow(NamedTuple):
    at_us: int
    name: str
    what: str
    subject: str
    actor: str
    reason: str


class NameRow(NamedTuple):
    id: int
    name: str


class ExperimentAnswerRow(NamedTuple):
    experiment: int
    reason: str
    calls: int


class DisabledRow(NamedTuple):
    experiment: int
    arm: int


class ArrivalRow(NamedTuple):
    """Number of units with `least` to less than twice as many visits, and how many of them are enrolled."""

    least: int  # visits
    arrived: int
    enrolled: int


class WaitingRow(NamedTuple):
    """Rewards and users that a replication waits for."""

    rewards: int
    users: int
    held: int  # users, for a disabled arm
    due_us: int | None  # of the last reward


class EntryCount(NamedTuple):
    state: str
    total: int


class NumberCount(NamedTuple):
    number: int
    total: int


class LateRow(NamedTuple):
    """A reward that came after its window."""

    event: int
    assignment: str
    arm: int


class VoidCount(NamedTuple):
    replication: int
    arm: int
    position: int
    times: int


class AnswerRow(NamedTuple):
    reason: str
    calls: int


class AuditRow(NamedTuple):
    """Reward of an audit minus the audited reward; None until both are settled."""

    replication: int
    difference: float | None
