"""The effects on draws of the arms whose likelihood is not known, each simulated on the luck of the long run."""

from __future__ import annotations

import numpy as np

from sameluck.inference.twins.intervals import CopiedEffect, copied_effect_of_each
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
        residual = (  # of what neither the draw nor the replication explains
            self.squares
            - count * (means**2).sum(axis=0)
            - many * (self.shared**2).sum(axis=0)
            + many * count * centre**2
        )
        noise = np.maximum(residual, 0) / ((many - 1) * (count - 1) * count)
        centres, variances = self.long.moments_of_stars()
        errors = np.sqrt(self.shared.var(axis=0, ddof=1) / count + variances)
        return copied_effect_of_each(centres + means, noise, np.stack([errors, errors]), level)
