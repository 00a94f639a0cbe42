"""`simulate`: run every policy of an experiment through every replication, on all cores or elsewhere."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from sameluck import text_forms
from sameluck.compilation.decorators import announcing, load_compiler
from sameluck.environments.base import EnvironmentLike
from sameluck.experiment import Experiment, checked_checkpoints
from sameluck.policies.external import Makers, makers_of
from sameluck.policies.simple import Uniform
from sameluck.runs import Runs
from sameluck.simulation.function_checks import probe_functions
from sameluck.simulation.kept_runs import KeptRuns
from sameluck.simulation.preconditions import check_memory, checked_replications, fitted
from sameluck.simulation.runners.object_runner import ObjectRunner, check_object
from sameluck.simulation.tasks import Work, split
from sameluck.simulation.workers import MapLike, assemble, map_tasks, run_tasks
from sameluck.validation import require_callable, require_flag, require_whole
from sameluck.wording import counted

Progress: TypeAlias = Callable[[int, int], object]
ProgressLike: TypeAlias = Progress | bool  # True prints

_MAX_WORKERS = 1024
_SILENT_SECONDS = 1.0  # shorter work prints no progress
# Seconds of a task: short for progress here, longer where it is sent elsewhere.
_SECONDS, _SECONDS_ELSEWHERE = 0.25, 1.0
# Tasks per worker and policy: at the end, workers wait for the last task.
_TASKS, _TASKS_ELSEWHERE = 16, 4
log = logging.getLogger("sameluck")


def simulate(  # noqa: PLR0913 all but two are optional
    experiment: Experiment,
    environment: EnvironmentLike,
    *,
    checkpoints: Sequence[int] | None = None,
    workers: int | None = None,
    progress: ProgressLike | None = None,
    map: MapLike | None = None,
    replications: range | None = None,
    check: bool = True,
    makers: Makers | None = None,
    keep: str | os.PathLike[str] | None = None,
) -> Runs:
    """Run every policy through every replication.

    The result depends on the experiment, the environment and the checkpoints alone: any `workers` or `map` gives
    the same bits. Memory is proportional to replications x policies x checkpoints x arms, whatever the horizon.

    Args:
        experiment: What to run.
        environment: Where rewards come from, or its text form.
        checkpoints: Horizons to report, all in one pass; the experiment's horizon if not given.
        workers: Threads, and processes for `External` policies; all cores if not given.
        progress: Called as `progress(done, total)`, in replications of a policy; True prints a line per tenth.
        map: Runs the tasks elsewhere: an executor's `map`, or `sameluck.adapters.dask.on(client)`. Results may come
            in any order. Tasks take about a second; more `workers` make them smaller.
        replications: Run these only; they may continue where an earlier call ended, for `Runs.concat`.
        check: Check your own policies and environments before they are first run.
        makers: For `External` policies: name -> function of a seed that returns the policy, a Python object.
        keep: A file, as `Runs.save` writes it. If the call is interrupted, by Ctrl-C for example, it holds the
            complete replications, and the same call continues from it, also with more replications. The file is
            written every 20 seconds, or more rarely if that takes long, in case the process is killed. `compare`
            marks its looks there, so that runs that were compared and then extended are noticed.
    """
    work = checked_work(experiment, environment, checkpoints, replications, makers)
    require_flag("check", check)
    workers = available_workers() if workers is None else require_whole("workers", workers, 1)
    workers = min(workers, _MAX_WORKERS)
    report = as_progress(progress)
    require_callable("map", map)
    simulation = Simulation(work, workers, map, check=check)
    if keep is None:
        return simulation.run(work.replications, report)
    return KeptRuns(keep, work, workers).run(simulation.run, report)


def checked_work(
    experiment: Experiment,
    environment: EnvironmentLike,
    checkpoints: Sequence[int] | None = None,
    replications: range | None = None,
    makers: Makers | None = None,
) -> Work:
    """Return the work that `simulate` does with these arguments; raise `Invalid` or `TooLarge` if it cannot."""
    experiment, environment = fitted(experiment, environment)
    horizons = checked_checkpoints(experiment, checkpoints)
    numbers = checked_replications(experiment, replications)
    makers_by_policy = makers_of(experiment.policies, makers)
    check_memory(experiment, len(numbers), horizons)
    return Work(experiment, environment, horizons, numbers, makers_by_policy)


class Simulation:
    """A simulation whose user code is checked and whose loops are compiled once, before its first replications."""

    def __init__(
        self, work: Work, workers: int, map_like: MapLike | None = None, *, check: bool = True
    ) -> None:
        self.work = work
        self.workers = workers
        self.map_like = map_like
        self._check = check
        self._prepared = False
        self._seconds_per_step: dict[str, float] = {}  # of Python objects, measured

    def run(self, replications: range, progress: Progress | None = None) -> Runs:
        if not self._prepared:
            self._prepare()
            self._prepared = True
        work, elsewhere = self.work._replace(replications=replications), self.map_like is not None
        seconds = _SECONDS_ELSEWHERE if elsewhere else _SECONDS
        tasks_each = _TASKS_ELSEWHERE if elsewhere else _TASKS
        tasks = split(work, self.workers, seconds, self._seconds_per_step, tasks_each=tasks_each)
        started = time.perf_counter()
        if self.map_like is None:
            results = run_tasks(work, tasks, self.workers)
        else:
            results = map_tasks(work, tasks, self.map_like)
        with closing(results):
            runs = assemble(work, tasks, results, progress)
        return replace(runs, seconds=time.perf_counter() - started)

    def _prepare(self) -> None:
        work, probes = self.work, []
        if self._check:
            experiment = with_select_functions(work.experiment, work.makers)
            probes = probe_functions(experiment, work.environment)
            self._seconds_per_step = self._check_objects()
        if self.map_like is None:
            load_compiler()
            for name in work.experiment.policies:  # in the threads, each would wait for the others
                with self._announced(name):
                    work.runner(name).compile()
        for probe in probes:
            probe.compare()

    def _check_objects(self) -> dict[str, float]:
        work, measured = self.work, {}
        for name, make in work.makers.items():
            runner = ObjectRunner(work.experiment, work.environment, name, make)
            with self._announced(name):
                runner.compile()
            measured[name] = check_object(runner)
        return measured

    def _announced(self, policy: str) -> AbstractContextManager[None]:
        classes = [type(self.work.experiment.policies[policy]), type(self.work.environment)]
        pair = " with ".join(map(text_forms.name_of, classes))
        message = f"sameluck: compiling {pair} for this machine (once) ..."
        # A warning, because that is what reaches the terminal when logging is not set up.
        return announcing(partial(log.warning, message))


def with_select_functions(experiment: Experiment, makers: Makers) -> Experiment:
    """Return the experiment with a compiled policy in place of each object, to check the draw function."""
    if not makers:
        return experiment
    return experiment.replace(policies={**experiment.policies, **dict.fromkeys(makers, Uniform())})


def as_progress(progress: ProgressLike | None) -> Progress | None:
    """Return the function that is called as `progress(done, total)`; for True, a function that prints."""
    if isinstance(progress, bool):
        return PrintedProgress() if progress else None
    require_callable("progress", progress)
    return progress


def available_workers() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class PrintedProgress:
    """Prints a line on standard error for every tenth of the work, from the second second on."""

    def __init__(self) -> None:
        self._started, self._tenths = time.monotonic(), 0

    def __call__(self, done: int, total: int) -> None:
        """Print if another tenth is done."""
        seconds, tenths = time.monotonic() - self._started, 10 * done // max(total, 1)
        if seconds < _SILENT_SECONDS or tenths <= self._tenths:
            return
        self._tenths = tenths
        left = f"about {seconds * (total - done) / done:,.0f} s left"
        state = f"done in {seconds:,.0f} s" if done >= total else left
        _print_line(f"{10 * tenths}%, {state}")


class PrintedRace:
    """Prints a race's progress on standard error: for every tenth and every drop-out, at most once per second."""

    def __init__(self, max_replications: int) -> None:
        self._max_replications = max_replications
        self._printed, self._last = time.monotonic(), (0, 0)

    def __call__(self, replications: int, names: tuple[str, ...]) -> None:
        """Print if another tenth is done, or if fewer policies remain than in the last line."""
        now, state = time.monotonic(), (len(names), 10 * replications // self._max_replications)
        if now - self._printed < _SILENT_SECONDS or state == self._last:
            return
        self._printed, self._last = now, state
        left = f"{counted(len(names), 'policy', 'policies')} left"
        _print_line(f"{replications:,} of at most {self._max_replications:,} replications, {left}")


def _print_line(text: str) -> None:
    # Whole lines: a notebook and a log show control characters as they are.
    print(f"sameluck: {text}", file=sys.stderr, flush=True)  # noqa: T201
