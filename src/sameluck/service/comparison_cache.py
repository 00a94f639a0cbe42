"""`ComparisonCache`: results that are computed once, however many ask for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from sameluck.inference import Comparison, compare
from sameluck.live.experiment import LiveExperiment
from sameluck.runs import Runs

MOST = 100  # that are kept

# What a comparison is computed from: the definition, the complete prefix, the checkpoints, and the arguments.
Key: TypeAlias = tuple[str, int, tuple[int, ...], str]


class ComparisonCache:
    """The last comparisons of each experiment; a complete prefix never changes, so that its comparison is kept."""

    def __init__(self) -> None:
        self._kept: dict[tuple[int, Key], Comparison] = {}

    def compare(self, live: LiveExperiment, runs: Runs, options: Mapping[str, Any]) -> Comparison:
        """What `sl.compare` returns for the runs of an experiment; its cautions are those of the moment."""
        checkpoints = tuple(runs.checkpoints.tolist())
        key = runs.experiment.digest, runs.replications, checkpoints, repr(sorted(options.items()))
        place = live._id, key
        result = self._kept.pop(place, None)
        if result is None:
            result = compare(runs, **options)
        self._kept[place] = result  # the last that was used is the last to go
        while len(self._kept) > MOST:
            self._kept.pop(next(iter(self._kept)), None)
        return replace(result, runs=runs)
