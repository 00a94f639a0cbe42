"""`simulate`: play every policy of an experiment through every replication, on all cores or elsewhere.

The work is cut into tasks, each a pure function of its arguments; how it is cut, and where and in which order the
tasks run, changes no bit of the result.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from sameluck import text_forms
from sameluck.arrays import Floats, Ints
from sameluck.compiled import compiled
from sameluck.environments.base import Environment
from sameluck.environments.registry import as_environment
from sameluck.errors import Invalid, TooLarge
from sameluck.experiment import Experiment, checked_checkpoints
from sameluck.policies.external import External
from sameluck.runs import Runs
from sameluck.simulation.loop import PolicyRunner, Results
from sameluck.trajectories import Trajectory, empty_trajectory

Progress: TypeAlias = Callable[[int, int], object]
MapLike: TypeAlias = Callable[..., Iterable[Any]]

log = logging.getLogger("sameluck")


class _Task(NamedTuple):
    """Some policies in some replications: the unit of work of any map-like."""

    experiment: Experiment
    environment: Environment
    checkpoints: Ints
    policies: tuple[str, ...]
    replications: range
    detail: bool


class _Part(NamedTuple):
    """What a task returns; axes as in `Runs`."""

    rewards: Floats
    pulls: Ints
    pairs: Ints | None = None  # distinct (period, arm) pairs, where the design counts them
    totals: Floats | None = None
    luck: Floats | None = None


def _run_task(task: _Task) -> _Part:
    runners = [PolicyRunner(task.experiment, task.environment, name) for name in task.policies]
    if task.detail or task.experiment.design.timed:
        parts = [_run_recorded(task, runners, replication) for replication in task.replications]
        return _Part(*(_joined(arrays) for arrays in zip(*parts, strict=True)))
    results = [runner.run(task.replications, task.checkpoints) for runner in runners]
    return _Part(*_stacked(results))


def _run_recorded(task: _Task, runners: Sequence[PolicyRunner], replication: int) -> _Part:
    # Some answers need whole trajectories: one replication at a time, or memory would grow with the horizon.
    periods = int(task.checkpoints[-1])
    trajectories = [empty_trajectory(periods) for _ in runners]
    only = range(replication, replication + 1)
    results = [p.run(only, task.checkpoints, d) for p, d in zip(runners, trajectories, strict=True)]
    part = _Part(*_stacked(results))
    if task.experiment.design.timed:
        part = part._replace(pairs=_pairs(task, trajectories))
    if task.detail:
        totals = [_totals(d, task.checkpoints, task.experiment.n_arms) for d in trajectories]
        luck = [
            p.exploration_luck(task.checkpoints, d)
            for p, d in zip(runners, trajectories, strict=True)
        ]
        part = part._replace(totals=np.array([totals]), luck=np.array([luck]))
    return part


def _stacked(results: Sequence[Results]) -> tuple[Floats, Ints]:
    rewards, pulls = (
        [results.rewards for results in results],
        [results.pulls for results in results],
    )
    return np.stack(rewards, axis=1), np.stack(pulls, axis=1)


def _joined(arrays: Sequence[Any]) -> Any:
    return None if arrays[0] is None else np.concatenate(arrays)


def _totals(trajectory: Trajectory, checkpoints: Ints, arms: int) -> Floats:
    """What each arm paid up to each checkpoint (checkpoint, arm)."""
    ends = [trajectory.arms[:end] for end in checkpoints]
    paid = [trajectory.rewards[:end] for end in checkpoints]
    return np.array([np.bincount(a, p, arms) for a, p in zip(ends, paid, strict=True)])


def _pairs(task: _Task, trajectories: Sequence[Trajectory]) -> Ints:
    counts = np.empty((1, task.checkpoints.size), np.int64)
    stamp = np.zeros(task.experiment.n_arms, np.int64)
    _count_pairs(
        np.stack([trajectory.arms for trajectory in trajectories]),
        stamp,
        task.checkpoints,
        counts[0],
    )
    return counts


@compiled
def _count_pairs(arms: Ints, stamp: Ints, checkpoints: Ints, counts: Ints) -> None:
    """How many distinct (period, arm) pairs the policies (rows of `arms`) ask for up to each checkpoint."""
    pairs = 0
    start = 0
    for checkpoint in range(checkpoints.size):
        for period in range(start, checkpoints[checkpoint]):
            for policy in range(arms.shape[0]):
                if stamp[arms[policy, period]] != period + 1:
                    stamp[arms[policy, period]] = period + 1
                    pairs += 1
        counts[checkpoint] = pairs
        start = checkpoints[checkpoint]


def simulate(
    experiment: Experiment,
    environment: Environment,
    *,
    checkpoints: Sequence[int] | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
    map: MapLike | None = None,
    replications: range | None = None,
    detail: bool = False,
) -> Runs:
    """Play every policy through every replication.

    The result depends on the experiment, the environment and the checkpoints alone: any `workers` or `map` gives
    the same bits. Memory is proportional to replications x policies x checkpoints x arms, whatever the horizon.

    Args:
        experiment: What to run.
        environment: Where rewards come from, or its text form.
        checkpoints: Horizons to report, all in one pass; the experiment's horizon if not given.
        workers: Threads; all cores if not given.
        progress: Called as `progress(done, total)`, in replications of a policy.
        map: Runs the work elsewhere: an executor's `map`, or `sameluck.adapters.dask.on(client)`.
        replications: Play these only; they may go on where an earlier call ended, for `Runs.concat`.
        detail: Also record what each arm paid and how the policies' own coins fell, for `compare(adjust=...)`.
    """
    environment = checked_environment(experiment, environment)
    horizons = checked_checkpoints(experiment, checkpoints)
    chosen = _checked_replications(experiment, replications)
    refuse_too_large(experiment, len(chosen), horizons, detail=detail)
    workers = _checked_workers(workers)
    whole = _Task(experiment, environment, horizons, tuple(experiment.policies), chosen, detail)
    tasks = list(_cut(whole, workers))
    if map is None:
        _compile(experiment, environment, in_full=detail or experiment.design.timed)
    runs = _empty_runs(whole)
    total, done = len(chosen) * len(whole.policies), 0
    with _mapping(map, workers) as run:
        for task, part in zip(tasks, run(_run_task, tasks), strict=True):
            _fill(runs, task, part)
            done += len(task.replications) * len(task.policies)
            if progress is not None:
                progress(done, total)
    return _counted(runs)


def _cut(whole: _Task, workers: int) -> Iterator[_Task]:
    timed = whole.experiment.design.timed
    groups = [whole.policies] if timed else [(name,) for name in whole.policies]
    most = max(1, 20_000_000 // (int(whole.checkpoints[-1]) * len(groups[0])))
    count = min(most, -(-len(whole.replications) // (4 * workers)))
    for first in whole.replications[::count]:
        for group in groups:
            some = range(first, min(first + count, whole.replications.stop))
            yield whole._replace(policies=group, replications=some)


def _fill(runs: Runs, task: _Task, part: _Part) -> None:
    rows = slice(task.replications.start - runs.first, task.replications.stop - runs.first)
    columns = [runs.policies.index(name) for name in task.policies]
    runs.rewards[rows, columns] = part.rewards
    runs.pulls[rows, columns] = part.pulls
    if part.pairs is not None:
        runs.interactions[rows] = part.pairs
    if runs.totals is not None and runs.luck is not None:
        runs.totals[rows, columns] = part.totals
        runs.luck[rows, columns] = part.luck


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


def _empty_runs(whole: _Task) -> Runs:
    shape = (len(whole.replications), len(whole.policies), whole.checkpoints.size)
    by_arm = (*shape, whole.experiment.n_arms)
    return Runs(
        whole.experiment,
        whole.checkpoints,
        np.empty(shape),
        np.empty(by_arm, np.int64),
        np.empty((shape[0], shape[2]), np.int64),
        whole.environment,
        whole.replications.start,
        np.empty(by_arm) if whole.detail else None,
        np.empty(shape) if whole.detail else None,
    )


def _counted(runs: Runs) -> Runs:
    """Fill in the real interactions where they follow from the pull counts."""
    if not runs.experiment.design.timed:
        runs.interactions[:] = runs.experiment.design.interactions(runs.pulls)
    return runs


def _compile(experiment: Experiment, environment: Environment, *, in_full: bool) -> None:
    # Here rather than in the threads, which would wait for one another, and to say what takes so long.
    nothing = np.array([experiment.horizon])
    for name, policy in experiment.policies.items():
        kind = text_forms.name_of(type(policy))
        how = ", period by period," if in_full else ""
        what = f"compiling {kind} with {text_forms.name_of(type(environment))}{how} for this machine (once)"
        with _announced(what):
            runner = PolicyRunner(experiment, environment, name)
            runner.run(range(0), nothing, empty_trajectory(0) if in_full else None)


@contextmanager
def _announced(what: str) -> Iterator[None]:
    # A warning, because that is what reaches the terminal when nobody has set up logging.
    timer = threading.Timer(0.5, log.warning, [f"sameluck: {what} ..."])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def checked_environment(experiment: Experiment, environment: Environment) -> Any:
    """The environment in one form, or a message that says what does not fit the experiment."""
    if not isinstance(experiment, Experiment):
        raise Invalid(f"the first argument must be an Experiment, got {experiment!r}")
    environment = as_environment(environment)
    environment.check(experiment.n_arms)
    for name, policy in experiment.policies.items():
        if isinstance(policy, External):
            raise Invalid(
                f"policy {name!r} is {text_forms.write(policy)}, an object that only a live experiment runs; to "
                "simulate it, write it as a select body (sameluck.selects)"
            )
        if getattr(policy, "needs_binary", False) and not environment.binary:
            raise Invalid(
                f"policy {name!r} ({text_forms.write(policy)}) needs rewards 0 and 1, but {_short(environment)} "
                "pays others; use a policy for real-valued rewards, such as thompson_gaussian"
            )
    return environment


def _short(environment: Environment) -> str:
    text = text_forms.write(environment)
    return text if len(text) <= 80 else text[:77] + "..."


def _checked_workers(workers: int | None) -> int:
    if workers is None:
        return (
            len(os.sched_getaffinity(0))
            if hasattr(os, "sched_getaffinity")
            else os.cpu_count() or 1
        )
    whole = isinstance(workers, int | np.integer) and not isinstance(workers, bool)
    if not (whole and workers >= 1):
        raise Invalid(f"workers must be a whole number >= 1, got {workers!r}")
    return min(workers, 1024)


def _checked_replications(experiment: Experiment, replications: range | None) -> range:
    if replications is None:
        return range(experiment.replications)
    inside = (
        isinstance(replications, range)
        and replications.step == 1
        and 0 <= replications.start < replications.stop <= experiment.replications
    )
    if not inside:
        raise Invalid(
            f"replications must be a range of steps of 1 within 0..{experiment.replications:,} (the experiment's), "
            f"got {replications!r}"
        )
    return replications


def refuse_too_large(
    experiment: Experiment, replications: int, checkpoints: Ints, *, detail: bool = False
) -> None:
    """Raise `TooLarge` with an estimate if the results would not fit into this machine's memory."""
    policies, arms = len(experiment.policies), experiment.n_arms
    cells = replications * policies * checkpoints.size
    results = 8 * cells * (arms + 2) * (2 if detail else 1)
    tables = 64 * experiment.horizon * (policies if experiment.design.timed else 1)
    needed, there = results + tables, _available_memory()
    if needed > there:
        raise TooLarge(
            f"this would need about {needed / 2**30:,.1f} GiB, and {there / 2**30:,.1f} GiB are free: "
            f"{replications:,} replications x {policies} policies x {checkpoints.size} "
            f"checkpoints x {arms} arms, horizon {experiment.horizon:,}; ask for fewer of them"
        )


def _available_memory() -> int:
    try:
        with open("/proc/meminfo") as lines:
            values = dict(line.split(":") for line in lines)
        return int(values["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return 1 << 40
