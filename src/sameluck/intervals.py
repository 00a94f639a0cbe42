"""Confidence intervals and p-values of a mean, from one value per replication. Arrays in, numbers out.

| interval    | covers at its level                                | when to use it                    |
|-------------|----------------------------------------------------|-----------------------------------|
| `t`         | at a number of replications planned beforehand     | simulation; the paper's interval  |
| `bootstrap` | the same, without assuming normal differences      | skewed differences, 20 or more    |
| `anytime`   | at all numbers of replications at once             | interim looks at a live experiment |

The anytime interval is the t-mixture confidence sequence: exact for normal differences, good from about 20
replications on otherwise. No maintained library has it (confseq builds C++ and lacks it), so it is written here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy

from sameluck.arrays import Floats
from sameluck.errors import Invalid
from sameluck.validation import require_whole

TUNED_FOR = 30  # replications at which the anytime interval is shortest
RESAMPLES = 9_999
DRAWS = 100_000  # behind a simultaneous critical value: its Monte Carlo error is about 0.003


class Interval(NamedTuple):
    """Where a mean lies, at a level of confidence, and the p-value of zero."""

    low: float
    high: float
    p_value: float


def check_level(level: object) -> None:
    """Raise `Invalid` unless the level is a number between 0 and 1."""
    if not isinstance(level, int | float) or not 0 < level < 1:
        raise Invalid(f"level must be between 0 and 1, such as 0.95, got {level!r}")


def t_interval(values: Floats, level: float) -> Interval:
    """Student's t interval, as in the paper: valid when the number of values was planned."""
    error = float(values.std(ddof=1)) / math.sqrt(values.size)
    return _student(float(values.mean()), error, values.size - 1, level)


def welch_interval(values: Floats, others: Floats, level: float) -> Interval:
    """The interval of a difference of two independent means with variances of their own (Welch, 1947)."""
    first, second = (float(x.var(ddof=1)) / x.size for x in (values, others))
    error, difference = math.sqrt(first + second), float(values.mean() - others.mean())
    if error == 0:
        return _student(difference, 0.0, 1, level)
    parts = first**2 / (values.size - 1) + second**2 / (others.size - 1)
    return _student(difference, error, (first + second) ** 2 / parts, level)


def _student(mean: float, error: float, freedom: float, level: float) -> Interval:
    if error == 0:
        return Interval(mean, mean, 1.0 if mean == 0 else 0.0)
    half = t_critical(freedom, level) * error
    p_value = 2 * float(scipy.special.stdtr(freedom, -abs(mean) / error))
    return Interval(mean - half, mean + half, p_value)


def t_critical(freedom: float, level: float) -> float:
    """The quantile of Student's t that an interval of this level uses."""
    return float(scipy.special.stdtrit(freedom, 0.5 + level / 2))


def bootstrap_interval(values: Floats, level: float) -> Interval:
    """The bias-corrected and accelerated bootstrap interval of the mean (Efron, 1987); the resamples are fixed.

    The p-value is the smallest 1 - level whose interval leaves out zero, on the same resamples; it is why this is
    not SciPy's `bootstrap`, which would resample for each level and takes time quadratic in the number of values.
    """
    if values.std(ddof=1) == 0:
        return _student(float(values.mean()), 0.0, 1, level)
    means = _resampled_means(values)
    bias, acceleration = _bias_and_acceleration(values, means)
    low, high = _bca(means, bias, acceleration, level)
    return Interval(low, high, _bca_p_value(means, bias, acceleration))


