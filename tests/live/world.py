"""A world that answers a live experiment from the simulation's own addresses: its runs must equal `simulate`'s."""

import contextlib
from typing import NamedTuple

import numpy as np

import sameluck as sl
from sameluck.environments.base import draw
from sameluck.randomness.streams import REWARD, stream, within, word

ENDED = ("complete", "stopped", "failed")


class Place(NamedTuple):
    """An entry: `policy` is its owner, None where all policies share it."""

    replication: int
    policy: str | None
    arm: int
    position: int


class World:
    """What the user at each place of the ledger brings."""

    def __init__(self, experiment, environment):
        self.experiment = experiment
        self.environment = environment

    def value(self, place):
        """The reward that the simulation pays there."""
        seed, arms = self.experiment.seed, self.experiment.n_arms
        law = self.environment.laws(seed, range(place.replication, place.replication + 1), arms)
        owner = np.uint64(self.experiment.design.reward_owner(place.policy or ""))
        key = stream(np.uint64(seed), REWARD, place.replication, owner)
        return float(draw(law, 0, place.arm, word(within(key, place.arm), place.position)))

    def answer(self, live, id):
        """The reward that an assignment brings."""
        return self.value(place_of(live, id))

    def simulated(self, checkpoints=None):
        """The runs that the live experiment must have."""
        return sl.simulate(self.experiment, self.environment, checkpoints=checkpoints, workers=1)


def place_of(live, id):
    """Where an assignment stands."""
    one = live.describe(id)
    return Place(one.replication, one.policy, one.arm_index, one.position)


def finish(live, world, units=100_000):
    """Serve units 0, 1, 2, ... until the experiment has ended; those that take part already are rewarded (again)."""
    for unit in range(units):
        given = live.assign(unit)
        if given.id is not None:
            with contextlib.suppress(sl.Conflict):
                live.reward(given.id, world.answer(live, given.id))
        elif live.status().status in ENDED:
            return
    raise AssertionError(f"{units} units were not enough: {live.status()}")


def assert_same(runs, expected):
    """Two runs are equal bit for bit."""
    assert np.array_equal(runs.checkpoints, expected.checkpoints)
    assert np.array_equal(runs.pulls, expected.pulls)
    assert np.array_equal(runs.rewards, expected.rewards)
    assert np.array_equal(runs.interactions, expected.interactions)
