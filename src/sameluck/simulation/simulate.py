"""`simulate`: run every policy of an experiment through every replication, on all cores or elsewhere."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

from sameluck import text_forms
from sameluck.compiled import announcing, load_compiler
from sameluck.environments.base import Environment, EnvironmentLike
from sameluck.experiment import Experiment, checked_checkpoints
from sameluck.runs import Runs
from sameluck.simulation.body_checks import probe_bodies
from sameluck.simulation.loop import PolicyRunner
from sameluck.simulation.preconditions import (
    check_memory,
    checked_environment,
    checked_replications,
)
from sameluck.simulation.tasks import Assembly, Task, run_task, split
from sameluck.validation import require_callable, require_flag, require_whole

Progress: TypeAlias = Callable[[int, int], object]
MapLike: TypeAlias = Callable[..., Iterable[Any]]

_MOST_WORKERS = 1024
log = logging.getLogger("sameluck")


def simulate(  # noqa: PLR0913 all but two are optional
    experiment: Experiment,
    environment: EnvironmentLike,
    *,
    checkpoints: Sequence[int] | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
    map: MapLike | None = None,
    replications: range | None = None,
    detail: bool = False,
    check: bool = True,
) -> Runs:
    """Run every policy through every replication.

    The result depends on the experiment, the environment and the checkpoints alone: any `workers` or `map` gives
    the same bits. Memory is proportional to replications x policies x checkpoints x arms, whatever the horizon.

    Args:
        experiment: What to run.
        environment: Where rewards come from, or its text form.
        checkpoints: Horizons to report, all in one pass; the experiment's horizon if not given.
        workers: Threads; all cores if not given.
        progress: Called as `progress(done, total)`, in replications of a policy.
        map: Runs the tasks elsewhere: an executor's `map`, or `sameluck.adapters.dask.on(client)`.
        replications: Run these only; they may continue where an earlier call ended, for `Runs.concat`.
        detail: Also record each arm's total reward and the noise of the policies' random choices, for
            `compare(adjust=...)`.
        check: Check the bodies of your own policies and environments before they are first run (`body_checks`).
    """
    environment = checked_environment(experiment, environment)
    horizons = checked_checkpoints(experiment, checkpoints)
    numbers = checked_replications(experiment, replications)
    require_flag("detail", detail)
    require_flag("check", check)
    check_memory(experiment, len(numbers), horizons, detail=detail)
    workers = _available_workers() if workers is None else require_whole("workers", workers, 1)
    workers = min(workers, _MOST_WORKERS)
    require_callable("progress", progress)
    require_callable("map", map)
    whole = Task(experiment, environment, horizons, tuple(experiment.policies), numbers, detail)
    tasks = list(split(whole, workers))
    recorded = detail or experiment.design.timed
    probes = probe_bodies(experiment, environment) if check else []
    if map is None:
        _compile(experiment, environment, len(tasks[0].replications), recorded=recorded)
    for probe in probes:
        probe.compare(recorded=recorded)
    assembly = Assembly(whole)
    started = time.perf_counter()
    total, done = len(numbers) * len(whole.policies), 0
    with _mapping(map, workers) as run:
        for task, result in zip(tasks, run(run_task, tasks), strict=True):
            assembly.add(task, result)
            done += len(task.replications) * len(task.policies)
            if progress is not None:
                progress(done, total)
    return replace(assembly.runs(), seconds=time.perf_counter() - started)


@contextmanager
def _mapping(map_like: MapLike | None, workers: int) -> Iterator[MapLike]:
    if map_like is not None:
        yield map_like
    elif workers == 1:
        yield map
    else:
        pool = ThreadPoolExecutor(workers, thread_name_prefix="sameluck")
        try:
            yield pool.map
        finally:
            pool.shutdown(cancel_futures=True)


def _compile(
    experiment: Experiment, environment: Environment, count: int, *, recorded: bool
) -> None:
    # Here rather than in the threads, which would wait for one another, and to announce what takes so long.
    load_compiler()
    for name, policy in experiment.policies.items():
        kinds = f"{text_forms.name_of(type(policy))} with {text_forms.name_of(type(environment))}"
        how = ", period by period," if recorded else ""
        message = f"sameluck: compiling {kinds}{how} for this machine (once) ..."
        # A warning, because that is what reaches the terminal when logging is not set up.
        with announcing(partial(log.warning, message)):
            PolicyRunner(experiment, environment, name).compile(count, recorded=recorded)


def _available_workers() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
