"""A policy in one replication: the loop of `simulate`, with rewards from a ledger.

A policy chooses a batch of arms (one arm, unless it is batched), stops until the entries of the batch are settled,
observes their rewards and continues. Its choices depend only on the rewards that it reads, not on when they were
settled or for which policy they were requested. The same loop runs a replication live, one reward at a time, and from
its ledger, all rewards at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from sameluck.arrays import Floats, Ints
from sameluck.compilation.decorators import compiled
from sameluck.compilation.function_errors import locate_error
from sameluck.errors import Unplayable
from sameluck.experiment import Experiment
from sameluck.live.options import Maker
from sameluck.policies.base import Policy, select, select_function_of
from sameluck.policies.external import ObjectPair, object_seed
from sameluck.policies.observations import (
    Observations,
    cell_of,
    empty_observations,
    no_context,
    observe,
    tally_of,
)
from sameluck.randomness.streams import DECISION, Key, stream
from sameluck.trajectories import Trajectory, empty_trajectory

CellPosition: TypeAlias = tuple[int, int]  # a cell and a position in its stack, both from 0

MIN_BUFFER, OBJECT_BUFFER = 8, 64  # rewards per cell

# Indices of PolicyState.counters and PolicyState.sums
PERIODS, CHOSEN, LAST_ARM, CHECKPOINTS = 0, 1, 2, 3
LAST_REWARD, TOTAL_REWARD = 0, 1


class PolicyState(NamedTuple):
    """State of one policy in one replication."""

    observations: Observations
    batch: Ints  # chosen arms whose rewards are not yet observed
    cells: Ints  # cell of each arm in the batch
    pending: Ints  # how often each cell is in the batch
    counters: Ints  # periods observed, arms in the batch, last arm, checkpoints passed
    sums: Floats  # last reward, sum of all rewards


class RewardBuffers(NamedTuple):
    """Rewards that a policy can read next: for each cell a ring buffer of the positions before `end`."""

    values: Floats
    offset: Ints
    size: Ints
    end: Ints


class WalkResults(NamedTuple):
    """Output of the loop: totals at checkpoints, and every period; either may be empty."""

    checkpoints: Ints
    rewards: Floats  # (checkpoint,)
    pulls: Ints  # (checkpoint, arm)
    trajectory: Trajectory


@compiled
def _walk(  # noqa: C901 one loop, kept whole for the compiler
    policy: Policy,
    noise: Key,
    horizon: int,
    state: PolicyState,
    buffers: RewardBuffers,
    results: WalkResults,
) -> int:
    # Returns 0, or the period in which the policy chose an arm that does not exist.
    observations = state.observations
    arms = observations.pulls.size
    periods, chosen = state.counters[PERIODS], state.counters[CHOSEN]
    last = state.counters[LAST_ARM]
    reward, earned = state.sums[LAST_REWARD], state.sums[TOTAL_REWARD]
    failed = 0
    while periods < horizon and failed == 0:
        size = min(state.batch.size, horizon - periods)
        while chosen < size:
            tally = tally_of(observations, last, reward, no_context())
            arm = select(policy, tally, periods + chosen + 1, noise)
            if arm < 0 or arm >= arms:
                failed = periods + chosen + 1
                break
            state.batch[chosen] = arm
            state.cells[chosen] = cell_of(arm)
            state.pending[cell_of(arm)] += 1
            chosen += 1
        # Observe the batch only when every reward of it is there: a policy must not see a part of its batch.
        complete = failed == 0
        for index in range(chosen):
            cell = state.cells[index]
            if observations.reads[cell] + state.pending[cell] > buffers.end[cell]:
                complete = False
                break
        if not complete:
            break
        for index in range(size):
            last = state.batch[index]
            cell = state.cells[index]
            position = observations.reads[cell]
            reward = buffers.values[buffers.offset[cell] + position % buffers.size[cell]]
            observe(observations, cell, last, reward)
            state.pending[cell] -= 1
            earned += reward
            if results.trajectory.arms.size > 0:
                results.trajectory.arms[periods] = last
                results.trajectory.positions[periods] = position
                results.trajectory.rewards[periods] = reward
            periods += 1
            passed = state.counters[CHECKPOINTS]
            if passed < results.checkpoints.size and periods == results.checkpoints[passed]:
                results.rewards[passed] = earned
                for arm in range(arms):
                    results.pulls[passed, arm] = observations.pulls[arm]
                state.counters[CHECKPOINTS] = passed + 1
        chosen = 0
    state.counters[PERIODS], state.counters[CHOSEN] = periods, chosen
    state.counters[LAST_ARM] = last
    state.sums[LAST_REWARD], state.sums[TOTAL_REWARD] = reward, earned
    return failed


@compiled
def _decision_key(seed: np.uint64, replication: int, stream_owner: np.uint64) -> Key:
    return stream(seed, DECISION, replication, stream_owner)


class PreparedPolicy(NamedTuple):
    """A policy of an experiment, prepared once for all replications."""

    experiment: Experiment
    name: str
    policy: Policy  # for the compiled loop
    memory: int
    batch: int
    make: Maker | None = None  # makes the object of an external policy


def empty_results(
    experiment: Experiment, checkpoints: Ints | None = None, *, trajectory: bool = False
) -> WalkResults:
    """Return arrays for the checkpoints, and for every period if requested."""
    horizons = np.empty(0, np.int64) if checkpoints is None else checkpoints
    shape = (horizons.size, experiment.n_arms)
    periods = experiment.horizon if trajectory else 0
    return WalkResults(
        horizons, np.zeros(horizons.size), np.zeros(shape, np.int64), empty_trajectory(periods)
    )


class CompiledWalker:
    """A policy with a compiled select function in one replication.

    With `stack_sizes`, the number of entries per cell, the buffers hold a whole ledger.
    """

    def __init__(
        self,
        prepared: PreparedPolicy,
        replication: int,
        stack_sizes: Ints | None,
        results: WalkResults,
    ) -> None:
        experiment = prepared.experiment
        arms = experiment.n_arms
        self.prepared = prepared
        self.results = results
        stream_owner = experiment.design.noise_owner(prepared.name)
        key = _decision_key(np.uint64(experiment.seed), replication, np.uint64(stream_owner))
        self.noise = Key(*map(np.uint64, key))  # machine code returns plain integers
        self.state = PolicyState(
            observations=empty_observations(arms, prepared.memory),
            batch=np.zeros(prepared.batch, np.int64),
            cells=np.zeros(prepared.batch, np.int64),
            pending=np.zeros(arms, np.int64),
            counters=np.zeros(4, np.int64),
            sums=np.zeros(2),
        )
        self.buffers = _empty_buffers(arms, prepared.batch, stack_sizes)
        self._walk = _walk.prepared_for(prepared.policy)
        # Common size of all rings, 0 if they differ.
        self._ring = 0 if stack_sizes is not None else int(self.buffers.size[0])

    @property
    def periods_done(self) -> int:
        """Number of periods whose rewards the policy has observed."""
        return int(self.state.counters[PERIODS])

    @property
    def reads(self) -> Ints:
        """Number of rewards read from the stack of each cell."""
        return self.state.observations.reads

    def buffer_end(self, cell: int) -> int:
        """Return the position in a cell's stack of the next reward to push."""
        return int(self.buffers.end[cell])

    def buffer_room(self, cell: int) -> int:
        """Return how many rewards of a cell can be pushed before the policy advances."""
        buffers = self.buffers
        return int(buffers.size[cell] - (buffers.end[cell] - self.reads[cell]))

    def push(self, cell: int, values: Sequence[float] | Floats) -> None:
        buffers = self.buffers
        first, stop = int(buffers.end[cell]), int(buffers.end[cell]) + len(values)
        # A ring, so that nothing is moved when rewards are read; `buffer_room` keeps it from overwriting unread ones.
        ring = np.arange(first, stop) % buffers.size[cell]
        buffers.values[buffers.offset[cell] + ring] = values
        buffers.end[cell] = stop

    def push_stacks(self, depths: Ints, values: Floats) -> None:
        """Push the beginnings of all stacks, one after the other in `values`; the buffers hold a whole ledger."""
        buffers = self.buffers
        # At once: with 1,000 arms and 20 policies, a call for each stack took most of a look's time.
        shifts = buffers.offset - (np.cumsum(depths) - depths)
        buffers.values[np.repeat(shifts, depths) + np.arange(values.size)] = values
        buffers.end[:] = depths

    def push_if_next(self, cell: int, position: int, values: Sequence[float]) -> None:
        """Append newly settled rewards if they are next in the stack, as far as there is room."""
        if self.buffers.end[cell] != position:
            return  # the policy gets them from the ledger (`Fetch`) when it has read so far
        if len(values) == 1 and self._ring:  # the usual case, without array operations
            if position - self.reads[cell] < self._ring:
                self.buffers.values[cell * self._ring + position % self._ring] = values[0]
                self.buffers.end[cell] = position + 1
        elif room := self.buffer_room(cell):
            self.push(cell, values[:room])

    def advance(self) -> None:
        """Run the policy to the horizon, or until it needs a reward that is not in its buffers."""
        prepared = self.prepared
        horizon = prepared.experiment.horizon
        try:
            failed = self._walk(
                prepared.policy, self.noise, horizon, self.state, self.buffers, self.results
            )
        except Exception as error:
            where, why = locate_error(select_function_of(prepared.policy), error)
            message = f"policy {prepared.name!r} cannot be run: {why} ({where})"
            raise Unplayable(message) from error
        if failed:
            raise Unplayable(
                f"policy {prepared.name!r} chose an arm outside 0..{self.reads.size - 1} in period {failed}; its "
                "select function must return an arm's index"
            )

    def shrink_buffers(self) -> None:
        """Drop the unread rewards, which must be pushed again, and with them the size of a whole ledger."""
        buffers = _empty_buffers(self.reads.size, self.prepared.batch, None)
        buffers.end[:] = self.reads
        self.buffers, self._ring = buffers, int(buffers.size[0])

    def next_entries(self) -> list[CellPosition]:
        """Return the entries that the policy needs next, settled or not; none at the horizon."""
        chosen = int(self.state.counters[CHOSEN])
        if chosen == 1:
            cell = int(self.state.cells[0])
            return [(cell, int(self.reads[cell]))]
        return entries_of(self.state.cells[:chosen].tolist(), self.reads)


