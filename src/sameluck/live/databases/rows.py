"""The rows that statements return: one class per list of columns, its fields named as the columns are.

Times end in `_us` and are microseconds since 1970.
"""

from __future__ import annotations

from typing import NamedTuple, TypedDict

from sameluck.errors import Invalid
from sameluck.randomness import streams

ACTIVE = ("running", "draining")  # statuses in which units are enrolled
ENDED = ("stopped", "complete")  # statuses in which no unit ever will be, unless a policy is added


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
    """A row of one text."""

    text: str


class NumberRow(NamedTuple):
    """A row of one whole number."""

    number: int


class ValueRow(NamedTuple):
    """A row of one reward."""

    value: float


class DefinitionRow(NamedTuple):
    """The policies of an experiment and what identifies their code."""

    definition: str  # JSON of the `Experiment`
    fingerprints: str  # JSON: see `definitions.PolicyRecord`
    revision: int  # it grows with every change of the two


class ExperimentRow(NamedTuple):
    """An experiment."""

    id: int
    name: str
    definition: str
    options: str
    status: str
    reason: str
    salt: str
    streams: int
    started_us: int
    fallback: int | None  # in place of a fallback arm that was disabled
    fingerprints: str
    policy_revision: int

    @property
    def policies(self) -> DefinitionRow:
        """The definition."""
        return DefinitionRow(self.definition, self.fingerprints, self.policy_revision)

    def check_streams(self) -> None:
        """Raise `Invalid` if the random numbers of this version of sameluck are not those it was started with."""
        if self.streams != streams.VERSION:
            raise Invalid(
                f"experiment {self.name!r} uses stream version {self.streams}, this sameluck has {streams.VERSION}; "
                "use the sameluck version it was started with"
            )


class CurrentRow(NamedTuple):
    """The fields of an experiment that may change."""

    definition: str
    status: str
    reason: str
    options: str  # of these only `options.STOP_AFTER` may change
    fallback: int | None
    sticky: int  # 0: units that return get the fallback arm
    fingerprints: str
    policy_revision: int

    @property
    def policies(self) -> DefinitionRow:
        """The definition."""
        return DefinitionRow(self.definition, self.fingerprints, self.policy_revision)


class ReplicationRow(NamedTuple):
    """A replication."""

    number: int
    state: str
    version: int
    behind: int  # of its settled entries, those after which the policies were not run
    taken_back: int  # how often default rewards were taken back


class LockedReplication(NamedTuple):
    """A replication, its row locked."""

    replication: int
    version: int
    taken_back: int
    policy_revision: int
    behind: int
    digest: int
    digested: int


class DigestRow(NamedTuple):
    """The digest of a replication."""

    number: int
    version: int
    digest: int
    digested: int  # the version that it is of

    @property
    def is_known(self) -> bool:
        """Whether the digest is that of the present version."""
        return self.version == self.digested


class EditedRow(NamedTuple):
    """A reward in the ledger that is not that of the audit log."""

    replication: int
    arm: int
    position: int
    value: float
    reported: float
    assignment: str


class ApiKeyRow(NamedTuple):
    """A token of the service."""

    id: str
    secret_sha256: str
    scopes: str
    created_us: int
    revoked_us: int | None


class EntryRow(NamedTuple):
    """An entry of the ledger."""

    replication: int
    stack_owner: int
    arm: int
    position: int


class SettledRow(NamedTuple):
    """A settled entry of one replication."""

    stack_owner: int
    arm: int
    position: int
    value: float


class RewardRow(NamedTuple):
    """A reward that was reported for an entry."""

    replication: int
    stack_owner: int
    arm: int
    position: int
    value: float


class PrunedRow(NamedTuple):
    """What was pruned of a replication's part of the audit log."""

    number: int
    pruned: int  # applied rewards
    pruned_digest: int


class DefaultRow(NamedTuple):
    """A default reward, and the reward that came after its window if there is one."""

    replication: int
    stack_owner: int
    arm: int
    position: int
    value: float
    settled: int
    assignment: str
    due_us: int  # the end of the extended window
    event: int | None  # in the audit log
    late: float | None


class TouchedRow(NamedTuple):
    """An entry that is outstanding."""

    stack_owner: int
    arm: int
    position: int
    wanted: bool
    touched: bool  # it has had an assignment


class LedgerRow(NamedTuple):
    """A settled entry."""

    replication: int
    stack_owner: int
    arm: int
    position: int
    value: float
    imported: bool
    released: bool  # no policy need read it


class EnrolmentRow(NamedTuple):
    """An experiment's status, and the assignment of a unit if it has one."""

    status: str
    fallback: int | None
    sticky: int
    id: str | None
    arm: int | None
    told: int | None  # 1 if it was told again when it returned
    disabled: bool  # the arm
    behind: bool  # some replication
    away_until_us: int | None  # turned away until then; None if the unit has not arrived before


class LockedAssignment(NamedTuple):
    """An assignment with its entry and its replication, their rows locked."""

    id: str
    experiment: int
    replication: int
    stack_owner: int
    arm: int
    position: int
    exposed_us: int | None
    assignment: str | None  # the one that the entry has now
    state: str
    due_us: int | None
    value: float | None
    source: str | None
    told: int  # 1 if its unit was told it when it returned
    version: int
    taken_back: int
    policy_revision: int  # of the experiment's policies
    behind: int
    digest: int  # of the replication's settled entries
    digested: int

    @property
    def voided(self) -> bool:
        """Whether the entry has another assignment now, or none."""
        return self.assignment != self.id

    def is_due(self, now: int) -> bool:
        """Whether its lease or its window has ended and the entry is still assigned."""
        due = self.due_us is not None and self.due_us <= now
        return due and self.state == "assigned" and not self.voided

    def key(self) -> dict[str, int]:
        """The primary key of its entry."""
        return {
            "experiment": self.experiment,
            "replication": self.replication,
            "stack_owner": self.stack_owner,
            "arm": self.arm,
            "position": self.position,
        }


class AssignmentRow(NamedTuple):
    """An assignment with its entry."""

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
    """An entry with its assignment, if it has one; or a voided assignment."""

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
    """A reward that was reported."""

    assignment: str
    replication: int
    arm: int
    position: int
    value: float
    outcome: str
    received_us: int


class ProgressRow(NamedTuple):
    """An experiment with its counts."""

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
    held: int  # of the wanted entries, those of disabled arms


# Rows of reports: progress, diagnostics, history


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
