"""One policy run over the settled entries of one replication: the loop of `simulate`, with a table of rewards.

A policy chooses a batch of arms (one arm, unless it is batched), stops until the entries it chose are settled,
observes their rewards and continues. What it does is a function of the rewards it reads alone: neither of when they
were settled, nor of which policy they were requested for. The same loop runs a replication live, one reward at a
time, and from its ledger, all rewards at once.
"""

from __future__ import annotations

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
from sameluck.policies.observations import (
    Observations,
    cell_of,
    empty_observations,
    observe,
    tally_of,
)
from sameluck.randomness.streams import DECISION, Key, stream
from sameluck.trajectories import Trajectory, empty_trajectory

ArmPosition: TypeAlias = tuple[int, int]  # an arm and a position in its stack, both from 0

SMALLEST_BUFFER = 8  # rewards per arm

# Indices of PolicyState.counters and PolicyState.sums
PERIODS, CHOSEN, LAST_ARM, CHECKPOINTS = 0, 1, 2, 3
LAST_REWARD, TOTAL_REWARD = 0, 1


class PolicyState(NamedTuple):
    """State of one policy in one replication."""

    observations: Observations  # of the periods whose rewards it has observed
    batch: Ints  # the arms it has chosen and whose rewards it has not observed
    pending: Ints  # how often each arm is among them
    counters: Ints  # periods observed, arms chosen, the last arm, checkpoints passed
    sums: Floats  # the last reward, the sum of all


class RewardBuffers(NamedTuple):
    """Rewards that a policy can read next: per arm a ring buffer of the positions before `end`."""

    values: Floats
    offset: Ints
    size: Ints
    end: Ints


class WalkResults(NamedTuple):
    """What the loop records: totals at some checkpoints, and every period; either may be empty."""

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
            tally = tally_of(observations, last, reward)
            arm = select(policy, tally, periods + chosen + 1, noise)
            if arm < 0 or arm >= arms:
                failed = periods + chosen + 1
                break
            state.batch[chosen] = arm
            state.pending[arm] += 1
            chosen += 1
        known = failed == 0
        for place in range(chosen):
            arm = state.batch[place]
            cell = cell_of(arm)
            if observations.reads[cell] + state.pending[arm] > buffers.end[cell]:
                known = False
                break
        if not known:
            break
        for place in range(size):
            last = state.batch[place]
            cell = cell_of(last)
            position = observations.reads[cell]
            reward = buffers.values[buffers.offset[cell] + position % buffers.size[cell]]
            observe(observations, cell, last, reward)
            state.pending[last] -= 1
            earned += reward
            if results.trajectory.arms.size > 0:
                results.trajectory.arms[periods] = last
                results.trajectory.positions[periods] = position
                results.trajectory.rewards[periods] = reward
            periods += 1
            passed = state.counters[CHECKPOINTS]
            if passed < results.checkpoints.size and periods == results.checkpoints[passed]:
                results.rewards[passed] = earned
                for each in range(arms):
                    results.pulls[passed, each] = observations.pulls[each]
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
    """One policy of an experiment, prepared once for all replications."""

    experiment: Experiment
    name: str
    policy: Policy  # as the compiled loop takes it
    memory: int
    batch: int
    make: Maker | None = None  # of an external policy


def empty_results(
    experiment: Experiment, checkpoints: Ints | None = None, *, trajectory: bool = False
) -> WalkResults:
    """Arrays for some checkpoints, and for every period if requested."""
    horizons = np.empty(0, np.int64) if checkpoints is None else checkpoints
    shape = (horizons.size, experiment.n_arms)
    periods = experiment.horizon if trajectory else 0
    return WalkResults(
        horizons, np.zeros(horizons.size), np.zeros(shape, np.int64), empty_trajectory(periods)
    )


