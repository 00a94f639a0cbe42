"""Checks of the regret remark, the martingale and the covariances: their values, and that they can fail.

Each random check raises a false alarm with probability at most 1e-6.
"""

from dataclasses import replace

import numpy as np
import pytest

import sameluck as sl
from budget import SEED, z_bound
from nonempty import nonempty
from sameluck.paper import asymptotics, theorems
from sameluck.paper.algorithms import Users, transformed_counts
from sameluck.paper.chapters import Estimate, Settings, covariance
from sameluck.paper.examples import EXAMPLE_1, EXAMPLE_2, EXAMPLE_3, EXAMPLES, experiment
from sameluck.paper.theorem_tests import check

PARTS = {part.name: part for part in theorems.CHAPTERS}


def runs_of(part, replications=100):
    """Return the runs of the chapter's simulations."""
    settings = Settings(replications, SEED)
    return settings, {
        label: sl.simulate(one.experiment, one.environment, checkpoints=one.checkpoints)
        for label, one in PARTS[part].simulations(settings).items()
    }


def test_the_regret_remark_is_checked_from_the_rewards():
    """Rewards higher by 20 give a smaller regret, which breaks example 2's equality."""
    settings, runs = runs_of("regret")
    result = PARTS["regret"].analyse(settings, runs)
    assert result["passes"]
    assert len(result["looks"]) == 12

    runs["example2"] = replace(runs["example2"], rewards=runs["example2"].rewards + 20.0)
    result = PARTS["regret"].analyse(settings, runs)
    failing = {(test["quantity"], test["case"]) for test in result["looks"] if not test["passes"]}
    assert failing == {
        ("n <= E Reg / smallest gap", f"example2, {name}") for name in EXAMPLE_2.policies
    }


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda one: one.name)
def test_weighted_increments_are_those_of_the_stacks(example):
    """Plain Python computes equal sums from the users' rewards."""
    short = experiment(example, Settings(2, SEED), 20)
    low, high, chance = event = theorems.event(example)
    ends = np.full((2, 1, example.means.size), 20)
    begins = ends - 15
    sums = transformed_counts(short, example.environment, event, begins, ends)
    for row in range(2):
        users = Users(short, example.environment, row)
        for arm in nonempty(range(example.means.size)):
            expected, count = np.zeros(2), 0.0
            for position in range(20):
                inside = low[arm] <= users.reward(arm, position) <= high[arm]
                increment = inside - chance[arm]
                if position >= 5:
                    expected += increment * np.array([1.0, np.sign(count)])
                count += increment
            assert sums[row, 0, :, arm] == pytest.approx(expected)


def test_the_probability_of_the_event_is_right():
    """20,000 rewards of each arm fall into B as often as stated."""
    for example in nonempty(EXAMPLES):
        event = theorems.event(example)
        short = experiment(example, Settings(200, SEED), 100)
        ends = np.full((200, 1, example.means.size), 100)
        sums = transformed_counts(short, example.environment, event, 0 * ends, ends)[:, 0, 0]
        z = sums.sum(axis=0) / np.sqrt(20_000 * event[2] * (1 - event[2]))
        assert np.abs(z).max() < z_bound(12)


@pytest.mark.slow
def test_a_number_that_is_not_a_stopping_time_breaks_the_martingale():
    """Read arm 5 until the last success among its first 40 rewards: the increments sum to about 0.9, not to 0.

    With 400 replications that is some 11 standard errors.
    """
    short = experiment(EXAMPLE_1, Settings(400, SEED), 40)
    ends = np.zeros((400, 1, 5), np.int64)
    for row in range(400):
        users = Users(short, EXAMPLE_1.environment, row)
        ends[row, 0, 4] = max((k + 1 for k in range(40) if users.reward(4, k)), default=0)
    event = theorems.event(EXAMPLE_1)
    sums = transformed_counts(short, EXAMPLE_1.environment, event, 0 * ends, ends)[:, 0, 0, 4]
    assert sums.mean() > z_bound(72) * np.sqrt(0.1 * 0.9 * ends[:, 0, 4].mean() / 400)


