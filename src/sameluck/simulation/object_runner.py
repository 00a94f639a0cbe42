"""`ObjectRunner`: the loop of a policy that is a Python object, and the object's check before it is simulated.

The object reads its rewards at the same addresses as a compiled policy, and gets the same seed as in a live
experiment. Machine code draws its rewards in blocks: drawing them singly would cost more than most policies do.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from weakref import WeakKeyDictionary

import numpy as np

from sameluck.arrays import Ints
from sameluck.environments.base import Environment
from sameluck.errors import Diverged, Invalid, SameluckError
from sameluck.experiment import Experiment
from sameluck.policies.external import External, Maker, ObjectPair, ObjectPolicy, object_seed
from sameluck.simulation.loop import Results
from sameluck.simulation.rewards import RewardBlocks, RewardSource
from sameluck.trajectories import Trajectory, empty_trajectory

CHECK_SECONDS = 0.2
CHECK_PERIODS = 250

# Maker -> (arms, periods) -> seconds per step.
_checked: WeakKeyDictionary[Maker, dict[tuple[int, int], float]] = WeakKeyDictionary()


class ObjectRunner:
    """An external policy of an experiment, prepared to run any of its replications; as `PolicyRunner`."""

    def __init__(
        self, experiment: Experiment, environment: Environment, name: str, make: Maker
    ) -> None:
        self.experiment = experiment
        self.environment = environment
        self.name = name
        self.make = make
        policy = experiment.policies[name]
        assert isinstance(policy, External)
        self.batch = policy.batch
        self._indexed_by_period = experiment.indexed_by_period

    def run(
        self, replications: range, checkpoints: Ints, trajectory: Trajectory | None = None
    ) -> Results:
        """Return the results of replications; fill a trajectory if there is only one replication."""
        shape = (len(replications), checkpoints.size)
        pulls = np.empty((*shape, self.experiment.n_arms), np.int64)
        results = Results(self._indexed_by_period, checkpoints, np.empty(shape), pulls)
        source = RewardSource(self.experiment, self.environment, self.name, replications)
        for row, replication in enumerate(replications):
            self._run(replication, RewardBlocks(source, replication), row, results, trajectory)
        return results

    def _run(
        self,
        replication: int,
        rewards: RewardBlocks,
        row: int,
        results: Results,
        trajectory: Trajectory | None,
    ) -> None:
        arms, indexed_by_period = self.experiment.n_arms, self._indexed_by_period
        earned, start = 0.0, 1
        reads, pulls = [0] * arms, [0] * arms  # by cell, by arm
        # Bound outside of the loop: looking up attributes would take as long as a simple policy.
        values, first, end = rewards.values, rewards.start, rewards.end
        policy = ObjectPolicy(self.name, self.make, arms, self._seed_in(replication))
        select, update = policy.select, policy.update
        if self.batch > 1:
            update = in_batches(policy.observe, self.batch)
        for column, checkpoint in enumerate(results.checkpoints.tolist()):
            for period in range(start, checkpoint + 1):
                try:
                    arm = select(period)
                except Exception as error:
                    where = f" failed in period {period} of replication {replication}"
                    raise policy.failure(where, error) from error
                if type(arm) is not int or not 0 <= arm < arms:
                    arm = policy.arm_of(arm, period)
                cell = arm
                position = period - 1 if indexed_by_period else reads[cell]
                if position >= end[cell]:
                    rewards.refill(cell, position, period)
                reward = values[cell][position - first[cell]]
                reads[cell] += 1
                pulls[arm] += 1
                earned += reward
                if trajectory is not None:
                    trajectory.arms[period - 1] = arm
                    trajectory.positions[period - 1] = position
                    trajectory.rewards[period - 1] = reward
                try:
                    update(arm, reward)
                except SameluckError:  # explained already
                    raise
                except Exception as error:
                    where = f" failed in update({arm}, {reward}), period {period} of replication {replication}"
                    raise policy.failure(where, error) from error
            results.rewards[row, column] = earned
            results.pulls[row, column] = pulls
            start = checkpoint + 1

    def run_pair(self, replication: int, periods: int, seconds: float = math.inf) -> list[int]:
        """Return the arms that two objects with the same seed both choose, for some periods or some time.

        Raises `Invalid` if they differ.
        """
        end = time.perf_counter() + seconds
        only = range(replication, replication + 1)
        source = RewardSource(self.experiment, self.environment, self.name, only)
        rewards = RewardBlocks(source, replication)
        count, arms = self.experiment.n_arms, list[int]()
        reads = [0] * count
        pair = ObjectPair(self.name, self.make, count, self._seed_in(replication))
        observe = in_batches(pair.observe, self.batch)
        while len(arms) < periods and (not arms or time.perf_counter() < end):
            period = len(arms) + 1
            try:
                arm = pair.choose(period)
            except Diverged as error:
                raise Invalid(str(error)) from None
            cell = arm
            position = period - 1 if self._indexed_by_period else reads[cell]
            observe(arm, rewards.read(cell, position, period))
            reads[cell] += 1
            arms.append(arm)
        return arms

    def compile(self, *, recorded: bool) -> None:
        """Compile the loop that draws the rewards and the function that computes the seed."""
        self._seed_in(0)
        RewardSource(self.experiment, self.environment, self.name, range(1)).draw(0, 0, 0, 0)

    def _seed_in(self, replication: int) -> int:
        stream_owner = self.experiment.design.noise_owner(self.name)
        return object_seed(self.experiment.seed, replication, stream_owner)


def in_batches(
    observe: Callable[[int, float], object], size: int
) -> Callable[[int, float], object]:
    """Return a function that collects rewards and passes them on when a batch is full."""
    waiting: list[tuple[int, float]] = []

    def collect(arm: int, reward: float) -> None:
        waiting.append((arm, reward))
        if len(waiting) == size:
            for observation in waiting:
                observe(*observation)
            waiting.clear()

    return collect


def check_object(runner: ObjectRunner) -> float:
    """Return the seconds that a step takes; raise `Invalid` unless the object repeats itself.

    The first periods are run three times: by two objects at once, which must choose the same arms, and again by a new
    object after another replication. An object is checked when its maker is first used in a process with a number of
    arms, for about `CHECK_SECONDS`.
    """
    experiment = runner.experiment
    size = (experiment.n_arms, min(CHECK_PERIODS, experiment.horizon))
    try:
        measured = _checked.setdefault(runner.make, {})
    except TypeError:  # not hashable, or without weak references
        measured = {}
    if size not in measured:
        measured[size] = _seconds_per_step(runner, size[1])
    return measured[size]


def _seconds_per_step(runner: ObjectRunner, periods: int) -> float:
    first = runner.run_pair(0, periods, CHECK_SECONDS / 2)
    end, trajectory, seconds = np.array([len(first)]), empty_trajectory(len(first)), math.inf
    for replication in (1, 0):
        begin = time.perf_counter()
        runner.run(range(replication, replication + 1), end, trajectory)
        seconds = min(seconds, time.perf_counter() - begin)
    check_repeated(runner.name, first, trajectory.arms.tolist())
    return seconds / len(first)


def check_repeated(name: str, first: list[int], again: list[int]) -> None:
    """Raise `Invalid` if a replication was not the same when it was run again."""
    for period, (arm, other) in enumerate(zip(first, again, strict=True), start=1):
        if arm != other:
            raise Invalid(
                f"policy {name!r} chose arm {arm} in period {period}, and arm {other} when the replication was run "
                "again: something outlives a replication. Keep all state in the object that make(seed) returns"
            )
