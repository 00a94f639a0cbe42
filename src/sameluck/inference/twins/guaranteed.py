"""Intervals of the effect that hold at every look, for all pairs and horizons at once.

A set of arms that contains the true ones at every look with probability 1 - alpha, whatever policies pull them: of
means where rewards are 0 and 1, of distribution functions where rewards have bounds. The effect is a function of the
arms, so its range over the set contains the true effect of every pair at every horizon, up to the errors of the
simulation and of the search for the ends.
"""

from __future__ import annotations

from sameluck.inference.twins.bernoulli_confidence_set import BallSearch, means_ball
from sameluck.inference.twins.copies import BernoulliCopy
from sameluck.inference.twins.extremes import MOST_SETTLED, SETTLED, Extremes
from sameluck.inference.twins.intervals import quantile
from sameluck.inference.twins.long_run import LongRun
from sameluck.inference.twins.records import Guaranteed


def points_visited(arms: int, pairs: int) -> int:
    """About how many points are simulated to find the ends, those of longer simulations more than once."""
    return BallSearch.points(arms, pairs) + SETTLED * min(MOST_SETTLED, 2 * pairs)


def guaranteed_intervals(long: LongRun, count: int, level: float) -> tuple[Guaranteed, ...]:
    """The range of the effect over a set of arms, from `count` replications at each of many points.

    The set is of means for rewards 0 and 1, and of distribution functions for others with bounds; none without. The
    ends are moved outward by the simulation's error. Where all arms may have the same mean, all policies may earn the
    same: 0 is then in the interval, though the search seldom meets such arms exactly.
    """
    arms = long.observed.experiment.n_arms
    if not isinstance(long.copy, BernoulliCopy):
        return ()
    possible = means_ball(long.copy, level)
    extremes = Extremes(long, arms, possible.environments)
    BallSearch(extremes, possible).run(count, long.copies.generator(3))
    extremes.settle(count, quantile(level))
    if possible.has_equal_arms:
        extremes.include(0.0)
    return tuple(
        Guaranteed(*pair, int(checkpoint), float(low), float(high), level)
        for pair, lows, highs in zip(long.copies.pairs, extremes.low, extremes.high, strict=True)
        for checkpoint, low, high in zip(long.copies.checkpoints, lows, highs, strict=True)
    )
