"""Plans against the exact law of t, against brute force, and against requests that make no sense."""

import json
import math

import numpy as np
import pytest
from scipy import stats

import sameluck as sl
from sameluck.inference.planning import power_of

COINS = sl.Bernoulli((0.9, 0.7, 0.5, 0.3, 0.1))
EXPERIMENT = sl.Experiment(
    policies={"low": sl.UCB1(2.5), "high": sl.UCB1(3.0)},
    arms=5,
    horizon=1_000,
    replications=2,
    seed=7,
)


@pytest.mark.parametrize("replications", [2, 5, 30, 1_000])
@pytest.mark.parametrize("level", [0.8, 0.95, 0.999])
def test_power_is_the_noncentral_t_law(replications, level):
    for centre in (0.0, 0.5, 2.0, 3.5):
        effect, freedom = centre / math.sqrt(replications), replications - 1
        critical = stats.t.ppf(0.5 + level / 2, freedom)
        law = stats.nct(freedom, centre)
        expected = law.sf(critical) + law.cdf(-critical)
        assert power_of(effect, 1.0, replications, level) == pytest.approx(expected, abs=1e-9)
    assert power_of(1.0, 0.0, 5, level) == 1
    assert power_of(1e6, 1.0, 5, level) == 1


def test_each_of_the_three_follows_from_the_other_two():
    planned = sl.plan(EXPERIMENT, COINS, effect=2.0, power=0.9)
    assert planned.power >= 0.9
    fewer = sl.plan(EXPERIMENT, COINS, effect=2.0, replications=planned.replications - 1)
    assert fewer.power < 0.9
    smallest = sl.plan(EXPERIMENT, COINS, power=planned.power, replications=planned.replications)
    assert smallest.effect == pytest.approx(2.0, rel=1e-3)


def test_every_design_has_its_row_and_replay_needs_fewest_users():
    planned = sl.plan(EXPERIMENT, COINS, effect=2.0, power=0.9)
    rows = {row.design: row for row in planned.rows}
    assert list(rows) == ["replay", "naive", "time_coupled"]
    assert rows["replay"].users < rows["time_coupled"].users < rows["naive"].users
    assert planned.interactions == rows["replay"].users
    assert planned.naive_interactions == rows["naive"].users
    assert rows["naive"].interactions == 2_000
    assert [row.horizon for row in planned.by_horizon] == [125, 250, 500]


@pytest.mark.slow
def test_the_spread_comes_with_its_error():
    """The pilot's sd against that of 40,000 others, within 5 of its own stated errors (false alarm 6e-7)."""
    planned = sl.plan(EXPERIMENT, COINS, effect=2.0, power=0.9)
    runs = sl.simulate(EXPERIMENT.replace(replications=40_000, seed=99), COINS)
    truth = float((runs.rewards[:, 1, 0] - runs.rewards[:, 0, 0]).std())
    assert abs(planned.own.sd - truth) < 5 * planned.own.sd_error


def test_power_against_brute_force_where_differences_are_far_from_normal():
    """Few replications of a discrete, skewed difference: the plan's own check and an independent count agree.

    Both from 500 experiments: 5 binomial sd of their difference (false alarm 6e-7) is 0.16; the plan may be off
    by the normal approximation, which the check reports.
    """
    policies = {"greedy": sl.EpsilonGreedy(0.05), "ucb": sl.UCB1(0.5)}
    short = sl.Experiment(policies=policies, arms=2, horizon=60, replications=2, seed=1)
    coins = sl.Bernoulli((0.6, 0.5))
    planned = sl.plan(short, coins, effect=3.0, replications=8, verify=True)

    runs = sl.simulate(short.replace(replications=4_000, seed=5), coins)
    values = runs.rewards[:, 1, 0] - runs.rewards[:, 0, 0]
    shifted = (values - values.mean() + 3.0).reshape(500, 8)
    brute = np.mean(stats.ttest_1samp(shifted, 0, axis=1).pvalue < 0.05)
    assert planned.check is not None
    assert abs(planned.check.power - brute) < 0.16
    assert abs(planned.power - brute) < 0.2


def test_a_pilot_of_runs_and_a_prior_serve_as_well():
    runs = sl.simulate(EXPERIMENT.replace(replications=50), COINS)
    planned = sl.plan(EXPERIMENT, runs, effect=2.0, power=0.9)
    assert [row.design for row in planned.rows] == ["replay", "naive"]
    assert planned.pilot_replications == 50

    prior = sl.plan(EXPERIMENT, sl.BernoulliPrior(), effect=2.0, power=0.9, pilot=100)
    assert prior.replications > 2


def test_days_follow_arrivals_and_the_wait_for_rewards():
    by_users = sl.plan(EXPERIMENT, COINS, effect=2.0, power=0.9, arrivals_per_day=100)
    assert by_users.own.days == pytest.approx(by_users.own.users / 100)
    by_wait = sl.plan(
        EXPERIMENT, COINS, effect=2.0, power=0.9, arrivals_per_day=1e9, reward_delay_seconds=3_600
    )
    assert by_wait.own.days == pytest.approx(1_000 / 24)


def test_the_plan_prints_a_table_and_a_sentence_and_draws(tmp_path):
    planned = sl.plan(EXPERIMENT, COINS, effect=2.0, power=0.9)
    text = " ".join(str(planned).split())
    assert "An effect of 2 is found with power 0.9" in text
    assert "The naive design needs" in text
    json.dumps(planned.to_dicts())
    planned.plot(tmp_path / "power.svg")
    for curve in planned.power_curves():
        assert np.all(np.isfinite(curve.power))
        assert np.all(np.diff(curve.power) >= -1e-9)


@pytest.mark.parametrize(
    ("request_", "fragment"),
    [
        ({"effect": 1.0}, "two of effect, power and replications"),
        ({"effect": 1.0, "power": 0.9, "replications": 5}, "two of effect"),
        ({"effect": 0.0, "power": 0.9}, "effect must not be 0"),
        ({"effect": math.nan, "power": 0.9}, "effect must be a finite number"),
        ({"effect": 1.0, "power": 1.0}, "power must be < 1"),
        ({"effect": 1.0, "power": 0.01}, "power must be above 1 - level"),
        ({"effect": 1.0, "power": 0.9, "level": 1.0}, "level must be between 0 and 1"),
        ({"effect": 1e-9, "power": 0.9}, "is too small for an sd of"),
        ({"power": 0.9, "replications": 1}, "replications must be a whole number from 2"),
        ({"effect": 1.0, "power": 0.9, "pilot": 2}, "pilot must be a whole number >= 10"),
    ],
)
def test_impossible_requests_are_refused_in_words(request_, fragment):
    with pytest.raises(sl.Invalid, match=fragment):
        sl.plan(EXPERIMENT, COINS, **request_)


def test_one_policy_and_too_small_a_pilot_are_refused():
    with pytest.raises(sl.Invalid, match="the experiment has one"):
        sl.plan(EXPERIMENT.replace(policies={"a": sl.UCB1()}), COINS, effect=1.0, power=0.9)
    runs = sl.simulate(EXPERIMENT.replace(replications=5), COINS)
    with pytest.raises(sl.Invalid, match="at least 10 replications"):
        sl.plan(EXPERIMENT, runs, effect=1.0, power=0.9)
