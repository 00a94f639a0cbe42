"""One policy that is a Python object, through some replications: the loop of `loop`, in Python.

It reads its rewards at the same addresses as a compiled policy, and gets the same seed as in a live experiment. Its
rewards are drawn by machine code in blocks: one by one they would cost more than most policies do.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager

import numpy as np

from sameluck.arrays import Floats, Ints
from sameluck.environments.base import Environment
from sameluck.errors import SameluckError
from sameluck.experiment import Experiment
from sameluck.policies.external import External, Maker, ObjectPair, ObjectPolicy, object_seed
from sameluck.simulation.loop import Results
from sameluck.simulation.other_clock import OtherClock
from sameluck.simulation.rewards import RewardBlocks, RewardSource
from sameluck.trajectories import Trajectory


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
        self._indexed_by_period = experiment.design.indexed_by_period

    def run(
        self, replications: range, checkpoints: Ints, trajectory: Trajectory | None = None
    ) -> Results:
        """The results of some replications; a trajectory is filled if there is only one."""
        shape = (len(replications), checkpoints.size)
        pulls = np.empty((*shape, self.experiment.n_arms), np.int64)
        results = Results(self._indexed_by_period, checkpoints, np.empty(shape), pulls)
        source = RewardSource(self.experiment, self.environment, self.name, replications)
        for row, replication in enumerate(replications):
            self._run(replication, source.blocks(replication), row, results, trajectory)
        return results

    def _run(
        self,
        replication: int,
        rewards: RewardBlocks,
        row: int,
        results: Results,
        trajectory: Trajectory | None,
    ) -> None:
        arms, indexed_by_period, earned, start = (
            self.experiment.n_arms,
            self._indexed_by_period,
            0.0,
            1,
        )
        pulls = [0] * arms
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
                position = period - 1 if indexed_by_period else pulls[arm]
                if position >= end[arm]:
                    rewards.refill(arm, position, period)
                reward = values[arm][position - first[arm]]
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

    def run_pair(self, replication: int, periods: int, seconds: float = np.inf) -> list[int]:
        """The arms that two objects with the same seed both choose, in some periods or for some time.

        The second one finds another date and time on the clock.
        """
        end = time.perf_counter() + seconds
        only = range(replication, replication + 1)
        source = RewardSource(self.experiment, self.environment, self.name, only)
        rewards = source.blocks(replication)
        number = self.experiment.n_arms
        clock, pulls, arms = OtherClock(), [0] * number, list[int]()

        def on_other_clock(made: object) -> Callable[[], AbstractContextManager[None]]:
            clock.replace_for(self.make, made)
            return clock.ahead

        try:
            seed = self._seed_in(replication)
            pair = ObjectPair(self.name, self.make, number, seed, on_other_clock)
            observe = in_batches(pair.observe, self.batch)
            while len(arms) < periods and (not arms or time.perf_counter() < end):
                period = len(arms) + 1
                arm = pair.choose(period)
                observe(
                    arm,
                    rewards.read(
                        arm, period - 1 if self._indexed_by_period else pulls[arm], period
                    ),
                )
                pulls[arm] += 1
                arms.append(arm)
        finally:
            clock.restore()
        return arms

    def compile(self, *, recorded: bool) -> None:
        """Compile what draws the rewards and what computes the seed."""
        self._seed_in(0)
        RewardSource(self.experiment, self.environment, self.name, range(1)).draw(0, 0, 0, 0)

    def exploration_excess(self, checkpoints: Ints, trajectory: Trajectory) -> Floats:
        """Zero: an object does not state its probabilities."""
        return np.zeros(checkpoints.size)

    def _seed_in(self, replication: int) -> int:
        owner = self.experiment.design.noise_owner(self.name)
        return object_seed(self.experiment.seed, replication, owner)


def in_batches(
    observe: Callable[[int, float], object], size: int
) -> Callable[[int, float], object]:
    """A function that passes rewards on when there is a batch of them."""
    waiting: list[tuple[int, float]] = []

    def collect(arm: int, reward: float) -> None:
        waiting.append((arm, reward))
        if len(waiting) == size:
            for one in waiting:
                observe(*one)
            waiting.clear()

    return collect
