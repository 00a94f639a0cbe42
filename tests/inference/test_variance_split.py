"""Between bandits and on a given bandit: the law of total variance on a prior."""

import numpy as np
import pytest

import sameluck as sl

EXPERIMENT = sl.Experiment(
    policies={"ucb": sl.UCB1(0.5), "thompson": sl.ThompsonBernoulli()},
    arms=3,
    horizon=200,
    replications=2,
    seed=5,
)


@pytest.mark.slow
def test_the_parts_add_up_to_the_variance_of_one_replication_an_instance():
    """Against 20,000 replications with an instance each, the usual way: within 5 standard errors of the split's own
    sampling (about 10% with 300 instances; false alarm below 1e-6)."""
    split = sl.split_variance(EXPERIMENT, sl.BernoulliPrior(), instances=300, repeats=10)
    runs = sl.simulate(EXPERIMENT.replace(replications=20_000, seed=6), sl.BernoulliPrior())
    values = runs.rewards[:, 1, 0] - runs.rewards[:, 0, 0]

    assert split.between + split.within == pytest.approx(values.var(), rel=0.5)
    assert abs(split.effect - values.mean()) < 5 * np.hypot(
        split.error, values.std() / np.sqrt(20_000)
    )


def test_a_prior_without_spread_has_nothing_between():
    """All instances equal: the part between is zero up to its error; 40 instances of 10, bound 1/3 of the whole."""
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
    with pytest.raises(sl.Invalid, match="one policy"):
        sl.split_variance(EXPERIMENT.replace(policies={"a": sl.UCB1()}), sl.BernoulliPrior())
    with pytest.raises(sl.Invalid, match="needs rewards 0 and 1"):
        sl.split_variance(EXPERIMENT, sl.GaussianPrior())
