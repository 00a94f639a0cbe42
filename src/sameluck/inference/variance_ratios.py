"""Variance ratios: how much more variance independent policies have than a difference within replications."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sameluck.arrays import Floats
from sameluck.intervals import t_critical, varies


class VarianceRatio(NamedTuple):
    """Var(policy) + Var(control) over the variance of their difference within replications."""

    value: float
    low: float
    high: float


class Moments(NamedTuple):
    """Mean and variances of values, one per replication."""

    mean: float
    variance: float  # exactly 0 if the values do not vary
    without_each: Floats  # the variance without each value, for the jackknife


def moments(values: Floats) -> Moments:
    count, mean = values.size, float(values.mean())
    squares = (values - mean) ** 2
    total = float(squares.sum())
    # Leaving out a value lowers the sum of squares by count / (count - 1) of its square: no loop is needed.
    with np.errstate(divide="ignore", invalid="ignore"):
        without_each = (total - count / (count - 1) * squares) / np.float64(count - 2)
    return Moments(mean, total / (count - 1) if varies(values) else 0.0, without_each)


def rounded_up(value: float) -> float:
    return math.ceil(value) if math.isfinite(value) else value


def variance_ratio(rewards: Floats, control_rewards: Floats, level: float) -> VarianceRatio:
    difference = moments(rewards - control_rewards)
    return ratio_of(moments(rewards), moments(control_rewards), difference, level)


def ratio_of(policy: Moments, control: Moments, difference: Moments, level: float) -> VarianceRatio:
    """Return the variance ratio, with a jackknife interval of its logarithm."""
    naive_variance, count = policy.variance + control.variance, difference.without_each.size
    if difference.variance == 0:
        value = 1.0 if naive_variance == 0 else math.inf
        return VarianceRatio(value, value, value)
    value = naive_variance / difference.variance
    if count < 4:
        return VarianceRatio(value, 0.0, math.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        naive_without = policy.without_each + control.without_each
        logs = np.log(naive_without / difference.without_each)
    # Without one of the replications the difference may not vary, and its logarithm is then infinite.
    if not np.all(np.isfinite(logs)):
        return VarianceRatio(value, 0.0, math.inf)
    error = math.sqrt((count - 1) / count * float(np.sum((logs - logs.mean()) ** 2)))
    factor = math.exp(min(700.0, t_critical(count - 1, level) * error))  # exp overflows beyond
    return VarianceRatio(value, value / factor, value * factor)