class ObjectWalker:
    """A policy that is a Python object in one replication, with the methods of `CompiledWalker`.

    Two objects are made with the same seed and given the same rewards (`ObjectPair`); they must choose the same arms.
    This detects a policy that uses randomness other than its seed at once, not only after a restart.
    """

    def __init__(self, prepared: PreparedPolicy, replication: int, results: WalkResults) -> None:
        experiment = prepared.experiment
        self.prepared = prepared
        self.results = results
        self.pulls: Ints = np.zeros(experiment.n_arms, np.int64)
        self.reads: Ints = np.zeros(experiment.n_arms, np.int64)  # by cell
        self.total_reward = 0.0
        self.periods_done = 0
        self._buffers: dict[int, deque[float]] = {}
        self._end = np.zeros(experiment.n_arms, np.int64)
        self._batch: list[int] = []
        self._checkpoints_passed = 0
        stream_owner = experiment.design.noise_owner(prepared.name)
        seed = object_seed(experiment.seed, replication, stream_owner)
        assert prepared.make is not None
        self._pair = ObjectPair(prepared.name, prepared.make, experiment.n_arms, seed)

    def buffer_end(self, cell: int) -> int:
        return int(self._end[cell])

    def buffer_room(self, cell: int) -> int:
        return max(OBJECT_BUFFER, self.prepared.batch) - len(self._buffers.get(cell, ()))

    def push(self, cell: int, values: Sequence[float] | Floats) -> None:
        self._buffers.setdefault(cell, deque()).extend(map(float, values))
        self._end[cell] += len(values)

    def push_stacks(self, depths: Ints, values: Floats) -> None:
        for cell, stack in enumerate(np.split(values, np.cumsum(depths)[:-1])):
            self.push(cell, stack)

    def push_if_next(self, cell: int, position: int, values: Sequence[float]) -> None:
        if self._end[cell] == position and (room := self.buffer_room(cell)):
            self.push(cell, values[:room])

    def shrink_buffers(self) -> None:
        self._buffers.clear()
        self._end[:] = self.reads

    def advance(self) -> None:
        horizon = self.prepared.experiment.horizon
        while self.periods_done < horizon:
            size = min(self.prepared.batch, horizon - self.periods_done)
            while len(self._batch) < size:
                self._batch.append(self._pair.choose(self.periods_done + len(self._batch) + 1))
            counts = np.bincount(self._cells(), minlength=self.reads.size)
            if (self.reads + counts > self._end).any():
                return
            batch, self._batch = self._batch, []
            for arm in batch:
                cell = cell_of(arm)
                self._observe(cell, arm, self._buffers[cell].popleft())

    def _cells(self) -> list[int]:
        return [cell_of(arm) for arm in self._batch]

    def _observe(self, cell: int, arm: int, reward: float) -> None:
        self._pair.observe(arm, reward)
        trajectory = self.results.trajectory
        if trajectory.arms.size:
            trajectory.arms[self.periods_done] = arm
            trajectory.positions[self.periods_done] = self.reads[cell]
            trajectory.rewards[self.periods_done] = reward
        self.reads[cell] += 1
        self.pulls[arm] += 1
        self.total_reward += reward
        self.periods_done += 1
        results, passed = self.results, self._checkpoints_passed
        if passed < results.checkpoints.size and self.periods_done == results.checkpoints[passed]:
            results.rewards[passed] = self.total_reward
            results.pulls[passed] = self.pulls
            self._checkpoints_passed += 1

    def next_entries(self) -> list[CellPosition]:
        return entries_of(self._cells(), self.reads)


