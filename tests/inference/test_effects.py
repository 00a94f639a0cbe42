"""Effects and their intervals, against SciPy and against what must hold whatever the numbers."""

import math

import numpy as np
import pytest
from scipy import stats

import sameluck as sl
from sameluck.inference.effects import pairings
from sameluck.intervals import t_interval


def runs_of(rewards: list[list[float]], **changes: object) -> sl.Runs:
    """Runs of made-up rewards (replication, policy) at one checkpoint."""
    array = np.array(rewards, dtype=float)[:, :, None]
    names = [f"p{place}" for place in range(array.shape[1])]
    experiment = sl.Experiment(
        policies={name: sl.Uniform() for name in names},
        arms=2,
        horizon=10,
        replications=array.shape[0],
        **changes,
    )
    pulls = np.full((*array.shape, 2), 5)
    spent = np.full((array.shape[0], 1), 12)
    return sl.Runs(experiment, np.array([10]), array, pulls, spent)


def test_the_t_interval_is_scipys_to_the_last_digits():
    values = np.random.default_rng(1).normal(3, 2, size=17)
    for level in (0.5, 0.9, 0.95, 0.99, 0.9999):
        low, high, p_value = t_interval(values, level)

        theirs = stats.ttest_1samp(values, 0)
        expected = theirs.confidence_interval(level)
        assert low == pytest.approx(expected.low, rel=1e-13)
        assert high == pytest.approx(expected.high, rel=1e-13)
        assert p_value == pytest.approx(theirs.pvalue, rel=1e-12)


def test_an_effect_is_the_mean_difference_within_replications():
    result = sl.compare(runs_of([[1, 4], [2, 4], [6, 10]]))

    (effect,) = result.effects
    assert (effect.policy, effect.control) == ("p1", "p0")
    assert effect.effect == 3.0
    assert effect.sd == pytest.approx(1.0)
    assert (effect.reward, effect.control_reward) == (6.0, 3.0)
    assert (effect.interactions, effect.naive_interactions) == (12, 20)
    naive = np.var([1, 2, 6], ddof=1) + np.var([4, 4, 10], ddof=1)
    assert effect.variance_ratio == pytest.approx(naive / 1.0)


def test_pairs_are_with_the_control_or_all_each_once():
    runs = runs_of([[1, 2, 3], [2, 2, 5]])

    with_control = sl.compare(runs, control="p1").effects
    assert [(one.policy, one.control) for one in with_control] == [("p0", "p1"), ("p2", "p1")]

    every = sl.compare(runs, pairs="all").effects
    assert [(e.policy, e.control) for e in every] == [("p1", "p0"), ("p2", "p0"), ("p2", "p1")]
    with_last = sl.compare(runs, pairs="all", control="p2").effects
    assert [(e.policy, e.control) for e in with_last] == [("p0", "p2"), ("p1", "p2"), ("p1", "p0")]


def test_a_difference_without_variance_needs_no_interval():
    same = sl.compare(runs_of([[1, 1], [2, 2]])).effects[0]
    assert (same.effect, same.low, same.high, same.p_value, same.sd) == (0, 0, 0, 1, 0)
    assert math.isinf(same.variance_ratio)

    shifted = sl.compare(runs_of([[1, 2], [2, 3]])).effects[0]
    assert (shifted.effect, shifted.low, shifted.high, shifted.p_value) == (1, 1, 1, 0)


@pytest.mark.parametrize(
    ("arguments", "fragment"),
    [
        ({"level": 1.0}, "level must be between 0 and 1"),
        ({"level": 95}, "level must be between 0 and 1"),
        ({"level": True}, "level must be between 0 and 1"),
        ({"level": float("nan")}, "level must be between 0 and 1"),
        ({"pairs": "some"}, "unknown pairs 'some'; known: control, all, best"),
        ({"interval": "z"}, "unknown interval 'z'; known"),
        ({"control": "p9"}, "unknown control 'p9'; known: p0, p1"),
    ],
)
def test_bad_arguments_are_refused_in_words(arguments, fragment):
    with pytest.raises(sl.Invalid, match=fragment):
        sl.compare(runs_of([[1, 2], [2, 4]]), **arguments)


def test_runs_that_cannot_be_compared_are_refused_in_words():
    with pytest.raises(sl.Invalid, match="at least 2 replications, got 1"):
        sl.compare(runs_of([[1, 2]]))
    with pytest.raises(sl.Invalid, match="at least two policies"):
        sl.compare(runs_of([[1], [2]]))
    with pytest.raises(sl.Invalid, match="must be finite"):
        sl.compare(runs_of([[1, 2], [math.nan, 3]]))
    with pytest.raises(sl.Invalid, match="takes the Runs"):
        sl.compare("runs")


@pytest.mark.parametrize("name", sorted(pairings))
def test_every_pairing_names_two_different_policies_and_no_pair_twice(name):
    pairs = list(pairings[name](("a", "b", "c", "d"), "c", "b"))
    assert all(policy != control for policy, control in pairs)
    assert len({frozenset(pair) for pair in pairs}) == len(pairs)


def test_the_t_interval_covers_as_often_as_it_says():
    """99% intervals from 10 replications of Example 1 against the mean of 20,000 others.

    2,000 experiments: binomial sd 0.0022; the bound of 5 sd has a false-alarm chance under 1e-6 and sees a coverage
    of 0.97.
    """
    policies = {"low": sl.UCB1(2.5), "high": sl.UCB1(3.0)}
    experiment = sl.Experiment(policies=policies, arms=5, horizon=300, replications=40_000, seed=5)
    runs = sl.simulate(experiment, sl.Bernoulli((0.9, 0.7, 0.5, 0.3, 0.1)))
    differences = runs.rewards[:, 1, 0] - runs.rewards[:, 0, 0]
    truth = differences[20_000:].mean()

    groups = differences[:20_000].reshape(2_000, 10)
    hits = [low <= truth <= high for low, high, _ in (t_interval(row, 0.99) for row in groups)]

    assert abs(np.mean(hits) - 0.99) < 5 * math.sqrt(0.99 * 0.01 / 2_000)


def test_on_a_prior_the_naive_variance_cannot_be_told_from_the_same_runs():
    """The naive design would meet the same bandit, so the two policies' variances do not add up to its own."""
    experiment = sl.Experiment(
        policies={"a": "ucb1", "b": "uniform"}, arms=2, horizon=50, replications=40
    )
    result = sl.compare(sl.simulate(experiment, sl.BernoulliPrior()))
    assert math.isnan(result.effects[0].variance_ratio)
    assert math.isnan(result.effects[0].naive_replications)
    assert result.cautions == ()
    assert " -\n" in str(result)
