"""Workers: compiled policies run in threads, Python objects in processes, or both by the caller's `map`."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from sameluck.arrays import Ints
from sameluck.environments.base import Environment
from sameluck.errors import Invalid, SameluckError
from sameluck.experiment import Experiment
from sameluck.runs import Runs
from sameluck.simulation.processes import can_fork, run_forked
from sameluck.simulation.tasks import Assembly, Task, TaskResult, Work, run_task

MapLike: TypeAlias = Callable[..., Iterable[Any]]
Results: TypeAlias = Generator[TaskResult, None, None]

_MIN_FORK_SECONDS = 0.3  # of work, for which processes are forked
_INTERRUPT_SECONDS = 0.5  # within which Ctrl-C takes effect
_WARNING_SECONDS = 10.0  # of work in one process
log = logging.getLogger("sameluck")


def run_tasks(work: Work, tasks: Sequence[Task], workers: int) -> Results:
    """Yield the results of tasks on this machine."""
    run = partial(run_task, work)
    object_tasks = [task for task in tasks if work.makers.keys() & set(task.policies)]
    compiled_tasks = [task for task in tasks if task not in object_tasks]
    yield from _in_threads(run, compiled_tasks, workers)
    seconds = sum(task.seconds for task in object_tasks)
    several = min(workers, len(object_tasks)) > 1
    if several and seconds > _MIN_FORK_SECONDS and can_fork():
        yield from run_forked(run, object_tasks, workers)
        return
    if several and seconds > _WARNING_SECONDS:
        log.warning(
            "sameluck: Python objects run in one process here, for about %.0f s; pass map= to run them in several, "
            "such as the map of a ProcessPoolExecutor if their makers are defined in a module",
            seconds,
        )
    yield from map(run, object_tasks)


def _in_threads(run: Callable[[Task], TaskResult], tasks: Sequence[Task], workers: int) -> Results:
    # Machine code does not notice Ctrl-C, so this thread waits for a long task instead of running it.
    short = all(task.seconds < _INTERRUPT_SECONDS for task in tasks)
    if short and (workers == 1 or len(tasks) <= 1):
        yield from map(run, tasks)
        return
    pool, ended = ThreadPoolExecutor(workers, thread_name_prefix="sameluck"), False
    try:
        yield from pool.map(run, tasks)
        ended = True
    finally:
        pool.shutdown(wait=ended, cancel_futures=True)


def map_tasks(work: Work, tasks: Sequence[Task], map_like: MapLike) -> Results:
    """Yield the results of tasks by the caller's `map`, in any order."""
    results: Iterable[TaskResult] = ()
    try:
        results = map_like(partial(run_task, work), tasks)
        yield from results
    except Exception as error:
        unpicklable = any(words in str(error) for words in ("pickle", "local object"))
        if work.makers and unpicklable and not isinstance(error, SameluckError):
            raise Invalid(
                f"map sends the makers to other processes, and one cannot be sent ({error}); define it at the top "
                "level of a module that they can import"
            ) from error
        raise
    finally:
        if hasattr(results, "close"):
            results.close()  # at once, so that running tasks are cancelled


def assemble(
    work: Work,
    tasks: Sequence[Task],
    results: Iterable[TaskResult],
    progress: Callable[[int, int], object] | None,
) -> Runs:
    """Combine the results of all tasks, in any order, into runs; report each to `progress`."""
    assembly, missing, done = Assembly(work), set(tasks), 0
    total = len(work.replications) * len(work.experiment.policies)
    for result in results:
        task = tasks[result.number]
        assembly.add(task, result)
        missing.discard(task)
        done += len(task.replications) * len(task.policies)
        if progress is not None:
            progress(done, total)
    if missing:
        raise Invalid(
            f"map returned no result for {len(missing):,} of {len(tasks):,} tasks; it must return one for each"
        )
    return assembly.runs()


Instances: TypeAlias = Sequence[
    tuple[Environment, range]
]  # environments, each with its replications


def runs_in_each(
    experiment: Experiment, instances: Instances, checkpoints: Ints, workers: int
) -> Iterator[Runs]:
    """Yield the runs of some replications in each of many environments, as `simulate` would give them, in order.

    The checks and preparations of `simulate` would take longer than a few hundred replications, so nothing is checked
    here. Every policy has a select function, and the environments' class was simulated before.
    """

    def run(instance: tuple[Environment, range]) -> Runs:
        environment, replications = instance
        work = Work(experiment, environment, checkpoints, replications)
        results = [work.runner(name).run(replications, checkpoints) for name in experiment.policies]
        pulls = np.stack([result.pulls for result in results], axis=1)
        return Runs(
            experiment,
            checkpoints,
            np.stack([result.rewards for result in results], axis=1),
            pulls,
            experiment.design.interactions(pulls),
            environment,
            replications.start,
        )

    if workers == 1:
        yield from map(run, instances)
        return
    # Only a few are begun ahead, or results would pile up where the caller is slower.
    begun: deque[Future[Runs]] = deque()
    with ThreadPoolExecutor(workers, thread_name_prefix="sameluck") as pool:
        for instance in instances:
            begun.append(pool.submit(run, instance))
            if len(begun) > 2 * workers:
                yield begun.popleft().result()
        while begun:
            yield begun.popleft().result()
