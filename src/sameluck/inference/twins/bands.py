"""Bands of distribution functions that contain those of bounded rewards at every look, and the ends of the effect.

The first n rewards of an arm leave the band F_n -+ sqrt(ln(2 n (n + 1) / a) / (2 n)) with a probability of at most
a / (n (n + 1)), by the inequality of Dvoretzky, Kiefer and Wolfowitz with Massart's constant (1990). These sum to a
over all n, and a = alpha / K for K arms. So the laws of all arms are in their bands at every look with probability
1 - alpha, whatever policies pull the arms.

A band is the laws whose quantile functions lie between two, which the bounds of the rewards complete. An effect that
depends on an arm through its mean and variance has its ends where the quantile function is at one edge of the band up
to some quantile, and at the other from there on: of these the search tries many.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sameluck.arrays import Floats
from sameluck.environments.base import LIMITS
from sameluck.environments.empirical import Empirical
from sameluck.errors import Invalid, shown
from sameluck.inference.twins.extremes import Extremes
from sameluck.inference.twins.observed_rewards import observed_stacks
from sameluck.runs import Runs
from sameluck.simulation.preconditions import checked_environment
from sameluck.validation import is_listed, require_number

Bounds = tuple[float, float]  # of a reward

CELLS = 1_000  # of a quantile function
SHARP = 1e6  # a tilt after which a quantile function is at one of the edges of the band
SHAPES = np.array([(1.0, 0.0), (-1.0, 0.0), (0.0, SHARP), (0.0, -SHARP), (0.0, 0.0)])
MIXED = 24  # points where the arms have shapes at random
ROUNDS = 3  # of changes to the best points
STEPS = 20  # changes of each round, for each end
REFINED_PAIRS = 4


class Bands(NamedTuple):
    """Quantile functions of each arm in equal cells of probability: the lowest, the observed and the highest."""

    low: Floats  # (arm, cell)
    observed: Floats
    high: Floats

    def environments(self, points: Floats) -> list[Empirical]:
        """The arms at points of a shift and a tilt of each arm (point, 2 * arm).

        At quantile u a law is shift + tilt (2 u - 1) of the way to the upper edge, or to the lower edge if negative.
        """
        shift, tilt = np.moveaxis(points.reshape(len(points), -1, 2, 1), 2, 0)
        place = (2 * np.arange(CELLS) + 1) / CELLS - 1
        part = np.clip(shift + tilt * place, -1, 1)
        room = np.where(part > 0, self.high - self.observed, self.observed - self.low)
        values = np.clip(self.observed + part * room, self.low, self.high)  # despite rounding
        values = np.maximum.accumulate(values, axis=-1)
        return [Empirical(tuple(arms)) for arms in values]

    @property
    def has_equal_arms(self) -> bool:
        """Whether all arms may have the same mean."""
        return bool(self.low.mean(axis=1).max() <= self.high.mean(axis=1).min())


def check_bounds(bounds: Bounds, runs: Runs, family: str | None) -> None:
    """Raise `Invalid` unless the bounds are two numbers in their order, with all rewards between them.

    Every policy must take rewards at the bounds, which laws of the band have. Rewards that are 0 and 1 so far are not
    taken for those of Bernoulli arms where the bounds allow others.
    """
    if not is_listed(bounds) or len(bounds) != 2:
        raise Invalid(
            f"bounds must be the smallest and the largest possible reward, got {shown(bounds)}"
        )
    for at, one in enumerate(bounds):
        require_number(f"bounds[{at}]", one, **LIMITS)
    low, high = map(float, bounds)
    if low >= high:
        raise Invalid(f"bounds[0] must be below bounds[1], got {low:g} and {high:g}")
    stacks = observed_stacks(runs)
    family = family or ("bernoulli" if stacks.binary and (low, high) == (0, 1) else "empirical")
    if family != "empirical":
        raise Invalid(
            "bounds are for arms copied as their observed values, and these are copied by the family "
            f'{family}; leave bounds out, or give family="empirical"'
        )
    checked_environment(runs.experiment, Empirical([(low, high)] * runs.experiment.n_arms))
    for name, rewards in zip(runs.experiment.arm_names, stacks.by_arm(), strict=True):
        outside = rewards[(rewards < low) | (rewards > high)]
        if outside.size:
            raise Invalid(
                f"arm {name} has a reward of {outside[0]:g}, which is not within the bounds {low:g} and {high:g}; "
                "give those of every possible reward, or none"
            )


def half_width(count: int, alpha: float) -> float:
    """Of the band of so many rewards; any of the bands of one arm is left with probability at most alpha."""
    return math.sqrt(math.log(2 * count * (count + 1) / alpha) / (2 * count))


def bands_of(values: Sequence[Floats], bounds: Bounds, level: float) -> Bands:
    """The bands of all arms, from their rewards in ascending order."""
    each = [_band(one, bounds, half_width(one.size, (1 - level) / len(values))) for one in values]
    return Bands(*np.array(each).transpose(1, 0, 2))


def _band(values: Floats, bounds: Bounds, width: float) -> tuple[Floats, Floats, Floats]:
    """The edges are those of the end of each cell that is farther outside."""
    cells = np.arange(CELLS)
    low = _quantiles(values, cells / CELLS - width, bounds)
    high = _quantiles(values, (cells + 1) / CELLS + width, bounds)
    return low, _quantiles(values, (cells + 0.5) / CELLS, bounds), high


def _quantiles(values: Floats, places: Floats, bounds: Bounds) -> Floats:
    """The smallest value whose distribution function is at least that; a bound beyond 0 and 1."""
    ranks = np.ceil(values.size * places).astype(np.int64)
    found = values[np.clip(ranks, 1, values.size) - 1]
    return np.where(ranks < 1, bounds[0], np.where(ranks > values.size, bounds[1], found))


class BandSearch:
    """Looks for the ends of the effect over the bands."""

    def __init__(self, extremes: Extremes, arms: int) -> None:
        self.extremes, self.arms = extremes, arms

    @staticmethod
    def points(arms: int, pairs: int) -> int:
        """How many points are simulated."""
        ends = 2 * min(pairs, REFINED_PAIRS)
        return arms * (len(SHAPES) - 1) + 2 + MIXED + ends + ROUNDS * STEPS * ends

    def run(self, count: int, generator: np.random.Generator) -> None:
        """Visit points where one arm or all have a shape, the best of these together, and changes of the best."""
        alone = np.einsum("ab,sc->asbc", np.eye(self.arms), SHAPES[:-1])
        together = np.tile(SHAPES[:2], self.arms).reshape(2, self.arms, 2)
        mixed = SHAPES[generator.integers(len(SHAPES), size=(MIXED, self.arms))]
        effects = self._visit(alone.reshape(-1, self.arms, 2), count)
        gains = (effects - self.extremes.centre)[:, :REFINED_PAIRS, -1]
        self._visit(np.concatenate([self._best(gains), self._best(-gains), together, mixed]), count)
        for _ in range(ROUNDS):
            self._visit(self._changed(generator), count)

    def _best(self, gains: Floats) -> Floats:
        """For each pair the shape of every arm that alone gains most (pair, arm, 2)."""
        each = gains.reshape(self.arms, len(SHAPES) - 1, -1)
        padded = np.concatenate([each, np.zeros_like(each[:, :1])], axis=1)
        return SHAPES[padded.argmax(axis=1)].transpose(1, 0, 2)

    def _changed(self, generator: np.random.Generator) -> Floats:
        """The best points with one arm changed (point, arm, 2): to a shape, or to one with its cut anywhere."""
        lowest, highest = self.extremes.lowest, self.extremes.highest
        best = np.concatenate([lowest[:REFINED_PAIRS, -1], highest[:REFINED_PAIRS, -1]])
        points = np.repeat(best, STEPS, axis=0).reshape(-1, self.arms, 2)
        shapes = SHAPES[generator.integers(len(SHAPES), size=len(points))]
        cuts = SHARP * generator.uniform(-1, 1, (len(points), 2))
        given = (generator.random(len(points)) < 0.5)[:, None]
        points[np.arange(len(points)), generator.integers(self.arms, size=len(points))] = np.where(
            given, shapes, cuts
        )
        return points

    def _visit(self, points: Floats, count: int) -> Floats:
        return self.extremes.visit(points.reshape(len(points), -1), count)
