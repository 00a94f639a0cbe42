"""Regret beside the lower bound of Lai and Robbins (1985), on the Bernoulli arms that papers use."""

import math

import pytest

import cases
import sameluck as sl
from budget import SEED

HORIZON = 2_000
BEST, OTHER = 0.9, 0.8
DIVERGENCE = OTHER * math.log(OTHER / BEST) + (1 - OTHER) * math.log((1 - OTHER) / (1 - BEST))
LOWER_BOUND = (BEST - OTHER) * math.log(HORIZON) / DIVERGENCE
STANDARD_ERRORS = 5  # false alarm below 1e-6


def regret_of(policy):
    """The mean over 200 replications, with its standard error."""
    experiment = sl.Experiment(
        policies={"it": policy}, arms=2, horizon=HORIZON, replications=200, seed=SEED
    )
    wrong = sl.simulate(experiment, sl.Bernoulli((BEST, OTHER))).pulls[:, 0, 0, 1]
    return (BEST - OTHER) * wrong.mean(), (BEST - OTHER) * wrong.std() / math.sqrt(wrong.size)


@pytest.mark.slow
@pytest.mark.parametrize(
    "policy", [sl.KLUCB(), sl.IMED(), sl.BayesUCB(), sl.ThompsonBernoulli()], ids=cases.name
)
def test_policies_that_are_asymptotically_optimal_do_not_exceed_the_lower_bound(policy):
    """The bound is asymptotic: at a finite horizon these policies are below it, and nothing says how far."""
    regret, error = regret_of(policy)

    assert regret + STANDARD_ERRORS * error < LOWER_BOUND


@pytest.mark.slow
def test_ucb1_is_far_above_the_lower_bound():
    regret, error = regret_of(sl.UCB1())

    assert regret - STANDARD_ERRORS * error > 2 * LOWER_BOUND
