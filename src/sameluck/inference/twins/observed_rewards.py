"""Observed rewards of an experiment, by replication, stack owner and arm."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from sameluck.arrays import Floats, Ints
from sameluck.errors import Invalid
from sameluck.runs import Runs
from sameluck.simulation.rewards import observed_rewards

_REWARDS_PER_BLOCK = 2_000_000


class ObservedStacks(NamedTuple):
    """Revealed prefixes of reward stacks: each reward once, in order of position."""

    depths: Ints  # (replication, owner, arm)
    values: Floats  # stack after stack

    @property
    def users(self) -> Ints:
        return self.depths.sum(axis=(0, 1))

    @property
    def is_binary(self) -> bool:
        return bool(((self.values == 0) | (self.values == 1)).all())

    def by_arm(self) -> list[Floats]:
        """Return the rewards of each arm, pooled over replications and owners."""
        cells, arms = self.depths.shape[0] * self.depths.shape[1], self.depths.shape[2]
        arm_of_reward = np.repeat(np.tile(np.arange(arms), cells), self.depths.ravel())
        return [self.values[arm_of_reward == arm] for arm in range(arms)]

    def minus(self, origins: Floats) -> ObservedStacks:
        """Return the stacks with each arm's origin subtracted from its rewards."""
        by_stack = np.broadcast_to(origins, self.depths.shape)
        return self._replace(values=self.values - np.repeat(by_stack.ravel(), self.depths.ravel()))

    def moments(self) -> StackMoments:
        # The position of a reward in all values, minus its stack's first and mean position, is its centred position:
        # the trends follow from sums over stacks, without an array of positions for each stack.
        first = np.cumsum(self.depths).reshape(self.depths.shape) - self.depths
        totals, squares = self.sums(self.values), self.sums(self.values * self.values)
        along = self.sums(np.arange(self.values.size) * self.values)
        return StackMoments(
            self.depths, totals, squares, along - (first + (self.depths - 1) / 2) * totals
        )

    def sums(self, values: Floats) -> Floats:
        """Return the sum over each stack of `values`, which holds a number for every reward."""
        depths = self.depths.ravel()
        ends = np.cumsum(depths)
        sums = np.zeros(depths.size)
        # reduceat would give an empty stack the first value of the next stack instead of 0.
        filled = depths > 0
        if filled.any():
            sums[filled] = np.add.reduceat(values, (ends - depths)[filled])
        return sums.reshape(self.depths.shape)


class StackMoments(NamedTuple):
    """Sums over each stack, with axes replication, owner, arm."""

    depths: Ints
    totals: Floats
    squares: Floats
    trends: Floats  # of reward times centred position


def simulated_stacks(runs: Runs, origins: Floats | None = None) -> Iterator[ObservedStacks]:
    """Yield the stacks that a simulation has read, minus each arm's origin, in blocks of replications.

    Blocks bound the memory: a long run may read far more rewards than fit in it.
    """
    step = max(1, _REWARDS_PER_BLOCK // int(runs.depths.sum(axis=(1, 2)).max()))
    for first in range(0, runs.replications, step):
        block = runs.part(first, step)
        stacks = ObservedStacks(block.depths, observed_rewards(block))
        yield stacks if origins is None else stacks.minus(origins)


def simulated_moments(runs: Runs) -> StackMoments:
    blocks = [stacks.moments() for stacks in simulated_stacks(runs)]
    return StackMoments(*map(np.concatenate, zip(*blocks, strict=True)))


def observed_stacks(runs: Runs) -> ObservedStacks:
    """Return the rewards that runs have observed; raise `Invalid` if they cannot be copied."""
    environment = runs.environment
    if runs.capabilities.has_contexts:
        raise Invalid(
            f"a twin copies arms that are the same for all users, and the users of {type(environment).__name__} have "
            "contexts: it covers neither the error in the frequencies of contexts nor ties of arms within a level; "
            "simulate more replications"
        )
    if not runs.capabilities.has_stacks:
        raise Invalid(
            "a twin needs stacks of rewards, and the time_coupled design has none; use replay or naive"
        )
    if runs.replications < 1:
        raise Invalid(
            "a twin needs at least one complete replication, got none; wait, or read an earlier horizon, "
            "live.runs([...]), or only policies that have come far enough, live.runs(policies=[...])"
        )
    if runs.capabilities.has_instances:
        raise Invalid(
            "a twin copies arms that are the same in every replication, and a prior draws new arms; simulate the "
            "prior itself"
        )
    if not runs.capabilities.is_stationary:
        raise Invalid(
            f"a twin copies stationary arms, and the arms of {type(environment).__name__} change with the period; "
            "simulate it with more replications"
        )
    if runs.observed is not None:
        return ObservedStacks(runs.depths, runs.observed)
    if environment is None:
        raise Invalid(
            "these runs do not hold their single rewards, which a twin needs; read them again with live.runs()"
        )
    return ObservedStacks(runs.depths, observed_rewards(runs))
