"""Variance between bandits and within a bandit, on a prior."""

import math

import pytest

import budget
import sameluck as sl

EXPERIMENT = sl.Experiment(
    policies={"ucb": sl.UCB1(0.5), "thompson": sl.ThompsonBernoulli()},
    arms=3,
    horizon=200,
    replications=2,
    seed=5,
)


@pytest.mark.parametrize("prior", [sl.BernoulliPrior(), sl.BernoulliPrior(a=600, b=400)])
def test_the_split_is_a_one_way_analysis_of_variance(prior):
    """Sums of squares are written out, from each instance simulated alone; one prior has no variance between."""
    instances, repeats = 6, 4
    split = sl.split_variance(EXPERIMENT, prior, instances=instances, repeats=repeats)
    groups = []
    for number in range(instances):
        whole = EXPERIMENT.replace(replications=instances * repeats)
        rows = range(number * repeats, (number + 1) * repeats)
        runs = sl.simulate(whole, prior.instance(5, number, 3), replications=rows)
        groups.append((runs.rewards[:, 1, 0] - runs.rewards[:, 0, 0]).tolist())
    means, grand = [sum(group) / repeats for group in groups], sum(map(sum, groups)) / 24
    within = sum((x - m) ** 2 for g, m in zip(groups, means, strict=True) for x in g) / (6 * 3)
    between = repeats * sum((m - grand) ** 2 for m in means) / 5
    expected = max(0.0, (between - within) / repeats)

    assert (expected == 0) == (prior.a != 1)
    assert (split.policy, split.control) == ("thompson", "ucb")
    assert split.effect == pytest.approx(grand, rel=1e-12)
    assert split.error == pytest.approx(math.sqrt(between / 24), rel=1e-12)
    assert (split.between, split.within) == pytest.approx((expected, within), rel=1e-12)
    assert (split.instances, split.repeats) == (6, 4)
    assert split.share_between == pytest.approx(expected / (expected + within), rel=1e-12)


@pytest.mark.slow
def test_the_split_of_a_known_distribution():
    """Two fixed arms of uniform probabilities over T periods: T^2 / 6 between and T / 3 within instances.

    The variance of a sample variance is (kurtosis - 1) / n of its square, with kurtosis 2.5 for the means of
    instances. The variance within an instance has a variance of 0.8 of its square, as it varies between instances.
    """
    arms = {"first": sl.Always(0), "second": sl.Always(1)}
    experiment = sl.Experiment(policies=arms, arms=2, horizon=6, replications=2, seed=budget.SEED)
    split = sl.split_variance(experiment, sl.BernoulliPrior(), instances=300, repeats=4)
    variance_of_means = split.between + split.within / 4
    assert variance_of_means == pytest.approx(6 + 0.5, rel=budget.z_bound(3) * math.sqrt(1.6 / 300))
    assert split.within == pytest.approx(2, rel=budget.z_bound(3) * math.sqrt(0.9 / 300))
    assert abs(split.effect) < budget.z_bound(3) * split.error


@pytest.mark.slow
def test_a_prior_without_spread_has_nothing_between():
    """With equal instances the variance between is 0 up to its error; the bound is 1/3 of the total."""
    nearly_fixed = sl.BernoulliPrior(a=(6e7, 5e7, 4e7), b=(4e7, 5e7, 6e7))
    split = sl.split_variance(EXPERIMENT, nearly_fixed, instances=40)
    assert split.share_between < 1 / 3
    assert "Repeating each instance" in split.verdict


def test_policies_that_only_the_bandit_tells_apart_have_all_variance_between():
    two = EXPERIMENT.replace(
        policies={"first": sl.Always(0), "second": sl.Always(1)}, arms=2, horizon=5_000
    )
    split = sl.split_variance(two, "bernoulli_prior(a=1, b=1)", instances=30, repeats=3)
    assert split.share_between > 0.99
    assert "Only more instances" in split.verdict


def test_it_needs_a_prior_and_enough_of_everything():
    with pytest.raises(sl.Invalid, match="needs a prior"):
        sl.split_variance(EXPERIMENT, sl.Bernoulli((0.1, 0.2, 0.3)))
    with pytest.raises(sl.Invalid, match="instances must be a whole number >= 2"):
        sl.split_variance(EXPERIMENT, sl.BernoulliPrior(), instances=1)
    with pytest.raises(sl.Invalid, match="the experiment has one policy"):
        sl.split_variance(EXPERIMENT.replace(policies={"a": sl.UCB1()}), sl.BernoulliPrior())
    with pytest.raises(sl.Invalid, match="needs rewards 0 and 1"):
        sl.split_variance(EXPERIMENT, sl.GaussianPrior())