class CompiledWalker:
    """A policy with a compiled body in one replication.

    `stack_sizes`, the number of entries per arm, makes the buffers large enough for a whole ledger.
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
            pending=np.zeros(arms, np.int64),
            counters=np.zeros(4, np.int64),
            sums=np.zeros(2),
        )
        self.buffers = _empty_buffers(arms, prepared.batch, stack_sizes)
        # The common size of all rings; 0 if they differ.
        self._ring = 0 if stack_sizes is not None else int(self.buffers.size[0])

    @property
    def periods_done(self) -> int:
        """Periods whose rewards it has observed."""
        return int(self.state.counters[PERIODS])

    @property
    def pulls(self) -> Ints:
        """Pulls of each arm in those periods."""
        return self.state.observations.pulls

    def buffer_end(self, arm: int) -> int:
        """The position in an arm's stack of the next reward to push."""
        return int(self.buffers.end[arm])

    def buffer_room(self, arm: int) -> int:
        """How many more rewards of an arm can be pushed before it advances."""
        buffers = self.buffers
        return int(buffers.size[arm] - (buffers.end[arm] - self.state.observations.reads[arm]))

    def push(self, arm: int, values: Sequence[float] | Floats) -> None:
        """Append the next rewards of an arm's stack to its buffer."""
        buffers = self.buffers
        first, stop = int(buffers.end[arm]), int(buffers.end[arm]) + len(values)
        ring = np.arange(first, stop) % buffers.size[arm]
        buffers.values[buffers.offset[arm] + ring] = values
        buffers.end[arm] = stop

    def push_if_next(self, arm: int, position: int, values: Sequence[float]) -> None:
        """Append rewards that were just settled, if they are the next and as many as there is room for."""
        if self.buffers.end[arm] != position:
            return
        if len(values) == 1 and self._ring:  # the usual case, without arrays
            if position - self.state.observations.reads[arm] < self._ring:
                self.buffers.values[arm * self._ring + position % self._ring] = values[0]
                self.buffers.end[arm] = position + 1
        elif room := self.buffer_room(arm):
            self.push(arm, values[:room])

    def advance(self) -> None:
        """Run the policy until it needs a reward that is not in its buffers, or to the horizon."""
        prepared = self.prepared
        horizon = prepared.experiment.horizon
        try:
            failed = _walk(
                prepared.policy, self.noise, horizon, self.state, self.buffers, self.results
            )
        except Exception as error:
            where, why = locate_error(select_function_of(prepared.policy), error)
            message = f"policy {prepared.name!r} cannot be run: {why} ({where})"
            raise Unplayable(message) from error
        if failed:
            raise Unplayable(
                f"policy {prepared.name!r} chose an arm outside 0..{self.pulls.size - 1} in period {failed}; its "
                "select function must return an arm's index"
            )

    def shrink_buffers(self) -> None:
        """Drop the rewards that it has not read; they must be pushed again."""
        buffers = _empty_buffers(self.state.observations.pulls.size, self.prepared.batch, None)
        buffers.end[:] = self.state.observations.reads
        self.buffers, self._ring = buffers, int(buffers.size[0])

    def next_entries(self) -> list[ArmPosition]:
        """The entries it needs next, settled or not; none at the horizon."""
        chosen = int(self.state.counters[CHOSEN])
        if chosen == 1:
            arm = int(self.state.batch[0])
            return [(arm, int(self.state.observations.reads[arm]))]
        return entries_of(self.state.batch[:chosen].tolist(), self.state.observations.reads)


def entries_of(batch: Sequence[int], pulls: Ints) -> list[ArmPosition]:
    """The entries of a batch of arms that is chosen after `pulls` of each."""
    following: dict[int, int] = {}
    entries = []
    for arm in batch:
        position = following.get(arm, int(pulls[arm]))
        following[arm] = position + 1
        entries.append((arm, position))
    return entries


def _empty_buffers(arms: int, batch: int, stack_sizes: Ints | None) -> RewardBuffers:
    size = np.full(arms, max(SMALLEST_BUFFER, batch), np.int64)
    if stack_sizes is not None:
        size = np.maximum(stack_sizes, 1)
    offset = np.concatenate([[0], np.cumsum(size)[:-1]])
    return RewardBuffers(np.zeros(int(size.sum())), offset, size, np.zeros(arms, np.int64))
