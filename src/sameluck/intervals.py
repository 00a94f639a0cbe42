"""Confidence intervals and p-values of a mean, from one value per replication. Arrays in, numbers out.

`sameluck.inference.interval_methods` lists the intervals that a comparison offers and says when to use each.

The anytime interval is the t-mixture confidence sequence, which is exact for normal differences. No maintained
library has it (confseq builds C++ and lacks it), so it is written here. Equal values give no interval, because they
say nothing about their spread.
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import numpy as np
import scipy

from sameluck.arrays import Bools, Floats, Ints
from sameluck.errors import Invalid
from sameluck.validation import require_whole

SHORTEST_AT = 30  # replications at which the anytime interval is shortest
RESAMPLES = 9_999
MAX_LEVEL = 1 - 1e-12
MIN_FIRST_LOOK = 10  # replications; with fewer, planned looks miss discrete and skewed differences twice as often


class Interval(NamedTuple):
    """Bounds of a mean at a level of confidence, and the p-value of zero."""

    low: float
    high: float
    p_value: float


UNKNOWN = Interval(-math.inf, math.inf, 1.0)


def check_level(level: object) -> None:
    """Raise `Invalid` unless the level is a number between 0 and 1, and not 1 up to rounding."""
    if not isinstance(level, int | float) or not 0 < level <= MAX_LEVEL:
        raise Invalid(f"level must be between 0 and 1, such as 0.95, got {level!r}")


def varies(values: Floats) -> bool:
    """Return whether any value differs from the first.

    The standard deviation cannot tell: rounding may leave it above 0 for equal values.
    """
    return bool(np.any(values != values[0]))


def t_interval(values: Floats, level: float) -> Interval:
    """Return Student's t interval, as in the paper; valid if the number of values was planned."""
    error = float(standard_error(values))
    return student_interval(float(values.mean()), error, values.size - 1, level)


def standard_error(values: Floats) -> Floats:
    """Return the standard error of the mean, or of each column's mean; exactly 0 for equal values."""
    if len(values) < 2:  # one value has no spread to estimate
        return np.zeros(values.shape[1:])
    # Rounding leaves the standard deviation of equal values slightly above 0, which would give an absurd t.
    varying = np.any(values != values[0], axis=0)
    return np.where(varying, values.std(axis=0, ddof=1), 0.0) / math.sqrt(len(values))


def welch_interval(values: Floats, control_values: Floats, level: float) -> Interval:
    """Return the interval of the difference between two independent means with unequal variances (Welch, 1947)."""
    first, second = (float(standard_error(x)) ** 2 for x in (values, control_values))
    error, difference = math.sqrt(first + second), float(values.mean() - control_values.mean())
    if error == 0:
        return UNKNOWN
    denominator = first**2 / (values.size - 1) + second**2 / (control_values.size - 1)
    return student_interval(difference, error, (first + second) ** 2 / denominator, level)


def student_interval(mean: float, error: float, freedom: float, level: float) -> Interval:
    """Return the t interval of a mean with this standard error and degrees of freedom."""
    if error == 0:
        return UNKNOWN
    half = t_critical(freedom, level) * error
    p_value = 2 * float(scipy.special.stdtr(freedom, -abs(mean) / error))
    return Interval(mean - half, mean + half, p_value)


def t_critical(freedom: float, level: float) -> float:
    """Return the quantile of Student's t for a two-sided interval."""
    return float(scipy.special.stdtrit(freedom, 0.5 + level / 2))


def bootstrap_interval(values: Floats, level: float) -> Interval:
    """Return the bias-corrected and accelerated bootstrap interval of the mean (Efron, 1987), on fixed resamples."""
    return bootstrap_intervals(values[:, None], level)[0]


def bootstrap_intervals(columns: Floats, level: float) -> list[Interval]:
    """Return `bootstrap_interval` of each column, on the same resamples; axes (replication, comparison).

    The p-value is the smallest 1 - level whose interval excludes zero, on the same resamples. SciPy's `bootstrap`
    would resample for each level and takes time quadratic in the number of values.
    """
    if 1 - level < 2 / RESAMPLES:
        raise Invalid(
            f'interval="bootstrap" has {RESAMPLES:,} resamples, too few for a level of {level:.7g} per interval; use '
            'interval="t", fewer pairs or a lower level'
        )
    varying = np.any(columns != columns[0], axis=0)
    bootstrap = _Bootstrap.of(columns[:, varying])
    low, high = bootstrap.bounds(np.full(bootstrap.bias.size, level))
    intervals = map(Interval, low.tolist(), high.tolist(), bootstrap.p_values().tolist())
    return [next(intervals) if column_varies else UNKNOWN for column_varies in varying]


