"""Workers: compiled policies run in threads, Python objects in forked processes, or both by the caller's `map`.

Threads would not help objects, because Python code holds the interpreter's lock. A forked process has the function
and its items already: only the items' numbers and the results are sent, and the function need not be picklable. The
processes end with the iteration, however it ends.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

import numpy as np

from sameluck.arrays import Ints
from sameluck.compilation.interruption import in_threads
from sameluck.environments.base import Environment
from sameluck.errors import Invalid, SameluckError, Unplayable
from sameluck.experiment import Experiment
from sameluck.runs import Runs
from sameluck.simulation.tasks import Assembly, Task, TaskResult, Work, run_task

MapLike: TypeAlias = Callable[..., Iterable[Any]]
Results: TypeAlias = Generator[TaskResult, None, None]
Item = TypeVar("Item")
Result = TypeVar("Result")

_MIN_FORK_SECONDS = 0.3  # of work, for which processes are forked
_INTERRUPT_SECONDS = 0.5  # within which Ctrl-C takes effect
_WARNING_SECONDS = 10.0  # of work in one process
_IDLE = 60.0  # seconds without any activity after which processes are taken to be blocked
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
    yield from in_threads(run, tasks, workers)


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


Instances: TypeAlias = Sequence[tuple[Environment, range]]  # each with its replications


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
    yield from in_threads(run, instances, workers, ahead=2 * workers)


class _Worker(NamedTuple):
    process: BaseProcess
    connection: Connection


def can_fork() -> bool:
    """Return whether processes may be forked here: on Linux, unless this is a daemon, which may not have children.

    System libraries of macOS do not survive a fork.
    """
    return sys.platform == "linux" and not multiprocessing.current_process().daemon


def run_forked(
    function: Callable[[Item], Result], items: Sequence[Item], workers: int
) -> Iterator[Result]:
    """Yield the results of a function for items, each as soon as it is available."""
    waiting, team = list(range(len(items)))[::-1], _start(function, items, workers)
    busy: dict[Connection, int] = {}
    try:
        for worker in team:
            _assign(worker.connection, waiting, busy)
        while busy:
            for connection in _ready(team, busy):
                number = busy.pop(connection)
                result: Result = _receive(connection, items[number], team)
                _assign(connection, waiting, busy)
                yield result
    finally:
        for process, connection in team:
            connection.close()  # which ends a process that waits for an item
            if connection in busy:
                process.kill()
        for process, _ in team:
            process.join(1.0)
            process.kill()  # it may wait for threads of the object
            process.join()


def _start(
    function: Callable[[Item], Result], items: Sequence[Item], workers: int
) -> list[_Worker]:
    context, team = multiprocessing.get_context("fork"), list[_Worker]()
    for _ in range(min(workers, len(items))):
        ours, theirs = context.Pipe()
        inherited = [ours, *(worker.connection for worker in team)]
        process = context.Process(target=_serve, args=(function, items, theirs, inherited))
        with warnings.catch_warnings():
            # The warning is of threads that a fork does not copy: NumPy's are idle, sameluck's not started yet.
            warnings.simplefilter("ignore", DeprecationWarning)
            process.start()
        theirs.close()
        team.append(_Worker(process, ours))
    return team


def _serve(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    connection: Connection,
    inherited: Sequence[Connection],
) -> None:
    # Ctrl-C reaches this process too; the first process ends it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for other in inherited:
        other.close()  # or the end of the first process would not be noticed
    here = os.getpid()
    while True:
        try:
            number = connection.recv()
        except EOFError:
            return
        try:
            answer: tuple[bool, object] = (True, function(items[number]))
        except BaseException as error:  # it is raised again in the first process
            error.add_note(traceback.format_exc())
            answer = (False, error)
        if os.getpid() != here:  # the object has forked: two processes must not answer
            os._exit(1)
        _send(connection, answer)


def _send(connection: Connection, answer: tuple[bool, object]) -> None:
    try:
        connection.send(answer)
    except OSError:  # the first process has ended
        os._exit(1)
    except Exception:  # an error that cannot be pickled
        connection.send((False, Unplayable(str(answer[1]))))


def _assign(connection: Connection, waiting: list[int], busy: dict[Connection, int]) -> None:
    if waiting:
        busy[connection] = waiting.pop()
        connection.send(busy[connection])


def _receive(connection: Connection, item: object, team: Sequence[_Worker]) -> Any:
    try:
        fine, answer = connection.recv()
    except (EOFError, OSError):
        process = next(worker.process for worker in team if worker.connection is connection)
        process.join(1.0)
        raise Unplayable(
            f"the process that ran {item} ended with code {process.exitcode}: a crash, too little memory, or threads "
            "that are not there after a fork; workers=1 runs it in this process"
        ) from None
    if not fine:
        raise answer
    return answer


def _ready(team: Sequence[_Worker], busy: dict[Connection, int]) -> list[Connection]:
    """Return the connections with an answer; raise `Unplayable` if every busy process is blocked."""
    pids = [process.pid for process, connection in team if connection in busy]
    while True:
        before = [_activity(pid) for pid in pids]
        if ready := wait(list(busy), timeout=_IDLE):
            return cast(list[Connection], ready)
        if [_activity(pid) for pid in pids] == before:
            raise Unplayable(
                f"no process has run for {_IDLE:.0f} seconds: the policy waits for something that is not there "
                "after a fork, such as its threads; workers=1 runs it in this process"
            )


def _activity(pid: int | None) -> list[str]:
    """Return processor time and context switches of a process; they do not change while it is blocked."""
    folder = Path(f"/proc/{pid}")
    try:
        # After the name in brackets: the state is first, user and system time are 12th and 13th.
        seconds = (folder / "stat").read_text().rpartition(")")[2].split()[11:13]
        lines = (folder / "status").read_text().splitlines()
    except OSError:  # it has ended
        return []
    return [*seconds, *(line for line in lines if "ctxt_switches" in line)]
