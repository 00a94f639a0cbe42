"""How sure a mean is: intervals and p-values from one value a replication. Arrays in, numbers out.

| interval    | promises its level                                 | when to use it                    |
|-------------|----------------------------------------------------|-----------------------------------|
| `t`         | at a number of replications planned beforehand     | simulation; the paper's interval  |
| `bootstrap` | the same, without leaning on the normal law        | skewed differences, 20 or more    |
| `anytime`   | at all numbers of replications at once             | looking while an experiment runs  |

The anytime interval is the t-mixture confidence sequence: exact for normal differences, good from about 20
replications on otherwise. No maintained library has it (confseq builds C++ and lacks it), so it is written here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import lambertw, ndtr, ndtri, stdtr, stdtrit

from sameluck.arrays import Floats
from sameluck.errors import Invalid

TUNED_FOR = 30  # replications at which the anytime interval is shortest
RESAMPLES = 9_999
DRAWS = 100_000  # behind a simultaneous critical value: its Monte Carlo error is about 0.003


class Interval(NamedTuple):
    """Where a mean lies, at a level of confidence, and the p-value of zero."""

    low: float
    high: float
    p_value: float


def check_level(level: object) -> None:
    """Refuse a level that is not a number between 0 and 1."""
    number = isinstance(level, int | float) and not isinstance(level, bool)
    fits = number and 0 < level < 1  # type: ignore[operator]
    if not fits:
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
    reach = float(stdtrit(freedom, 0.5 + level / 2)) * error
    return Interval(mean - reach, mean + reach, 2 * float(stdtr(freedom, -abs(mean) / error)))


def bootstrap_interval(values: Floats, level: float) -> Interval:
    """The bias-corrected and accelerated bootstrap interval of the mean (Efron, 1987); always the same resamples.

    The p-value is the smallest 1 - level whose interval leaves out zero, on the same resamples; it is why this is
    not SciPy's `bootstrap`, which would resample for each level and takes time quadratic in the number of values.
    """
    spread = float(values.std(ddof=1))
    if spread == 0:
        return _student(float(values.mean()), 0.0, 1, level)
    means = _resampled_means(values)
    bias, pull = _bias_and_acceleration(values, means)
    low, high = _bca(means, bias, pull, level)
    return Interval(low, high, _bca_p_value(means, bias, pull))


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
    return float(ndtri(below)), cubes / (6 * squares**1.5)


def _bca(means: Floats, bias: float, pull: float, level: float) -> tuple[float, float]:
    tails = np.array([0.5 - level / 2, 0.5 + level / 2])
    shifted = bias + ndtri(tails)
    places = ndtr(bias + shifted / (1 - pull * shifted))
    low, high = np.quantile(means, places)
    return float(low), float(high)


def _bca_p_value(means: Floats, bias: float, pull: float) -> float:
    narrow, wide = 0.0, 1.0 - 1.0 / means.size
    low, high = _bca(means, bias, pull, wide)
    if not low <= 0 <= high:
        return 1.0 / means.size
    for _ in range(40):
        middle = (narrow + wide) / 2
        low, high = _bca(means, bias, pull, middle)
        narrow, wide = (narrow, middle) if low <= 0 <= high else (middle, wide)
    return 1.0 - narrow


def anytime_interval(values: Floats, level: float) -> Interval:
    """The t-mixture confidence sequence at the last value, tuned for 30; valid at every look, however chosen.

    For a mean mu let S and V be the sum and the sum of squares of the values minus mu. Then
    E_m(mu) = sqrt(c / (m + c)) (V / (V - S^2 / (m + c)))^(m / 2) is a nonnegative martingale of mean 1 under mu
    for normal values, so by Ville's inequality it ever reaches 1 / alpha with chance at most alpha. The interval
    holds the mu with E_m(mu) < 1 / alpha, the p-value is 1 / E_m(0) (Wang and Ramdas, 2023): it is at most alpha
    exactly when the interval leaves out zero, so it may rise again. c makes the interval shortest at its level.
    """
    half = float(anytime_half_widths(values, level)[-1])
    mean = float(values.mean())
    return Interval(mean - half, mean + half, float(anytime_p_values(values, level)[-1]))


def anytime_half_widths(values: Floats, level: float) -> Floats:
    """The half-width after each value; infinite while there are too few."""
    alpha, many = 1 - level, np.arange(1, values.size + 1)
    c = _mixture(alpha)
    mean = np.cumsum(values) / many
    variance = np.maximum(np.cumsum((values - values[0]) ** 2) / many - (mean - values[0]) ** 2, 0)
    share = 1 - (alpha**2 * c / (many + c)) ** (1 / many)
    room = many - (many + c) * share
    with np.errstate(divide="ignore", invalid="ignore"):
        half = np.sqrt(variance * (many + c) * share / room)
    return np.where(room > 0, half, np.inf)


def anytime_p_values(values: Floats, level: float = 0.95) -> Floats:
    """The p-value of a zero mean after each value, valid at every look; the interval of this level agrees with it."""
    c, many = _mixture(1 - level), np.arange(1, values.size + 1)
    total, squares = np.cumsum(values), np.cumsum(values**2)
    with np.errstate(divide="ignore", invalid="ignore"):
        grown = squares / (squares - total**2 / (many + c))
    grown = np.where(squares > 0, grown, 1.0)
    log_evidence = 0.5 * np.log(c / (many + c)) + 0.5 * many * np.log(grown)
    return np.minimum(1.0, np.exp(-log_evidence))


def _mixture(alpha: float) -> float:
    # The prior variance of the standardised mean that makes the interval shortest at TUNED_FOR values.
    shape = -float(np.real(lambertw(-(alpha**2) / math.e, -1))) - 1
    return TUNED_FOR / shape


intervals: dict[str, Callable[[Floats, float], Interval]] = {
    "t": t_interval,
    "bootstrap": bootstrap_interval,
    "anytime": anytime_interval,
}


def holm(p_values: Floats) -> Floats:
    """Holm's step-down adjustment (1979): each at most its level over all of them together."""
    order = np.argsort(p_values)
    factors = p_values.size - np.arange(p_values.size)
    adjusted = np.minimum(1.0, np.maximum.accumulate(p_values[order] * factors))
    back = np.empty_like(adjusted)
    back[order] = adjusted
    return back


