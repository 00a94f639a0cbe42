"""`ObjectRunner`: the loop of a policy that is a Python object, and the object's check before it is simulated.

The object reads its rewards at the same addresses as a compiled policy, and gets the same seed as in a live
experiment.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import TypeAlias
from weakref import WeakKeyDictionary

import numpy as np

from sameluck.arrays import Ints
from sameluck.environments.base import Environment
from sameluck.errors import Diverged, Invalid
from sameluck.experiment import Experiment
from sameluck.policies.external import External, Maker, ObjectPair, ObjectPolicy, object_seed
from sameluck.simulation.refusals import check_rewards
from sameluck.simulation.rewards import RewardSource
from sameluck.simulation.runners.loop import Results
from sameluck.simulation.runners.setting import Setting
from sameluck.simulation.runners.users import ContextUsers, Users
from sameluck.trajectories import Trajectory, empty_trajectory

Observe: TypeAlias = Callable[[int, float, object], object]  # of an arm, its reward and the context

CHECK_SECONDS = 0.2
CHECK_PERIODS = 250

# Maker -> (arms, periods) -> seconds per step.
_checked: WeakKeyDictionary[Maker, dict[tuple[int, int], float]] = WeakKeyDictionary()


class ObjectRunner:
    """An external policy of an experiment, prepared to run any of its replications; as `CompiledRunner`.

    Where users have contexts, an object with `update(context, arm, reward)` gets the context in `select(context)`
    too: an array of features, or the index of a level or state.
    """

    def __init__(
        self, experiment: Experiment, environment: Environment, name: str, make: Maker
    ) -> None:
        self.setting = Setting(experiment, environment, name)
        self.make = make
        policy = experiment.policies[name]
        assert isinstance(policy, External)
        self.batch = policy.batch

    def run(
        self, replications: range, checkpoints: Ints, trajectory: Trajectory | None = None
    ) -> Results:
        """Return the results of replications; fill a trajectory if there is only one replication."""
        results = self.setting.empty_results(len(replications), checkpoints)
        for row, users in enumerate(self._users(replications)):
            where = f" of replication {replications[row]}"
            player = ObjectPolicy(*self._made_in(replications[row]), where=where)
            self._run(player, users, row, results, trajectory)
        check_rewards(self.setting.environment, results.rewards)
        return results

    def run_pair(self, replication: int, periods: int, seconds: float = math.inf) -> list[int]:
        """Return the arms that two objects with the same seed both choose, for some periods or some time.

        Raises `Invalid` if they differ.
        """
        end = time.perf_counter() + seconds
        results = self.setting.empty_results(1, np.array([periods]))
        trajectory = empty_trajectory(periods, self.setting.experiment)
        (users,) = self._users(range(replication, replication + 1))
        pair = ObjectPair(*self._made_in(replication))
        try:
            done = self._run(pair, users, 0, results, trajectory, end)
        except Diverged as error:
            raise Invalid(str(error)) from None
        arms: list[int] = trajectory.arms[:done].tolist()
        return arms

    def _users(self, replications: range) -> Iterator[Users | ContextUsers]:
        setting = self.setting
        if setting.experiment.context is not None:
            parameters = setting.parameters(replications)
            for row, replication in enumerate(replications):
                yield ContextUsers(setting, parameters, replication, row)
            return
        source = RewardSource(setting.experiment, setting.environment, setting.name, replications)
        for replication in replications:
            yield Users(source, replication)

    def _made_in(self, replication: int) -> tuple[str, Maker, int, int, bool]:
        """Return the arguments of `ObjectPolicy` and `ObjectPair`."""
        experiment, name = self.setting.experiment, self.setting.name
        has_contexts = experiment.context is not None
        return name, self.make, experiment.n_arms, self._seed_in(replication), has_contexts

    def _run(
        self,
        player: ObjectPolicy | ObjectPair,
        users: Users | ContextUsers,
        row: int,
        results: Results,
        trajectory: Trajectory | None,
        end: float = math.inf,
    ) -> int:
        """Run a replication; return the periods until `end`."""
        arms, contexts = self.setting.experiment.n_arms, users.contexts
        pulls, totals = [0] * arms, [0.0] * arms
        earned = regret = 0.0
        best_pulls, start = 0, 1
        counts_cells, ends = results.cells.shape[1] > 0, end < math.inf
        # Bound outside of the loop: looking up attributes would take as long as a simple policy.
        arrive, pay, choose = users.arrive, users.pay, player.choose
        observe = player.observe if self.batch == 1 else in_batches(player.observe, self.batch)
        for column, checkpoint in enumerate(results.checkpoints.tolist()):
            for period in range(start, checkpoint + 1):
                seen = arrive(period)
                arm = choose(period, seen)
                cell, position, reward, gap = pay(arm, period)
                pulls[arm] += 1
                totals[arm] += reward
                earned += reward
                if contexts is not None:
                    regret += gap
                    best_pulls += gap <= 0.0
                    if contexts.level_rewards.size:
                        contexts.level_rewards[cell // arms] += reward
                if counts_cells:
                    results.cells[row, period - 1] = cell
                if trajectory is not None:
                    trajectory.arms[period - 1] = arm
                    trajectory.positions[period - 1] = position
                    trajectory.rewards[period - 1] = reward
                    if contexts is not None and trajectory.contexts is not None:
                        trajectory.contexts[period - 1] = contexts.flat
                observe(arm, reward, seen)
                if ends and time.perf_counter() > end:
                    return period
            results.rewards[row, column] = earned
            results.pulls[row, column], results.totals[row, column] = pulls, totals
            if contexts is not None:
                results.regret[row, column], results.best_pulls[row, column] = regret, best_pulls
                results.visits[row, column] = users.reads[: results.visits.shape[2]]
                results.level_rewards[row, column] = contexts.level_rewards
            start = checkpoint + 1
        return start - 1

    def compile(self) -> None:
        """Compile what draws contexts and rewards, and the function that computes the seed."""
        self._seed_in(0)
        (users,) = self._users(range(1))
        users.arrive(1)
        users.pay(0, 1)

    def _seed_in(self, replication: int) -> int:
        experiment = self.setting.experiment
        stream_owner = experiment.design.noise_owner(self.setting.name)
        return object_seed(experiment.seed, replication, stream_owner)


def in_batches(observe: Observe, size: int) -> Observe:
    """Return a function that collects rewards and passes them on when a batch is full."""
    waiting: list[tuple[int, float, object]] = []

    def collect(arm: int, reward: float, context: object) -> None:
        waiting.append((arm, reward, context))
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
    experiment = runner.setting.experiment
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
    check_repeated(runner.setting.name, first, trajectory.arms.tolist())
    return seconds / len(first)


def check_repeated(name: str, first: list[int], again: list[int]) -> None:
    """Raise `Invalid` if a replication was not the same when it was run again."""
    for period, (arm, other) in enumerate(zip(first, again, strict=True), start=1):
        if arm != other:
            raise Invalid(
                f"policy {name!r} chose arm {arm} in period {period}, and arm {other} when the replication was run "
                "again: something outlives a replication. Keep all state in the object that make(seed) returns"
            )
