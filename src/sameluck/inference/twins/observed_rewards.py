"""The ledger of runs: the rewards of real users, by replication, owner and arm."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from sameluck.arrays import Floats, Ints
from sameluck.errors import Invalid
from sameluck.runs import Runs
from sameluck.simulation.observed import observed_rewards

_READ_AT_ONCE = 2_000_000  # rewards


class ObservedStacks(NamedTuple):
    """The beginning of every stack that some policy has read, each reward once, in order of position."""

    depths: Ints  # (replication, owner, arm)
    values: Floats  # one stack after another

    @property
    def users(self) -> Ints:
        """How many rewards each arm has."""
        return self.depths.sum(axis=(0, 1))

    @property
    def binary(self) -> bool:
        """Whether all rewards are 0 or 1."""
        return bool(((self.values == 0) | (self.values == 1)).all())

    def by_arm(self) -> list[Floats]:
        """The rewards of each arm, all replications together."""
        cells, arms = self.depths.shape[0] * self.depths.shape[1], self.depths.shape[2]
        arm = np.repeat(np.tile(np.arange(arms), cells), self.depths.ravel())
        return [self.values[arm == one] for one in range(arms)]

    def less(self, origins: Floats) -> ObservedStacks:
        """The same with a number subtracted from the rewards of each arm."""
        each = np.broadcast_to(origins, self.depths.shape)
        return self._replace(values=self.values - np.repeat(each.ravel(), self.depths.ravel()))

    def moments(self) -> StackMoments:
        """What the tests of the arms' constancy need of every stack."""
        first = np.cumsum(self.depths).reshape(self.depths.shape) - self.depths
        totals, squares = self.sums(self.values), self.sums(self.values * self.values)
        along = self.sums(np.arange(self.values.size) * self.values)
        return StackMoments(
            self.depths, totals, squares, along - (first + (self.depths - 1) / 2) * totals
        )

    def sums(self, values: Floats) -> Floats:
        """Sums over each stack of something that every reward has."""
        depths = self.depths.ravel()
        ends = np.cumsum(depths)
        sums = np.zeros(depths.size)
        filled = depths > 0
        if filled.any():
            sums[filled] = np.add.reduceat(values, (ends - depths)[filled])
        return sums.reshape(self.depths.shape)


class StackMoments(NamedTuple):
    """Sums over each stack (replication, owner, arm)."""

    depths: Ints
    totals: Floats
    squares: Floats
    trends: Floats  # of reward times centred position


def simulated_stacks(runs: Runs, origins: Floats | None = None) -> Iterator[ObservedStacks]:
    """What a simulation has read, less an origin of each arm; some replications at a time, or memory might not do."""
    most = int(runs.stack_depths.sum(axis=(1, 2)).max())
    step = max(1, _READ_AT_ONCE // most)
    for first in range(0, runs.replications, step):
        part = runs.part(first, step)
        stacks = ObservedStacks(part.stack_depths, observed_rewards(part))
        yield stacks if origins is None else stacks.less(origins)


def simulated_moments(runs: Runs) -> StackMoments:
    """The sums over the stacks of a simulation."""
    each = [stacks.moments() for stacks in simulated_stacks(runs)]
    return StackMoments(*map(np.concatenate, zip(*each, strict=True)))


def observed_stacks(runs: Runs) -> ObservedStacks:
    """The ledger of runs; raises `Invalid` where they have none that a copy of the arms could be made from."""
    experiment, environment = runs.experiment, runs.environment
    if experiment.design.indexed_by_period:
        raise Invalid(
            "a twin needs stacks of rewards, and the time_coupled design has none; use replay or naive"
        )
    if runs.replications < 1:
        raise Invalid(
            "a twin needs at least one complete replication, got none; wait, or read an earlier horizon, "
            "live.runs([...]), or only policies that have come far enough, live.runs(policies=[...])"
        )
    if environment is not None and environment.is_prior:
        raise Invalid(
            "a twin copies arms that are the same in every replication, and a prior draws new ones; simulate the "
            "prior itself"
        )
    if environment is not None and environment.is_moving:
        raise Invalid(
            f"a twin copies arms that pay by one law throughout, and those of {type(environment).__name__} move with "
            "the period; simulate it with more replications"
        )
    if runs.observed is not None:
        return ObservedStacks(runs.stack_depths, runs.observed)
    if environment is None:
        raise Invalid(
            "these runs hold no single rewards, of which a twin is made; read them again with live.runs()"
        )
    return ObservedStacks(runs.stack_depths, observed_rewards(runs))