def max_t_critical(values: Floats, level: float) -> float:
    """The quantile of the largest |t| among columns that vary together: simultaneous intervals for their means.

    From multivariate t with the columns' own correlation (replication, comparison): the draws recombine the
    standardised residuals with normal weights, so no correlation matrix is inverted and equal columns count once.
    """
    many, _ = values.shape
    residuals = values - values.mean(axis=0)
    spread = residuals.std(axis=0)
    residuals = residuals[:, spread > 0] / spread[spread > 0]
    if residuals.shape[1] == 0:
        return 0.0
    rng = np.random.Generator(np.random.PCG64(20_240_301))
    largest = np.empty(DRAWS)
    step = max(1, 2_000_000 // max(many, residuals.shape[1]))
    for start in range(0, DRAWS, step):
        rows = min(step, DRAWS - start)
        drawn = np.abs(rng.standard_normal((rows, many)) @ residuals).max(axis=1) / math.sqrt(many)
        scale = np.sqrt(rng.chisquare(many - 1, rows) / (many - 1))
        largest[start : start + rows] = drawn / scale
    return float(np.quantile(largest, level))


class Look(NamedTuple):
    """One planned look of a group-sequential plan."""

    replications: int
    level: float  # of the t interval to use at this look


def obrien_fleming(replications: int, looks: int, level: float) -> tuple[Look, ...]:
    """Equally spaced looks after which one may stop, together at the level (O'Brien and Fleming, 1979).

    At look k of n the t interval has the level that a normal critical value c sqrt(n / k) leaves; c is found by
    integrating the law of the running sums over the looks (Armitage, McPherson and Rowe, 1969).
    """
    if not (isinstance(looks, int) and 1 <= looks <= 20 and replications >= 2 * looks):
        raise Invalid(
            f"looks must be 1 to 20 with two replications for each, got {looks} for {replications}"
        )
    check_level(level)
    low, high = float(ndtri(0.5 + level / 2)), 6.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if _crossing(middle, looks) > 1 - level else (low, middle)
    steps = range(1, looks + 1)
    return tuple(
        Look(
            math.ceil(replications * k / looks),
            1 - 2 * float(ndtr(-high * math.sqrt(looks / k))),
        )
        for k in steps
    )


def _crossing(c: float, looks: int) -> float:
    """The chance that sums of k standard normal steps, k = 1..looks, ever leave +-c sqrt(looks)."""
    edge = c * math.sqrt(looks)
    grid = np.linspace(-edge, edge, 801)
    weights = np.full(grid.size, grid[1] - grid[0])
    weights[[0, -1]] /= 2
    density = np.exp(-0.5 * grid**2) / math.sqrt(2 * math.pi)
    step = np.exp(-0.5 * (grid[:, None] - grid[None, :]) ** 2) / math.sqrt(2 * math.pi)
    for _ in range(looks - 1):
        density = step @ (weights * density)
    return float(1 - np.sum(weights * density))