def test_the_limits_of_the_covariances():
    """sigma^2 three times if the assumption holds; with epsilon-greedy the variance of the explored means counts."""
    for example, sigma2 in ((EXAMPLE_1, 0.09), (EXAMPLE_2, 0.21)):
        ends = asymptotics.limits(example)
        expected = {"C00": sigma2, "C11": sigma2, "C01": sigma2, "Var(naive)": 2 * sigma2}
        assert ends == pytest.approx({**expected, "Var(replay)": 0.0})

    shares, means = np.array([0.92, 0.02, 0.02, 0.02, 0.02]), np.array([1.0, 0.8, -2.0, -3.0, -4.0])
    spread = (shares * means**2).sum() - (shares * means).sum() ** 2
    ends = asymptotics.limits(EXAMPLE_3)
    assert (ends["C00"], ends["C11"], ends["C01"]) == pytest.approx((1.0, 1.0 + spread, 0.92))
    assert ends["Var(replay)"] == pytest.approx(2.0 + spread - 1.84)


def test_exploration_alone_has_the_stated_variance():
    """At epsilon = 1, every period explores, and C11/T of epsilon-greedy is its limit: 20,000 replications of 20."""
    uniform = EXAMPLE_3._replace(
        policies={**EXAMPLE_3.policies, "epsilon_greedy": sl.EpsilonGreedy(1.0)}
    )
    long = experiment(uniform, Settings(20_000, SEED), 25)
    rewards = sl.simulate(long, uniform.environment, checkpoints=[5, 25]).rewards[:, 1]
    explored = rewards[:, 1] - rewards[:, 0]  # after the initial plays
    measured = covariance(explored, explored).scaled(1 / 20)
    assert abs(measured.value - asymptotics.limits(uniform)["C11"]) < z_bound() * measured.error


def test_the_covariances_of_the_report_add_up(report):
    """Var(replay) = C00 + C11 - 2 C01 holds within the runs, to rounding."""
    curves = report.parts["variance"]["curves"]
    assert set(curves) == {"example1", "example2", "example3"}
    for curve in curves.values():
        c00, c11, c01, replay = (
            np.array([point["value"] for point in curve[name]])
            for name in ("C00", "C11", "C01", "Var(replay)")
        )
        assert replay == pytest.approx(c00 + c11 - 2 * c01)
        assert all(point["error"] > 0 for many in curve.values() for point in many)


@pytest.mark.parametrize("name", ["C00", "C11", "C01", "Var(replay)", "Var(naive)"])
def test_a_covariance_that_does_not_tend_to_its_limit_is_seen(name):
    def passes(example, factor):
        """All curves approach their limits but one, which is off by a share of the naive limit."""
        ends = asymptotics.limits(example)
        off = {**dict.fromkeys(ends, 0.0), name: factor * ends["Var(naive)"]}
        rates = {
            key: [
                Estimate(end + nearer * 0.1 + off[key], 0.001) for nearer in (0.4, 0.2, 0.1, 0.05)
            ]
            for key, end in ends.items()
        }
        rates["Var(naive)"] = [
            Estimate(c00.value + c11.value + off["Var(naive)"] - off["C00"] - off["C11"], 0.001)
            for c00, c11 in zip(rates["C00"][:3], rates["C11"], strict=False)
        ]
        return check("", "", [*asymptotics.limit_tests(example, rates)])["passes"]

    for example in (EXAMPLE_1, EXAMPLE_2):
        assert passes(example, 0.0)
        assert not passes(example, 0.4)


def test_the_error_of_a_covariance_is_its_spread():
    """2,000 samples of 400 correlated pairs: the spread of their covariances is the stated error (within 20%)."""
    rng = np.random.default_rng(SEED)
    pairs = rng.standard_exponential((2_000, 2, 400))
    pairs[:, 1] += pairs[:, 0]
    estimates = [covariance(one, other) for one, other in pairs]
    assert estimates[0].value == pytest.approx(np.cov(*pairs[0])[0, 1])
    spread = np.std([estimate.value for estimate in estimates])
    assert np.mean([estimate.error for estimate in estimates]) == pytest.approx(spread, rel=0.2)
