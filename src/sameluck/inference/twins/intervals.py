"""Intervals of the effect from a twin's simulations: around the observed mean, and from draws of the arms."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import scipy

from sameluck.arrays import Floats
from sameluck.inference.effects import Effect, also_possible, effects, requested_pairs
from sameluck.inference.requests import Request
from sameluck.inference.twins.simulations import CopySimulator, Effort, LongRun, run_long
from sameluck.inference.variance_ratios import rounded_up
from sameluck.intervals import Interval
from sameluck.policies.external import Makers
from sameluck.runs import Runs

RESAMPLED_MEANS = 20_000  # for the quantiles of a mean of M differences
_MAX_RESAMPLED = 4_000_000  # differences
PRECISE = 0.075  # largest standard error of the simulation, relative to an interval's width


class CopiedEffect(NamedTuple):
    """Effect on a copy of the arms, with an interval of the effect on the true arms."""

    effect: float
    interval: Interval
    error: float  # the simulation's standard error, at the end where it is larger

    @property
    def imprecision(self) -> float:
        """Simulation error relative to the largest error that is small against the interval's width."""
        width = self.interval.high - self.interval.low
        return self.error / (PRECISE * width) if width else 0.0


def normal_quantile(level: float) -> float:
    return float(scipy.special.ndtri(0.5 + level / 2))


def copied_effects(long_run: LongRun, level: float) -> tuple[Effect, ...]:
    """Return the long run's effects, with the replications and users of the observed runs."""
    pairs = long_run.simulator.pairs
    copied = effects(long_run.runs, Request(level, simultaneous="none"), pairs)
    observed_means = long_run.observed_differences.mean(axis=0).ravel()
    users = np.tile(long_run.observed.interactions.mean(axis=0), len(pairs))
    count = long_run.observed.replications
    return tuple(
        effect._replace(
            replications=count,
            interactions=float(interactions),
            naive_replications=rounded_up(count * effect.variance_ratio),
            plain_effect=float(mean),
        )
        for effect, mean, interactions in zip(copied, observed_means, users, strict=True)
    )


def effects_around_mean(
    long_run: LongRun, copied: tuple[Effect, ...], level: float
) -> tuple[Effect, ...]:
    """Return the observed mean effects, from one replication on; their intervals have the spread on the copy."""
    observed, simulator = long_run.observed, long_run.simulator
    generator = simulator.generator(1)
    rewards = dict(zip(observed.policies, observed.rewards.mean(axis=0), strict=True))
    pairs = range(len(simulator.pairs))
    columns = (column for pair in pairs for column in long_run.pair_differences(pair).T)
    results = []
    for number, (effect, differences) in enumerate(zip(copied, columns, strict=True)):
        mean, checkpoint = effect.plain_effect, number % simulator.checkpoints.size
        interval = mean_interval(mean, observed.replications, differences, level, generator)
        observed_effect = effect._replace(
            reward=float(rewards[effect.policy][checkpoint]),
            control_reward=float(rewards[effect.control][checkpoint]),
        )
        results.append(with_interval(observed_effect, mean, interval))
    return tuple(results)


def twin_effects(runs: Runs, request: Request, makers: Makers | None = None) -> tuple[Effect, ...]:
    """Return a comparison's effects around the observed means; several hold together by Bonferroni's method."""
    pairs = requested_pairs(runs, request)
    size = {"pairs": len(pairs) + len(also_possible(pairs, request))}
    size |= {"checkpoints": runs.checkpoints.size, "none": 1}
    size["both"] = size["pairs"] * size["checkpoints"]
    family = size[str(request.simultaneous)]
    level = 1 - (1 - request.level) / family
    simulator = CopySimulator(runs, pairs=pairs, makers=makers)
    simulator.expect(Effort().replications)
    long_run = run_long(runs, None, simulator, Effort().replications)
    around = effects_around_mean(long_run, copied_effects(long_run, level), level)
    return tuple(
        effect._replace(level=request.level, p_adjusted=min(1.0, family * effect.p_value))
        for effect in around
    )


def with_interval(effect: Effect, centre: float, interval: Interval) -> Effect:
    low, high, p_value = interval
    return effect._replace(effect=centre, low=low, high=high, p_value=p_value, p_adjusted=p_value)


