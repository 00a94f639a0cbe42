"""State of one replication: which entries its policies need next. No clock, no database.

The state is a function of the experiment and of the settled entries, in whatever order they were settled. Every
policy reads settled entries until it needs one that is not settled; reading needs no user. Which policies may request
new users is decided by the order (`LiveOptions.order`). Two policies that need the same entry share one user.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from sameluck.arrays import Floats, Ints
from sameluck.errors import Diverged
from sameluck.live.engine.digest import MODULUS, entry_digest
from sameluck.live.engine.object_walker import ObjectWalker
from sameluck.live.engine.protocol import AUDITED, SHARED, Differences, Entry, Fetch, SettledEntries
from sameluck.live.engine.walker import ArmPosition, CompiledWalker, WalkResults, empty_results

if TYPE_CHECKING:
    from sameluck.live.engine.scheduler import Scheduler

Walker: TypeAlias = CompiledWalker | ObjectWalker  # one policy in one replication


class Replication:
    """The policies' states in one replication, and the entries that are outstanding."""

    def __init__(self, engine: Scheduler, number: int, walkers: list[Walker] | None = None) -> None:
        self.engine = engine
        self.number = number
        self.version = 0  # entries settled
        self.digest = 0  # of these
        self.taken_back = 0  # how often default rewards were taken back
        if walkers is None:
            walkers = [engine.walker(k, number) for k in range(len(engine.prepared))]
        self.walkers = walkers
        arms = engine.experiment.n_arms
        # Per stack_owner and arm: the length of the stack's settled beginning, without a gap.
        self.known: dict[int, list[int]] = {
            stack_owner: [0] * arms for stack_owner in engine.stack_owners
        }
        self.after_gap: dict[Entry, float] = {}  # settled, but not an entry before them
        self.outstanding: set[Entry] = set()  # wanted or assigned
        self.needed: list[set[ArmPosition]] = [set() for _ in engine.prepared]
        self.policies = len(engine.prepared)
        self.periods_done = [0] * self.policies
        self.complete = False  # every policy has reached the horizon
        self.audit_drawn = np.zeros(arms, np.int64)  # replayed entries whose audit was decided
        self.settled_audits: set[Entry] = set()
        # How much of each shared stack comes from a log: known whether or not a policy reads it.
        self.imported = np.zeros(arms, np.int64)
        self.released: set[Entry] = set()  # settled, but no policy need read them

    def start(self) -> list[Entry]:
        """Let every policy choose its first arms; returns the entries to want."""
        for k in range(self.policies):
            self.advance(k, _nothing_to_fetch)
        return self.want()

    def settle(self, entry: Entry, value: float, fetch: Fetch) -> list[Entry]:
        """Record a reward; returns the entries to want now. `fetch` reads entries settled before."""
        self.outstanding.discard(entry)
        self.version += 1
        self.digest = (self.digest + entry_digest(*entry, value)) % MODULUS
        if entry.stack_owner == AUDITED:
            self.settled_audits.add(entry)
            return []
        if entry.stack_owner not in self.known:  # of a policy that is not run here
            return []
        self._extend_stack(entry, value)
        arm_position = entry[1:]
        for k in self.engine.readers[entry.stack_owner]:
            needed = self.needed[k]
            if arm_position in needed:
                needed.discard(arm_position)
                if not needed:
                    self.advance(k, fetch)
        return self.want()

    def _extend_stack(self, entry: Entry, value: float) -> None:
        stack_owner, arm, position = entry
        known = self.known[stack_owner]
        if position != known[arm]:
            self.after_gap[entry] = value
            return
        values = [value]
        while self.after_gap:
            following = Entry(stack_owner, arm, position + len(values))
            if following not in self.after_gap:
                break
            values.append(self.after_gap.pop(following))
        known[arm] += len(values)
        for k in self.engine.readers[stack_owner]:
            self.walkers[k].push_if_next(arm, position, values)

    def advance(self, k: int, fetch: Fetch) -> None:
        """Let one policy read until it needs an entry that is not settled."""
        walker, stack_owner = self.walkers[k], self.engine.stack_owners[k]
        known = self.known[stack_owner]
        while True:
            walker.advance()
            entries, self.periods_done[k] = walker.next_entries(), walker.periods_done
            short = {
                arm
                for arm, position in entries
                if position < known[arm] and walker.buffer_end(arm) <= position
            }
            if not short:
                break
            for arm in short:
                first = walker.buffer_end(arm)
                stop = min(first + walker.buffer_room(arm), known[arm])
                walker.push(arm, fetch(stack_owner, arm, first, stop))
        self.complete = min(self.periods_done) == self.engine.experiment.horizon
        self.needed[k] = {
            entry
            for entry in entries
            if entry[1] >= known[entry[0]] and (stack_owner, *entry) not in self.after_gap
        }

    def needed_by(self, policies: Iterable[int]) -> set[Entry]:
        """The entries, not settled, that some policies need next."""
        stack_owners = self.engine.stack_owners
        return {Entry(stack_owners[k], *entry) for k in policies for entry in self.needed[k]}

    def want(self) -> list[Entry]:
        """The entries to want now; from then on they are outstanding."""
        wanted = self.needed_by(self._eligible())
        if self.engine.audit_share:
            before, self.audit_drawn = self.audit_drawn, self._replayed()
            wanted |= self._audits(before, self.audit_drawn) - self.settled_audits
        wanted -= self.outstanding
        self.outstanding |= wanted
        return sorted(wanted) if len(wanted) > 1 else list(wanted)

    def _eligible(self) -> list[int]:
        """Return the policies that may request users.

        In lock-step these have done the fewest periods; in phase order it is the first unfinished policy.
        """
        horizon = self.engine.experiment.horizon
        unfinished = [k for k, periods in enumerate(self.periods_done) if periods < horizon]
        if self.engine.order == "phase":
            return unfinished[:1]
        fewest = min(self.periods_done)
        return [k for k in unfinished if self.periods_done[k] == fewest]

    def want_afresh(self) -> list[Entry]:
        """As `want`, and all audits that are neither settled nor outstanding, as when a state is rebuilt."""
        self.audit_drawn = np.zeros_like(self.audit_drawn)
        return self.want()

    def _replayed(self) -> Ints:
        # An entry is replayed once a second policy has read it; one from a log, once a first has.
        pulls = np.sort(np.stack([walker.pulls for walker in self.walkers]), axis=0)
        from_log = np.minimum(pulls[-1], self.imported)
        return from_log if self.policies < 2 else np.maximum(pulls[-2], from_log)

    def _audits(self, first: Ints, stop: Ints) -> set[Entry]:
        entries: set[Entry] = set()
        for arm in np.flatnonzero(stop > first).tolist():
            positions = range(int(first[arm]), int(stop[arm]))
            entries.update(self.engine.audit_entries(self.number, arm, positions))
        return entries

    def all_audits(self) -> set[Entry]:
        """Every replayed entry that was drawn for the audit."""
        if not self.engine.audit_share:
            return set()
        return self._audits(np.zeros_like(self.audit_drawn), self._replayed())

    def read_ends(self, stack_owner: int) -> Ints:
        """Per arm of an stack_owner's stacks: the first position that no policy has read or needs."""
        ends = np.zeros(self.engine.experiment.n_arms, np.int64)
        for k in self.engine.readers[stack_owner]:
            np.maximum(ends, self.walkers[k].pulls, out=ends)
            for arm, position in self.walkers[k].next_entries():
                ends[arm] = max(ends[arm], position + 1)
        return ends

    def check(self, *, behind: bool = False) -> list[Entry]:
        """Raise `Diverged` if the ledger differs from what the policies derive from it.

        A replication that is `behind` may lack entries that are needed next; they are returned.
        """
        self.check_requested()
        missing = self.want()
        for entry in [] if behind else missing:
            raise _diverged(self, entry, "is needed next, but is not outstanding")
        return missing

    def check_requested(self) -> None:
        """Raise `Diverged` if a settled or outstanding entry was not requested by the policies."""
        for entry in _unneeded(self):
            raise _diverged(self, entry, "is outstanding, but no policy needs it")
        for entry in _unread(self):
            raise _diverged(self, entry, "is settled, but no policy reads it")

    def adopt(self, requested: set[Entry], *, behind: bool = False) -> list[Entry]:
        """Take over the entries that other processes have requested; raise `Diverged` if no policy needs one.

        Which entries are requested first depends on the order of the rewards, so `requested` may hold entries that a
        policy needs later. The replay audit does not depend on that order. A replication that is `behind` may lack
        entries that are needed next; they are returned.
        """
        audits = {entry for entry in self.outstanding if entry.stack_owner == AUDITED} - requested
        needed = self.needed_by(range(self.policies))
        self.outstanding = requested
        for entry in sorted(requested - needed):
            if entry.stack_owner != AUDITED:
                raise _diverged(self, entry, "was requested, but no policy needs it")
        missing = sorted(audits.union(self.want()))
        self.outstanding |= audits
        for entry in [] if behind else missing:
            raise _diverged(self, entry, "is needed next, but was not requested")
        return missing

    def differences(self) -> Differences:
        """Compare the ledger with the policies' requests; missing entries are outstanding from then on."""
        return Differences(_unneeded(self), list(_unread(self)), self.want())


