"""The effects on draws of the arms, on the luck of the long run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sameluck.arrays import Floats
from sameluck.environments.base import Environment
from sameluck.inference.twins.intervals import CopiedEffect, copied_effect
from sameluck.inference.twins.long_run import LongRun
from sameluck.inference.twins.simulations import Copies, Effort


class DrawnEffects:
    """Sums over simulations on draws of the arms, of each difference less the long run's on the same luck.

    What is summed differs from the differences by a number of each replication, which leaves the mean square of the
    interaction as it is.
    """

    def __init__(self, copies: Copies, environments: Sequence[Environment], star: Floats) -> None:
        self.copies, self.environments = copies, environments
        shape = star.shape[1:]
        self.sums = np.zeros((len(environments), *shape))
        self.squares = np.zeros(shape)
        self.shared = np.empty((0, *shape))  # of each replication, the mean over the draws

    def extend(self, star: Floats, until: int) -> None:
        """Simulate the replications up to this one on every draw."""
        first = len(self.shared)
        shared = np.zeros((until - first, *self.squares.shape))
        runs = self.copies.run_each(self.environments, range(first, until))
        for draw, values in enumerate(runs):
            apart = values - star[first:until]
            self.sums[draw] += apart.sum(axis=0)
            self.squares += (apart**2).sum(axis=0)
            shared += apart
        self.shared = np.concatenate([self.shared, shared / len(self.environments)])

    def effects(self, star: Floats, level: float) -> list[list[CopiedEffect]]:
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
                copied_effect(
                    star[:, pair, at],
                    means[:, pair, at],
                    self.shared[:, pair, at],
                    float(interaction[pair, at]),
                    level,
                )
                for at in range(star.shape[2])
            ]
            for pair in range(star.shape[1])
        ]


def drawn_effects(
    long: LongRun, effort: Effort, level: float
) -> tuple[LongRun, list[list[CopiedEffect]]]:
    """The effects on draws of the arms; simulates more where the simulation's error is not small."""
    star = long.star
    environments = long.copy.draws(effort.draws, long.copies.generator(2))
    drawn = DrawnEffects(long.copies, environments, star)
    drawn.extend(star, min(effort.draw_replications, len(star)))
    results = drawn.effects(star, level)
    for _ in range(effort.raises):
        worst = max((row[-1] for row in results), key=_imprecision)
        if worst.is_precise:
            break
        if worst.long_run_variance > worst.draws_variance:
            long.copies.expect(len(star))
            long = long.extended()
            star = long.star
        else:
            long.copies.expect(len(drawn.shared) * effort.draws)
            drawn.extend(star, min(2 * len(drawn.shared), len(star)))
        results = drawn.effects(star, level)
    return long, results


def _imprecision(effect: CopiedEffect) -> float:
    width = effect.interval.high - effect.interval.low
    return effect.error / width if width else 0.0
