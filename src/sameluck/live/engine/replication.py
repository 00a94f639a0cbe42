"""Reward stacks, an implementation of `StackEngine`: a `Scheduler` and the state of each `Replication`.

The state of a replication is a function of the experiment and of the settled entries, in whatever order they were
settled. Every policy reads settled entries until it needs an unsettled one; reading needs no user.
`LiveOptions.order` decides which policies may request users. Two policies that need the same entry share one user.

Rewards form stacks, one per stack owner and cell, and an entry is a position in a stack. Without contexts the cell of
an entry is its arm. Entries may be settled out of order, so a stack has a settled beginning (`depths`) and entries
after a gap.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise

import numpy as np

from sameluck.arrays import Floats, Ints
from sameluck.errors import Diverged
from sameluck.experiment import Experiment
from sameluck.live.engine.digest import MODULUS, entry_digest
from sameluck.live.engine.protocol import AUDITED, SHARED, Differences, Entry, Fetch, SettledEntries
from sameluck.live.engine.walker import (
    CellPosition,
    PreparedPolicy,
    Walker,
    WalkResults,
    new_walker,
)
from sameluck.live.options import LiveOptions
from sameluck.policies.base import as_compiled, memory_of, prepare
from sameluck.policies.batched import batch_of
from sameluck.policies.external import External, Makers, maker_of
from sameluck.randomness.samplers import uniform
from sameluck.randomness.streams import ALL_POLICIES, AUDIT, stream, subkey, word


class Scheduler:
    """Prepared policies of an experiment, and the order in which they may request users."""

    admits_challengers = True
    deals = False

    def __init__(
        self,
        experiment: Experiment,
        options: LiveOptions | None = None,
        makers: Makers | None = None,
        stack_owners: Mapping[str, int] | None = None,
        unread_stack_owners: Collection[int] = (),
    ) -> None:
        """Prepare the policies; `stack_owners` numbers the policies' own stacks, by default 1, 2, ..."""
        self.experiment = experiment
        options = options or LiveOptions()
        self.order = options.order
        self.arm_names = experiment.arm_names
        self.policies = [_prepare(experiment, name, makers or {}) for name in experiment.policies]
        separate = not experiment.design.shares_rewards
        numbers = stack_owners or {name: k for k, name in enumerate(experiment.policies, start=1)}
        self.stack_owners = [numbers[name] if separate else SHARED for name in experiment.policies]
        self.unread_stack_owners = unread_stack_owners
        self.readers: dict[int, list[int]] = {}  # policies that read the stacks of a stack owner
        for k, stack_owner in enumerate(self.stack_owners):
            self.readers.setdefault(stack_owner, []).append(k)
        self.audit_share = 0.0 if separate else options.audit_share

    @staticmethod
    def arm_of(experiment: Experiment, cell: int) -> int:  # noqa: ARG004 the protocol's signature
        return cell

    @staticmethod
    def cells_of(experiment: Experiment, arm: int) -> Sequence[int]:  # noqa: ARG004 likewise
        return [arm]

    def users(self, results: Sequence[WalkResults]) -> Ints:
        pulls = np.stack([result.pulls for result in results])
        return self.experiment.design.interactions(pulls[None])[0]

    def start(self, number: int) -> tuple[Replication, list[Entry]]:
        walkers = [new_walker(prepared, number) for prepared in self.policies]
        replication = Replication(self, number, walkers)
        for k in range(len(walkers)):
            replication.advance(k, lambda *_: [])  # nothing is settled yet
        return replication, replication.want()

    def rebuild(
        self,
        number: int,
        settled: SettledEntries,
        outstanding: Iterable[Entry],
        results: Sequence[WalkResults] | None = None,
    ) -> Replication:
        replication = Replication(self, number, [])
        replication.version, replication.digest = settled.value.size, settled.digest()
        replication.outstanding = set(outstanding)
        stacks = _load_stacks(replication, settled)
        rewards: dict[int, Floats] = {}  # of all stacks of a stack owner, one after the other
        for k, stack_owner in enumerate(self.stack_owners):
            depths = np.array(replication.depths[stack_owner])
            if stack_owner not in rewards:
                cells = np.flatnonzero(depths).tolist()
                parts = [stacks[stack_owner, cell] for cell in cells]
                rewards[stack_owner] = np.concatenate([np.empty(0), *parts])
            walker = new_walker(self.policies[k], number, results[k] if results else None, depths)
            walker.push_stacks(depths, rewards[stack_owner])
            # Once over the whole ledger; then the usual small buffers, and what is left of the stacks for them.
            walker.advance()
            walker.shrink_buffers()
            replication.walkers.append(walker)
            replication.advance(k, lambda owner, cell, first, stop: stacks[owner, cell][first:stop])
        return replication

    def audit_entries(
        self, replication: int, cell: int, positions: Iterable[int]
    ) -> Iterator[Entry]:
        """Yield the audits of replayed entries: one more user each, whose reward is only compared."""
        key = subkey(stream(self.experiment.seed, AUDIT, replication, ALL_POLICIES), cell)
        for position in positions:
            if uniform(word(key, position)) < self.audit_share:
                yield Entry(AUDITED, cell, position)


