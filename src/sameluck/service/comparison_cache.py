"""`ComparisonCache`: comparisons of complete replications, each computed once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from sameluck.inference import Comparison, compare
from sameluck.live.experiment import LiveExperiment
from sameluck.runs import Runs

MAX_COMPARISONS = 100  # of all experiments together

# What determines a comparison: experiment, definition, complete replications, checkpoints and arguments.
Key: TypeAlias = tuple[int, str, int, tuple[int, ...], str]


class ComparisonCache:
    """Comparisons that were used last. Complete replications never change, so that no comparison gets stale."""

    def __init__(self) -> None:
        self._comparisons: dict[Key, Comparison] = {}

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
