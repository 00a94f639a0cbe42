"""The smallest and largest effect over a set of arms, by simulating points of the set."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from sameluck.arrays import Floats
from sameluck.environments.base import Environment
from sameluck.inference.twins.long_run import LongRun
from sameluck.runs import Runs

SETTLED = 16  # times as many replications at the ends that were found,
MOST_SETTLED = 8  # if these are at most so many


class Extremes:
    """The smallest and largest effect met so far, of each pair at each checkpoint, and where.

    A point is a row of coordinates, and 0 stands for the arms as they were observed.
    """

    def __init__(
        self,
        long: LongRun,
        coordinates: int,
        environments: Callable[[Floats], Sequence[Environment]],
    ) -> None:
        self.long, self.environments = long, environments
        self.centre, self._square_error = long.moments_of_stars()
        self.low, self.high = self.centre.copy(), self.centre.copy()
        self.lowest = np.zeros((*self.low.shape, coordinates))
        self.highest = np.zeros((*self.low.shape, coordinates))

    def visit(self, points: Floats, count: int) -> Floats:
        """Simulate some replications at each point; the effects (point, pair, checkpoint)."""
        effects = np.empty((len(points), *self.low.shape))
        for row, (point, runs) in enumerate(zip(points, self.runs(points, count), strict=True)):
            effects[row] = effect = self._apart(runs).mean(axis=0) + self.centre
            lower, higher = effect < self.low, effect > self.high
            self.low[lower], self.lowest[lower] = effect[lower], point
            self.high[higher], self.highest[higher] = effect[higher], point
        return effects

    def settle(self, count: int, margin: float) -> None:
        """Simulate the ends again, longer, and move them outward by their standard errors."""
        ends = np.stack([self.lowest, self.highest])  # (end, pair, checkpoint, coordinate)
        points, places = np.unique(ends.reshape(-1, ends.shape[-1]), axis=0, return_inverse=True)
        lowest_at, highest_at = places.reshape(ends.shape[:-1])
        count = max(2, SETTLED * count * MOST_SETTLED // max(MOST_SETTLED, len(points)))
        count = min(self.long.runs.replications, count)
        error = margin * np.sqrt(self._square_error)
        self.low, self.high = self.centre - error, self.centre + error
        for row, runs in enumerate(self.runs(points, count)):
            effect, error = self._estimate(runs)
            lower = np.minimum(self.low, effect - margin * error)
            higher = np.maximum(self.high, effect + margin * error)
            self.low = np.where(lowest_at == row, lower, self.low)
            self.high = np.where(highest_at == row, higher, self.high)

    def include(self, effect: float) -> None:
        """Move the ends outward to an effect that is known to be possible."""
        self.low, self.high = np.minimum(self.low, effect), np.maximum(self.high, effect)

    def runs(self, points: Floats, count: int) -> Iterator[Runs]:
        """Some replications at each point."""
        places = [(one, range(count)) for one in self.environments(points)]
        return self.long.copies.run_each(places)

    def _apart(self, runs: Runs) -> Floats:
        """The differences less those of the long run on the same luck."""
        return self.long.copies.differences(runs) - self.long.some_stars(0, runs.replications)

    def _estimate(self, runs: Runs) -> tuple[Floats, Floats]:
        """The effects at a point and their standard errors, with or without the long run, as is more precise."""
        values, apart = self.long.copies.differences(runs), self._apart(runs)
        effects = np.stack([values.mean(axis=0), apart.mean(axis=0) + self.centre])
        squares = np.stack([_square_error(values), _square_error(apart) + self._square_error])
        best = squares.argmin(axis=0)[None]
        effect, square = (np.take_along_axis(one, best, 0)[0] for one in (effects, squares))
        return effect, np.sqrt(square)


def _square_error(values: Floats) -> Floats:
    """Of the mean over replications."""
    return values.var(axis=0, ddof=1) / len(values)
