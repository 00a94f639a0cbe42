"""Arms that move with the period: what is no longer true of simulated runs, and sums of their means over time."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from sameluck import text_forms
from sameluck.arrays import Floats, Ints
from sameluck.environments.base import Environment
from sameluck.environments.moving import Moving

_PERIODS = 1 << 16  # whose means are held at once


def movement_cautions(environment: Environment | None) -> Iterator[str]:
    """A sentence if the arms of a simulation move."""
    if environment is not None and environment.is_moving:
        yield (
            f"The rewards of an arm are not i.i.d.: the {text_forms.name_of(type(environment))} environment changes "
            "them with the period. Each policy still has the law it has alone, and replications are independent: "
            "effects, intervals and p-values hold for this course of the rewards. What falls: replay, twins, "
            "pseudo-regret and the share of the best arm, as no arm has one mean, and every conclusion about another "
            "course or horizon."
        )


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