def _prepare(experiment: Experiment, name: str, makers: Makers) -> PreparedPolicy:
    policy, arms, horizon = experiment.policies[name], experiment.n_arms, experiment.horizon
    if isinstance(policy, External):
        batch = min(policy.batch, horizon)
        return PreparedPolicy(experiment, name, policy, 0, batch, maker_of(name, policy, makers))
    prepared, batch = prepare(policy, arms, horizon), min(batch_of(policy), horizon)
    memory = memory_of(prepared, arms)
    return PreparedPolicy(experiment, name, as_compiled(prepared), memory, batch)


class Replication:
    """States of the policies in one replication, and the outstanding entries: a `StackState`."""

    def __init__(self, engine: Scheduler, number: int, walkers: list[Walker]) -> None:
        self.engine = engine
        self.number = number
        self.version = 0  # number of settled entries
        self.digest = 0  # of the settled entries
        self.taken_back = 0  # how often default rewards were taken back
        self.walkers = walkers  # one per policy
        cells = engine.experiment.n_arms
        # Length of each stack's settled beginning without a gap, by stack owner and cell.
        self.depths: dict[int, list[int]] = {
            stack_owner: [0] * cells for stack_owner in engine.stack_owners
        }
        self.after_gap: dict[Entry, float] = {}  # settled, although an entry before them is not
        self.outstanding: set[Entry] = set()  # wanted or assigned
        self.needed: list[set[CellPosition]] = [set() for _ in engine.policies]
        self.policies = len(engine.policies)
        self.periods_done = [0] * self.policies
        self.complete = False  # every policy has reached the horizon
        self.audit_drawn = np.zeros(cells, np.int64)  # replayed entries of which audits were drawn
        self.settled_audits: set[Entry] = set()
        # Entries of each shared stack that come from a log, by cell; no policy has to read them.
        self.imported = np.zeros(cells, np.int64)
        self.released: set[Entry] = set()  # settled, but no policy has to read them

    def settle(self, entry: Entry, value: float, fetch: Fetch) -> list[Entry]:
        self.outstanding.discard(entry)
        self.version += 1
        self.digest = (self.digest + entry_digest(*entry, value)) % MODULUS
        if entry.stack_owner == AUDITED:
            self.settled_audits.add(entry)
            return []
        if entry.stack_owner not in self.depths:  # the policy is not run here
            return []
        self._extend_stack(entry, value)
        cell_position = entry[1:]
        for k in self.engine.readers[entry.stack_owner]:
            needed = self.needed[k]
            if cell_position in needed:
                needed.discard(cell_position)
                if not needed:
                    self.advance(k, fetch)
        return self.want()

    def void(self, entry: Entry) -> list[Entry]:
        return [entry]

    def _extend_stack(self, entry: Entry, value: float) -> None:
        """Add a reward to its stack, with the entries after a gap that it closes."""
        stack_owner, cell, position = entry
        depths = self.depths[stack_owner]
        if position != depths[cell]:
            self.after_gap[entry] = value
            return
        values = [value]
        while self.after_gap:
            following = Entry(stack_owner, cell, position + len(values))
            if following not in self.after_gap:
                break
            values.append(self.after_gap.pop(following))
        depths[cell] += len(values)
        for k in self.engine.readers[stack_owner]:
            self.walkers[k].push_if_next(cell, position, values)

    def advance(self, k: int, fetch: Fetch) -> None:
        """Let the k-th policy read until it needs an entry that is not settled."""
        walker, stack_owner = self.walkers[k], self.engine.stack_owners[k]
        depths = self.depths[stack_owner]
        while True:
            walker.advance()
            entries, self.periods_done[k] = walker.next_entries(), walker.periods_done
            # Cells whose next reward is settled, but not in the policy's buffer.
            missing = {
                cell
                for cell, position in entries
                if position < depths[cell] and walker.buffer_end(cell) <= position
            }
            if not missing:
                break
            for cell in missing:
                first = walker.buffer_end(cell)
                stop = min(first + walker.buffer_room(cell), depths[cell])
                walker.push(cell, fetch(stack_owner, cell, first, stop))
        self.complete = min(self.periods_done) == self.engine.experiment.horizon
        self.needed[k] = {
            (cell, position)
            for cell, position in entries
            if position >= depths[cell] and (stack_owner, cell, position) not in self.after_gap
        }

    def needed_by(self, policies: Iterable[int]) -> set[Entry]:
        stack_owners = self.engine.stack_owners
        return {Entry(stack_owners[k], *entry) for k in policies for entry in self.needed[k]}

    def want(self) -> list[Entry]:
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
        self.audit_drawn = np.zeros_like(self.audit_drawn)
        return self.want()

    def _replayed(self) -> Ints:
        # An entry is replayed when a second policy reads it, an imported entry when a first policy does.
        reads = np.sort(np.stack([walker.reads for walker in self.walkers]), axis=0)
        from_log = np.minimum(reads[-1], self.imported)
        return from_log if self.policies < 2 else np.maximum(reads[-2], from_log)

    def _audits(self, first: Ints, stop: Ints) -> set[Entry]:
        entries: set[Entry] = set()
        for cell in np.flatnonzero(stop > first).tolist():
            positions = range(int(first[cell]), int(stop[cell]))
            entries.update(self.engine.audit_entries(self.number, cell, positions))
        return entries

    def all_audits(self) -> set[Entry]:
        if not self.engine.audit_share:
            return set()
        return self._audits(np.zeros_like(self.audit_drawn), self._replayed())

    def read_ends(self, stack_owner: int) -> Ints:
        """Return the first position of each stack that no policy has read or needs, by cell."""
        ends = np.zeros(self.engine.experiment.n_arms, np.int64)
        for k in self.engine.readers[stack_owner]:
            np.maximum(ends, self.walkers[k].reads, out=ends)
            for cell, position in self.walkers[k].next_entries():
                ends[cell] = max(ends[cell], position + 1)
        return ends

    def check(self, *, behind: bool = False) -> list[Entry]:
        self.check_requested()
        missing = self.want()
        for entry in [] if behind else missing:
            raise _diverged(self, entry, "is needed next, but is not outstanding")
        return missing

    def check_requested(self) -> None:
        for entry in _unneeded(self):
            raise _diverged(self, entry, "is outstanding, but no policy needs it")
        for entry in _unread(self):
            raise _diverged(self, entry, "is settled, but no policy reads it")

    def adopt(self, requested: set[Entry], *, behind: bool = False) -> list[Entry]:
        # Which entries are requested first depends on the order of the rewards, so `requested` may hold entries that
        # a policy needs later. The replay audit does not depend on that order.
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
        return Differences(_unneeded(self), list(_unread(self)), self.want())