class _Bootstrap(NamedTuple):
    """Sorted means of the resamples, with the corrections of the BCa method."""

    means: Floats  # ascending (resample, comparison)
    bias: Floats
    acceleration: Floats

    @staticmethod
    def of(values: Floats) -> _Bootstrap:
        mean, means = values.mean(axis=0), _resampled_means(values)
        # Half of the ties count as below: means of whole numbers tie often.
        below = (np.sum(means < mean, axis=0) + np.sum(means <= mean, axis=0)) / (2 * len(means))
        # The jackknife's acceleration of a mean is its skewness over 6 sqrt(n).
        deviations = values - mean
        cubes, squares = np.sum(deviations**3, axis=0), np.sum(deviations**2, axis=0)
        return _Bootstrap(means, scipy.special.ndtri(below), cubes / (6 * squares**1.5))

    def bounds(self, levels: Floats) -> tuple[Floats, Floats]:
        """Return the bounds of each column's interval, each at its own level."""
        return self._quantiles(0.5 - levels / 2), self._quantiles(0.5 + levels / 2)

    def _quantiles(self, tails: Floats) -> Floats:
        shifted = self.bias + scipy.special.ndtri(tails)
        probabilities = scipy.special.ndtr(self.bias + shifted / (1 - self.acceleration * shifted))
        last = len(self.means) - 1
        # Interpolate linearly between neighbouring order statistics.
        whole = np.minimum((last * probabilities).astype(int), last - 1)
        lower, upper = (self.means[at, np.arange(whole.size)] for at in (whole, whole + 1))
        return np.asarray(lower + (last * probabilities - whole) * (upper - lower))

    def p_values(self) -> Floats:
        """Return the smallest 1 - level at which each column's interval excludes zero, by bisection."""
        smallest = 1.0 / len(self.means)
        narrow, wide = np.zeros(self.bias.size), np.full(self.bias.size, 1.0 - smallest)
        always_excluded = ~self._contain_zero(wide)
        for _ in range(40):  # halvings beyond the resolution of the resamples
            middle = (narrow + wide) / 2
            inside = self._contain_zero(middle)
            narrow, wide = np.where(inside, narrow, middle), np.where(inside, middle, wide)
        return np.where(always_excluded, smallest, 1.0 - narrow)

    def _contain_zero(self, levels: Floats) -> Bools:
        low, high = self.bounds(levels)
        return np.asarray((low <= 0) & (high >= 0))


