"""Observed rewards: every reward once, by replication, owner and arm; their moments."""

from typing import NamedTuple

import numpy as np
import pytest

import sameluck as sl
from sameluck.inference.twins.observed_rewards import (
    ObservedStacks,
    observed_stacks,
    simulated_moments,
    simulated_stacks,
)
from sameluck.simulation.rewards import observed_rewards, reward_at


def simulated(design, environment="gaussian(0.1, 0.5)"):
    experiment = sl.Experiment(
        policies={"a": "uniform", "b": "ucb1"},
        arms=2,
        horizon=15,
        replications=3,
        design=design,
        seed=2,
    )
    return sl.simulate(experiment, environment, checkpoints=[5, 15])


@pytest.mark.parametrize("design", ["replay", "naive"])
def test_rewards_are_read_at_their_addresses(design):
    runs = simulated(design)
    names = [None] if design == "replay" else ["a", "b"]
    expected = [
        reward_at(runs.experiment, runs.environment, replication, name, arm, position)
        for replication in range(3)
        for owner, name in enumerate(names)
        for arm in range(2)
        for position in range(runs.depths[replication, owner, arm])
    ]

    assert observed_rewards(runs).tolist() == expected
    assert len(expected) == runs.interactions[:, -1].sum()


@pytest.mark.slow
def test_rewards_of_a_custom_environment():
    class Twos(NamedTuple):
        means: tuple[float, ...] = (2.0, 2.0)

    @sl.draws(Twos)
    def _twos(parameters, row, arm, bits):
        return 2.0

    runs = simulated("replay", Twos())

    assert set(observed_rewards(runs).tolist()) == {2.0}


def test_moments_are_sums():
    depths = np.array([[[3, 0]], [[2, 1]]])
    values = np.array([1.0, 2.0, 4.0, 5.0, 7.0, 9.0])
    moments = ObservedStacks(depths, values).moments()

    assert moments.totals.tolist() == [[[7, 0]], [[12, 9]]]
    assert moments.squares.tolist() == [[[21, 0]], [[74, 81]]]
    assert moments.trends.tolist() == [[[3, 0]], [[1, 0]]]


@pytest.mark.parametrize("design", ["replay", "naive"])
def test_moments_of_a_simulation_are_read_in_blocks(design, monkeypatch):
    runs, origins = simulated(design), np.array([0.1, 0.5])
    whole = ObservedStacks(runs.depths, observed_rewards(runs))
    monkeypatch.setattr(
        "sameluck.inference.twins.observed_rewards._REWARDS_PER_BLOCK", 40
    )  # of 45 and more

    for array, expected in zip(simulated_moments(runs), whole.moments(), strict=True):
        np.testing.assert_allclose(array, expected, rtol=1e-12, atol=1e-12)
    parts = [array.values for array in simulated_stacks(runs, origins)]
    assert len(parts) > 1
    assert np.array_equal(np.concatenate(parts), whole.minus(origins).values)
    by_arm = zip(whole.minus(origins).by_arm(), whole.by_arm(), origins, strict=True)
    assert all(np.array_equal(less, values - origin) for less, values, origin in by_arm)


def test_arms_are_pooled():
    depths = np.array([[[2, 1]], [[1, 0]]])
    arms = ObservedStacks(depths, np.array([1.0, 2.0, 3.0, 4.0])).by_arm()

    assert [arm.tolist() for arm in arms] == [[1, 2, 4], [3]]


def test_runs_without_rewards_are_refused():
    runs = simulated("replay")
    bare = sl.Runs(runs.experiment, runs.checkpoints, runs.rewards, runs.pulls, runs.interactions)

    with pytest.raises(sl.Invalid, match=r"live\.runs"):
        observed_stacks(bare)
    with pytest.raises(sl.Invalid, match="at least one complete replication"):
        observed_stacks(runs.part(0, 0))
