"""Tasks: an experiment cut into pieces of work, each a pure function of its arguments, and their results combined.

Neither the cut nor the place and order of the tasks changes a bit of the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import ceil
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from sameluck.arrays import Floats, Ints
from sameluck.compilation.decorators import compiled
from sameluck.environments.base import Environment
from sameluck.experiment import Experiment
from sameluck.policies.base import is_randomised
from sameluck.policies.external import Maker
from sameluck.runs import Runs
from sameluck.simulation.contexts.loop import CONTEXT_ARRAYS, ContextResults
from sameluck.simulation.contexts.objects import object_runner_of
from sameluck.simulation.contexts.runner import runner_of
from sameluck.simulation.object_runner import ObjectRunner
from sameluck.simulation.policy_runner import PolicyRunner
from sameluck.trajectories import Trajectory, empty_trajectory

_ROWS = 1 << 16  # replications whose interactions are counted at once
_PERIODS_AT_ONCE = 1 << 22  # of which the cells are kept
# Seconds per period, and per arm in a period: of UCB, and of Thompson sampling for a randomised policy.
_PERIOD, _ARM, _RANDOMISED_ARM = 5e-9, 2e-9, 1e-8
_OBJECT_PERIOD = 5e-6
_MIN_TASK_SECONDS = 4e-3  # preparing a task takes about a tenth of a millisecond
_MIN_OBJECT_TASK_SECONDS = 1e-3  # less, so that objects run on several processes sooner

Runner: TypeAlias = PolicyRunner | ObjectRunner
Values: TypeAlias = NDArray[np.generic]  # floats or whole numbers


class Work(NamedTuple):
    """Work of a simulation: everything that its tasks have in common."""

    experiment: Experiment
    environment: Environment
    checkpoints: Ints
    replications: range
    detail: bool = False
    makers: Mapping[str, Maker] = {}  # of external policies, by the policy's name

    @property
    def recorded(self) -> bool:
        """Return whether results need whole trajectories."""
        return self.detail or (self.experiment.counts_pairs and self.experiment.context is None)

    def runner(self, policy: str) -> Runner:
        """Return the runner of a policy."""
        if policy in self.makers:
            make = self.makers[policy]
            return object_runner_of(self.experiment, self.environment, policy, make)
        return runner_of(self.experiment, self.environment, policy)


class Task(NamedTuple):
    """Unit of work of a `map`: some policies in some replications."""

    number: int
    policies: tuple[str, ...]
    replications: range
    seconds: float  # an estimate of the work

    def __str__(self) -> str:
        first, last = self.replications[0], self.replications[-1]
        return f"{', '.join(self.policies)} in replications {first:,} to {last:,}"


class TaskResult(NamedTuple):
    """Results of a task; axes as in `Runs`, but with one array per policy."""

    number: int  # the task's
    rewards: Sequence[Floats]  # (replication, checkpoint)
    pulls: Sequence[Ints]  # (replication, checkpoint, arm)
    pairs: Ints | None = None  # period-arm pairs (replication, checkpoint), if indexed by period
    totals: Sequence[Floats] = ()
    contextual: Mapping[str, Sequence[Values]] = {}  # arrays of `CONTEXT_ARRAYS` by name


def split(
    work: Work,
    workers: int,
    seconds: float,
    measured: Mapping[str, float] | None = None,
    *,
    tasks_each: int = 4,
) -> list[Task]:
    """Cut the work into tasks of about `seconds`, and at least `tasks_each` per worker and policy.

    There are fewer if a task would last less than 4 ms (Python objects: 1 ms). A policy's time is estimated from the
    number of arms, unless it was measured. A design that indexes rewards by period needs all policies of a
    replication in one task.
    """
    names = tuple(work.experiment.policies)
    groups = [names] if work.experiment.counts_pairs else [(name,) for name in names]
    tasks: list[Task] = []
    for group in groups:
        period = sum((measured or {}).get(name) or seconds_of_period(work, name) for name in group)
        replication = period * int(work.checkpoints[-1])  # seconds
        largest = max(1, int(seconds / replication))
        has_objects = not work.makers.keys().isdisjoint(group)
        shortest = _MIN_OBJECT_TASK_SECONDS if has_objects else _MIN_TASK_SECONDS
        smallest = ceil(shortest / replication)
        fair = ceil(len(work.replications) / (tasks_each * workers))
        for numbers in _cut(work.replications, min(largest, max(smallest, fair))):
            tasks.append(Task(len(tasks), group, numbers, replication * len(numbers)))
    return tasks


def seconds_of_period(work: Work, policy: str) -> float:
    """Estimate the seconds that a period of a policy takes."""
    rule, arms = work.experiment.policies[policy], work.experiment.n_arms
    if policy in work.makers:
        return _OBJECT_PERIOD
    return _PERIOD + arms * (_RANDOMISED_ARM if is_randomised(rule, arms) else _ARM)


def _cut(replications: range, count: int) -> Iterator[range]:
    starts = list(replications[::count])
    if len(starts) > 1 and replications.stop - starts[-1] < count // 2:
        del starts[-1]
    for first, stop in pairwise([*starts, replications.stop]):
        yield range(first, stop)


def run_task(work: Work, task: Task) -> TaskResult:
    """Run the policies of a task through its replications."""
    runners = [work.runner(name) for name in task.policies]
    if work.recorded:
        return _run_recorded(work, task, runners)
    if work.experiment.context is not None:
        return _run_contextual(work, task, runners)
    results = [runner.run(task.replications, work.checkpoints) for runner in runners]
    rewards, pulls = [run.rewards for run in results], [run.pulls for run in results]
    return TaskResult(task.number, rewards, pulls)


def _run_contextual(work: Work, task: Task, runners: Sequence[Runner]) -> TaskResult:
    numbers, rows = task.replications, len(task.replications)
    if work.experiment.counts_pairs:  # in blocks, because the cell of every period is kept
        rows = max(1, _PERIODS_AT_ONCE // int(work.checkpoints[-1]))
    blocks = [numbers[start : start + rows] for start in range(0, len(numbers), rows)]
    runs: list[list[ContextResults]] = [[] for _ in runners]  # of each block
    pairs = []
    for block in blocks:
        results = [cast(ContextResults, runner.run(block, work.checkpoints)) for runner in runners]
        for policy_runs, result in zip(runs, results, strict=True):
            policy_runs.append(result._replace(cells=result.cells[:, :0]))
        if work.experiment.counts_pairs:
            pairs.append(_distinct_pairs(work, [result.cells for result in results]))
    joined = {
        name: [np.concatenate([getattr(run, name) for run in policy_runs]) for policy_runs in runs]
        for name in ("rewards", "pulls", *CONTEXT_ARRAYS)
    }
    counts = np.concatenate(pairs) if pairs else None
    rewards, pulls = joined.pop("rewards"), joined.pop("pulls")
    return TaskResult(task.number, rewards, pulls, counts, contextual=joined)


def _distinct_pairs(work: Work, cells: Sequence[Values]) -> Ints:
    counts = np.empty((len(cells[0]), work.checkpoints.size), np.int64)
    last_period = np.empty(work.experiment.cells, np.int64)
    for row in range(len(counts)):
        last_period[:] = 0
        rows = np.stack([policy_cells[row] for policy_cells in cells])
        _count_pairs(rows, last_period, work.checkpoints, counts[row])
    return counts


def _run_recorded(work: Work, task: Task, runners: Sequence[Runner]) -> TaskResult:
    # One replication at a time, or memory would grow with the horizon.
    result = _empty_result(work, task)
    trajectories = [empty_trajectory(int(work.checkpoints[-1])) for _ in runners]
    for row, replication in enumerate(task.replications):
        for k, (runner, trajectory) in enumerate(zip(runners, trajectories, strict=True)):
            only = range(replication, replication + 1)
            run = runner.run(only, work.checkpoints, trajectory)
            result.rewards[k][row], result.pulls[k][row] = run.rewards[0], run.pulls[0]
            if work.detail:
                result.totals[k][row] = _totals(work, trajectory)
        if result.pairs is not None:
            _fill_pairs(work, trajectories, result.pairs[row])
    return result


def _empty_result(work: Work, task: Task) -> TaskResult:
    shape = (len(task.replications), work.checkpoints.size)
    by_arm = (*shape, work.experiment.n_arms)
    policies = range(len(task.policies))
    return TaskResult(
        task.number,
        [np.empty(shape) for _ in policies],
        [np.empty(by_arm, np.int64) for _ in policies],
        np.empty(shape, np.int64) if work.experiment.counts_pairs else None,
        [np.empty(by_arm) for _ in policies if work.detail],
    )


def _totals(work: Work, trajectory: Trajectory) -> Floats:
    """Return each arm's total reward up to each checkpoint (checkpoint, arm)."""
    beginnings = [trajectory.until(checkpoint) for checkpoint in work.checkpoints]
    arms = work.experiment.n_arms
    return np.array([np.bincount(start.arms, start.rewards, arms) for start in beginnings])


