"""Sums along the shared reward stacks: S of the paper, the centred sum of an arm's first n rewards."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sameluck.arrays import Floats
from sameluck.compiled import compiled
from sameluck.environments.base import draw
from sameluck.experiment import Experiment
from sameluck.randomness.streams import EVERYBODY, REWARD, stream, within, word


def centred_sums(
    experiment: Experiment, environment: Any, means: Floats, counts: NDArray[np.int64]
) -> Floats:
    """S at each count of `counts` (replication, stop, arm), read from the stacks everybody shares."""
    replications = range(counts.shape[0])
    law = environment.laws(experiment.seed, replications, experiment.n_arms)
    sums = np.empty(counts.shape)
    _sum_stacks(law, np.uint64(experiment.seed), np.ascontiguousarray(counts), sums)
    return np.asarray(sums - counts * means)


@compiled
def _sum_stacks(law, seed, counts, sums):  # type: ignore[no-untyped-def]
    for row in range(counts.shape[0]):
        key = stream(seed, REWARD, row, EVERYBODY)
        for arm in range(counts.shape[2]):
            stack = within(key, arm)
            for stop in range(counts.shape[1]):
                total = 0.0
                for position in range(counts[row, stop, arm]):
                    total += draw(law, row, arm, word(stack, position))
                sums[row, stop, arm] = total
