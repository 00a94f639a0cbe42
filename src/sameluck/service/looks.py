"""Looks: computations for viewers, each made once for all who wait, and comparisons, each computed once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar

from anyio import CapacityLimiter, to_thread

from sameluck.inference import Comparison, compare
from sameluck.live.experiment import LiveExperiment
from sameluck.runs import Runs

T = TypeVar("T")

MAX_COMPARISONS = 100  # of all experiments together

# What determines a comparison: experiment, definition, complete replications, checkpoints and arguments.
ComparisonKey: TypeAlias = tuple[int, str, int, tuple[int, ...], str]


class Looks:
    """Computations in a few threads of their own, the same computation one at a time.

    A viewer joins a computation that has not begun, and never one that has: its result would not show what the
    viewer's own calls have changed since.
    """

    def __init__(self, threads: int) -> None:
        self._threads = CapacityLimiter(threads)
        self._turns = asyncio.Semaphore(threads)
        self._waiting: dict[Hashable, asyncio.Task[Any]] = {}
        self._running: dict[Hashable, asyncio.Task[Any]] = {}

    async def make(self, key: Hashable, work: Callable[[], T]) -> T:
        """Return the result of work in a thread; all who wait for the key share it."""
        if key not in self._waiting:
            self._waiting[key] = asyncio.create_task(self._make(key, work))
            self._waiting[key].add_done_callback(_retrieve)
        # The shield keeps a viewer who leaves from cancelling the computation of the others.
        return await asyncio.shield(self._waiting[key])

    async def _make(self, key: Hashable, work: Callable[[], T]) -> T:
        if key in self._running:
            await asyncio.wait([self._running[key]])
        async with self._turns:
            self._running[key] = self._waiting.pop(key)
            try:
                return await to_thread.run_sync(work, limiter=self._threads, abandon_on_cancel=True)
            finally:
                del self._running[key]


def _retrieve(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()  # or asyncio would log it after every viewer has left


class ComparisonCache:
    """Comparisons that were used last. Complete replications never change, so that no comparison gets stale."""

    def __init__(self) -> None:
        self._comparisons: dict[ComparisonKey, Comparison] = {}

    def compare(self, live: LiveExperiment, runs: Runs, options: Mapping[str, Any]) -> Comparison:
        """Return what `sl.compare` returns for the runs of an experiment, with the notes of these runs."""
        checkpoints = tuple(runs.checkpoints.tolist())
        arguments = repr(sorted(options.items()))
        key = live.id, runs.experiment.digest, runs.replications, checkpoints, arguments
        # Threads share the cache. `pop` and assignment are atomic; at worst a comparison is computed twice.
        result = self._comparisons.pop(key, None)
        if result is None:
            result = compare(runs, **options)
        self._comparisons[key] = result  # at the end, since the first is dropped first
        while len(self._comparisons) > MAX_COMPARISONS:
            self._comparisons.pop(next(iter(self._comparisons)), None)
        return replace(result, runs=runs)
