"""The long run of a twin: the policies on the copy of the arms, and what follows from it alone."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sameluck.arrays import Floats
from sameluck.inference.effects import Effect, effects
from sameluck.inference.requests import Request
from sameluck.inference.twins.copies import ArmCopy, copy_arms
from sameluck.inference.twins.failures import failure_of
from sameluck.inference.twins.intervals import mean_interval
from sameluck.inference.twins.observed_rewards import ObservedStacks, observed_stacks
from sameluck.inference.twins.records import Failure
from sameluck.inference.twins.simulations import Copies
from sameluck.intervals import UNKNOWN, Interval
from sameluck.runs import Runs


class LongRun(NamedTuple):
    """The ledger, the copy of its arms and many replications on it."""

    observed: Runs
    stacks: ObservedStacks
    copies: Copies
    copy: ArmCopy
    runs: Runs  # on the copy

    def star(self, pair: int) -> Floats:
        """The differences on the copy, of one pair (replication, checkpoint): those of all may not fit in memory."""
        return self.copies.differences_of(pair, self.runs)

    def some_stars(self, start: int, count: int) -> Floats:
        """Some of the differences on the copy, of all pairs (replication, pair, checkpoint)."""
        return self.copies.differences(self.runs.part(start, count))

    def moments_of_stars(self) -> tuple[Floats, Floats]:
        """The means of the differences and the variances of these means, of all pairs (pair, checkpoint)."""
        stars = map(self.star, range(len(self.copies.pairs)))
        each = [(one.mean(axis=0), one.var(axis=0, ddof=1) / len(one)) for one in stars]
        means, variances = np.array(each).transpose(1, 0, 2)
        return means, variances

    @property
    def half_reward(self) -> float:
        """Half of a typical reward that is not zero."""
        sizes = np.abs(self.stacks.values[self.stacks.values != 0])
        return float(sizes.mean()) / 2 if sizes.size else 0.5


def run_long(runs: Runs, family: str | None, copies: Copies, replications: int) -> LongRun:
    """Copy the arms of some runs and simulate the policies on them."""
    stacks = observed_stacks(runs)
    copy = copy_arms(stacks, family, runs.experiment.arm_names)
    copies.warn_of_time(copy.environment)
    simulated = copies.run(copy.environment, range(replications))
    return LongRun(runs, stacks, copies, copy, simulated)


def copied_effects(long: LongRun, level: float) -> tuple[Effect, ...]:
    """The long run's effects, every pair and checkpoint, with the counts and users of what was observed."""
    copied = effects(long.runs, Request(level, simultaneous="none"), long.copies.pairs)
    observed = long.copies.differences(long.observed).mean(axis=0).ravel()
    users = np.tile(long.observed.interactions.mean(axis=0), len(long.copies.pairs))
    count = long.observed.replications
    return tuple(
        one._replace(
            replications=count,
            interactions=float(spent),
            naive_replications=_rounded_up(count * one.variance_ratio),
            plain_effect=float(mean),
        )
        for one, mean, spent in zip(copied, observed, users, strict=True)
    )


def effects_around_mean(long: LongRun, level: float) -> tuple[Effect, ...]:
    """The observed mean with an interval of the spread that the copy shows; one replication is enough."""
    count, generator = long.observed.replications, long.copies.generator(1)
    rewards = dict(zip(long.observed.policies, long.observed.rewards.mean(axis=0), strict=True))
    stars = (one for pair in range(len(long.copies.pairs)) for one in long.star(pair).T)
    result = []
    for place, (one, star) in enumerate(zip(copied_effects(long, level), stars, strict=True)):
        mean, at = one.plain_effect, place % long.copies.checkpoints.size
        interval = mean_interval(mean, count, star, level, generator)
        earned = (float(rewards[name][at]) for name in (one.policy, one.control))
        reward, control_reward = earned
        own = one._replace(reward=reward, control_reward=control_reward)
        result.append(with_interval(own, mean, interval))
    return tuple(result)


def with_interval(effect: Effect, centre: float, interval: Interval) -> Effect:
    """The effect with another centre and interval."""
    low, high, p_value = interval
    return effect._replace(effect=centre, low=low, high=high, p_value=p_value, p_adjusted=p_value)


def without_interval(effect: Effect) -> Effect:
    """The effect with an interval without bounds."""
    return with_interval(effect, effect.effect, UNKNOWN)


def rare_failures(long: LongRun) -> tuple[Failure, ...]:
    """The rare failures that the long run has met, of every pair at every checkpoint."""
    seen, half = long.copies.differences(long.observed), long.half_reward
    found = (
        failure_of(names, int(long.copies.checkpoints[at]), star, seen[:, pair, at], half)
        for pair, names in enumerate(long.copies.pairs)
        for at, star in enumerate(long.star(pair).T)
    )
    return tuple(one for one in found if one is not None)


def _rounded_up(value: float) -> float:
    return math.ceil(value) if math.isfinite(value) else value