def _resampled_means(values: Floats) -> Floats:
    # Each replication's count in a resample, times the values: one matrix product serves all columns.
    rng = np.random.Generator(np.random.PCG64(20_240_229))
    count, means = len(values), np.empty((RESAMPLES, values.shape[1]))
    step = max(1, 4_000_000 // count)
    for start in range(0, RESAMPLES, step):
        rows = min(step, RESAMPLES - start)
        drawn = rng.integers(count, size=(rows, count)) + count * np.arange(rows)[:, None]
        times = np.bincount(drawn.ravel(), minlength=rows * count).reshape(rows, count)
        means[start : start + rows] = times.astype(float) @ values / count
    return np.sort(means, axis=0)


def median_interval(values: Floats, level: float) -> Interval:
    """Return the exact interval of the median between two order statistics, and the p-value of the sign test.

    Of n independent values the k-th smallest is above the median with probability P(Binomial(n, 1/2) < k), whatever
    their distribution. The interval runs from the k-th smallest to the k-th largest value, for the largest k at which
    twice this probability is at most 1 - level. Without such a k it has no bounds, as with 5 values at 95%.
    """
    if not varies(values):
        return UNKNOWN
    count, ordered = values.size, np.sort(values)
    tails = scipy.special.bdtr(np.arange(count // 2), count, 0.5)
    k = int(np.searchsorted(2 * tails, 1 - level, "right"))
    below, above = int(np.sum(values < 0)), int(np.sum(values > 0))
    p_value = 2 * float(scipy.special.bdtr(count - max(below, above), count, 0.5))
    low, high = (ordered[k - 1], ordered[-k]) if k else (-math.inf, math.inf)
    return Interval(float(low), float(high), min(1.0, p_value))


def anytime_interval(values: Floats, level: float) -> Interval:
    """Return the t-mixture confidence sequence at the last value, valid at every look and shortest at 30 values.

    For a mean mu let S and V be the sum and the sum of squares of the values minus mu. For normal values of mean mu,
    E_m(mu) = sqrt(c / (m + c)) (V / (V - S^2 / (m + c)))^(m / 2) is a nonnegative martingale of mean 1. By Ville's
    inequality it ever reaches 1 / alpha with probability at most alpha. The interval is the set of mu with
    E_m(mu) < 1 / alpha, and the p-value is 1 / E_m(0) (Wang and Ramdas, 2023). The p-value is at most alpha exactly
    when the interval excludes zero, so it may rise again. c makes the interval shortest at its level.
    """
    if not varies(values):
        return UNKNOWN
    half, mean = anytime_half_width(values, level), float(values.mean())
    return Interval(mean - half, mean + half, float(anytime_p_values(values, level)[-1]))


def anytime_half_widths(values: Floats, level: float) -> Floats:
    """Return the half-width after each value; infinite while the values are too few or equal."""
    counts = np.arange(1, values.size + 1)
    mean = np.cumsum(values) / counts
    # Squares around the first value: around 0 they would cancel where the mean is large.
    squares = np.cumsum((values - values[0]) ** 2) / counts
    variance = np.maximum(squares - (mean - values[0]) ** 2, 0)
    return _anytime_half(np.sqrt(variance), counts, level)


def anytime_half_width(values: Floats, level: float) -> float:
    """Return the half-width after the last value; infinite if the values are too few or equal."""
    sd = values.std(keepdims=True) if varies(values) else np.zeros(1)
    return float(_anytime_half(sd, np.array([values.size]), level)[0])


def _anytime_half(sds: Floats, counts: Ints, level: float) -> Floats:
    alpha = 1 - level
    c = _mixture(alpha)
    # Solves E_m(mu) = 1 / alpha for the distance of mu from the mean; no finite solution while m is small.
    share = 1 - (alpha**2 * c / (counts + c)) ** (1 / counts)
    denominator = counts - (counts + c) * share
    with np.errstate(divide="ignore", invalid="ignore"):
        half = sds * np.sqrt((counts + c) * share / denominator)
    return np.where((denominator > 0) & (sds > 0), half, np.inf)


def anytime_p_values(values: Floats, level: float = 0.95) -> Floats:
    """Return the p-value of a zero mean after each value, valid at every look; it agrees with the interval."""
    c, counts = _mixture(1 - level), np.arange(1, values.size + 1)
    total, squares = np.cumsum(values), np.cumsum(values**2)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = squares / (squares - total**2 / (counts + c))
    ratio = np.where(squares > 0, ratio, 1.0)
    # In logarithms: the evidence overflows for clear differences.
    log_evidence = 0.5 * np.log(c / (counts + c)) + 0.5 * counts * np.log(ratio)
    return np.minimum(1.0, np.exp(-log_evidence))


@cache
def _mixture(alpha: float) -> float:
    # The prior variance of the standardised mean that makes the interval shortest at SHORTEST_AT values.
    shape = -float(np.real(scipy.special.lambertw(-(alpha**2) / math.e, -1))) - 1
    return SHORTEST_AT / shape


def holm(p_values: Floats) -> Floats:
    """Return Holm's step-down adjustment (1979), which controls the probability of any false rejection."""
    order = np.argsort(p_values)
    factors = p_values.size - np.arange(p_values.size)
    adjusted = np.minimum(1.0, np.maximum.accumulate(p_values[order] * factors))
    result = np.empty_like(adjusted)
    result[order] = adjusted
    return result


class PlannedLook(NamedTuple):
    replications: int
    level: float  # of the t interval at this look


def obrien_fleming(replications: int, looks: int, level: float) -> tuple[PlannedLook, ...]:
    """Return equally spaced looks at which the experiment may stop, valid together (O'Brien and Fleming, 1979).

    The t interval at look k of n has the level of the normal critical value c sqrt(n / k). c comes from integrating
    the distribution of the running sums over the looks (Armitage, McPherson and Rowe, 1969).
    """
    require_whole("looks", looks, 1, 20)
    require_whole("replications", replications, 2)
    check_level(level)
    if looks > 1 and replications < MIN_FIRST_LOOK * looks:
        raise Invalid(
            f"obrien_fleming: the first of {looks} looks at {replications} replications would come before "
            f"{MIN_FIRST_LOOK}, where a t interval of its level misses far too often; plan {MIN_FIRST_LOOK * looks} "
            f"replications or {max(1, replications // MIN_FIRST_LOOK)} looks"
        )
    # Bisection: the probability of crossing falls as c grows; a single look gives the lower end.
    low, high = float(scipy.special.ndtri(0.5 + level / 2)), 9.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if _crossing(middle, looks) > 1 - level else (low, middle)
    return tuple(
        PlannedLook(
            math.ceil(replications * k / looks),
            min(MAX_LEVEL, 1 - 2 * float(scipy.special.ndtr(-high * math.sqrt(looks / k)))),
        )
        for k in range(1, looks + 1)
    )


def _crossing(c: float, looks: int) -> float:
    """Return the probability that sums of 1 to `looks` standard normal steps ever leave +-c sqrt(looks)."""
    edge = c * math.sqrt(looks)
    grid = np.linspace(-edge, edge, 801)
    # Trapezoidal rule; the density of sums that have stayed inside is convolved with one more step per look.
    weights = np.full(grid.size, grid[1] - grid[0])
    weights[[0, -1]] /= 2
    step = np.exp(-0.5 * np.linspace(-2 * edge, 2 * edge, 1601) ** 2) / math.sqrt(2 * math.pi)
    density = step[400:1201]
    for _ in range(looks - 1):
        density = np.convolve(step, weights * density, "valid")
    return float(1 - np.sum(weights * density))
