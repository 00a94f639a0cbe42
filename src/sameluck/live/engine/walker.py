"""One policy walking over the rewards that are known: the loop of `playing`, with a table instead of a function.

A policy chooses a batch of arms (one, unless it is batched), stops until the entries it named are known, is paid and
goes on. What it does is a function of the values it reads alone: neither of when they became known, nor of who asked
for them. The same loop plays a replication live, one reward at a time, and from the ledger, all at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from sameluck.arrays import Floats, Ints
from sameluck.bodies import locate_error
from sameluck.compiled import compiled, uncached
from sameluck.errors import Unplayable
from sameluck.experiment import Experiment
from sameluck.policies.base import Tally, body_of, select
from sameluck.randomness.streams import DECISION, Key, stream
from sameluck.trajectories import Trajectory, empty_trajectory

Maker: TypeAlias = Callable[[int], Any]  # of an external policy, from a seed
Place: TypeAlias = tuple[int, int]  # an arm and a position in its stack, both from 0

SHORTEST = 8  # values a policy keeps at hand for each arm before it asks the ledger again


class PolicyState(NamedTuple):
    """Where a policy stands in one replication."""

    pulls: Ints  # of each arm, as far as it has been paid
    totals: Floats
    means: Floats
    memory: Floats
    batch: Ints  # the arms it has chosen and not been paid for
    ahead: Ints  # how often each arm is among them
    marks: Ints  # periods paid, arms chosen, the last arm, checkpoints passed
    money: Floats  # the last reward, all rewards


REACH, CHOSEN, LAST, PASSED = 0, 1, 2, 3


class RewardBuffers(NamedTuple):
    """Values known to a policy and not yet read: for each arm a ring of the positions up to `limit`."""

    values: Floats
    offset: Ints
    size: Ints
    limit: Ints


class WalkResults(NamedTuple):
    """What to write down on the way: at some checkpoints, and of every period; either may be empty."""

    checkpoints: Ints
    rewards: Floats  # (checkpoint,)
    pulls: Ints  # (checkpoint, arm)
    trajectory: Trajectory


@compiled
def _walk(  # noqa: C901 one loop, kept whole for the compiler
    policy: Any,
    luck: Key,
    horizon: int,
    state: PolicyState,
    buffers: RewardBuffers,
    results: WalkResults,
) -> int:
    # Returns 0, or the period in which the policy named an arm that is not there.
    arms = state.pulls.size
    reach, chosen, last = state.marks[0], state.marks[1], state.marks[2]
    reward, earned = state.money[0], state.money[1]
    failed = 0
    while reach < horizon and failed == 0:
        size = min(state.batch.size, horizon - reach)
        while chosen < size:
            tally = Tally(state.pulls, state.totals, state.means, state.memory, last, reward)
            arm = select(policy, tally, reach + chosen + 1, luck)
            if arm < 0 or arm >= arms:
                failed = reach + chosen + 1
                break
            state.batch[chosen] = arm
            state.ahead[arm] += 1
            chosen += 1
        known = failed == 0
        for place in range(chosen):
            arm = state.batch[place]
            if state.pulls[arm] + state.ahead[arm] > buffers.limit[arm]:
                known = False
                break
        if not known:
            break
        for place in range(size):
            last = state.batch[place]
            pulled = state.pulls[last]
            reward = buffers.values[buffers.offset[last] + pulled % buffers.size[last]]
            total = state.totals[last] + reward
            state.pulls[last] = pulled + 1
            state.totals[last] = total
            state.means[last] = total / (pulled + 1)
            state.ahead[last] -= 1
            earned += reward
            if results.trajectory.arms.size > 0:
                results.trajectory.arms[reach] = last
                results.trajectory.positions[reach] = pulled
                results.trajectory.rewards[reach] = reward
            reach += 1
            passed = state.marks[3]
            if passed < results.checkpoints.size and reach == results.checkpoints[passed]:
                results.rewards[passed] = earned
                for each in range(arms):
                    results.pulls[passed, each] = state.pulls[each]
                state.marks[3] = passed + 1
        chosen = 0
    state.marks[0], state.marks[1], state.marks[2] = reach, chosen, last
    state.money[0], state.money[1] = reward, earned
    return failed


_walk_uncached = uncached(_walk)


@compiled
def _decision_key(seed: np.uint64, replication: int, owner: np.uint64) -> Key:
    return stream(seed, DECISION, replication, owner)


class Walker(Protocol):
    """One policy in one replication."""

    results: WalkResults

    @property
    def reach(self) -> int:
        """Periods it has been paid for."""

    @property
    def pulls(self) -> Ints:
        """How often it has pulled each arm in them."""

    @property
    def earned(self) -> float:
        """What it was paid."""

    def limit(self, arm: int) -> int:
        """How many positions of an arm's stack it has been handed."""

    def room(self, arm: int) -> int:
        """How many more values of an arm it can be handed before it walks on."""

    def hand(self, arm: int, values: Sequence[float] | Floats) -> None:
        """Hand it the next values of an arm's stack."""

    def offer(self, arm: int, position: int, values: Sequence[float]) -> None:
        """Hand it values that have just become known, as far as they are the next and there is room."""

    def advance(self) -> None:
        """Walk as far as the values it was handed carry."""

    def picks(self) -> list[Place]:
        """The entries it needs next, known or not; none once it has reached the horizon."""

    def shrink_buffers(self) -> None:
        """Forget the values that it was handed and has not read; they will be handed to it again."""


