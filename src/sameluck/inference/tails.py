"""Intervals of quantiles over replications and of the mean of the worst tenth, and of their differences."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy

from sameluck.arrays import Bools, Floats, Ints
from sameluck.inference.metrics import Metric, tail_size
from sameluck.intervals import UNKNOWN, Interval, standard_error, student_interval, varies

LEVEL_OF_ONE_SD = 0.6826894921370859  # one standard error to each side


class _Ranks(NamedTuple):
    """Order statistics that bound a quantile, for every error probability at which they change, descending."""

    errors: Floats
    low: Ints  # from 1; 0: no bound
    high: Ints  # above the number of values: no bound


@lru_cache(maxsize=32)
def _ranks(count: int, share: float) -> _Ranks:
    """Return the ranks that bound the quantile of a share of `count` values, whatever their distribution.

    The k-th smallest of n values is above the quantile with probability P(Binomial(n, share) < k). So an interval
    misses the quantile on each side with at most half the error probability.
    """
    below = scipy.special.bdtr(np.arange(count + 1), count, share)  # P(Binomial <= k)
    above = scipy.special.bdtrc(np.arange(count + 1) - 1.0, count, share)  # P(Binomial >= k)
    above[0] = 1.0  # P(Binomial >= 0), for which bdtrc has no value
    # Only at these error probabilities does a rank change.
    errors = np.unique(np.concatenate([[0.0, 1.0], 2 * below, 2 * above]))[::-1]
    errors = errors[errors <= 1]
    low = np.searchsorted(below, errors / 2, "right")
    high = count + 1 - np.searchsorted(above[::-1], errors / 2, "right")
    low[-1], high[-1] = 0, count + 1
    return _Ranks(errors, low, high)


def quantile_of(values: Floats, share: float) -> float:
    """Return the smallest value that at least this share of the values do not exceed."""
    index = tail_size(values.size, share) - 1
    return float(np.partition(values, index)[index])


def quantile_interval(values: Floats, share: float, level: float) -> Interval:
    """Return the exact interval of a quantile between two order statistics; without bounds for too few values."""
    ranks, ordered = _ranks(values.size, share), _with_ends(values)
    index = _narrowest(ranks, level)
    return Interval(float(ordered[ranks.low[index]]), float(ordered[ranks.high[index]]), math.nan)


def _with_ends(values: Floats) -> Floats:
    return np.concatenate([[-math.inf], np.sort(values), [math.inf]])


def _narrowest(ranks: _Ranks, level: float) -> int:
    return int(np.argmax(ranks.errors <= 1 - level))


def quantile_difference(
    values: Floats, control_values: Floats, share: float, level: float, *, paired: bool
) -> Interval:
    """Return the interval of the difference between two quantiles, and the p-value of zero.

    The two exact intervals are combined by the variances that their distances from the estimates stand for (MOVER;
    Zou and Donner, 2008). Their correlation is the correlation of being below the quantile, which two sample
    quantiles have in the limit; half a replication is added to each cell of its 2 x 2 table. Intervals of lower level
    are nested in intervals of higher level.
    """
    if not varies(values) and not varies(control_values):
        return UNKNOWN
    low, high, ranks = _nested(values, control_values, share, paired=paired)
    index = _narrowest(ranks, level)
    without_zero = ~((low <= 0) & (high >= 0))
    p_value = float(ranks.errors[int(without_zero.sum()) - 1]) if without_zero[0] else 1.0
    return Interval(float(low[index]), float(high[index]), p_value)


def _nested(
    values: Floats, control_values: Floats, share: float, *, paired: bool
) -> tuple[Floats, Floats, _Ranks]:
    """Return the bounds of the difference at every error probability, from narrow to wide."""
    ranks = _ranks(values.size, share)
    first, second = quantile_of(values, share), quantile_of(control_values, share)
    ordered, control_ordered = _with_ends(values), _with_ends(control_values)
    correlation = _correlation(values <= first, control_values <= second) if paired else 0.0
    below = _combined(first - ordered[ranks.low], control_ordered[ranks.high] - second, correlation)
    above = _combined(ordered[ranks.high] - first, second - control_ordered[ranks.low], correlation)
    # The estimated correlation may make a wider pair of intervals give a narrower one: keep the widest so far.
    below, above = np.maximum.accumulate(below), np.maximum.accumulate(above)
    return first - second - below, first - second + above, ranks


def _combined(first: Floats, second: Floats, correlation: float) -> Floats:
    """Return the distance of a difference's bound, from the distances of the two quantiles' bounds."""
    finite = np.isfinite(first) & np.isfinite(second)
    a, b = np.where(finite, first, 0.0), np.where(finite, second, 0.0)
    squares = np.maximum(a**2 + b**2 - 2 * correlation * a * b, 0.0)
    return np.where(finite, np.sqrt(squares), math.inf)


def _correlation(first_below: Bools, second_below: Bools) -> float:
    flags = (first_below & second_below, first_below, second_below)
    both, first, second = (float(np.sum(flag)) for flag in flags)
    neither = first_below.size - first - second + both
    a, b, c, d = (cell + 0.5 for cell in (both, first - both, second - both, neither))
    return float((a * d - b * c) / math.sqrt((a + b) * (c + d) * (a + c) * (b + d)))


def tail_value(values: Floats, metric: Metric, level: float) -> tuple[float, Interval]:
    """Return the metric of one policy with its interval, from the values of `measured`."""
    assert metric.share is not None
    if metric.is_quantile:
        return quantile_of(values, metric.share), quantile_interval(values, metric.share, level)
    mean, error = float(values.mean()), float(standard_error(values))
    return mean, student_interval(mean, error, _freedom(values, metric.share), level)


def tail_difference(
    values: Floats, control_values: Floats, metric: Metric, level: float, *, paired: bool
) -> Interval:
    """Return the interval of the difference in the metric between two policies, and the p-value of zero."""
    assert metric.share is not None
    if metric.is_quantile:
        return quantile_difference(values, control_values, metric.share, level, paired=paired)
    independent = math.hypot(float(standard_error(values)), float(standard_error(control_values)))
    error = float(standard_error(values - control_values)) if paired else independent
    difference = float(values.mean() - control_values.mean())
    return student_interval(difference, error, _freedom(values, metric.share), level)


def _freedom(values: Floats, share: float) -> int:
    return tail_size(values.size, share) - 1  # the replications in the tail minus 1


def quantile_moments(
    values: Floats, control_values: Floats, share: float, *, paired: bool
) -> tuple[float, float]:
    """Return the difference of two quantiles, and the sd per replication that its standard error corresponds to.

    The standard error is half the width of the 68% interval (Woodruff, 1952).
    """
    low, high, ranks = _nested(values, control_values, share, paired=paired)
    index = _narrowest(ranks, LEVEL_OF_ONE_SD)
    sd = math.sqrt(values.size) * float(high[index] - low[index]) / 2
    difference = quantile_of(values, share) - quantile_of(control_values, share)
    return difference, sd if 0 < sd < math.inf else math.nan
