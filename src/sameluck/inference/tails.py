"""Intervals of quantiles over replications, of the mean of the worst tenth, and of their differences."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from sameluck.arrays import Floats, Ints
from sameluck.inference.metrics import Metric, tail_size
from sameluck.intervals import UNKNOWN, Interval, standard_error, t_critical, varies

ONE_SD = 0.6826894921370859  # the level of one standard error to each side


class _Ranks(NamedTuple):
    """The order statistics that bound a quantile, for every error probability at which they change, descending."""

    errors: Floats
    low: Ints  # from 1; 0: no bound
    high: Ints  # above the number of values: no bound


@lru_cache(maxsize=32)
def _ranks(count: int, share: float) -> _Ranks:
    """The k-th smallest of n values is above the quantile with probability P(Binomial(n, share) < k).

    So an interval misses it on each side with at most half the error probability, whatever the law.
    """
    below = scipy.special.bdtr(np.arange(count + 1), count, share)  # P(Binomial <= k)
    above = scipy.special.bdtrc(np.arange(count + 1) - 1.0, count, share)  # P(Binomial >= k)
    above[0] = 1.0
    errors = np.unique(np.concatenate([[0.0, 1.0], 2 * below, 2 * above]))[::-1]
    errors = errors[errors <= 1]
    low = np.searchsorted(below, errors / 2, "right")
    high = count + 1 - np.searchsorted(above[::-1], errors / 2, "right")
    low[-1], high[-1] = 0, count + 1
    return _Ranks(errors, low, high)


def quantile_of(values: Floats, share: float) -> float:
    """The smallest value that at least this share of the values do not exceed."""
    place = tail_size(values.size, share) - 1
    return float(np.partition(values, place)[place])


def quantile_interval(values: Floats, share: float, level: float) -> Interval:
    """The exact interval of a quantile between two order statistics; without bounds if there are too few values."""
    ranks, ordered = _ranks(values.size, share), _with_ends(values)
    at = _first_within(ranks, level)
    return Interval(float(ordered[ranks.low[at]]), float(ordered[ranks.high[at]]), math.nan)


def _with_ends(values: Floats) -> Floats:
    return np.concatenate([[-math.inf], np.sort(values), [math.inf]])


def _first_within(ranks: _Ranks, level: float) -> int:
    return int(np.argmax(ranks.errors <= 1 - level))


def quantile_difference(
    values: Floats, others: Floats, share: float, level: float, *, paired: bool
) -> Interval:
    """The interval of a difference of two quantiles, and the p-value of zero.

    The two exact intervals are combined by the variances that their distances from the estimates stand for (MOVER;
    Zou and Donner, 2008), with the correlation of being below the quantile, which is that of two sample quantiles in
    the limit; half a replication is added to each cell of its 2 x 2 table. An interval contains those of lower level.
    """
    if not varies(values) and not varies(others):
        return UNKNOWN
    low, high, ranks = _nested(values, others, share, paired=paired)
    at = _first_within(ranks, level)
    without_zero = ~((low <= 0) & (high >= 0))
    p_value = float(ranks.errors[int(without_zero.sum()) - 1]) if without_zero[0] else 1.0
    return Interval(float(low[at]), float(high[at]), p_value)


def _nested(
    values: Floats, others: Floats, share: float, *, paired: bool
) -> tuple[Floats, Floats, _Ranks]:
    """The bounds of the difference at every error probability, ever wider."""
    ranks = _ranks(values.size, share)
    first, second = quantile_of(values, share), quantile_of(others, share)
    ordered, other_ordered = _with_ends(values), _with_ends(others)
    together = _correlation(values <= first, others <= second) if paired else 0.0
    below = _combined(first - ordered[ranks.low], other_ordered[ranks.high] - second, together)
    above = _combined(ordered[ranks.high] - first, second - other_ordered[ranks.low], together)
    difference = first - second
    return (
        difference - np.maximum.accumulate(below),
        difference + np.maximum.accumulate(above),
        ranks,
    )


def _combined(one: Floats, other: Floats, correlation: float) -> Floats:
    known = np.isfinite(one) & np.isfinite(other)
    a, b = np.where(known, one, 0.0), np.where(known, other, 0.0)
    squares = np.maximum(a**2 + b**2 - 2 * correlation * a * b, 0.0)
    return np.where(known, np.sqrt(squares), math.inf)


def _correlation(one: NDArray[np.bool_], other: NDArray[np.bool_]) -> float:
    both, first, second = (float(np.sum(x)) for x in (one & other, one, other))
    table = np.array([both, first - both, second - both, one.size - first - second + both]) + 0.5
    a, b, c, d = table.tolist()
    return float((a * d - b * c) / math.sqrt((a + b) * (c + d) * (a + c) * (b + d)))


def tail_value(values: Floats, metric: Metric, level: float) -> tuple[float, Interval]:
    """The metric of one policy with its interval; the values are those of `measured`."""
    assert metric.share is not None
    if metric.is_quantile:
        interval = quantile_interval(values, metric.share, level)
        return quantile_of(values, metric.share), interval
    error = float(standard_error(values))
    return float(values.mean()), _student(float(values.mean()), error, values.size, metric, level)


def tail_difference(
    values: Floats, others: Floats, metric: Metric, level: float, *, paired: bool
) -> Interval:
    """The interval of the difference of the metric of two policies, and the p-value of zero."""
    assert metric.share is not None
    if metric.is_quantile:
        return quantile_difference(values, others, metric.share, level, paired=paired)
    apart = math.hypot(float(standard_error(values)), float(standard_error(others)))
    error = float(standard_error(values - others)) if paired else apart
    return _student(float(values.mean() - others.mean()), error, values.size, metric, level)


def _student(mean: float, error: float, count: int, metric: Metric, level: float) -> Interval:
    """A t interval whose degrees of freedom are the replications in the tail less one: its spread rests on these."""
    if error == 0:
        return UNKNOWN
    assert metric.share is not None
    freedom = tail_size(count, metric.share) - 1
    half = t_critical(freedom, level) * error
    p_value = 2 * float(scipy.special.stdtr(freedom, -abs(mean) / error))
    return Interval(mean - half, mean + half, p_value)


def quantile_moments(
    values: Floats, others: Floats, share: float, *, paired: bool
) -> tuple[float, float]:
    """The difference of two quantiles, and the sd of one replication that its standard error corresponds to.

    The standard error is half the width of the interval of level 68% (Woodruff, 1952).
    """
    low, high, ranks = _nested(values, others, share, paired=paired)
    at = _first_within(ranks, ONE_SD)
    sd = math.sqrt(values.size) * float(high[at] - low[at]) / 2
    difference = quantile_of(values, share) - quantile_of(others, share)
    return difference, sd if 0 < sd < math.inf else math.nan
