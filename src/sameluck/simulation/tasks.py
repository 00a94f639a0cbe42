"""Tasks: an experiment cut into pieces of work, each a pure function of its arguments, and their results combined.

Neither the cut nor the place and order of the tasks changes a bit of the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import ceil
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sameluck.arrays import Ints
from sameluck.compilation.decorators import compiled
from sameluck.environments.base import Environment
from sameluck.experiment import Experiment
from sameluck.policies.base import is_randomised
from sameluck.policies.external import Maker
from sameluck.runs import POLICY_ARRAYS, Runs
from sameluck.simulation.runners.compiled_runner import CompiledRunner
from sameluck.simulation.runners.loop import Results
from sameluck.simulation.runners.object_runner import ObjectRunner
from sameluck.simulation.runners.setting import Setting

_ROWS = 1 << 16  # replications whose interactions are counted at once
_PERIODS_AT_ONCE = 1 << 22  # of which the cells are kept
# Seconds per period, and per arm in a period: of UCB, and of Thompson sampling for a randomised policy.
_PERIOD, _ARM, _RANDOMISED_ARM = 5e-9, 2e-9, 1e-8
_OBJECT_PERIOD = 5e-6
_MIN_TASK_SECONDS = 4e-3  # preparing a task takes about a tenth of a millisecond
_MIN_OBJECT_TASK_SECONDS = 1e-3  # less, so that objects run on several processes sooner

Runner: TypeAlias = CompiledRunner | ObjectRunner


class Work(NamedTuple):
    """Work of a simulation: everything that its tasks have in common."""

    experiment: Experiment
    environment: Environment
    checkpoints: Ints
    replications: range
    makers: Mapping[str, Maker] = {}  # of external policies, by the policy's name

    def runner(self, policy: str) -> Runner:
        """Return the runner of a policy."""
        if policy in self.makers:
            make = self.makers[policy]
            return ObjectRunner(self.experiment, self.environment, policy, make)
        return CompiledRunner(self.experiment, self.environment, policy)


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
    """Results of a task."""

    number: int  # the task's
    results: Sequence[Results]  # of each policy
    pairs: (
        Ints | None
    )  # period-cell pairs (replication, checkpoint), where they count as real users


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
    numbers, checkpoints = task.replications, work.checkpoints
    if not work.experiment.counts_pairs:
        results = [runner.run(numbers, checkpoints) for runner in runners]
        return TaskResult(task.number, results, None)
    # In blocks, because the cell of every period is kept.
    rows = max(1, _PERIODS_AT_ONCE // int(checkpoints[-1]))
    blocks, pairs = list[list[Results]](), list[Ints]()
    for start in range(0, len(numbers), rows):
        results = [runner.run(numbers[start : start + rows], checkpoints) for runner in runners]
        pairs.append(_distinct_pairs(work, [result.cells for result in results]))
        blocks.append([result._replace(cells=result.cells[:, :0]) for result in results])
    joined = [_joined(policy_results) for policy_results in zip(*blocks, strict=True)]
    return TaskResult(task.number, joined, np.concatenate(pairs))


def _joined(blocks: Sequence[Results]) -> Results:
    """Return the results of a policy in successive replications as one."""
    first = blocks[0]
    arrays = zip(*(block[2:] for block in blocks), strict=True)
    return Results(first.indexed_by_period, first.checkpoints, *map(np.concatenate, arrays))


def _distinct_pairs(work: Work, cells: Sequence[NDArray[np.int32]]) -> Ints:
    counts = np.empty((len(cells[0]), work.checkpoints.size), np.int64)
    last_period = np.empty(work.experiment.cells, np.int64)
    for row in range(len(counts)):
        last_period[:] = 0
        rows = np.stack([policy_cells[row] for policy_cells in cells])
        _count_pairs(rows, last_period, work.checkpoints, counts[row])
    return counts


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
        rows, policies = len(work.replications), tuple(work.experiment.policies)
        self.interactions: Ints = np.empty((rows, work.checkpoints.size), np.int64)
        setting = Setting(work.experiment, work.environment, policies[0])
        empty = setting.empty_results(0, work.checkpoints)._asdict()
        self.arrays: dict[str, Any] = {
            name: np.empty((rows, len(policies), *empty[name].shape[1:]), empty[name].dtype)
            for name in POLICY_ARRAYS
        }

    def add(self, task: Task, result: TaskResult) -> None:
        """Copy the results of a task into the arrays."""
        first, names = self.work.replications.start, list(self.work.experiment.policies)
        rows = slice(task.replications.start - first, task.replications.stop - first)
        for policy, results in zip(task.policies, result.results, strict=True):
            for name in POLICY_ARRAYS:
                self.arrays[name][rows, names.index(policy)] = getattr(results, name)
        if result.pairs is not None:
            self.interactions[rows] = result.pairs

    def runs(self) -> Runs:
        """Return the runs, once every task is added."""
        work, design = self.work, self.work.experiment.design
        arrays = {name: array for name, array in self.arrays.items() if array.shape[-1]}
        if not work.experiment.counts_pairs:
            visits = arrays.get("visits", arrays["pulls"])  # users with features have no stacks
            # In blocks, or counting would need half as much memory again as the results.
            for start in range(0, len(visits), _ROWS):
                rows = slice(start, start + _ROWS)
                self.interactions[rows] = design.interactions(visits[rows])
        return Runs(
            experiment=work.experiment,
            checkpoints=work.checkpoints,
            interactions=self.interactions,
            environment=work.environment,
            first=work.replications.start,
            **arrays,
        )
