"""What a live replication wants to know next: pure, no clock, no database.

The state of a replication is a function of the experiment and of the entries known so far, in whatever order they
came. Every policy reads what is known as far as it carries (reading costs nobody anything); who may ask for a new
user is decided by the order: in lock-step the policies that are furthest behind, in phase order the first that has
not finished. Two policies that wait for the same entry share one user.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sameluck.arrays import Floats, Ints
from sameluck.errors import Diverged
from sameluck.live.engine.scheduler import AUDITED, SHARED, Entry, Scheduler
from sameluck.live.engine.walker import Place, Walker, WalkResults, empty_results

Fetch: TypeAlias = Callable[
    [int, int, int, int], Sequence[float] | Floats
]  # owner, arm, first, stop


class Settled(NamedTuple):
    """The settled entries of one replication, ordered by owner, arm and position."""

    owner: Ints
    arm: Ints
    position: Ints
    value: Floats
    imported: NDArray[np.bool_] | None = None  # which came from a log; None if none did


class Replication:
    """Where the policies of one replication state, and which entries have been asked for."""

    def __init__(self, scheduler: Scheduler, number: int, *, begins: bool = True) -> None:
        self.scheduler = scheduler
        self.number = number
        self.version = 0
        ready = range(len(scheduler.prepared)) if begins else ()
        self.walkers: list[Walker] = [scheduler.walker(k, number) for k in ready]
        arms = scheduler.experiment.n_arms
        self.known: dict[int, list[int]] = {owner: [0] * arms for owner in scheduler.owners}
        self.beyond: dict[Entry, float] = {}  # known, but not yet the next of their stack
        self.asked: set[Entry] = set()
        self.waiting: list[set[Place]] = [set() for _ in scheduler.prepared]
        self.reaches = [0] * len(scheduler.prepared)  # periods that each policy has been paid for
        self.audited = np.zeros(arms, np.int64)  # replayed entries looked at for the audit
        self.audits: set[Entry] = set()  # settled before this state was rebuilt
        # How much of each shared stack came from a log: known whether or not a policy reads it.
        self.imported = np.zeros(arms, np.int64)

    @property
    def policies(self) -> int:
        """How many policies play it."""
        return len(self.scheduler.prepared)

    @property
    def complete(self) -> bool:
        """Whether every policy has reached the horizon."""
        return min(self.reaches) == self.scheduler.experiment.horizon

    def begin(self) -> list[Entry]:
        """Let every policy choose its first arms; the entries to ask for."""
        for k in range(self.policies):
            self.walk(k, _nothing_to_fetch)
        return self.ask()

    def settle(self, entry: Entry, value: float, fetch: Fetch) -> list[Entry]:
        """Take note of a reward; the entries to ask for now. `fetch` reads what was settled before."""
        self.asked.discard(entry)
        self.version += 1
        if entry.owner == AUDITED:
            return []
        self._reveal(entry, value)
        place = entry[1:]
        for k in self.scheduler.readers[entry.owner]:
            waiting = self.waiting[k]
            if place in waiting:
                waiting.discard(place)
                if not waiting:
                    self.walk(k, fetch)
        return self.ask()

    def _reveal(self, entry: Entry, value: float) -> None:
        owner, arm, position = entry
        known = self.known[owner]
        if position != known[arm]:
            self.beyond[entry] = value
            return
        values = [value]
        while self.beyond and (later := Entry(owner, arm, position + len(values))) in self.beyond:
            values.append(self.beyond.pop(later))
        known[arm] += len(values)
        for k in self.scheduler.readers[owner]:
            self.walkers[k].offer(arm, position, values)

    def walk(self, k: int, fetch: Fetch) -> None:
        """Let one policy read on as far as what is known carries."""
        walker, owner = self.walkers[k], self.scheduler.owners[k]
        known = self.known[owner]
        while True:
            walker.advance()
            picks = walker.picks()
            short = [
                a for a, position in picks if position < known[a] and walker.limit(a) <= position
            ]
            if not short:
                break
            for arm in set(short):
                first = walker.limit(arm)
                stop = min(first + walker.room(arm), known[arm])
                walker.hand(arm, fetch(owner, arm, first, stop))
        self.reaches[k] = walker.reach
        self.waiting[k] = {
            place
            for place in picks
            if place[1] >= known[place[0]] and (owner, *place) not in self.beyond
        }

    def wants(self, policies: Iterable[int]) -> set[Entry]:
        """The unknown entries that some policies wait for."""
        owners = self.scheduler.owners
        return {Entry(owners[k], *place) for k in policies for place in self.waiting[k]}

    def ask(self) -> list[Entry]:
        """The entries to ask for now; from then on they count as asked for."""
        wanted = self.wants(self.scheduler.may_ask(self.reaches))
        if self.scheduler.audit_share:
            wanted.update(self._new_audits())
        wanted -= self.asked
        self.asked |= wanted
        return sorted(wanted) if len(wanted) > 1 else list(wanted)

    def _replayed(self) -> Ints:
        # An entry has been replayed once a second policy has read it; one from a log, once a first has.
        pulls = np.sort(np.stack([walker.pulls for walker in self.walkers]), axis=0)
        from_log = np.minimum(pulls[-1], self.imported)
        return from_log if self.policies < 2 else np.maximum(pulls[-2], from_log)

    def _new_audits(self) -> set[Entry]:
        replayed = self._replayed()
        found: set[Entry] = set()
        for arm in np.flatnonzero(replayed > self.audited).tolist():
            positions = range(int(self.audited[arm]), int(replayed[arm]))
            found.update(self.scheduler.audits(self.number, arm, positions))
        self.audited = replayed
        return found - self.audits

    def all_audits(self) -> set[Entry]:
        """Every entry that has been replayed and drawn for the audit so far."""
        if not self.scheduler.audit_share:
            return set()
        return {
            entry
            for arm, count in enumerate(self._replayed().tolist())
            for entry in self.scheduler.audits(self.number, arm, range(count))
        }

    def ends(self, owner: int) -> Ints:
        """For each arm of an owner's stacks: the first position that no policy has read or waits for."""
        ends = np.zeros(self.scheduler.experiment.n_arms, np.int64)
        for k in self.scheduler.readers[owner]:
            np.maximum(ends, self.walkers[k].pulls, out=ends)
            for arm, position in self.walkers[k].picks():
                ends[arm] = max(ends[arm], position + 1)
        return ends


