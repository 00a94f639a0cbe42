"""Protocol between a stored experiment and the engine that runs its policies.

An engine has no clock and no database. It derives from settled entries which entries the policies need next, in
whatever order the entries were settled. `OpenReplications` and `Ledger` know an engine by this protocol alone. What
needs reward stacks asks for a `StackEngine` (`stack_engine`); `Scheduler` is its implementation.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

from sameluck.arrays import Bools, Floats, Ints
from sameluck.errors import Invalid
from sameluck.experiment import Experiment
from sameluck.live.engine.digest import entries_digest
from sameluck.live.engine.walker import PreparedPolicy, Walker, WalkResults

SHARED = 0  # the stack owner of stacks that all policies read; the k-th policy's own stacks have stack owner k
AUDITED = -1  # the stack owner of entries of the replay audit

# Settled rewards of a stack, from one position to before another: (stack_owner, cell, first, stop)
Fetch: TypeAlias = Callable[[int, int, int, int], Sequence[float] | Floats]


class Entry(NamedTuple):
    """Address of a reward in the ledger of a replication."""

    stack_owner: int
    cell: int
    position: int

    def columns(self) -> dict[str, int]:
        """Return the address by the columns of the database, whose `arm` holds the cell."""
        return {"stack_owner": self.stack_owner, "arm": self.cell, "position": self.position}


class SettledEntries(NamedTuple):
    """Settled entries of one replication, ordered by stack owner, cell and position."""

    stack_owner: Ints
    cell: Ints
    position: Ints
    value: Floats
    imported: Bools | None = None  # entries that come from a log; None if none do
    released: Bools | None = None  # entries that no policy has to read; None if there are none

    def digest(self) -> int:
        return entries_digest(self.stack_owner, self.cell, self.position, self.value)


class Dealt(NamedTuple):
    """User who is dealt to a replication, before it is known whether a policy needs the user."""

    number: int  # of the users dealt to the replication, from 0
    context: tuple[float, ...] = ()


class Offer(NamedTuple):
    """What a replication has for a user who was dealt to it."""

    entry: Entry | None  # the user's; None if no policy needs the user
    wanted: tuple[Entry, ...] = ()  # entries to want now besides


class Differences(NamedTuple):
    """Entries in which a ledger differs from the policies' requests."""

    unneeded: list[Entry]  # outstanding, but no policy needs them
    unread: list[Entry]  # settled, but no policy reads them
    missing: list[Entry]  # needed next, but not outstanding

    def __bool__(self) -> bool:
        return any(self)

    @property
    def surplus(self) -> list[Entry]:
        """Entries that no policy needs."""
        return [*self.unneeded, *self.unread]


class ReplicationState(Protocol):
    """State of one replication, derived from its settled entries."""

    number: int
    version: int  # the number of settled entries
    digest: int  # of the settled entries
    taken_back: int  # how often default rewards were taken back
    outstanding: set[Entry]  # wanted or assigned
    policies: int  # the number of policies
    periods_done: list[int]  # by policy
    complete: bool  # every policy has reached the horizon

    @property
    def engine(self) -> Engine:
        """The engine that derived this state."""

    def settle(self, entry: Entry, value: float, fetch: Fetch) -> list[Entry]:
        """Record a reward and return the entries to want now; `fetch` reads entries settled before."""

    def void(self, entry: Entry) -> list[Entry]:
        """Return the entries that are wanted again after an assignment was voided: its entry, or none."""

    def want(self) -> list[Entry]:
        """Return the entries to want now; they are outstanding from then on."""

    def needed_by(self, policies: Iterable[int]) -> set[Entry]:
        """Return the unsettled entries that these policies need next."""

    def check(self, *, behind: bool = False) -> list[Entry]:
        """Raise `Diverged` if the ledger differs from what the policies derive from it.

        A replication that is `behind` may lack entries that are needed next; they are returned.
        """

    def check_requested(self) -> None:
        """Raise `Diverged` if a settled or outstanding entry was not requested by the policies."""

    def adopt(self, requested: set[Entry], *, behind: bool = False) -> list[Entry]:
        """Take over the entries that other processes have requested; raise `Diverged` if no policy needs one.

        A replication that is `behind` may lack entries that are needed next; they are returned.
        """

    def differences(self) -> Differences:
        """Compare the ledger with the policies' requests; missing entries are outstanding from then on."""


class StackState(ReplicationState, Protocol):
    """State of one replication whose entries are positions in reward stacks."""

    walkers: list[Walker]  # one per policy

    def want_afresh(self) -> list[Entry]:
        """Return the entries to want now and the audits that are neither settled nor outstanding."""

    def all_audits(self) -> set[Entry]:
        """Return every replayed entry that was drawn for the audit."""


class DealingState(ReplicationState, Protocol):
    """State of one replication to which arriving users are dealt."""

    def deal(self, user: Dealt) -> Offer:
        """Take a user and say which entry the user's reward settles; the entry is outstanding from then on."""


class Engine(Protocol):
    """Prepared policies of an experiment."""

    experiment: Experiment
    arm_names: tuple[str, ...]
    policies: list[PreparedPolicy]
    admits_challengers: bool  # policies may be added after the start
    deals: bool  # its states are `DealingState`s; otherwise arriving users get wanted entries

    # Static: a process that cannot prepare the policies answers users and operators too.
    @staticmethod
    def arm_of(experiment: Experiment, cell: int) -> int:
        """Return the arm that users of a cell's entries see."""

    @staticmethod
    def cells_of(experiment: Experiment, arm: int) -> Sequence[int]:
        """Return the cells whose users see an arm."""

    def users(self, results: Sequence[WalkResults]) -> Ints:
        """Return the real users of a replication up to each checkpoint, from results of policies."""

    def start(self, number: int) -> tuple[ReplicationState, list[Entry]]:
        """Return a new replication and the entries that its policies need first."""

    def rebuild(
        self,
        number: int,
        settled: SettledEntries,
        outstanding: Iterable[Entry],
        results: Sequence[WalkResults] | None = None,
    ) -> ReplicationState:
        """Derive a replication from its ledger; fill `results`, one per policy."""


@runtime_checkable
class StackEngine(Engine, Protocol):
    """Engine whose policies read reward stacks."""

    stack_owners: list[int]  # of the stacks that each policy reads
    unread_stack_owners: Collection[int]  # of policies that were removed, or are not run here
    audit_share: float  # of replayed entries, for which the replay audit requests one more user

    def start(self, number: int) -> tuple[StackState, list[Entry]]: ...

    def rebuild(
        self,
        number: int,
        settled: SettledEntries,
        outstanding: Iterable[Entry],
        results: Sequence[WalkResults] | None = None,
    ) -> StackState: ...


def stack_engine(engine: Engine, function: str) -> StackEngine:
    """Return an engine that has reward stacks; raise `Invalid` for any other."""
    if isinstance(engine, StackEngine):
        return engine
    raise Invalid(
        f"{function} needs an experiment with reward stacks, got design {engine.experiment.design.label}; start "
        "another experiment with Replay() or Naive()"
    )
