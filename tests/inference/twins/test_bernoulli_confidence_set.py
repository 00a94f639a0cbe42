"""The confidence set has its defined edge and contains the true means; guaranteed intervals reach its extremes."""

import math

import numpy as np
import pytest
from scipy import special

import sameluck as sl
from budget import SEED
from nonempty import nonempty
from sameluck.inference.twins.bernoulli_confidence_set import bernoulli_confidence_set
from sameluck.inference.twins.copies import BernoulliCopy

COPY = BernoulliCopy(np.array([40.0, 900.0, 7.0]), np.array([12.0, 700.0, 7.0]))

COPY_OF_ONE = BernoulliCopy(np.array([10.0]), np.array([4.0]))


def literal_evidence(copy, means):
    """Return the logarithm of the mixture's likelihood ratio against the means."""
    total = 0.0
    for users, wins, mean in zip(copy.users, copy.successes, means, strict=True):
        losses = users - wins
        total += special.betaln(wins + 0.5, losses + 0.5) - special.betaln(0.5, 0.5)
        total -= special.xlogy(wins, mean) + special.xlogy(losses, 1 - mean)
    return total


def test_points_on_the_sphere_are_on_the_edge_of_the_set():
    confidence_set = bernoulli_confidence_set(COPY, 0.95)
    generator = np.random.Generator(np.random.PCG64(SEED))
    points = generator.standard_normal((20, 3))
    points[:, 2] = -np.abs(
        points[:, 2]
    )  # the third arm has never failed: its mean cannot be higher
    points *= confidence_set.radius / np.linalg.norm(points, axis=1, keepdims=True)

    for means in nonempty(confidence_set.means(points)):
        assert literal_evidence(COPY, means) == pytest.approx(math.log(20), abs=1e-3)


def test_inside_and_outside():
    confidence_set = bernoulli_confidence_set(COPY, 0.95)
    means = np.array([[0.3, 0.78, 0.9], [0.9, 0.5, 0.9], [0.31, 0.77, 0.99]])

    expected = [literal_evidence(COPY, row) < math.log(20) for row in means]
    assert confidence_set.contains(means).tolist() == expected == [True, False, True]


def test_whether_arms_may_be_equal():
    assert not bernoulli_confidence_set(COPY, 0.95).has_equal_arms
    assert bernoulli_confidence_set(COPY._replace(successes=COPY.users * 0.5), 0.95).has_equal_arms
    with_unseen_arm = BernoulliCopy(np.array([0.0, 10.0]), np.array([0.0, 10.0]))
    assert bernoulli_confidence_set(with_unseen_arm, 0.95).has_equal_arms


def test_an_arm_without_users_may_be_anything():
    confidence_set = bernoulli_confidence_set(
        BernoulliCopy(np.array([0.0, 10.0]), np.array([0.0, 4.0])), 0.9
    )
    ends = confidence_set.means(
        confidence_set.edge(np.array([[1.0, 0.0], [-1.0, 0.0], [0.8, 0.6]]))
    )

    assert ends[:, 0].tolist() == [1.0, 0.0, 1.0]
    assert ends[:2, 1] == pytest.approx([0.4, 0.4], abs=1e-6)
    assert literal_evidence(COPY_OF_ONE, ends[2, 1:]) == pytest.approx(math.log(10), abs=1e-3)


def test_the_true_means_are_in_the_set_at_every_look():
    """500 arms are looked at after every reward; at most 5% may ever leave the set, and far fewer do."""
    generator = np.random.Generator(np.random.PCG64(SEED))
    rewards = generator.random((500, 200)) < 0.3
    left = 0
    for row in np.cumsum(rewards, axis=1):
        counts = np.arange(1, 201)
        evidence = special.betaln(row + 0.5, counts - row + 0.5) - special.betaln(0.5, 0.5)
        evidence -= row * math.log(0.3) + (counts - row) * math.log(0.7)
        left += evidence.max() >= math.log(20)

    assert left <= 25


@pytest.mark.slow
def test_it_contains_the_interval_of_the_effect():
    experiment = sl.Experiment(
        policies={"a": "ucb1", "b": "uniform"}, arms=2, horizon=60, replications=1, seed=3
    )
    runs = sl.simulate(experiment, sl.Bernoulli([0.8, 0.3]))
    twin = sl.twin(runs, replications=2_000, draws=40, draw_replications=100)

    assert twin.guaranteed[0].low < twin.effects[0].low
    assert twin.guaranteed[0].high > twin.effects[0].high


def test_the_ends_are_found_among_many_arms():
    """With 40 arms only the gradient leads near the ends: without it the interval ends at 20.3 instead of 23.4."""
    policies = {"a": "ucb1(2)", "b": "ucb1(0.5)"}
    experiment = sl.Experiment(policies=policies, arms=40, horizon=100, replications=1, seed=3)
    runs = sl.simulate(experiment, sl.Bernoulli(np.linspace(0.1, 0.8, 40).tolist()))
    twin = sl.twin(runs, replications=600, draws=40, draw_replications=40)
    (effect,), (end,) = twin.effects, twin.guaranteed

    assert end.low < effect.low
    assert end.high > effect.high
    assert end.high - end.low > 22


def test_arms_that_have_never_paid_may_all_be_equal():
    """Where all means are 0 every policy earns 0, whatever the long run shows."""
    policies = {"a": "ucb1(2)", "b": "ucb1(0.5)"}
    experiment = sl.Experiment(policies=policies, arms=2, horizon=100, replications=2, seed=3)
    runs = sl.simulate(experiment, sl.Bernoulli([0.0, 0.0]))
    twin = sl.twin(runs, replications=1_000, draws=20, draw_replications=40)

    assert twin.guaranteed[0].low <= 0 < twin.guaranteed[0].high