def _load_stacks(
    replication: Replication, settled: SettledEntries
) -> dict[tuple[int, int], Floats]:
    """Return the settled beginning of every stack, by stack owner and cell; fill `depths` and `after_gap`."""
    cells = replication.engine.experiment.n_arms
    stack_numbers = settled.stack_owner * cells + settled.cell
    starts = np.flatnonzero(np.diff(stack_numbers, prepend=stack_numbers[:1] - 1))
    stacks: dict[tuple[int, int], Floats] = {}
    for start, stop in pairwise([*starts.tolist(), stack_numbers.size]):
        stack_owner, cell = int(settled.stack_owner[start]), int(settled.cell[start])
        positions, values = settled.position[start:stop], settled.value[start:stop]
        if stack_owner == AUDITED:
            audits = (Entry(AUDITED, cell, position) for position in positions.tolist())
            replication.settled_audits.update(audits)
            continue
        if stack_owner in replication.engine.unread_stack_owners:
            continue
        if stack_owner not in replication.depths or not 0 <= cell < cells:
            raise Diverged(
                f"replication {replication.number}: the ledger has stack owner {stack_owner} and arm {cell}, which "
                "this experiment does not have. The database was edited; restore a backup"
            )
        if settled.released is not None:
            released = positions[settled.released[start:stop]].tolist()
            replication.released.update(Entry(stack_owner, cell, position) for position in released)
        if stack_owner == SHARED and settled.imported is not None:
            replication.imported[cell] = np.count_nonzero(settled.imported[start:stop])
        gaps = np.flatnonzero(positions != np.arange(positions.size))
        depth = int(gaps[0]) if gaps.size else positions.size
        stacks[stack_owner, cell] = values[:depth]
        replication.depths[stack_owner][cell] = depth
        after_gap = zip(positions[depth:].tolist(), values[depth:].tolist(), strict=True)
        for position, value in after_gap:
            replication.after_gap[Entry(stack_owner, cell, position)] = value
    return stacks


