"""Arms whose means move with the period: sums of the means over time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sameluck.arrays import Floats, Ints
from sameluck.environments.base import Environment
from sameluck.environments.moving import Moving

_PERIODS = 1 << 16  # whose means are held at once


def best_means(environment: Environment, checkpoints: Ints) -> Floats:
    """What the best arm of every period pays on average, summed up to each checkpoint."""
    return _summed(environment, checkpoints, lambda means: means.max(axis=1))


def mean_ranges(environment: Environment, checkpoints: Ints) -> Floats:
    """By how much the best arm of every period exceeds the worst on average, summed up to each checkpoint."""
    return _summed(environment, checkpoints, lambda means: np.ptp(means, axis=1))


def _summed(environment: Environment, checkpoints: Ints, of: Callable[[Floats], Floats]) -> Floats:
    assert isinstance(environment, Moving)
    sums, total, start = np.empty(checkpoints.size), 0.0, 1
    for place, checkpoint in enumerate(checkpoints.tolist()):
        for first in range(start, checkpoint + 1, _PERIODS):
            times = range(first, min(first + _PERIODS, checkpoint + 1))
            total += float(of(environment.means_at(times)).sum())
        sums[place], start = total, checkpoint + 1
    return sums
