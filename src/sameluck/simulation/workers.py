"""Where tasks run: compiled policies in threads, Python objects in processes, or both by the `map` of the caller."""

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

_WORTH_A_FORK = 0.3  # seconds of work
_SOON = 0.5  # seconds after which Ctrl-C is to be noticed
_LONG = 10.0  # seconds of work after which one process is worth a warning
log = logging.getLogger("sameluck")


def run_tasks(work: Work, tasks: Sequence[Task], workers: int) -> Results:
    """The results of tasks on this machine."""
    run = partial(run_task, work)
    of_objects = [task for task in tasks if work.makers.keys() & set(task.policies)]
    others = [task for task in tasks if task not in of_objects]
    yield from _in_threads(run, others, workers)
    seconds = sum(task.seconds for task in of_objects)
    several = min(workers, len(of_objects)) > 1
    if several and seconds > _WORTH_A_FORK and can_fork():
        yield from run_forked(run, of_objects, workers)
        return
    if several and seconds > _LONG:
        log.warning(
            "sameluck: Python objects are run in one process here, for about %.0f s; map= runs them in several, "
            "such as that of a ProcessPoolExecutor if their makers are defined in a module",
            seconds,
        )
    yield from map(run, of_objects)


def _in_threads(run: Callable[[Task], TaskResult], tasks: Sequence[Task], workers: int) -> Results:
    # Machine code does not notice Ctrl-C: this thread waits for a long task rather than run it.
    short = all(task.seconds < _SOON for task in tasks)
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
    """The results of tasks by a `map` of the caller, in any order."""
    results: Iterable[TaskResult] = ()
    try:
        results = map_like(partial(run_task, work), tasks)
        yield from results
    except Exception as error:
        unsent = any(words in str(error) for words in ("pickle", "local object"))
        if work.makers and unsent and not isinstance(error, SameluckError):
            raise Invalid(
                f"map sends the makers to other processes, and one cannot be sent ({error}); define it at the top "
                "level of a module that they can import"
            ) from error
        raise
    finally:
        if hasattr(results, "close"):
            results.close()  # at once, so that what still runs is cancelled


def assemble(
    work: Work,
    tasks: Sequence[Task],
    results: Iterable[TaskResult],
    progress: Callable[[int, int], object] | None,
) -> Runs:
    """The runs of all tasks, whose results may come in any order; `progress` is told of each."""
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
