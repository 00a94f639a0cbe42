"""The same replications in many environments are those of `simulate`, to the bit."""

import numpy as np
import pytest

import sameluck as sl
from sameluck.simulation.each_environment import rewards_in_each


@pytest.mark.parametrize("workers", [1, 2])
def test_rewards_are_those_of_simulate(workers):
    experiment = sl.Experiment(
        policies={"a": "ucb1", "b": "ucb1(3)"}, arms=2, horizon=30, replications=9, seed=4
    )
    environments = [sl.Bernoulli((0.1 * k, 0.5)) for k in range(5)]
    checkpoints, some = np.array([10, 30]), range(2, 9)
    each = list(rewards_in_each(experiment, environments, checkpoints, some, workers))
    for rewards, environment in zip(each, environments, strict=True):
        runs = sl.simulate(experiment, environment, checkpoints=[10, 30], replications=some)
        assert np.array_equal(rewards, runs.rewards)
