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
# Largest standard error of the simulation, relative to an interval's width, or to a replication's difference.
PRECISE, NEGLIGIBLE = 0.075, 0.01


class CopiedEffect(NamedTuple):
    """Effect on a copy of the arms, with an interval of the effect on the true arms."""

    effect: float
    interval: Interval
    error: float  # the simulation's standard error, at the end where it is larger

    def is_precise(self, sd: float) -> bool:
        """Return whether the error is small against the interval's width, or a replication's standard deviation."""
        width = self.interval.high - self.interval.low
        return self.error <= max(PRECISE * width, NEGLIGIBLE * sd)


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


class DrawnEffects(NamedTuple):
    """Effects on the copy and on draws of the arms; the last axes are pair and checkpoint, or none at one of them."""

    on_copy: Floats
    independent: Floats  # on independent draws of each arm
    tied: Floats  # on draws with tied arms
    equality: float  # probability that all arms have the same mean, so that the effect is 0
    noise: Floats  # the simulation's part in the variance between independent draws, without errors that all share
    errors: Floats  # the simulation's standard errors of the two ends
    freedom: float = math.inf  # degrees of freedom of resampled arms

    def at(self, pair: int, checkpoint: int) -> DrawnEffects:
        return self._replace(
            on_copy=self.on_copy[pair, checkpoint],
            independent=self.independent[:, pair, checkpoint],
            tied=self.tied[:, pair, checkpoint],
            noise=self.noise[pair, checkpoint],
            errors=self.errors[:, pair, checkpoint],
        )

    def without_noise(self) -> DrawnEffects:
        """Return the effects with the simulation's noise removed from independent draws.

        The noise is removed by shrinking the effects towards their mean. At most half of their variance is removed:
        the difference of two nearly equal numbers may come out far too small.
        """
        centre, variance = self.independent.mean(), float(self.independent.var(ddof=1))
        kept = max(variance / 2, variance - float(self.noise))
        factor = math.sqrt(kept / variance) if variance else 0.0
        return self._replace(independent=centre + factor * (self.independent - centre))


def ends_of_draws(
    independent: Floats, tied: Floats, level: float, freedom: float = math.inf
) -> Floats:
    """Return the ends that a share `level` of the independent draws, and most draws with tied arms, are between.

    Draws with tied arms may have a share 1 - level beyond each end. They decide an end mostly where the arms may be
    equal, and the other end is then decided by independent draws. Resamples of few rewards vary too little. Their
    shares beyond the ends are smaller by Student's t distribution (expanded percentile interval: Hesterberg, 2015).
    The first axis of the effects is the draw.
    """
    tails = np.array([(1 - level) / 2, min(1 - level, 0.5)])
    if freedom < math.inf:
        quantiles = scipy.special.stdtrit(freedom, tails)
        tails = scipy.special.ndtr(quantiles * math.sqrt((freedom + 1) / freedom))
    # On average a share k / (n + 1) of all draws is beyond the k-th smallest of n, and less if they are stratified.
    ends = [
        np.quantile(draws, [tail, 1 - tail], axis=0, method="weibull")
        for draws, tail in zip((independent, tied), tails, strict=True)
    ]
    return np.stack([np.min(ends, axis=0)[0], np.max(ends, axis=0)[1]])


def copied_effect(drawn: DrawnEffects, level: float) -> CopiedEffect:
    """Return the effect on the copy, without its estimated bias, and the interval of the effect on the true arms.

    Draws differ from the copy as the copy differs from the true arms. So the mean over independent draws, minus the
    effect on the copy, estimates the bias of the effect on the copy. The errors are added to the ends linearly,
    because in quadrature they are too small where the effect has a maximum near the true arms.
    """
    drawn = drawn.without_noise()
    low, high = _ends(drawn, level)
    effect = 2 * float(drawn.on_copy) - float(drawn.independent.mean())
    interval = Interval(low, high, _p_value(drawn))
    return CopiedEffect(min(max(effect, low), high), interval, float(drawn.errors.max()))


def each_copied_effect(drawn: DrawnEffects, level: float) -> list[list[CopiedEffect]]:
    """Return the `copied_effect` of each pair at each checkpoint."""
    pairs, checkpoints = map(range, drawn.noise.shape)
    return [
        [copied_effect(drawn.at(pair, index), level) for index in checkpoints] for pair in pairs
    ]


def _ends(drawn: DrawnEffects, level: float) -> tuple[float, float]:
    margins = (normal_quantile(level) * drawn.errors).tolist()
    low, high = ends_of_draws(drawn.independent, drawn.tied, level, drawn.freedom).tolist()
    low, high = low - margins[0], high + margins[1]
    if admits_equality(drawn.equality, level):
        low, high = min(low, 0.0), max(high, 0.0)
    return low, high


def admits_equality(equality: float, level: float) -> bool:
    """Return whether arms of the same mean, with this probability on draws with tied arms, are within the level."""
    return equality >= 1 - level


def _p_value(drawn: DrawnEffects) -> float:
    """Return the smallest 1 - level whose interval leaves out 0, by bisection."""
    smallest = 1.0 / (len(drawn.independent) + len(drawn.tied))
    narrow, wide = 0.0, 1.0 - smallest
    low, high = _ends(drawn, wide)
    if not low <= 0 <= high:
        return smallest
    for _ in range(40):
        middle = (narrow + wide) / 2
        low, high = _ends(drawn, middle)
        narrow, wide = (narrow, middle) if low <= 0 <= high else (middle, wide)
    return 1.0 - narrow
