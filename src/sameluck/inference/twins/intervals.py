"""The two intervals that a twin's simulations give: of the observed mean, and of the effect on the copied arms."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import scipy

from sameluck.arrays import Floats
from sameluck.intervals import Interval

MEANS = 20_000  # of M draws, for the quantiles of the mean
_MOST_DRAWN = 4_000_000
PRECISE = 0.075  # of an interval's width, that the simulation's standard error may be


class CopiedEffect(NamedTuple):
    """The effect on a copy of the arms and the interval of the effect on the arms themselves."""

    effect: float
    interval: Interval
    error: float  # the standard error of the simulation, of the end where it is larger

    @property
    def imprecision(self) -> float:
        """The simulation's error, relative to what is small against the width of the interval."""
        width = self.interval.high - self.interval.low
        return self.error / (PRECISE * width) if width else 0.0


def quantile(level: float) -> float:
    """The normal quantile of a two-sided interval."""
    return float(scipy.special.ndtri(0.5 + level / 2))


def mean_interval(
    mean: float, count: int, star: Floats, level: float, generator: np.random.Generator
) -> Interval:
    """The interval of the effect around the observed mean of `count` replications; one is enough.

    On each side the wider of mean -+ z sd / sqrt(count) and of the basic interval from the quantiles of means of
    `count` draws; `star` are the differences on the copy.
    """
    centre, sd = float(star.mean()), float(star.std(ddof=1))
    deviations = np.sort(_means(star, count, generator)) - centre
    half = quantile(level) * sd / math.sqrt(count)
    below, above = np.quantile(deviations, [0.5 - level / 2, 0.5 + level / 2])
    low, high = mean - max(half, float(above)), mean + max(half, -float(below))
    at = abs(mean) / (sd / math.sqrt(count)) if sd else math.inf if mean else 0.0
    beyond = np.mean(deviations >= mean) if mean > 0 else np.mean(deviations <= mean)
    p_value = max(2 * float(scipy.special.ndtr(-at)), 2 * float(beyond), 1 / deviations.size)
    return Interval(low, high, min(1.0, p_value))


def _means(star: Floats, count: int, generator: np.random.Generator) -> Floats:
    if count == 1:
        return star
    size = min(MEANS, max(1_000, _MOST_DRAWN // count))
    step = max(1, 1_000_000 // count)
    blocks = [min(step, size - start) for start in range(0, size, step)]
    return np.concatenate(
        [star[generator.integers(star.size, size=(rows, count))].mean(axis=1) for rows in blocks]
    )


def copied_effect(
    draws: Floats, noise: float, errors: tuple[float, float], level: float
) -> CopiedEffect:
    """The interval of the effect from simulations on draws of the arms.

    Args:
        draws: The effect on each draw.
        noise: The variance of one of them that is due to simulation, beside errors that all of them share.
        errors: The standard errors of the two ends by their simulation.
        level: Of the interval.

    The noise is taken out by drawing the effects together around their mean; at most half of their variance, because
    the difference of two larger numbers that are nearly equal may come out far too small. The errors are added to the
    ends linearly: in quadrature they are too little where the effect has a maximum near the true arms.
    """
    centre, variance = float(draws.mean()), float(draws.var(ddof=1))
    kept = max(variance / 2, variance - noise)
    factor = math.sqrt(kept / variance) if variance else 0.0
    shrunk = np.sort(centre + factor * (draws - centre))
    low, high = _ends(shrunk, errors, level)
    return CopiedEffect(centre, Interval(low, high, _p_value(shrunk, errors)), max(errors))


def copied_effect_of_each(
    draws: Floats, noise: Floats, errors: Floats, level: float
) -> list[list[CopiedEffect]]:
    """`copied_effect` of each pair at each checkpoint; `errors` has the axes end, pair, checkpoint."""
    pairs, checkpoints = noise.shape
    return [
        [
            copied_effect(
                draws[:, pair, at],
                float(noise[pair, at]),
                (float(errors[0, pair, at]), float(errors[1, pair, at])),
                level,
            )
            for at in range(checkpoints)
        ]
        for pair in range(pairs)
    ]


def _ends(draws: Floats, errors: tuple[float, float], level: float) -> tuple[float, float]:
    low, high = np.quantile(draws, [0.5 - level / 2, 0.5 + level / 2])
    times = quantile(level)
    return float(low) - times * errors[0], float(high) + times * errors[1]


def _p_value(draws: Floats, errors: tuple[float, float]) -> float:
    """The smallest 1 - level whose interval leaves out zero."""
    narrow, wide = 0.0, 1.0 - 1.0 / draws.size
    low, high = _ends(draws, errors, wide)
    if not low <= 0 <= high:
        return 1.0 / draws.size
    for _ in range(40):
        middle = (narrow + wide) / 2
        low, high = _ends(draws, errors, middle)
        narrow, wide = (narrow, middle) if low <= 0 <= high else (middle, wide)
    return 1.0 - narrow
