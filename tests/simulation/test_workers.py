"""Short simulations in many environments are those of `simulate`, to the bit."""

import numpy as np
import pytest

import sameluck as sl
from nonempty import nonempty
from sameluck.simulation.workers import runs_in_each


@pytest.mark.parametrize("workers", [1, 2])
def test_runs_are_those_of_simulate(workers):
    experiment = sl.Experiment(
        policies={"a": "ucb1", "b": "ucb1(3)"}, arms=2, horizon=30, replications=9, seed=4
    )
    places = [(sl.Bernoulli((0.1 * k, 0.5)), range(k, 9)) for k in range(5)]
    each = runs_in_each(experiment, places, np.array([10, 30]), workers)
    for found, (environment, some) in nonempty(zip(each, places, strict=True)):
        runs = sl.simulate(experiment, environment, checkpoints=[10, 30], replications=some)
        assert np.array_equal(found.rewards, runs.rewards)
        assert np.array_equal(found.pulls, runs.pulls)
        assert np.array_equal(found.interactions, runs.interactions)
        assert (found.first, found.environment) == (runs.first, runs.environment)
