"""The effects on draws of the arms whose likelihood is not known, each simulated on the luck of the long run."""

from __future__ import annotations

import math

import numpy as np

from sameluck.arrays import Floats
from sameluck.inference.twins.intervals import CopiedEffect, copied_effect
from sameluck.inference.twins.long_run import LongRun


class EffectsOnSharedLuck:
    """Sums over simulations on draws of the arms, of each difference less the long run's on the same luck.

    What is summed differs from the differences by a number of each replication, which leaves the mean square of the
    interaction as it is.
    """

    def __init__(self, long: LongRun, draws: int) -> None:
        self.copies, self.long = long.copies, long
        self.environments = long.copy.draws(draws, long.copies.generator(2))
        shape = len(long.copies.pairs), long.copies.checkpoints.size
        self.sums = np.zeros((draws, *shape))
        self.squares = np.zeros(shape)
        self.shared = np.empty((0, *shape))  # of each replication, the mean over the draws

    def extend(self, count: int) -> None:
        """Simulate so many more replications on every draw, up to those of the long run."""
        first = len(self.shared)
        star = self.long.some_stars(first, count)
        shared = np.zeros_like(star)
        some = range(first, first + len(star))
        runs = self.copies.run_each([(one, some) for one in self.environments if some])
        for draw, values in enumerate(map(self.copies.differences, runs)):
            apart = values - star
            self.sums[draw] += apart.sum(axis=0)
            self.squares += (apart**2).sum(axis=0)
            shared += apart
        self.shared = np.concatenate([self.shared, shared / len(self.environments)])

    def effects(self, level: float) -> list[list[CopiedEffect]]:
        """The effect on the copy and its interval, of each pair at each checkpoint."""
        many, count = len(self.environments), len(self.shared)
        means = self.sums / count
        centre = means.mean(axis=0)
        residual = (
            self.squares
            - count * (means**2).sum(axis=0)
            - many * (self.shared**2).sum(axis=0)
            + many * count * centre**2
        )
        interaction = np.maximum(residual, 0) / ((many - 1) * (count - 1))
        return [
            [
                shrunk_effect(
                    star,
                    means[:, pair, at],
                    self.shared[:, pair, at],
                    float(interaction[pair, at]),
                    level,
                )
                for at, star in enumerate(self.long.star(pair).T)
            ]
            for pair in range(means.shape[1])
        ]


def shrunk_effect(
    star: Floats, effects: Floats, shared: Floats, interaction: float, level: float
) -> CopiedEffect:
    """The interval of the effect from simulations on draws of the arms, all on the luck of the long run.

    Args:
        star: The differences of the long run on the copy (R0,).
        effects: The mean difference on each draw, less that of the long run on the same replications (B,).
        shared: The mean over the draws of each replication's difference, less the long run's (R1,).
        interaction: The mean square of what neither the draw nor the replication explains.
        level: Of the interval.

    The variance of the draws' means has a part due to simulation, interaction / R1, which is taken out by drawing
    them together around their mean; at most half of the variance, because the difference of two larger numbers that
    are nearly equal may come out far too small.
    """
    variance = float(effects.var(ddof=1))
    kept = max(variance / 2, variance - interaction / shared.size)
    shrunk = (effects - effects.mean()) * (math.sqrt(kept / variance) if variance else 0.0)
    error = math.sqrt(shared.var(ddof=1) / shared.size + star.var(ddof=1) / star.size)
    return copied_effect(star.mean() + effects.mean() + shrunk, (error, error), level)
