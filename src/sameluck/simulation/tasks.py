"""Tasks: an experiment cut into pieces of work, each a pure function of its arguments, and their results combined.

How the work is cut, and where and in which order the tasks run, changes no bit of the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from sameluck.arrays import Floats, Ints
from sameluck.compiled import compiled
from sameluck.environments.base import Environment
from sameluck.experiment import Experiment
from sameluck.runs import Runs
from sameluck.simulation.loop import PolicyRunner
from sameluck.trajectories import Trajectory, empty_trajectory

_MOST_PERIODS = 20_000_000  # in one task
_BLOCK = 32  # replications that may run in step
Number = TypeVar("Number", np.float64, np.int64)


class Task(NamedTuple):
    """Some policies in some replications: the unit of work of a `map`."""

    experiment: Experiment
    environment: Environment
    checkpoints: Ints
    policies: tuple[str, ...]
    replications: range
    detail: bool


class TaskResult(NamedTuple):
    """The results of a task; axes as in `Runs`, but with one array per policy."""

    rewards: Sequence[Floats]  # (replication, checkpoint)
    pulls: Sequence[Ints]  # (replication, checkpoint, arm)
    pairs: Ints | None = None  # period-arm pairs (replication, checkpoint), if timed
    totals: Sequence[Floats] = ()
    luck: Sequence[Floats] = ()


def split(whole: Task, workers: int) -> Iterator[Task]:
    """The tasks of an experiment; a timed design needs all policies of a replication in one task."""
    timed = whole.experiment.design.timed
    groups = [whole.policies] if timed else [(name,) for name in whole.policies]
    most = max(1, _MOST_PERIODS // (int(whole.checkpoints[-1]) * len(groups[0])))
    count = min(most, -(-len(whole.replications) // (4 * workers)))
    if count > _BLOCK // 2:
        count = -(-count // _BLOCK) * _BLOCK
    starts = list(whole.replications[::count])
    if len(starts) > 1 and whole.replications.stop - starts[-1] < count // 2:
        del starts[-1]
    for first, stop in pairwise([*starts, whole.replications.stop]):
        for group in groups:
            yield whole._replace(policies=group, replications=range(first, stop))


def run_task(task: Task) -> TaskResult:
    """Run the policies of a task through its replications."""
    runners = [PolicyRunner(task.experiment, task.environment, name) for name in task.policies]
    if not task.detail and not task.experiment.design.timed:
        results = [runner.run(task.replications, task.checkpoints) for runner in runners]
        return TaskResult([one.rewards for one in results], [one.pulls for one in results])
    # Some results need whole trajectories: one replication at a time, or memory would grow with the horizon.
    single = [_run_recorded(task, runners, replication) for replication in task.replications]
    pairs = [one.pairs for one in single if one.pairs is not None]
    return TaskResult(
        _joined([one.rewards for one in single]),
        _joined([one.pulls for one in single]),
        np.concatenate(pairs) if pairs else None,
        _joined([one.totals for one in single]),
        _joined([one.luck for one in single]),
    )


def _joined(replications: Sequence[Sequence[NDArray[Number]]]) -> list[NDArray[Number]]:
    """Per policy, the replications one after another."""
    return [np.concatenate(arrays) for arrays in zip(*replications, strict=True)]


def _run_recorded(task: Task, runners: Sequence[PolicyRunner], replication: int) -> TaskResult:
    trajectories = [empty_trajectory(int(task.checkpoints[-1])) for _ in runners]
    only = range(replication, replication + 1)
    pairs = list(zip(runners, trajectories, strict=True))
    results = [runner.run(only, task.checkpoints, one) for runner, one in pairs]
    result = TaskResult([one.rewards for one in results], [one.pulls for one in results])
    if task.experiment.design.timed:
        result = result._replace(pairs=_period_arm_pairs(task, trajectories))
    if task.detail:
        arms = task.experiment.n_arms
        result = result._replace(
            totals=[_totals(one, task.checkpoints, arms) for one in trajectories],
            luck=[runner.exploration_luck(task.checkpoints, one)[None] for runner, one in pairs],
        )
    return result


def _totals(trajectory: Trajectory, checkpoints: Ints, arms: int) -> Floats:
    """Each arm's total reward up to each checkpoint (1, checkpoint, arm)."""
    until = [trajectory.until(checkpoint) for checkpoint in checkpoints]
    return np.array([[np.bincount(one.arms, one.rewards, arms) for one in until]])


def _period_arm_pairs(task: Task, trajectories: Sequence[Trajectory]) -> Ints:
    counts = np.empty((1, task.checkpoints.size), np.int64)
    last_period = np.zeros(task.experiment.n_arms, np.int64)
    arms = np.stack([trajectory.arms for trajectory in trajectories])
    _count_pairs(arms, last_period, task.checkpoints, counts[0])
    return counts


@compiled
def _count_pairs(arms: Ints, last_period: Ints, checkpoints: Ints, counts: Ints) -> None:
    """How many distinct (period, arm) pairs the policies (rows of `arms`) request up to each checkpoint."""
    pairs = 0
    start = 0
    for checkpoint in range(checkpoints.size):
        for period in range(start, checkpoints[checkpoint]):
            for policy in range(arms.shape[0]):
                if last_period[arms[policy, period]] != period + 1:
                    last_period[arms[policy, period]] = period + 1
                    pairs += 1
        counts[checkpoint] = pairs
        start = checkpoints[checkpoint]


class Assembly:
    """The arrays of a `Runs`, filled task by task."""

    def __init__(self, whole: Task) -> None:
        self.whole = whole
        shape = (len(whole.replications), len(whole.policies), whole.checkpoints.size)
        by_arm = (*shape, whole.experiment.n_arms)
        self.rewards: Floats = np.empty(shape)
        self.pulls: Ints = np.empty(by_arm, np.int64)
        self.pairs: Ints = np.empty((shape[0], shape[2]), np.int64)
        self.totals: Floats | None = np.empty(by_arm) if whole.detail else None
        self.luck: Floats | None = np.empty(shape) if whole.detail else None

    def add(self, task: Task, result: TaskResult) -> None:
        """Copy the results of a task to their places."""
        first = self.whole.replications.start
        rows = slice(task.replications.start - first, task.replications.stop - first)
        for k, name in enumerate(task.policies):
            column = self.whole.policies.index(name)
            self.rewards[rows, column] = result.rewards[k]
            self.pulls[rows, column] = result.pulls[k]
            if self.totals is not None and self.luck is not None:
                self.totals[rows, column] = result.totals[k]
                self.luck[rows, column] = result.luck[k]
        if result.pairs is not None:
            self.pairs[rows] = result.pairs

    def runs(self) -> Runs:
        """The runs, once every task is added."""
        whole, design = self.whole, self.whole.experiment.design
        return Runs(
            whole.experiment,
            whole.checkpoints,
            self.rewards,
            self.pulls,
            self.pairs if design.timed else design.interactions(self.pulls),
            whole.environment,
            whole.replications.start,
            self.totals,
            self.luck,
        )