def _resampled_means(values: Floats) -> Floats:
    rng = np.random.Generator(np.random.PCG64(20_240_229))
    means = np.empty(RESAMPLES)
    step = max(1, 4_000_000 // values.size)
    for start in range(0, RESAMPLES, step):
        rows = min(step, RESAMPLES - start)
        means[start : start + rows] = values[
            rng.integers(values.size, size=(rows, values.size))
        ].mean(1)
    return np.sort(means)


def _bias_and_acceleration(values: Floats, means: Floats) -> tuple[float, float]:
    mean = values.mean()
    below = (np.sum(means < mean) + np.sum(means <= mean)) / (2 * means.size)
    deviations = values - mean
    cubes, squares = float(np.sum(deviations**3)), float(np.sum(deviations**2))
    return float(scipy.special.ndtri(below)), cubes / (6 * squares**1.5)


def _bca(means: Floats, bias: float, acceleration: float, level: float) -> tuple[float, float]:
    tails = np.array([0.5 - level / 2, 0.5 + level / 2])
    shifted = bias + scipy.special.ndtri(tails)
    probabilities = scipy.special.ndtr(bias + shifted / (1 - acceleration * shifted))
    low, high = np.quantile(means, probabilities)
    return float(low), float(high)


def _bca_p_value(means: Floats, bias: float, acceleration: float) -> float:
    narrow, wide = 0.0, 1.0 - 1.0 / means.size
    low, high = _bca(means, bias, acceleration, wide)
    if not low <= 0 <= high:
        return 1.0 / means.size
    for _ in range(40):
        middle = (narrow + wide) / 2
        low, high = _bca(means, bias, acceleration, middle)
        narrow, wide = (narrow, middle) if low <= 0 <= high else (middle, wide)
    return 1.0 - narrow


def anytime_interval(values: Floats, level: float) -> Interval:
    """The t-mixture confidence sequence at the last value, shortest at 30 values; valid at every look.

    For a mean mu let S and V be the sum and the sum of squares of the values minus mu. Then
    E_m(mu) = sqrt(c / (m + c)) (V / (V - S^2 / (m + c)))^(m / 2) is a nonnegative martingale of mean 1 under mu
    for normal values, so by Ville's inequality it ever reaches 1 / alpha with probability at most alpha. The interval
    holds the mu with E_m(mu) < 1 / alpha, the p-value is 1 / E_m(0) (Wang and Ramdas, 2023): it is at most alpha
    exactly when the interval leaves out zero, so it may rise again. c makes the interval shortest at its level.
    """
    half = float(anytime_half_widths(values, level)[-1])
    mean = float(values.mean())
    return Interval(mean - half, mean + half, float(anytime_p_values(values, level)[-1]))


def anytime_half_widths(values: Floats, level: float) -> Floats:
    """The half-width after each value; infinite while there are too few."""
    alpha, counts = 1 - level, np.arange(1, values.size + 1)
    c = _mixture(alpha)
    mean = np.cumsum(values) / counts
    variance = np.maximum(
        np.cumsum((values - values[0]) ** 2) / counts - (mean - values[0]) ** 2, 0
    )
    share = 1 - (alpha**2 * c / (counts + c)) ** (1 / counts)
    denominator = counts - (counts + c) * share
    with np.errstate(divide="ignore", invalid="ignore"):
        half = np.sqrt(variance * (counts + c) * share / denominator)
    return np.where(denominator > 0, half, np.inf)


def anytime_p_values(values: Floats, level: float = 0.95) -> Floats:
    """The p-value of a zero mean after each value, valid at every look; the interval of this level agrees with it."""
    c, counts = _mixture(1 - level), np.arange(1, values.size + 1)
    total, squares = np.cumsum(values), np.cumsum(values**2)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = squares / (squares - total**2 / (counts + c))
    ratio = np.where(squares > 0, ratio, 1.0)
    log_evidence = 0.5 * np.log(c / (counts + c)) + 0.5 * counts * np.log(ratio)
    return np.minimum(1.0, np.exp(-log_evidence))


def _mixture(alpha: float) -> float:
    # The prior variance of the standardised mean that makes the interval shortest at TUNED_FOR values.
    shape = -float(np.real(scipy.special.lambertw(-(alpha**2) / math.e, -1))) - 1
    return TUNED_FOR / shape


intervals: dict[str, Callable[[Floats, float], Interval]] = {
    "t": t_interval,
    "bootstrap": bootstrap_interval,
    "anytime": anytime_interval,
}


def holm(p_values: Floats) -> Floats:
    """Holm's step-down adjustment (1979), which controls the chance of any false rejection among them."""
    order = np.argsort(p_values)
    factors = p_values.size - np.arange(p_values.size)
    adjusted = np.minimum(1.0, np.maximum.accumulate(p_values[order] * factors))
    result = np.empty_like(adjusted)
    result[order] = adjusted
    return result


def max_t_critical(values: Floats, level: float) -> float:
    """The quantile of the largest |t| of correlated columns, for simultaneous intervals of their means.

    `values` has axes (replication, comparison). The law is multivariate t with the columns' own correlation: the
    draws combine the standardised residuals with normal weights, so no correlation matrix is inverted and equal
    columns count once.
    """
    count, _ = values.shape
    residuals = values - values.mean(axis=0)
    spread = residuals.std(axis=0)
    residuals = residuals[:, spread > 0] / spread[spread > 0]
    if residuals.shape[1] == 0:
        return 0.0
    rng = np.random.Generator(np.random.PCG64(20_240_301))
    largest = np.empty(DRAWS)
    step = max(1, 2_000_000 // max(count, residuals.shape[1]))
    for start in range(0, DRAWS, step):
        rows = min(step, DRAWS - start)
        drawn = np.abs(rng.standard_normal((rows, count)) @ residuals).max(axis=1) / math.sqrt(
            count
        )
        scale = np.sqrt(rng.chisquare(count - 1, rows) / (count - 1))
        largest[start : start + rows] = drawn / scale
    return float(np.quantile(largest, level))


class PlannedLook(NamedTuple):
    """One look of a group-sequential plan."""

    replications: int
    level: float  # of the t interval to use at this look


def obrien_fleming(replications: int, looks: int, level: float) -> tuple[PlannedLook, ...]:
    """Equally spaced looks at which one may stop, with the level over all of them (O'Brien and Fleming, 1979).

    At look k of n the t interval has the level that a normal critical value c sqrt(n / k) leaves; c is found by
    integrating the law of the running sums over the looks (Armitage, McPherson and Rowe, 1969).
    """
    require_whole("looks", looks, 1, 20)
    require_whole("replications", replications, 2 * looks)
    check_level(level)
    low, high = float(scipy.special.ndtri(0.5 + level / 2)), 6.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if _crossing(middle, looks) > 1 - level else (low, middle)
    return tuple(
        PlannedLook(
            math.ceil(replications * k / looks),
            1 - 2 * float(scipy.special.ndtr(-high * math.sqrt(looks / k))),
        )
        for k in range(1, looks + 1)
    )


def _crossing(c: float, looks: int) -> float:
    """The probability that sums of k standard normal steps, k = 1..looks, ever leave +-c sqrt(looks)."""
    edge = c * math.sqrt(looks)
    grid = np.linspace(-edge, edge, 801)
    weights = np.full(grid.size, grid[1] - grid[0])
    weights[[0, -1]] /= 2
    step = np.exp(-0.5 * np.linspace(-2 * edge, 2 * edge, 1601) ** 2) / math.sqrt(2 * math.pi)
    density = step[400:1201]
    for _ in range(looks - 1):
        density = np.convolve(step, weights * density, "valid")
    return float(1 - np.sum(weights * density))
