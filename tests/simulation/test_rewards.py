"""`reward_at` is what the simulation reads."""

import pytest

import sameluck as sl
from nonempty import nonempty
from sameluck.simulation.rewards import reward_at


@pytest.mark.parametrize("environment", [sl.Gaussian((0.1, 0.3)), sl.BernoulliPrior(1, 2)])
@pytest.mark.parametrize("design", ["replay", "naive"])
def test_it_equals_the_trace(design, environment):
    policies = {"a": "uniform", "b": "ucb1"}
    experiment = sl.Experiment(
        policies=policies, arms=2, horizon=9, replications=3, design=design, seed=4
    )
    trace = sl.trace(experiment, environment, 2)

    for name in policies:
        one = trace[name]
        owner = None if design == "replay" else name
        for arm, position, reward in nonempty(
            zip(one.arms, one.positions, one.rewards, strict=True)
        ):
            assert reward_at(experiment, environment, 2, owner, arm, position) == reward