def _nothing_to_fetch(*_: int) -> Sequence[float]:
    raise AssertionError("nothing is settled before the first reward")


def rebuild(
    engine: Scheduler,
    number: int,
    settled: SettledEntries,
    outstanding: Iterable[Entry],
    results: Sequence[WalkResults] | None = None,
) -> Replication:
    """A replication from its ledger; fills `results`, one per policy."""
    replication = Replication(engine, number, walkers=[])
    replication.version, replication.digest = settled.value.size, settled.digest()
    replication.outstanding = set(outstanding)
    results = results or [empty_results(engine.experiment) for _ in engine.prepared]
    stacks = _load_stacks(replication, settled)
    for k, stack_owner in enumerate(engine.stack_owners):
        known = np.array(replication.known[stack_owner])
        walker = engine.walker(k, number, known, results[k])
        for arm in np.flatnonzero(known).tolist():
            walker.push(arm, stacks[stack_owner, arm])
        walker.advance()
        walker.shrink_buffers()
        replication.walkers.append(walker)
        replication.advance(k, lambda own, arm, first, stop: stacks[own, arm][first:stop])
    return replication


def _load_stacks(
    replication: Replication, settled: SettledEntries
) -> dict[tuple[int, int], Floats]:
    """The settled beginning of every stack; entries after a gap go to `after_gap`."""
    arms = replication.engine.experiment.n_arms
    codes = settled.stack_owner * arms + settled.arm
    starts = np.flatnonzero(np.diff(codes, prepend=codes[:1] - 1))
    stacks: dict[tuple[int, int], Floats] = {}
    for start, stop in pairwise([*starts.tolist(), codes.size]):
        stack_owner, arm = int(settled.stack_owner[start]), int(settled.arm[start])
        positions, values = settled.position[start:stop], settled.value[start:stop]
        if stack_owner == AUDITED:
            audits = (Entry(AUDITED, arm, position) for position in positions.tolist())
            replication.settled_audits.update(audits)
            continue
        if stack_owner in replication.engine.unread_stack_owners:
            continue
        if stack_owner not in replication.known or not 0 <= arm < arms:
            raise Diverged(
                f"replication {replication.number}: the ledger has stack owner {stack_owner} and arm {arm}, which "
                "this experiment does not have. The database was edited; restore a backup"
            )
        if settled.released is not None:
            spare = positions[settled.released[start:stop]].tolist()
            replication.released.update(Entry(stack_owner, arm, position) for position in spare)
        if stack_owner == SHARED and settled.imported is not None:
            replication.imported[arm] = np.count_nonzero(settled.imported[start:stop])
        gaps = np.flatnonzero(positions != np.arange(positions.size))
        whole = int(gaps[0]) if gaps.size else positions.size
        stacks[stack_owner, arm] = values[:whole]
        replication.known[stack_owner][arm] = whole
        for position, value in zip(
            positions[whole:].tolist(), values[whole:].tolist(), strict=True
        ):
            replication.after_gap[Entry(stack_owner, arm, position)] = value
    return stacks


