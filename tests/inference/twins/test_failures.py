"""Rare failures: a few replications that hold over half of the sum of squares."""

import numpy as np
import pytest

import sameluck as sl
from sameluck.inference.twins.failures import failure_of, far_draws


def normal(count):
    return np.random.Generator(np.random.PCG64(1)).normal(0, 3, count)


def test_normal_differences_have_no_failure():
    assert not far_draws(normal(5_000), 0.5).any()


def test_a_rare_failure_is_found():
    """One in a hundred loses about 400: these are far, and the failure has the loss that explains the mean best."""
    differences = np.concatenate([normal(9_900) + 10, -400 - np.abs(normal(100))])

    assert far_draws(differences, 0.5).sum() == 100
    failure = failure_of(("bold", "calm"), 1_000, differences, np.array([9.0, -401.0]), 0.5)

    assert (failure.policy, failure.control) == ("bold", "calm")
    assert 400 <= failure.loss < 410
    assert 100 <= failure.one_in < 125
    assert failure.met <= 1
    assert "1 replication in" in str(failure)


def test_the_control_may_fail():
    differences = np.concatenate([normal(990), 200 + np.abs(normal(10))])
    failure = failure_of(("a", "b"), 50, differences, np.zeros(1), 0.5)

    assert (failure.policy, failure.control, failure.met) == ("b", "a", 0)
    assert "yours has not met this" in str(failure)


def test_constant_differences_have_no_failure():
    assert failure_of(("a", "b"), 50, np.zeros(100), np.zeros(2), 0.5) is None


@pytest.mark.slow
def test_a_policy_without_exploration_fails_on_its_twin():
    """One replication that has not met the failure of UCB1 with little exploration is enough."""
    policies = {"ucb": sl.UCB1(2.0), "bold": sl.UCB1(0.05)}
    experiment = sl.Experiment(policies=policies, arms=2, horizon=400, replications=1, seed=1)
    runs = sl.simulate(experiment, sl.Bernoulli([0.9, 0.5]))
    twin = sl.twin(runs, replications=3_000, draws=20, draw_replications=50)
    (failure,) = twin.failures

    assert (failure.policy, failure.met) == ("bold", 0)
    assert failure.loss > 50
    assert str(failure) in twin.verdict
