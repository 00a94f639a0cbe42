"""One policy that is a Python object, through some replications: the loop of `loop`, in Python.

It reads its rewards at the same addresses as a compiled policy, and gets the same seed as in a live experiment. Its
rewards are drawn by machine code in blocks: one by one they would cost more than most policies do.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from sameluck.arrays import Floats, Ints
from sameluck.bodies import is_ours
from sameluck.compiled import compiled, uncached
from sameluck.environments.base import Environment, Law, compiled_law, draw, draw_body_of
from sameluck.errors import Invalid, SameluckError
from sameluck.experiment import Experiment
from sameluck.policies.baselines import Uniform
from sameluck.policies.external import External
from sameluck.policies.objects import Maker, ObjectPolicy, Twins, object_seed
from sameluck.randomness.streams import REWARD, Bits, stream, within, word
from sameluck.simulation.loop import PolicyRunner, Results
from sameluck.trajectories import Trajectory

_SMALLEST, _LARGEST = 32, 1024  # rewards drawn at once


@compiled
def _draw_block(
    law: Law, row: int, address: tuple[Bits, int, Bits, int], start: int, rewards: Floats
) -> None:
    seed, replication, owner, arm = address
    key = within(stream(seed, REWARD, replication, owner), arm)
    for place in range(rewards.size):
        rewards[place] = draw(law, row, arm, word(key, start + place))


_draw_block_uncached = uncached(_draw_block)


class RewardBlocks:
    """The rewards of one replication, per arm a block of those that are read next.

    `values[arm]` holds the positions from `start[arm]` up to `end[arm]`.
    """

    def __init__(self, runner: ObjectRunner, law: Law, row: int, replication: int) -> None:
        arms = runner.experiment.n_arms
        self.values: list[list[float]] = [[] for _ in range(arms)]
        self.start, self.end = [0] * arms, [0] * arms
        self._runner, self._place = runner, (law, row, replication)

    def refill(self, arm: int, position: int) -> None:
        """Draw the rewards of an arm from a position on; each block of an arm is twice as large as the one before."""
        size = min(max(2 * len(self.values[arm]), _SMALLEST), _LARGEST)
        rewards = np.empty(size)
        self._runner.draw(*self._place, arm, position, rewards)
        self.values[arm] = rewards.tolist()
        self.start[arm], self.end[arm] = position, position + size

    def read(self, arm: int, position: int) -> float:
        """The reward at a position, which is not before an earlier one."""
        if position >= self.end[arm]:
            self.refill(arm, position)
        return self.values[arm][position - self.start[arm]]


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
        self._timed = experiment.design.timed
        self._seed = np.uint64(experiment.seed)
        self._owner = np.uint64(experiment.design.reward_owner(name))

    def run(
        self, replications: range, checkpoints: Ints, trajectory: Trajectory | None = None
    ) -> Results:
        """The results of some replications; a trajectory is filled if there is only one."""
        shape = (len(replications), checkpoints.size)
        pulls = np.empty((*shape, self.experiment.n_arms), np.int64)
        results = Results(self._timed, checkpoints, np.empty(shape), pulls)
        law = self._law(replications)
        for row, replication in enumerate(replications):
            self._run(
                replication, RewardBlocks(self, law, row, replication), row, results, trajectory
            )
        return results

    def _run(
        self,
        replication: int,
        rewards: RewardBlocks,
        row: int,
        results: Results,
        trajectory: Trajectory | None,
    ) -> None:
        arms, timed, earned, start = self.experiment.n_arms, self._timed, 0.0, 1
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
                position = period - 1 if timed else pulls[arm]
                if position >= end[arm]:
                    rewards.refill(arm, position)
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

    def run_twins(self, replication: int, periods: int, seconds: float = np.inf) -> list[int]:
        """The arms that two objects with the same seed both choose, in some periods or for some time."""
        end = time.perf_counter() + seconds
        rewards = RewardBlocks(self, self._law(range(replication, replication + 1)), 0, replication)
        number = self.experiment.n_arms
        twins = Twins(self.name, self.make, number, self._seed_in(replication))
        observe = in_batches(twins.observe, self.batch)
        pulls, arms = [0] * number, list[int]()
        while len(arms) < periods and (not arms or time.perf_counter() < end):
            arm = twins.choose(len(arms) + 1)
            observe(arm, rewards.read(arm, len(arms) if self._timed else pulls[arm]))
            pulls[arm] += 1
            arms.append(arm)
        return arms

    def compile(self, count: int, *, recorded: bool) -> None:  # noqa: ARG002 as for a compiled policy
        """Compile what draws the rewards."""
        self.draw(self._law(range(1)), 0, 0, 0, 0, np.empty(0))

    def exploration_luck(self, checkpoints: Ints, trajectory: Trajectory) -> Floats:  # noqa: ARG002
        """Zero: an object does not state its chances."""
        return np.zeros(checkpoints.size)

    def draw(
        self, law: Law, row: int, replication: int, arm: int, start: int, rewards: Floats
    ) -> None:
        """Draw rewards of an arm at the positions from `start` on."""
        body = draw_body_of(law)
        loop = _draw_block if is_ours(body) else _draw_block_uncached
        try:
            loop(law, row, (self._seed, replication, self._owner, arm), start, rewards)
        except Exception as error:
            if is_ours(body):
                raise
            # With any policy that has a body: it is the environment that is refused.
            other = self.experiment.replace(policies={self.name: Uniform()})
            blamed = PolicyRunner(other, self.environment, self.name)
            raise Invalid(blamed.refusal(body, error)) from error
        if not is_ours(body) and not np.isfinite(rewards).all():
            raise Invalid(
                f"environment {type(self.environment).__name__} gave a reward that is not a finite number; a draw "
                "body returns a finite number"
            )

    def _seed_in(self, replication: int) -> int:
        owner = self.experiment.design.noise_owner(self.name)
        return object_seed(self.experiment.seed, replication, owner)

    def _law(self, replications: range) -> Law:
        experiment = self.experiment
        return compiled_law(self.environment, experiment.seed, replications, experiment.n_arms)


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