def _unneeded(replication: Replication) -> list[Entry]:
    """Outstanding entries that no policy needs."""
    possible = replication.needed_by(range(replication.policies)) | replication.all_audits()
    return sorted(replication.outstanding - possible)


def _unread(replication: Replication) -> Iterator[Entry]:
    """Settled entries that no policy reads, but for those of a log and those that were released."""
    for stack_owner, known in replication.known.items():
        read = replication.read_ends(stack_owner)
        if stack_owner == SHARED:
            read = np.maximum(read, replication.imported)
        within = (
            Entry(stack_owner, arm, position)
            for arm in np.flatnonzero(np.array(known) > read).tolist()
            for position in range(int(read[arm]), known[arm])
        )
        after = (
            entry
            for entry in sorted(replication.after_gap)
            if entry.stack_owner == stack_owner and entry.position >= read[entry.arm]
        )
        yield from (one for one in chain(within, after) if one not in replication.released)


def _diverged(replication: Replication, entry: Entry, what: str) -> Diverged:
    names = replication.engine.experiment.arm_names
    arm = names[entry.arm] if 0 <= entry.arm < len(names) else str(entry.arm)
    return Diverged(
        f"replication {replication.number}: position {entry.position} of arm {arm!r} {what}. The ledger is not what "
        "these policies would have done: was the database edited, was a policy's code changed, or does a policy use "
        "randomness of its own? Use the code it was started with, restore a backup, or see live.repair()"
    )