def _unneeded(replication: Replication) -> list[Entry]:
    """Return the outstanding entries that no policy needs."""
    possible = replication.needed_by(range(replication.policies)) | replication.all_audits()
    return sorted(replication.outstanding - possible)


def _unread(replication: Replication) -> Iterator[Entry]:
    """Yield the settled entries that no policy reads, except imported and released entries."""
    for stack_owner, depths in replication.depths.items():
        read = replication.read_ends(stack_owner)
        if stack_owner == SHARED:
            read = np.maximum(read, replication.imported)
        before_gap = (
            Entry(stack_owner, cell, position)
            for cell in np.flatnonzero(np.array(depths) > read).tolist()
            for position in range(int(read[cell]), depths[cell])
        )
        after_gap = (
            entry
            for entry in sorted(replication.after_gap)
            if entry.stack_owner == stack_owner and entry.position >= read[entry.cell]
        )
        unread = chain(before_gap, after_gap)
        yield from (entry for entry in unread if entry not in replication.released)


def _diverged(replication: Replication, entry: Entry, difference: str) -> Diverged:
    experiment = replication.engine.experiment
    index, names = replication.engine.arm_of(experiment, entry.cell), experiment.arm_names
    arm = names[index] if 0 <= index < len(names) else str(index)
    return Diverged(
        f"replication {replication.number}: position {entry.position} of arm {arm!r} {difference}. The ledger "
        "is not what these policies would have requested: was the database edited, was a policy's code changed, or "
        "does a policy use randomness of its own? Use the experiment's original code, restore a backup, or see "
        "live.repair()"
    )
