"""What replications cannot exclude: the bound of a share never met, and the sentence that says so."""

import dataclasses
import math

import numpy as np
import pytest
from scipy import stats

import sameluck as sl
from sameluck.inference.unseen import (
    possible_loss,
    replications_to_exclude,
    reversing_loss,
    unseen_share,
)

COINS = sl.Bernoulli((0.95, 0.5))


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.999])
@pytest.mark.parametrize("replications", [2, 20, 299, 10_000])
def test_the_share_is_the_exact_upper_bound_of_a_probability_never_met(replications, level):
    """Clopper and Pearson's bound for no success in so many trials."""
    share = unseen_share(replications, level)
    test = stats.binomtest(0, replications, alternative="less")
    assert share == pytest.approx(test.proportion_ci(level).high, rel=1e-6)
    assert (1 - share) ** replications == pytest.approx(1 - level, rel=1e-9)


def test_the_share_of_20_replications_is_14_percent():
    assert f"{unseen_share(20, 0.95):.2f}" == "0.14"
    assert unseen_share(298, 0.95) > 0.01 > unseen_share(299, 0.95)


@pytest.mark.parametrize("effect", [-3.0, 0.5, 40.0])
@pytest.mark.parametrize("replications", [5, 20, 400])
def test_the_loss_that_reverses_an_effect_balances_it(effect, replications):
    share, loss = unseen_share(replications, 0.9), reversing_loss(effect, replications, 0.9)
    assert (1 - share) * abs(effect) == pytest.approx(share * loss)


@pytest.mark.parametrize("level", [0.8, 0.95])
@pytest.mark.parametrize(("effect", "loss"), [(30.0, 2_250.0), (-2.0, 10.0), (1.0, 0.9)])
def test_the_replications_to_exclude_a_loss_are_the_fewest(effect, loss, level):
    """Counted up one by one until such a loss no longer reverses the effect."""
    fewest = 1
    while reversing_loss(effect, fewest, level) < loss:
        fewest += 1
    assert replications_to_exclude(effect, loss, level) == fewest


def test_the_largest_possible_loss_is_that_of_the_worst_arm_in_every_period():
    policies = {"a": sl.Always(0), "b": sl.Always(1)}
    experiment = sl.Experiment(policies=policies, arms=3, horizon=40, replications=2)
    runs = sl.simulate(experiment, sl.Bernoulli((0.5, 0.2, 0.9)), checkpoints=[10, 40])
    assert possible_loss(runs) == pytest.approx(40 * 0.7)
    assert possible_loss(dataclasses.replace(runs, environment=None)) is None
    assert possible_loss(sl.simulate(experiment, sl.BernoulliPrior())) == 40
    assert possible_loss(sl.simulate(experiment, sl.GaussianPrior())) is None


def made_up(effects, environment, *, horizon=5_000, seconds=None, spread=0.1):
    """Twenty replications in which each further policy earns about so much more than the first."""
    rewards = np.zeros((20, len(effects) + 1, 1))
    rewards[:, 1:, 0] = np.array(effects) + spread * np.resize([-1, 1], 20)[:, None]
    policies = {f"p{index}": sl.UCB1(index + 1.0) for index in range(len(effects) + 1)}
    experiment = sl.Experiment(policies=policies, arms=2, horizon=horizon, replications=20)
    pulls = np.zeros((*rewards.shape, 2), np.int64)
    pulls[..., 0] = np.arange(len(effects) + 1)[None, :, None]
    users = np.full((20, 1), horizon)
    return sl.Runs(
        experiment, np.array([horizon]), rewards, pulls, users, environment, seconds=seconds
    )


TO_EXCLUDE = math.ceil(math.log(0.05) / math.log(1 - 30 / (30 + 2_250)))


def unchecked(runs, **arguments):
    return sl.compare(runs, check=False, **arguments).verdict


@pytest.mark.parametrize(
    ("seconds", "time"),
    [
        (None, ""),
        (5.0, " (less than a minute)"),
        (10.6, " (about 100 s)"),
        (60.0, " (about 11.7 min)"),
    ],
)
def test_a_finding_says_what_20_replications_cannot_exclude(seconds, time):
    """Up to 14% unseen; 30 ahead is reversed by a loss of 30 (1 - p) / p = 185 each, of at most 5,000 x 0.45."""
    assert (
        "Failures in under 14% of replications would not show in 20; "
        f"run {TO_EXCLUDE:,}{time} to rule out a reversal."
        in unchecked(made_up([30], COINS, seconds=seconds))
    )
    assert TO_EXCLUDE == 227


def test_the_smallest_of_several_findings_counts():
    needed = replications_to_exclude(10, 2_250, 0.95)
    verdict = unchecked(made_up([30, -10, 0.01], COINS), simultaneous="none")
    assert f"run {needed:,} to rule out a reversal" in verdict


def test_nothing_is_said_where_no_loss_can_reverse_the_finding():
    """A loss of 186 each would, and always playing the worst arm loses 45."""
    verdict = unchecked(made_up([30], COINS, horizon=100))
    assert "Failures" not in verdict


@pytest.mark.parametrize("environment", [None, sl.GaussianPrior()])
def test_where_the_means_are_not_known_only_the_share_is_stated(environment):
    verdict = unchecked(made_up([30], environment))
    assert "Failures in under 14% of replications would not show in 20. The" in verdict


def test_without_a_finding_and_about_medians_nothing_is_said():
    assert "Failures" not in unchecked(made_up([0.01], COINS))
    median = unchecked(made_up([30], COINS), interval="median")
    assert "Failures" not in median
    assert median.startswith("In the median replication p1 earned 30.00 more than p0 over 5,000")
    runs = made_up([30], COINS)
    runs.rewards[0, 1] = -2_000  # fails once in 20
    failing = unchecked(runs, interval="median")
    assert "more). Its mean is 71.49 less: rare replications outweigh the rest." in failing
    shorter = unchecked(made_up([30], COINS), level=0.8)
    assert "Failures in under 7.7% of replications" in shorter


@pytest.mark.parametrize(("means", "most"), [((0.5, 0.5), "0.00"), ((0.5, 0.6), "10.00")])
def test_a_difference_that_is_not_possible_is_due_to_chance(means, most):
    verdict = unchecked(made_up([30], sl.Bernoulli(means), horizon=100))
    assert (
        f"Policies can differ by at most {most} here, the horizon times the range of the arms' means, so this is due "
        "to chance at least in part." in verdict
    )
    assert "Failures" not in verdict


@pytest.mark.parametrize("pairs", ["best", "all"])
def test_the_best_mean_is_not_said_to_lead_by_its_median(pairs):
    """p1 has the highest mean by two replications; p2 is ahead of it in the median replication."""
    runs = made_up([0, 3], COINS)
    runs.rewards[:2, 1] = 500
    assert unchecked(runs, pairs=pairs).startswith("p1 earned most over 5,000 periods")
    median = unchecked(runs, pairs=pairs, interval="median")
    assert median.startswith("In the median replication: ")
    assert "most" not in median
    assert "earned more than" in median or "earned less than p2" in median