class PreparedPolicy(NamedTuple):
    """One policy of an experiment, made ready once for all replications."""

    experiment: Experiment
    name: str
    policy: Any
    memory: int
    batch: int
    make: Maker | None = None


def empty_results(
    experiment: Experiment, checkpoints: Ints | None = None, *, trajectory: bool = False
) -> WalkResults:
    """Room for some checkpoints, and for every period if asked for."""
    horizons = np.empty(0, np.int64) if checkpoints is None else checkpoints
    shape = (horizons.size, experiment.n_arms)
    periods = experiment.horizon if trajectory else 0
    return WalkResults(
        horizons, np.zeros(horizons.size), np.zeros(shape, np.int64), empty_trajectory(periods)
    )


class CompiledWalker:
    """A policy with a compiled body in one replication."""

    def __init__(
        self, prepared: PreparedPolicy, replication: int, counts: Ints | None, results: WalkResults
    ) -> None:
        experiment = prepared.experiment
        arms = experiment.n_arms
        self.prepared = prepared
        self.results = results
        owner = experiment.design.noise_owner(prepared.name)
        key = _decision_key(np.uint64(experiment.seed), replication, np.uint64(owner))
        self.luck = Key(*map(np.uint64, key))  # machine code hands out plain integers
        self.state = PolicyState(
            np.zeros(arms, np.int64),
            np.zeros(arms),
            np.zeros(arms),
            np.zeros(prepared.memory),
            np.zeros(prepared.batch, np.int64),
            np.zeros(arms, np.int64),
            np.zeros(4, np.int64),
            np.zeros(2),
        )
        self.buffers = _empty_buffers(arms, prepared.batch, counts)
        self._ring = 0 if counts is not None else int(self.buffers.size[0])
        ours = body_of(prepared.policy).__module__.startswith("sameluck.")
        self._loop = _walk if ours else _walk_uncached

    @property
    def reach(self) -> int:
        """Periods it has been paid for."""
        return int(self.state.marks[REACH])

    @property
    def pulls(self) -> Ints:
        """How often it has pulled each arm in them."""
        return self.state.pulls

    @property
    def earned(self) -> float:
        """What it was paid."""
        return float(self.state.money[1])

    def limit(self, arm: int) -> int:
        """How many positions of an arm's stack it has been handed."""
        return int(self.buffers.limit[arm])

    def room(self, arm: int) -> int:
        """How many more values of an arm it can be handed before it walks on."""
        buffers = self.buffers
        return int(buffers.size[arm] - (buffers.limit[arm] - self.state.pulls[arm]))

    def hand(self, arm: int, values: Sequence[float] | Floats) -> None:
        """Hand it the next values of an arm's stack."""
        buffers = self.buffers
        first, size, offset = (
            int(buffers.limit[arm]),
            int(buffers.size[arm]),
            int(buffers.offset[arm]),
        )
        if len(values) == 1:
            buffers.values[offset + first % size] = values[0]
        else:
            buffers.values[offset + np.arange(first, first + len(values)) % size] = values
        buffers.limit[arm] = first + len(values)

    def offer(self, arm: int, position: int, values: Sequence[float]) -> None:
        """Hand it values that have just become known, as far as they are the next and there is room."""
        if self.buffers.limit[arm] != position:
            return
        if len(values) == 1 and self._ring:  # one value, as usual: without further ado
            if position - self.state.pulls[arm] < self._ring:
                self.buffers.values[arm * self._ring + position % self._ring] = values[0]
                self.buffers.limit[arm] = position + 1
        elif room := self.room(arm):
            self.hand(arm, values[:room])

    def advance(self) -> None:
        """Walk as far as the values it was handed carry."""
        prepared = self.prepared
        horizon = prepared.experiment.horizon
        try:
            failed = self._loop(
                prepared.policy, self.luck, horizon, self.state, self.buffers, self.results
            )
        except Exception as error:
            where, why = locate_error(body_of(prepared.policy), error)
            message = f"policy {prepared.name!r} cannot be played: {why} ({where})"
            raise Unplayable(message) from error
        if failed:
            raise Unplayable(
                f"policy {prepared.name!r} chose an arm outside 0..{self.state.pulls.size - 1} in period {failed}; "
                "its select body must return an arm's index"
            )

    def shrink_buffers(self) -> None:
        """Forget the values that it was handed and has not read; they will be handed to it again."""
        buffers = _empty_buffers(self.state.pulls.size, self.prepared.batch, None)
        buffers.limit[:] = self.state.pulls
        self.buffers, self._ring = buffers, int(buffers.size[0])

    def picks(self) -> list[Place]:
        """The entries it needs next, known or not; none once it has reached the horizon."""
        chosen = int(self.state.marks[CHOSEN])
        if chosen == 1:
            arm = int(self.state.batch[0])
            return [(arm, int(self.state.pulls[arm]))]
        return places(self.state.batch[:chosen].tolist(), self.state.pulls)


def places(chosen: Sequence[int], pulls: Ints) -> list[Place]:
    """The entries that a batch of arms stands for, on top of the pulls so far."""
    following: dict[int, int] = {}
    found = []
    for arm in chosen:
        position = following.get(arm, int(pulls[arm]))
        following[arm] = position + 1
        found.append((arm, position))
    return found


def _empty_buffers(arms: int, batch: int, counts: Ints | None) -> RewardBuffers:
    size = (
        np.full(arms, max(SHORTEST, batch), np.int64) if counts is None else np.maximum(counts, 1)
    )
    offset = np.concatenate([[0], np.cumsum(size)[:-1]])
    return RewardBuffers(np.zeros(int(size.sum())), offset, size, np.zeros(arms, np.int64))
