"""Regret beside the lower bound of Lai and Robbins (1985), on the Bernoulli arms that papers use."""

import math
from functools import cache

import numpy as np
import pytest

import cases
import sameluck as sl
from budget import SEED, standard_error
from sameluck import text_forms
from sameluck.inference.metrics import METRICS, measured

EARLY, HORIZON = 200, 2_000
BEST, OTHER = 0.9, 0.8
DIVERGENCE = OTHER * math.log(OTHER / BEST) + (1 - OTHER) * math.log((1 - OTHER) / (1 - BEST))
LOWER_BOUND = (BEST - OTHER) * math.log(HORIZON) / DIVERGENCE
BOUND_GROWTH = (BEST - OTHER) * math.log(HORIZON / EARLY) / DIVERGENCE
OPTIMAL = (sl.KLUCB(), sl.IMED(), sl.BayesUCB(), sl.ThompsonBernoulli())
STANDARD_ERRORS = 5  # false alarm below 1e-6


def regret_of(policy):
    """The pseudo-regret of 600 replications (replication, checkpoint)."""
    return regret_of_text(text_forms.write(policy))  # policies of two classes may be equal


@cache
def regret_of_text(policy):
    experiment = sl.Experiment(
        policies={"it": policy}, horizon=HORIZON, replications=600, seed=SEED
    )
    runs = sl.simulate(experiment, sl.Bernoulli((BEST, OTHER)), checkpoints=[EARLY, HORIZON])
    return measured(runs, METRICS["regret"]).rewards[:, 0]


@pytest.mark.slow
@pytest.mark.parametrize("policy", OPTIMAL, ids=cases.name)
def test_policies_that_are_asymptotically_optimal_do_not_exceed_the_lower_bound(policy):
    """The bound is asymptotic: at a finite horizon these policies are below it, and nothing says how far."""
    regret = regret_of(policy)[:, 1]

    assert regret.mean() + STANDARD_ERRORS * standard_error(regret) < LOWER_BOUND


@pytest.mark.slow
@pytest.mark.parametrize("policy", OPTIMAL, ids=cases.name)
def test_their_regret_grows_nearly_as_the_bound_does(policy):
    """Between 200 and 2,000 periods by less than twice as much, where that of UCB1 grows 5 times as much."""
    growth = np.diff(regret_of(policy))[:, 0]
    error = STANDARD_ERRORS * standard_error(growth)

    assert growth.mean() + error < 2 * BOUND_GROWTH
    assert growth.mean() - error > 0.2 * BOUND_GROWTH


@pytest.mark.slow
def test_ucb1_is_far_above_the_lower_bound():
    regret = regret_of(sl.UCB1())
    growth = np.diff(regret)[:, 0]

    assert regret[:, 1].mean() - STANDARD_ERRORS * standard_error(regret[:, 1]) > 2 * LOWER_BOUND
    assert growth.mean() - STANDARD_ERRORS * standard_error(growth) > 5 * BOUND_GROWTH