def _nothing_to_fetch(*_: int) -> Sequence[float]:
    raise AssertionError("nothing is known before the first reward")


def rebuilt(
    scheduler: Scheduler,
    number: int,
    settled: Settled,
    outstanding: Iterable[Entry],
    results: Sequence[WalkResults] | None = None,
) -> Replication:
    """A replication from its ledger; `results`, one for each policy, are written on the way."""
    replication = Replication(scheduler, number, begins=False)
    replication.version = settled.value.size
    replication.asked = set(outstanding)
    results = results or [empty_results(scheduler.experiment) for _ in scheduler.prepared]
    stacks = _stacks(replication, settled)
    for k, owner in enumerate(scheduler.owners):
        known = np.array(replication.known[owner])
        walker = scheduler.walker(k, number, known, results[k])
        for arm in np.flatnonzero(known).tolist():
            walker.hand(arm, stacks[owner, arm])
        walker.advance()
        walker.shrink_buffers()
        replication.walkers.append(walker)
        replication.walk(k, lambda own, arm, first, stop: stacks[own, arm][first:stop])
    return replication


def _stacks(replication: Replication, settled: Settled) -> dict[tuple[int, int], Floats]:
    """The known beginning of every stack; what lies beyond a gap is noted as such."""
    arms = replication.scheduler.experiment.n_arms
    codes = settled.owner * arms + settled.arm
    starts = np.flatnonzero(np.diff(codes, prepend=codes[:1] - 1))
    stacks: dict[tuple[int, int], Floats] = {}
    for start, stop in pairwise([*starts.tolist(), codes.size]):
        owner, arm = int(settled.owner[start]), int(settled.arm[start])
        positions, values = settled.position[start:stop], settled.value[start:stop]
        if owner == AUDITED:
            replication.audits.update(Entry(AUDITED, arm, place) for place in positions.tolist())
            continue
        if owner not in replication.known or not 0 <= arm < arms:
            raise _diverged(replication, Entry(owner, arm, 0), "belongs to nobody who plays")
        if owner == SHARED and settled.imported is not None:
            replication.imported[arm] = np.count_nonzero(settled.imported[start:stop])
        gaps = np.flatnonzero(positions != np.arange(positions.size))
        whole = int(gaps[0]) if gaps.size else positions.size
        stacks[owner, arm] = values[:whole]
        replication.known[owner][arm] = whole
        for place, value in zip(positions[whole:].tolist(), values[whole:].tolist(), strict=True):
            replication.beyond[Entry(owner, arm, place)] = value
    return stacks


def check(replication: Replication) -> None:
    """Refuse a replication whose ledger is not what its policies make of it (`Diverged`)."""
    outstanding = set(replication.asked)
    possible = replication.wants(range(replication.policies)) | replication.all_audits()
    for entry in sorted(outstanding - possible):
        raise _diverged(replication, entry, "was asked for, but no policy needs it")
    for owner, known in replication.known.items():
        read = replication.ends(owner)
        if owner == SHARED:
            read = np.maximum(read, replication.imported)
        for arm in np.flatnonzero(np.array(known) > read).tolist():
            entry = Entry(owner, arm, int(read[arm]))
            raise _diverged(replication, entry, "was settled, but no policy reads it")
    for entry in replication.beyond:
        if entry.position >= replication.ends(entry.owner)[entry.arm]:
            raise _diverged(replication, entry, "was settled, but no policy reads it")
    for entry in replication.ask():
        raise _diverged(replication, entry, "is needed next, but nobody was asked for it")


def _diverged(replication: Replication, entry: Entry, what: str) -> Diverged:
    names = replication.scheduler.experiment.arm_names
    arm = names[entry.arm] if 0 <= entry.arm < len(names) else str(entry.arm)
    return Diverged(
        f"replication {replication.number}: position {entry.position} of arm {arm!r} {what}. The ledger is not what "
        "these policies would have done: was the database edited, a policy's code changed, or does a policy toss "
        "coins of its own? Restore a backup, or the code it was started with"
    )
