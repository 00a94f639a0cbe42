"""`simulate`: run every policy of an experiment through every replication, on all cores or elsewhere."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from sameluck.environments.base import EnvironmentLike
from sameluck.experiment import Experiment, checked_checkpoints
from sameluck.policies.external import Makers, makers_of
from sameluck.runs import Runs
from sameluck.simulation.kept_runs import KeptRuns
from sameluck.simulation.preconditions import (
    check_memory,
    checked_replications,
    fitted,
)
from sameluck.simulation.preparation import check_bodies, check_objects, compile_loops
from sameluck.simulation.progress import PrintedProgress
from sameluck.simulation.tasks import Work, split
from sameluck.simulation.workers import MapLike, assemble, map_tasks, run_tasks
from sameluck.validation import require_callable, require_flag, require_whole

Progress: TypeAlias = Callable[[int, int], object]
ProgressLike: TypeAlias = Progress | bool  # True prints

_MOST_WORKERS = 1024
# Of a task: for progress here, and little to send elsewhere.
_SECONDS, _SECONDS_ELSEWHERE = 0.25, 1.0
# Per worker and policy: at the end, workers wait for what is left of another's task.
_TASKS, _TASKS_ELSEWHERE = 16, 4


def simulate(  # noqa: PLR0913 all but two are optional
    experiment: Experiment,
    environment: EnvironmentLike,
    *,
    checkpoints: Sequence[int] | None = None,
    workers: int | None = None,
    progress: ProgressLike | None = None,
    map: MapLike | None = None,
    replications: range | None = None,
    detail: bool = False,
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
        detail: Also record each arm's total reward and the noise of the policies' random choices, for
            `compare(adjust=...)`.
        check: Check your own policies and environments before they are first run (`body_checks`, `object_checks`).
        makers: For `External` policies: name -> function of a seed that returns the policy, a Python object.
        keep: A file, as `Runs.save` writes it. If the call is interrupted, by Ctrl-C for example, it holds the
            replications that are complete, and the same call continues from it, also with more replications. It is
            also written every 20 seconds, or more rarely if that takes long, in case the process is killed.
    """
    experiment, environment = fitted(experiment, environment)
    horizons = checked_checkpoints(experiment, checkpoints)
    numbers = checked_replications(experiment, replications)
    own_makers = makers_of(experiment.policies, makers)
    require_flag("detail", detail)
    require_flag("check", check)
    check_memory(experiment, len(numbers), horizons, detail=detail)
    workers = available_workers() if workers is None else require_whole("workers", workers, 1)
    workers = min(workers, _MOST_WORKERS)
    told = as_progress(progress)
    require_callable("map", map)
    work = Work(experiment, environment, horizons, numbers, detail, own_makers)
    if keep is not None:
        run = partial(
            simulate,
            experiment,
            environment,
            checkpoints=horizons.tolist(),
            workers=workers,
            map=map,
            detail=detail,
            check=check,
            makers=makers,
        )
        kept = KeptRuns(keep, work, workers)
        return kept.complete(run, kept.known(run), told)
    probes = check_bodies(work) if check else []
    measured = check_objects(work) if check else {}
    seconds, tasks_each = (
        (_SECONDS, _TASKS) if map is None else (_SECONDS_ELSEWHERE, _TASKS_ELSEWHERE)
    )
    tasks = split(work, workers, seconds, measured, tasks_each=tasks_each)
    if map is None:
        compile_loops(work)
    for probe in probes:
        probe.compare(recorded=work.recorded)
    started = time.perf_counter()
    results = run_tasks(work, tasks, workers) if map is None else map_tasks(work, tasks, map)
    with closing(results):
        runs = assemble(work, tasks, results, told)
    return replace(runs, seconds=time.perf_counter() - started)


def as_progress(progress: ProgressLike | None) -> Progress | None:
    """The function that is called as `progress(done, total)`; for True, one that prints."""
    if progress is True:
        return PrintedProgress()
    if progress is False:
        return None
    require_callable("progress", progress)
    return progress


def available_workers() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