Walker: TypeAlias = CompiledWalker | ObjectWalker


def new_walker(
    prepared: PreparedPolicy,
    replication: int,
    results: WalkResults | None = None,
    stack_sizes: Ints | None = None,
) -> Walker:
    """Return a policy at the start of a replication; `stack_sizes` as in `CompiledWalker`."""
    results = results or empty_results(prepared.experiment)
    if prepared.make is not None:
        return ObjectWalker(prepared, replication, results)
    return CompiledWalker(prepared, replication, stack_sizes, results)


def entries_of(cells: Sequence[int], reads: Ints) -> list[CellPosition]:
    """Return the entries of a batch's cells after `reads` rewards of each cell."""
    positions: dict[int, int] = {}
    entries = []
    for cell in cells:
        position = positions.get(cell, int(reads[cell]))
        positions[cell] = position + 1
        entries.append((cell, position))
    return entries


def _empty_buffers(cells: int, batch: int, stack_sizes: Ints | None) -> RewardBuffers:
    size = np.full(cells, max(MIN_BUFFER, batch), np.int64)
    if stack_sizes is not None:
        size = np.maximum(stack_sizes, 1)
    offset = np.concatenate([[0], np.cumsum(size)[:-1]])
    return RewardBuffers(np.zeros(int(size.sum())), offset, size, np.zeros(cells, np.int64))
