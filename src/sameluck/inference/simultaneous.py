"""Intervals of several means that hold together, from the distribution of the largest t among them."""

from __future__ import annotations

import math

import numpy as np
import scipy

from sameluck.arrays import Floats
from sameluck.intervals import UNKNOWN, Interval, standard_error, t_critical

ROTATIONS = 40_000  # the Monte Carlo error of a 95% level is 0.1%
MAX_EXACT_COMPARISONS = 100  # with more, fewer rotations and a smaller basis save time
FEWER_ROTATIONS = 10_000  # for more comparisons: 0.2%


def max_t_intervals(columns: Floats, level: float) -> list[Interval]:
    """Return simultaneous t intervals of the columns' means, with adjusted p-values; axes (replication, comparison).

    Both come from the distribution of the largest |t| of all columns. For normal data, rotating the replications does
    not change that distribution, so it is sampled by random rotations of the residuals (rotation tests; Langsrud,
    2005): columns keep their scales and correlations. Bonferroni's bound is used where it is sharper, and a column's
    own t where the rotations fall below it by chance. A column of equal values has no interval.
    """
    count, comparisons = columns.shape
    errors = standard_error(columns)
    largest = _largest_rotated_t(columns[:, errors > 0], level)
    bonferroni = t_critical(count - 1, 1 - (1 - level) / comparisons)
    rotated = float(largest[math.ceil(level * largest.size) - 1])
    critical = max(t_critical(count - 1, level), min(bonferroni, rotated))

    def interval(mean: float, error: float) -> Interval:
        if error == 0:
            return UNKNOWN
        statistic = abs(mean) / error
        above = max(1, largest.size - int(np.searchsorted(largest, statistic)))
        alone = 2 * float(scipy.special.stdtr(count - 1, -statistic))
        p_value = max(alone, min(comparisons * alone, above / largest.size))
        return Interval(mean - critical * error, mean + critical * error, p_value)

    return [interval(float(m), float(e)) for m, e in zip(columns.mean(axis=0), errors, strict=True)]


def t_p_values(columns: Floats) -> list[float]:
    """Return the p-value of each column's t interval alone; 1 for a column of equal values."""
    errors = standard_error(columns)
    with np.errstate(divide="ignore", invalid="ignore"):
        statistics = np.abs(columns.mean(axis=0)) / errors
    p_values = np.where(errors > 0, 2 * scipy.special.stdtr(len(columns) - 1, -statistics), 1.0)
    return [float(p_value) for p_value in p_values]


def one_sided_level(level: float, comparisons: int) -> float:
    """Return the level of two-sided intervals whose upper (or lower) ends hold together with `level`.

    An interval that is symmetric about the mean misses equally often on each side.
    """
    return max(0.01, 1 - 2 * (1 - level) / comparisons)


def one_sided_max_t(values: Floats, level: float) -> float:
    """Return the quantile of the columns' largest t, for lower bounds of their means that hold together."""
    count, comparisons = values.shape
    largest = _largest_rotated_t(values[:, standard_error(values) > 0], level, one_sided=True)
    alone, bonferroni = scipy.special.stdtrit(count - 1, [level, 1 - (1 - level) / comparisons])
    rotated = largest[math.ceil(level * largest.size) - 1]
    return float(max(alone, min(bonferroni, rotated)))


def _largest_rotated_t(values: Floats, level: float, *, one_sided: bool = False) -> Floats:
    """Return the columns' largest t (or |t|) under random rotations of the replications, in ascending order."""
    count, comparisons = values.shape
    rotations = ROTATIONS if comparisons <= MAX_EXACT_COMPARISONS else FEWER_ROTATIONS
    if comparisons == 0 or (1 - level) * rotations < 100:
        return np.full(1, math.inf)  # too few rotations for this level: Bonferroni's bound remains
    residuals = values - values.mean(axis=0)
    residuals /= np.sqrt(np.sum(residuals**2, axis=0))
    factor = _span_coordinates(residuals)
    # A fixed seed: the same runs give the same interval.
    rank, rng = factor.shape[0], np.random.Generator(np.random.PCG64(20_240_301))
    cosines = np.empty(rotations)
    step = max(1, 200_000 // comparisons)  # rotations at once, for bounded memory
    for start in range(0, rotations, step):
        rows = min(step, rotations - start)
        direction = rng.standard_normal((rows, rank))
        squares = np.sum(direction**2, axis=1)
        # The components outside the span matter by their length alone, which is chi-square.
        if count > rank:
            squares += rng.chisquare(count - rank, rows)
        products = direction @ factor
        largest = (products if one_sided else np.abs(products, out=products)).max(axis=1)
        cosines[start : start + rows] = largest / np.sqrt(squares)
    cosines.sort()
    # The cosine between a column and the rotated direction gives the column's t statistic.
    return cosines * math.sqrt(count - 1) / np.sqrt(1 - np.minimum(cosines**2, 1 - 1e-15))


def _span_coordinates(columns: Floats) -> Floats:
    """Return the columns in an orthonormal basis of their span (direction, column).

    A rotation moves a fixed direction to a uniform one, and only its component in this span matters. Many columns
    have a small span: the differences of N policies have rank N - 1.
    """
    rows, count = columns.shape
    if count <= MAX_EXACT_COMPARISONS:
        return np.linalg.qr(columns, mode="r")  # type: ignore[return-value]  # an array, in this mode
    # The smaller of the two Gram matrices has the same nonzero eigenvalues.
    tall = rows > count
    squares, vectors = np.linalg.eigh(columns.T @ columns if tall else columns @ columns.T)
    kept = squares > 1e-10 * squares[-1]
    if tall:
        return np.sqrt(squares[kept])[:, None] * vectors[:, kept].T
    return vectors[:, kept].T @ columns