def mean_interval(
    mean: float, count: int, differences: Floats, level: float, generator: np.random.Generator
) -> Interval:
    """Return the interval around the observed mean of `count` replications; one replication is enough.

    On each side it is the wider of two: mean -+ z sd / sqrt(count), and the basic interval from the quantiles of
    means of `count` differences. `differences` are the differences on the copy.
    """
    centre, sd = float(differences.mean()), float(differences.std(ddof=1))
    deviations = np.sort(_resampled_means(differences, count, generator)) - centre
    half = normal_quantile(level) * sd / math.sqrt(count)
    below, above = np.quantile(deviations, [0.5 - level / 2, 0.5 + level / 2])
    low, high = mean - max(half, float(above)), mean + max(half, -float(below))
    z = abs(mean) / (sd / math.sqrt(count)) if sd else math.inf if mean else 0.0
    beyond = np.mean(deviations >= mean) if mean > 0 else np.mean(deviations <= mean)
    # The wider of two intervals leaves out 0 only if both do, so the larger of their p-values counts.
    p_value = max(2 * float(scipy.special.ndtr(-z)), 2 * float(beyond), 1 / deviations.size)
    return Interval(low, high, min(1.0, p_value))


def _resampled_means(values: Floats, count: int, generator: np.random.Generator) -> Floats:
    if count == 1:
        return values
    # Fewer means of many differences, which bounds the time; blocks bound the memory.
    size = min(RESAMPLED_MEANS, max(1_000, _MAX_RESAMPLED // count))
    step = max(1, 1_000_000 // count)
    sizes = [(min(step, size - start), count) for start in range(0, size, step)]
    drawn = (values[generator.integers(values.size, size=shape)] for shape in sizes)
    return np.concatenate([block.mean(axis=1) for block in drawn])


def copied_effect(
    draws: Floats, noise: float, errors: tuple[float, float], level: float
) -> CopiedEffect:
    """Return the effect on the copy and its interval, from simulations on draws of the arms.

    Args:
        draws: The effect on each draw.
        noise: The simulation's part in the variance between draws, without errors that all draws share.
        errors: The simulation's standard errors of the two ends.
        level: Confidence of the interval.

    The noise is removed by shrinking the effects towards their mean. At most half of their variance is removed: the
    difference of two nearly equal numbers may come out far too small. The errors are added to the ends linearly,
    because in quadrature they are too small where the effect has a maximum near the true arms.
    """
    centre, variance = float(draws.mean()), float(draws.var(ddof=1))
    kept = max(variance / 2, variance - noise)
    factor = math.sqrt(kept / variance) if variance else 0.0
    shrunk = np.sort(centre + factor * (draws - centre))
    low, high = _ends(shrunk, errors, level)
    return CopiedEffect(centre, Interval(low, high, _p_value(shrunk, errors)), max(errors))


def each_copied_effect(
    draws: Floats, noise: Floats, errors: Floats, level: float
) -> list[list[CopiedEffect]]:
    """Return the `copied_effect` of each pair at each checkpoint; `errors` has axes end, pair, checkpoint."""
    pairs, checkpoints = noise.shape

    def at(pair: int, index: int) -> CopiedEffect:
        low, high = errors[:, pair, index].tolist()
        return copied_effect(draws[:, pair, index], float(noise[pair, index]), (low, high), level)

    return [[at(pair, index) for index in range(checkpoints)] for pair in range(pairs)]


def _ends(draws: Floats, errors: tuple[float, float], level: float) -> tuple[float, float]:
    low, high = np.quantile(draws, [0.5 - level / 2, 0.5 + level / 2])
    z = normal_quantile(level)
    return float(low) - z * errors[0], float(high) + z * errors[1]


def _p_value(draws: Floats, errors: tuple[float, float]) -> float:
    """Return the smallest 1 - level whose interval leaves out 0, by bisection."""
    narrow, wide = 0.0, 1.0 - 1.0 / draws.size
    low, high = _ends(draws, errors, wide)
    if not low <= 0 <= high:
        return 1.0 / draws.size
    for _ in range(40):
        middle = (narrow + wide) / 2
        low, high = _ends(draws, errors, middle)
        narrow, wide = (narrow, middle) if low <= 0 <= high else (middle, wide)
    return 1.0 - narrow
