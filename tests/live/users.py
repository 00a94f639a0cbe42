"""Users whose rewards are those of a simulation: the runs of a live experiment must equal `simulate`'s."""

import contextlib
from typing import NamedTuple

import numpy as np

import sameluck as sl
from sameluck.simulation.rewards import reward_at

ENDED = ("complete", "stopped", "failed")


class Place(NamedTuple):
    """An entry: `policy` is its owner, None where all policies share it."""

    replication: int
    policy: str | None
    arm: int
    position: int


class Users:
    """The reward of every entry of the ledger."""

    def __init__(self, experiment, environment):
        self.experiment = experiment
        self.environment = environment

    def reward_at(self, place):
        """The reward of an entry."""
        return reward_at(self.experiment, self.environment, *place)

    def reward(self, live, id):
        """The reward of an assignment."""
        return self.reward_at(place_of(live, id))

    def simulated(self, checkpoints=None):
        """The runs that the live experiment must have."""
        return sl.simulate(self.experiment, self.environment, checkpoints=checkpoints, workers=1)


def place_of(live, id):
    """The entry of an assignment."""
    row = live.describe(id)
    return Place(row.replication, row.policy, row.arm_index, row.position)


def finish(live, users, units=100_000):
    """Serve units 0, 1, 2, ... until the experiment has ended; the reward of an enrolled unit is reported again."""
    for unit in range(units):
        assignment = live.assign(unit)
        if assignment.id is not None:
            with contextlib.suppress(sl.Conflict):
                live.reward(assignment.id, users.reward(live, assignment.id))
        elif live.status().status in ENDED:
            return
    raise AssertionError(f"{units} units were not enough: {live.status()}")


def assert_same(runs, expected):
    """Two runs are equal bit for bit."""
    assert np.array_equal(runs.checkpoints, expected.checkpoints)
    assert np.array_equal(runs.pulls, expected.pulls)
    assert np.array_equal(runs.rewards, expected.rewards)
    assert np.array_equal(runs.interactions, expected.interactions)