def _fill_pairs(work: Work, trajectories: Sequence[Trajectory], counts: Ints) -> None:
    last_period = np.zeros(work.experiment.n_arms, np.int64)
    arms = np.stack([trajectory.arms for trajectory in trajectories])
    _count_pairs(arms, last_period, work.checkpoints, counts)


@compiled
def _count_pairs(cells: Ints, last_period: Ints, checkpoints: Ints, counts: Ints) -> None:
    """Count the distinct pairs of period and cell up to each checkpoint; `cells` has a row for each policy."""
    pairs = 0
    start = 0
    for checkpoint in range(checkpoints.size):
        for period in range(start, checkpoints[checkpoint]):
            for policy in range(cells.shape[0]):
                if last_period[cells[policy, period]] != period + 1:
                    last_period[cells[policy, period]] = period + 1
                    pairs += 1
        counts[checkpoint] = pairs
        start = checkpoints[checkpoint]


class Assembly:
    """Arrays of a `Runs`, filled task by task."""

    def __init__(self, work: Work) -> None:
        self.work = work
        experiment = work.experiment
        shape = (len(work.replications), len(experiment.policies), work.checkpoints.size)
        by_arm = (*shape, experiment.n_arms)
        self.rewards: Floats = np.empty(shape)
        self.pulls: Ints = np.empty(by_arm, np.int64)
        self.interactions: Ints = np.empty((shape[0], shape[2]), np.int64)
        self.totals: Floats | None = np.empty(by_arm) if work.detail else None
        self.contextual: dict[str, Any] = {}  # arrays

    def add(self, task: Task, result: TaskResult) -> None:
        """Copy the results of a task into the arrays."""
        first, names = self.work.replications.start, list(self.work.experiment.policies)
        rows = slice(task.replications.start - first, task.replications.stop - first)
        for k, name in enumerate(task.policies):
            column = names.index(name)
            self.rewards[rows, column] = result.rewards[k]
            self.pulls[rows, column] = result.pulls[k]
            if self.totals is not None:
                self.totals[rows, column] = result.totals[k]
            for array_name, arrays in result.contextual.items():
                self._contextual_array(array_name, arrays[k])[rows, column] = arrays[k]
        if result.pairs is not None:
            self.interactions[rows] = result.pairs

    def _contextual_array(self, name: str, values: Values) -> Values:
        shape = (*self.rewards.shape[:2], *values.shape[1:])
        if name not in self.contextual:
            self.contextual[name] = np.empty(shape, values.dtype)
        return self.contextual[name]

    def runs(self) -> Runs:
        """Return the runs, once every task is added."""
        work, design = self.work, self.work.experiment.design
        if not work.experiment.counts_pairs:
            visits = self.contextual.get("visits", self.pulls)
            visits = (
                visits if visits.shape[-1] else self.pulls
            )  # users with features have no stacks
            # In blocks, or counting would need half as much memory again as the results.
            for start in range(0, len(visits), _ROWS):
                rows = slice(start, start + _ROWS)
                self.interactions[rows] = design.interactions(visits[rows])
        return Runs(
            work.experiment,
            work.checkpoints,
            self.rewards,
            self.pulls,
            self.interactions,
            work.environment,
            work.replications.start,
            self.totals,
            **{name: array for name, array in self.contextual.items() if array.shape[-1]},
        )
