"""Plans against the exact distribution of t, against brute force, and with requests that make no sense."""

import json
import math
from functools import partial

import numpy as np
import pytest
from scipy import integrate, stats

import sameluck as sl
from sameluck.inference.planning.pilots import sd_range, spread
from sameluck.inference.planning.power import power_of

BERNOULLI = sl.Bernoulli((0.9, 0.7, 0.5, 0.3, 0.1))
EXPERIMENT = sl.Experiment(
    policies={"low": sl.UCB1(2.5), "high": sl.UCB1(3.0)},
    arms=5,
    horizon=1_000,
    replications=2,
    seed=7,
)


@pytest.mark.parametrize("replications", [2, 5, 30, 1_000])
@pytest.mark.parametrize("level", [0.8, 0.95, 0.999])
def test_power_is_the_noncentral_t_distributions(replications, level):
    for centre in (0.0, 0.5, 2.0, 3.5):
        effect, freedom = centre / math.sqrt(replications), replications - 1
        critical = stats.t.ppf(0.5 + level / 2, freedom)
        distribution = stats.nct(freedom, centre)
        expected = distribution.sf(critical) + distribution.cdf(-critical)
        assert power_of(effect, 1.0, replications, level) == pytest.approx(expected, abs=1e-9)
    assert power_of(1.0, 0.0, 5, level) == 1
    assert power_of(1e6, 1.0, 5, level) == 1


@pytest.mark.slow
def test_each_of_the_three_follows_from_the_other_two():
    planned = sl.plan(EXPERIMENT, BERNOULLI, effect=2.0, power=0.9)
    assert planned.power >= 0.9
    fewer = sl.plan(EXPERIMENT, BERNOULLI, effect=2.0, replications=planned.replications - 1)
    assert fewer.power < 0.9
    smallest = sl.plan(
        EXPERIMENT, BERNOULLI, power=planned.power, replications=planned.replications
    )
    assert smallest.effect == pytest.approx(2.0, rel=1e-3)


def test_every_design_has_a_row_and_replay_needs_the_fewest_users():
    planned = sl.plan(EXPERIMENT, BERNOULLI, effect=2.0, power=0.9)
    rows = {row.design: row for row in planned.rows}
    assert list(rows) == ["replay", "naive", "time_coupled"]
    assert rows["replay"].users < rows["time_coupled"].users < rows["naive"].users
    assert planned.interactions == rows["replay"].users
    assert planned.naive_interactions == rows["naive"].users
    assert rows["naive"].interactions == 2_000
    assert [row.horizon for row in planned.by_horizon] == [125, 250, 500, 1_000]


@pytest.mark.slow
def test_the_spread_comes_with_its_error():
    """The pilot's sd is within 5 of its standard errors of the sd of 40,000 replications (false alarm 6e-7)."""
    planned = sl.plan(EXPERIMENT, BERNOULLI, effect=2.0, power=0.9)
    runs = sl.simulate(EXPERIMENT.replace(replications=40_000, seed=99), BERNOULLI)
    truth = float((runs.rewards[:, 1, 0] - runs.rewards[:, 0, 0]).std())
    assert abs(planned.experiment_row.sd - truth) < 5 * planned.experiment_row.sd_error


def test_power_against_brute_force_where_differences_are_far_from_normal():
    """Few replications of a discrete, skewed difference: the plan's check and an independent count agree.

    Both from 500 experiments: 5 binomial sd of their difference (false alarm 6e-7) is 0.16; the plan may be off
    by the normal approximation, which the check reports.
    """
    policies = {"greedy": sl.EpsilonGreedy(0.05), "ucb": sl.UCB1(0.5)}
    short = sl.Experiment(policies=policies, arms=2, horizon=60, replications=2, seed=1)
    two_arms = sl.Bernoulli((0.6, 0.5))
    planned = sl.plan(short, two_arms, effect=3.0, replications=8, verify=True)

    runs = sl.simulate(short.replace(replications=4_000, seed=5), two_arms)
    values = runs.rewards[:, 1, 0] - runs.rewards[:, 0, 0]
    shifted = (values - values.mean() + 3.0).reshape(500, 8)
    brute = np.mean(stats.ttest_1samp(shifted, 0, axis=1).pvalue < 0.05)
    assert planned.check is not None
    assert abs(planned.check.power - brute) < 0.16
    assert abs(planned.power - brute) < 0.2


@pytest.mark.slow
@pytest.mark.parametrize("request_", [{"effect": 3.0}, {"replications": 6}])
def test_the_plan_of_the_experiments_design_is_verified(request_):
    short = EXPERIMENT.replace(policies={"low": sl.UCB1(0.5), "high": sl.UCB1(9.0)}, horizon=40)
    planned = sl.plan(short, BERNOULLI, power=0.6, pilot=50, verify=True, **request_)
    _, naive, _ = planned.rows
    whole = short.replace(replications=planned.replications)
    expected = sl.coverage(whole, BERNOULLI, experiments=500, effect=planned.effect)
    assert planned.check == expected
    shares = f"power {expected.power:.2f}, coverage {expected.covered:.3f}"
    assert (
        f"Simulated 500 times: {shares} (standard error {expected.error:.3f})." in planned.verdict
    )
    assert (naive.effect, naive.replications) != (planned.effect, planned.replications)


def test_a_pilot_of_runs_and_a_prior_serve_as_well():
    runs = sl.simulate(EXPERIMENT.replace(replications=50), BERNOULLI)
    planned = sl.plan(EXPERIMENT, runs, effect=2.0, power=0.9)
    assert [row.design for row in planned.rows] == ["replay", "naive"]
    assert planned.pilot_replications == 50

    prior = sl.plan(EXPERIMENT, sl.BernoulliPrior(), effect=2.0, power=0.9, pilot=100)
    assert prior.replications > 2


@pytest.mark.slow
def test_days_follow_arrivals_and_the_wait_for_rewards():
    by_users = sl.plan(EXPERIMENT, BERNOULLI, effect=2.0, power=0.9, arrivals_per_day=100)
    assert by_users.experiment_row.days == pytest.approx(by_users.experiment_row.users / 100)
    by_wait = sl.plan(
        EXPERIMENT,
        BERNOULLI,
        effect=2.0,
        power=0.9,
        arrivals_per_day=1e9,
        reward_delay_seconds=3_600,
    )
    assert by_wait.experiment_row.days == pytest.approx(1_000 / 24)


@pytest.mark.slow
def test_the_plan_prints_a_table_and_a_sentence_and_draws(tmp_path):
    planned = sl.plan(EXPERIMENT, BERNOULLI, effect=2.0, power=0.9)
    text = " ".join(str(planned).split())
    share = f"{200 / planned.control_reward:.2g}% of what low earns"
    assert f"An effect of 2 ({share}) is found with power 0.9" in text
    assert "The naive design needs" in text
    # With 95% confidence no more than 1 - 0.05^(1/400) of replications is unlike the 400 of the pilot.
    assert "Up to 0.75% of replications may be unlike any of its 400" in text
    assert json.loads(json.dumps(planned.to_dicts())) == [row._asdict() for row in planned.rows]
    planned.plot(tmp_path / "power.svg")
    assert (tmp_path / "power.svg").stat().st_size > 0
    for curve in planned.power_curves():
        assert np.all(np.isfinite(curve.power))
        assert np.all(np.diff(curve.power) >= -1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [{"effect": 5.0}, {"replications": 20}])
def test_the_default_power_is_four_fifths(arguments):
    planned = sl.plan(EXPERIMENT, BERNOULLI, **arguments)
    assert planned.to_dicts() == sl.plan(EXPERIMENT, BERNOULLI, power=0.8, **arguments).to_dicts()


@pytest.mark.parametrize(
    ("request_", "fragment"),
    [
        ({}, "two of effect, power and replications"),
        ({"power": 0.9}, "two of effect, power and replications"),
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
def test_impossible_requests_are_refused_with_a_message(request_, fragment):
    with pytest.raises(sl.Invalid, match=fragment):
        sl.plan(EXPERIMENT, BERNOULLI, **request_)


def test_one_policy_and_too_small_a_pilot_are_refused():
    with pytest.raises(sl.Invalid, match="the experiment has one policy"):
        sl.plan(EXPERIMENT.replace(policies={"a": sl.UCB1()}), BERNOULLI, effect=1.0, power=0.9)
    runs = sl.simulate(EXPERIMENT.replace(replications=5), BERNOULLI)
    with pytest.raises(sl.Invalid, match="at least 10 replications"):
        sl.plan(EXPERIMENT, runs, effect=1.0, power=0.9)


def exact_power(effect, sd, replications, level, freedom):
    critical = stats.t.ppf(0.5 + level / 2, freedom)
    centre = abs(effect) * math.sqrt(replications) / sd
    return stats.nct.sf(critical, freedom, centre) + stats.nct.cdf(-critical, freedom, centre)


def sds_of_bonett(values, level=0.99):
    """The ends of Bonett's (2006) interval of a standard deviation, the upper first, with SciPy."""
    count, quantile = values.size, stats.norm.ppf((1 + level) / 2)
    trimmed = stats.trim_mean(values, 1 / (2 * math.sqrt(count - 4)))
    kurtosis = count * np.sum((values - trimmed) ** 4) / (count * values.var()) ** 2
    factor = count / (count - quantile)
    error = factor * math.sqrt((kurtosis - (count - 3) / count) / (count - 1))
    centre = math.log(factor * values.var(ddof=1))
    return [math.exp((centre + sign * quantile * error) / 2) for sign in (1, -1)]


@pytest.mark.parametrize(
    ("policies", "environment"),
    [
        (("ucb1(2.5)", "ucb1(3)"), "bernoulli(0.9, 0.7, 0.5, 0.3, 0.1)"),
        (("epsilon_greedy", "ucb1(2)"), "gaussian(1, 0.6, 0.2)"),
    ],
)
def test_the_range_of_the_sd_holds_the_true_sd_in_nine_of_ten_pilots(policies, environment):
    """Of 10 replications each. The shares are 99% and 92%; of 1,000 pilots fewer than 880 cover with p < 1e-5."""
    experiment = sl.Experiment(
        policies=dict(zip("ab", policies, strict=True)), horizon=200, replications=10_000, seed=4
    )
    whole = sl.simulate(experiment, environment)
    true_sd = float((whole.rewards[:, 1, 0] - whole.rewards[:, 0, 0]).std())
    ranges = [
        sd_range(whole.part(10 * pilot, 10), ("b", "a"), paired=True) for pilot in range(1_000)
    ]
    assert sum(low <= true_sd <= high for low, high in ranges) >= 880
    assert stats.binom.cdf(879, 1_000, 0.92) < 1e-5


def assert_row(row, values, interactions, arguments, level, freedom):
    """Recompute every number of a plan's row from the pilot's values, with SciPy's noncentral t."""

    def power(effect, replications):
        return exact_power(effect, sd, replications, level, freedom(replications))

    sd, fourth = values.std(ddof=1), ((values - values.mean()) ** 4).mean()
    assert row.sd == pytest.approx(sd)
    assert row.sd_error == pytest.approx(math.sqrt((fourth - sd**4) / values.size) / (2 * sd))
    assert power(row.effect, row.replications) == pytest.approx(row.power, rel=1e-6)
    assert row.effect == arguments.get("effect", row.effect)
    assert row.replications == arguments.get("replications", row.replications)
    if "effect" not in arguments:
        assert row.power == arguments["power"]
        assert row.effect > 0
    elif "power" in arguments:
        assert power(row.effect, row.replications - 1) < arguments["power"] <= row.power
    assert row.interactions == pytest.approx(interactions)
    assert row.users == pytest.approx(row.replications * interactions)


@pytest.fixture(scope="module")
def pilot_runs():
    experiment = EXPERIMENT.replace(policies={**EXPERIMENT.policies, "third": sl.Uniform()})
    return sl.simulate(experiment.replace(replications=40), BERNOULLI, checkpoints=[200, 1_000])


@pytest.mark.parametrize(
    "arguments",
    [
        {"effect": 2.0, "power": 0.9},
        {"effect": -3.0, "power": 0.6},
        {"effect": 1.5, "replications": 9},
        {"power": 0.8, "replications": 7},
        {"power": 0.15, "replications": 40},
        {"power": 0.9, "replications": 4},
    ],
)
def test_every_number_of_a_plan_follows_from_the_pilot(pilot_runs, arguments):
    """Each row is recomputed with SciPy's noncentral t; the naive row from neighbouring replications."""
    level = 0.9
    planned = sl.plan(
        EXPERIMENT,
        pilot_runs,
        level=level,
        arrivals_per_day=50,
        reward_delay_seconds=8_640,
        **arguments,
    )
    low, high = pilot_runs.rewards[:, 0], pilot_runs.rewards[:, 1]
    users = pilot_runs.interactions.mean(axis=0)
    rows = [(planned.rows[0], 1, "replay"), (planned.rows[1], 1, "naive")]
    assert (len(planned.by_horizon), len(planned.rows)) == (2, 2)
    for row, index, design in rows:
        control, other = (x[:, index] - x[:, index].mean() for x in (low, high))
        values = other - (control if design == "replay" else np.roll(control, 1))
        interactions = users[index] if design == "replay" else 2 * (200, 1_000)[index]
        factor = 1 if design == "replay" else 2
        assert row[:2] == (design, (200, 1_000)[index])
        assert_row(row, values, interactions, arguments, level, lambda m, k=factor: k * (m - 1))
        assert row.days == pytest.approx(max(row.users / 50, (200, 1_000)[index] / 10))
    for index, row in enumerate(planned.by_horizon):
        own = high[:, index] - low[:, index]
        assert (row.effect, row.effect_error) == pytest.approx((own.mean(), stats.sem(own)))
        assert (row.sd, row.interactions) == pytest.approx((own.std(ddof=1), users[index]))
        if "power" not in arguments:
            expected = power_of(row.effect, row.sd, 9, level)
            assert (row.replications, row.power) == (9, pytest.approx(expected))
        elif abs(own.mean()) <= 2 * stats.sem(own):
            assert row.replications is row.users is None
        else:
            found = power_of(row.effect, row.sd, row.replications, level)
            assert found >= row.power == arguments["power"]
    difference = high[:, 1] - low[:, 1]
    assert planned.pilot_effect == pytest.approx(difference.mean())
    assert planned.pilot_effect_error == pytest.approx(stats.sem(difference))
    assert (planned.pilot_replications, planned.level) == (40, level)
    assert planned.requested_power == arguments.get("power")
    low, high = (
        exact_power(planned.effect, other_sd, planned.replications, level, planned.replications - 1)
        for other_sd in sds_of_bonett(difference)
    )
    assert planned.power_range == pytest.approx((low, high), abs=2e-4)
    assert f"with power {planned.power:.2f} ({low:.2f} to {high:.2f}, given the" in planned.verdict
    assert low < planned.power < high
    assert f"pilot's own effect is {difference.mean():.4g} (standard" in planned.verdict
    assert f"{planned.rows[1].users:,.0f}" in planned.verdict.partition("naive design")[2]
    assert (planned.interactions, planned.naive_interactions) == (
        planned.rows[0].users,
        planned.rows[1].users,
    )


@pytest.mark.slow
@pytest.mark.parametrize("replications", [2, 3, 40])
def test_power_at_a_large_noncentrality_is_integrated_over_the_estimated_sd(replications):
    """Above 25 SciPy's series fails: compare with an integral over the chi distribution of the sd."""
    freedom, level = replications - 1, 0.99
    critical = stats.t.ppf(0.5 + level / 2, freedom)
    for centre in (25.5, 40.0):
        effect = -centre / math.sqrt(replications)
        spread = stats.chi(freedom, scale=1 / math.sqrt(freedom))
        expected, _ = integrate.quad(
            lambda s, centre=centre, spread=spread: (
                spread.pdf(s)
                * (stats.norm.cdf(centre - critical * s) + stats.norm.cdf(-centre - critical * s))
            ),
            0,
            10,
            points=[centre / critical],
        )
        assert power_of(effect, 1.0, replications, level) == pytest.approx(expected, abs=2e-4)


def test_power_curves_have_the_power_of_the_affordable_replications(pilot_runs):
    planned = sl.plan(EXPERIMENT, pilot_runs, effect=2.0, power=0.9)
    largest, smallest = (
        max(row.users for row in planned.rows),
        min(2 * row.interactions for row in planned.rows),
    )
    curves = planned.power_curves(points=7)
    assert [curve.label for curve in curves] == ["replay", "naive"]
    for curve, row, factor in zip(curves, planned.rows, (1, 2), strict=True):
        assert curve.users == pytest.approx(
            np.geomspace(smallest, max(2 * largest, 10 * smallest), 7)
        )
        for users, power in zip(curve.users, curve.power, strict=True):
            m = max(2, int(users / row.interactions))
            if 2.0 * math.sqrt(m) > 20 * row.sd:
                assert power > 0.999
                continue
            assert power == pytest.approx(
                exact_power(2.0, row.sd, m, 0.95, factor * (m - 1)), abs=2e-4
            )


RARE = sl.Experiment(
    policies={"ucb": sl.UCB1(2.0), "greedy": sl.EpsilonGreedy(0.0)},
    arms=2,
    horizon=1_000,
    replications=2,
    seed=7,
)
COINS = sl.Bernoulli((0.95, 0.5))


@pytest.mark.slow
def test_a_skewed_pilot_gives_a_caution_with_the_replications_it_needs():
    """It names 25 times the squared skewness (Cochran); no caution if as many are planned, or without skewness."""
    planned = sl.plan(RARE, COINS, effect=50.0, power=0.9)
    runs = sl.simulate(RARE.replace(replications=400), COINS)
    skewness = stats.skew(runs.rewards[:, 1, 0] - runs.rewards[:, 0, 0])
    needed = int(float(f"{25 * skewness**2:.1g}"))
    assert planned.replications_for_skewness == needed > planned.replications
    (caution,) = planned.cautions
    assert caution == (
        "the pilot's differences are skewed, so rare replications weigh heavily: power and interval of "
        f"{planned.replications:,} replications are only approximate. Plan about {needed:,}, or simulate the plan "
        "with verify=True."
    )
    assert planned.verdict.endswith(f"Caution: {caution}")
    assert sl.plan(RARE, COINS, effect=50.0, replications=needed).cautions == ()
    healthy = sl.plan(EXPERIMENT, BERNOULLI, effect=2.0, power=0.9)
    assert healthy.replications_for_skewness == 0
    assert healthy.cautions == ()


@pytest.mark.slow
@pytest.mark.parametrize("sign", [1, -1])
def test_an_effect_that_is_impossible_within_the_horizon_is_refused(sign):
    """The largest effect is 1,000 periods of 0.95 - 0.5; without known means nothing is refused."""
    with pytest.raises(
        sl.Invalid,
        match=f"effect {sign * 450.5} is more than two policies can differ by here: 450,",
    ):
        sl.plan(RARE, COINS, effect=sign * 450.5, power=0.9, pilot=20)
    assert sl.plan(RARE, COINS, effect=sign * 449.9, power=0.9, pilot=40).replications >= 2
    assert sl.plan(RARE, sl.GaussianPrior(), effect=5_000.0, power=0.9, pilot=20)


@pytest.mark.slow
def test_a_plan_that_cannot_be_made_is_refused(pilot_runs):
    with pytest.raises(sl.Invalid, match="did not run 'high' as ucb1"):
        sl.plan(
            EXPERIMENT.replace(policies={"low": sl.UCB1(2.5), "high": sl.UCB1(9)}),
            pilot_runs, effect=2.0, power=0.9,
        )  # fmt: skip
    with pytest.raises(sl.Invalid, match="up to 1,000 periods, the experiment has 500"):
        sl.plan(EXPERIMENT.replace(horizon=500), pilot_runs, effect=2.0, power=0.9)
    with pytest.raises(sl.Invalid, match="verify=True needs an environment"):
        sl.plan(EXPERIMENT, pilot_runs, effect=2.0, power=0.9, verify=True)
    with pytest.raises(sl.Invalid, match="would simulate 500 x"):
        sl.plan(EXPERIMENT, BERNOULLI, effect=0.1, replications=10_001, verify=True, pilot=10)
    with pytest.raises(sl.Invalid, match="arrivals_per_day must be > 0"):
        sl.plan(EXPERIMENT, pilot_runs, effect=2.0, power=0.9, arrivals_per_day=0)
    with pytest.raises(sl.Invalid, match="reward_delay_seconds must be >= 0"):
        sl.plan(EXPERIMENT, pilot_runs, effect=2.0, power=0.9, reward_delay_seconds=-0.5)
    with pytest.raises(sl.Invalid, match="effect must be a finite number"):
        sl.plan(EXPERIMENT, pilot_runs, effect=np.array([1.0, 2.0]), power=0.9)
    for function in (partial(sl.plan, effect=2.0, power=0.9), sl.coverage, sl.designs):
        with pytest.raises(sl.Invalid, match="needs an Experiment first, got 3"):
            function(3, BERNOULLI)
    with pytest.raises(sl.Invalid, match="split_variance needs an Experiment first, got 3"):
        sl.split_variance(3, sl.BernoulliPrior())
    slow = sl.plan(EXPERIMENT, pilot_runs, effect=2.0, power=0.9, arrivals_per_day=0.5)
    assert slow.experiment_row.days == 2 * slow.experiment_row.users
    with pytest.raises(sl.Invalid, match="never differ in the pilot"):
        sl.plan(
            EXPERIMENT.replace(policies={"a": "ucb1", "b": "ucb1"}),
            BERNOULLI,
            effect=2.0,
            power=0.9,
        )


def test_a_prior_is_paired_in_every_design_and_its_coupled_pilot_has_no_naive_row():
    prior, arguments = sl.BernoulliPrior(), {"effect": 5.0, "power": 0.8}
    short = EXPERIMENT.replace(horizon=30, replications=20)
    coupled = sl.plan(short, sl.simulate(short, prior), **arguments)
    assert [row.design for row in coupled.rows] == ["replay"]
    assert coupled.naive_interactions is None
    naive = short.replace(design="naive")
    runs = sl.simulate(naive, prior)
    values = runs.rewards[:, 1, 0] - runs.rewards[:, 0, 0]
    planned = sl.plan(naive, runs, **arguments)
    row = planned.experiment_row
    assert_row(row, values, 60, arguments, 0.95, lambda m: m - 1)
    low, high = (
        exact_power(5.0, sd, row.replications, 0.95, row.replications - 1)
        for sd in sds_of_bonett(values)
    )
    assert planned.power_range == pytest.approx((low, high), abs=2e-4)
    (curve,) = planned.power_curves(points=3)
    count = int(curve.users[1] / row.interactions)
    assert curve.power[1] == pytest.approx(
        exact_power(5.0, row.sd, count, 0.95, count - 1), abs=2e-4
    )


def test_a_prior_of_rewards_0_and_1_bounds_the_effect_by_the_horizon():
    with pytest.raises(sl.Invalid, match=r"effect 1001 is more than two .* differ by here: 1000,"):
        sl.plan(EXPERIMENT, sl.BernoulliPrior(), effect=1_001, power=0.9, pilot=20)


@pytest.mark.slow
def test_too_few_replications_for_any_possible_effect_give_a_caution():
    """Two replications find 14 with power 0.99, where two policies can differ by 10."""
    policies = {"a": sl.UCB1(2.0), "b": sl.UCB1(2.3)}
    two = sl.Experiment(policies=policies, arms=2, horizon=200, replications=2, seed=1)
    plan = sl.plan(two, sl.Bernoulli((0.55, 0.5)), replications=2, power=0.99)
    assert plan.effect > 10
    text = "two policies can differ by at most 10 here, so 2 replications do not have this power for any effect"
    assert text in plan.cautions[0]
    assert sl.plan(two, sl.Bernoulli((0.55, 0.5)), replications=20, power=0.9).cautions == ()


@pytest.mark.slow
def test_a_plan_on_a_copy_of_the_arms():
    """One replication is enough for another horizon; the spread is within a third of the true spread."""
    runs = sl.simulate(EXPERIMENT.replace(replications=1), BERNOULLI)
    planned = sl.plan(EXPERIMENT, runs, horizon=2_000, effect=5.0, power=0.9, pilot=300)
    reference = sl.plan(
        EXPERIMENT.replace(horizon=2_000), BERNOULLI, effect=5.0, power=0.9, pilot=300
    )

    assert planned.experiment_row.horizon == 2_000
    assert planned.experiment.horizon == 2_000
    assert {row.design for row in planned.rows} == {row.design for row in reference.rows}
    assert 0.67 < planned.experiment_row.sd / reference.experiment_row.sd < 1.5
    assert planned.experiment_row.interactions == pytest.approx(
        reference.experiment_row.interactions, rel=0.07
    )
    other = sl.plan(EXPERIMENT, BERNOULLI, horizon=500, effect=2.0, power=0.9, pilot=20)
    assert other.experiment_row.horizon == 500


@pytest.mark.slow
def test_the_pilots_effect_on_a_copy_has_the_error_of_the_arms():
    """The true effect is -2.65. With the simulation's error alone, two of these four effects are two errors away."""
    policies = {"ucb": sl.UCB1(2.5), "ucb3": sl.UCB1(3.0)}
    short = sl.Experiment(policies=policies, arms=3, horizon=150, replications=1)
    for seed in range(4):
        runs = sl.simulate(short.replace(seed=seed), sl.Bernoulli((0.8, 0.5, 0.3)))
        planned = sl.plan(runs.experiment, runs, horizon=300, effect=5.0)
        last = planned.by_horizon[-1]

        assert abs(planned.pilot_effect + 2.65) < 2 * planned.pilot_effect_error
        assert planned.pilot_effect_error > 3 * planned.experiment_row.sd / math.sqrt(400)
        assert last[4:6] == (planned.pilot_effect, planned.pilot_effect_error)
        assert planned.pairs[0][3:5] == last[4:6]


@pytest.mark.slow
def test_a_plan_on_a_copy_of_equal_arms_claims_no_effect():
    """The copies' means differ by noise: by less than 5 / 400 on the first seed, yet an effect of 5 is possible."""
    policies = {"uniform": sl.Uniform(), "ucb": sl.UCB1(0.5)}
    equal = sl.Experiment(policies=policies, arms=3, horizon=200, replications=1)
    for seed in (3, 4, 5):
        runs = sl.simulate(equal.replace(seed=seed), sl.Bernoulli((0.5, 0.5, 0.5)))
        planned = sl.plan(runs.experiment, runs, horizon=400, effect=5.0)

        assert [row.replications for row in planned.by_horizon] == [None] * 4
        assert planned.max_effect is None


@pytest.mark.slow
def test_no_plan_on_a_copy_where_a_policy_fails_rarely():
    bold = EXPERIMENT.replace(
        policies={"ucb": sl.UCB1(2.0), "bold": sl.UCB1(0.05)}, arms=2, replications=1
    )
    runs = sl.simulate(bold, sl.Bernoulli([0.9, 0.5]))

    with pytest.raises(sl.Invalid, match=r"no plan on a copy of the arms: .* bold ends"):
        sl.plan(bold, runs, horizon=2_000, effect=5.0, power=0.9)


def test_ten_replications_are_a_pilot_and_the_largest_possible_effect_can_be_planned():
    pilot = sl.simulate(EXPERIMENT.replace(replications=10), BERNOULLI)
    planned = sl.plan(EXPERIMENT, pilot, effect=800.0, power=0.9)  # 1,000 periods of 0.9 - 0.1
    assert (planned.pilot_replications, planned.max_effect) == (10, 800.0)
    with pytest.raises(sl.Invalid, match="at least 10 replications to estimate a variance, got 9"):
        sl.plan(EXPERIMENT, pilot.part(0, 9), effect=2.0, power=0.9)


def test_constant_differences_have_a_spread_of_exactly_0():
    pilot = sl.simulate(EXPERIMENT.replace(replications=10), BERNOULLI)
    pilot.rewards[:, 1] = pilot.rewards[:, 0] + 3
    assert spread(pilot, ("high", "low"), 0, paired=True) == (0.0, 0.0)
    assert spread(pilot, ("high", "low"), 0, paired=False)[0] > 0


REWARDED = sl.Experiment(
    policies={"a": sl.UCB1(0.5), "b": sl.EpsilonGreedy(), "c": sl.Uniform()},
    arms=2,
    horizon=400,
    replications=2,
    seed=7,
)
ARMS = sl.Bernoulli((0.3, 0.25))


def test_a_share_is_of_the_controls_reward_over_the_horizon():
    pair = REWARDED.replace(policies={name: REWARDED.policies[name] for name in "ab"})
    runs = sl.simulate(pair.replace(replications=200), ARMS)
    earned = runs.rewards[:, 0, 0].mean()
    for text, share in (("2%", 0.02), ("-2.5 %", -0.025), (" .5%", 0.005)):
        planned = sl.plan(pair, runs, effect=text, power=0.9)
        assert planned.effect == pytest.approx(share * earned)
        assert planned.relative(planned.effect) == pytest.approx(share)
        absolute = sl.plan(pair, runs, effect=planned.effect, power=0.9)
        assert absolute.to_dicts() == planned.to_dicts()
    assert "(2% of what a earns)" in sl.plan(pair, runs, effect="2%", power=0.9).verdict
    for text in ("two", "2", "2%%", "%", "2,5%", ""):
        with pytest.raises(sl.Invalid, match="effect must be a number, or a share"):
            sl.plan(pair, runs, effect=text)
    with pytest.raises(sl.Invalid, match="effect must not be 0"):
        sl.plan(pair, runs, effect="0%")


@pytest.mark.slow
def test_a_share_of_a_reward_that_may_be_0_is_refused():
    policies = {name: REWARDED.policies[name] for name in "ca"}
    pair = REWARDED.replace(policies=policies, control="c")
    opposite = sl.Gaussian((0.5, -0.5))
    with pytest.raises(sl.Invalid, match="share of the reward of 'c', which may be 0 in the pilot"):
        sl.plan(pair, opposite, effect="2%", pilot=60)
    planned = sl.plan(pair, opposite, effect=20.0, pilot=60)
    assert planned.relative(20.0) is None
    assert "% of what" not in planned.verdict


def test_an_implausible_effect_is_questioned_with_the_remedy():
    """Whoever types 0.02 for 2% reads it: the effect is far below what anybody could detect."""
    pair = REWARDED.replace(policies={name: REWARDED.policies[name] for name in "ab"})
    runs = sl.simulate(pair.replace(replications=100), ARMS)
    typed = sl.plan(pair, runs, effect=0.005)
    (caution,) = [caution for caution in typed.cautions if "Did you mean" in caution]
    assert caution.endswith('--effect 0.5% (effect="0.5%"), a share of the control\'s reward?')
    assert f"{typed.interactions:,.0f} users for an effect of 0.005" in caution
    assert not any("Did you mean" in text for text in sl.plan(pair, runs, effect="2%").cautions)
    with pytest.raises(sl.Invalid, match=r'too small for an sd .* effect="2%" \(--effect 2%\)'):
        sl.plan(pair, runs, effect=1e-6)


def test_all_policies_are_planned_against_the_control():
    """The pair with the largest sd decides, at Bonferroni's level; the others are named with their power."""
    runs = sl.simulate(REWARDED.replace(replications=60), ARMS)
    planned = sl.plan(REWARDED, runs, effect=8.0, power=0.9)
    sds = {name: np.std(runs.rewards[:, index, 0] - runs.rewards[:, 0, 0], ddof=1)
           for index, name in ((1, "b"), (2, "c"))}  # fmt: skip
    widest = max(sds, key=sds.get)
    assert planned.pair == (widest, "a")
    assert [(pair.policy, pair.control) for pair in planned.pairs] == [("b", "a"), ("c", "a")]
    assert planned.pair_level == pytest.approx(0.975)
    for pair in planned.pairs:
        expected = power_of(8.0, sds[pair.policy], planned.replications, 0.975)
        assert pair.sd == pytest.approx(sds[pair.policy])
        assert pair.power == pytest.approx(expected)
        assert pair.power >= planned.power
    text = " ".join(str(planned).split())
    assert text.startswith("b, c against a over 400 periods, 95% intervals for all pairs together;")
    assert f"This is for {widest} against a, whose difference varies most" in text
    assert planned.rows[1].interactions == 3 * 400
    alone = sl.plan(
        REWARDED.replace(policies={name: REWARDED.policies[name] for name in ("a", widest)}),
        runs, effect=8.0, power=0.9, level=0.975,
    )  # fmt: skip
    assert alone.replications == planned.replications


@pytest.mark.slow
def test_the_range_on_a_copy_contains_the_error_of_the_arms():
    """A plan from one replication of 200 users on close arms: the true sd is in its range; one seed, no chance."""
    pair = sl.Experiment(
        policies={"a": sl.UCB1(0.5), "b": sl.ThompsonBernoulli()},
        horizon=200,
        replications=1,
        seed=1_003,
    )
    arms = sl.Bernoulli((0.35, 0.33, 0.10))
    runs = sl.simulate(pair, arms)
    planned = sl.plan(runs.experiment, runs, horizon=800, effect=5.0, power=0.9)
    low, high = planned.power_range
    row = planned.experiment_row
    by_pilot = power_of(5.0, row.sd + 2 * row.sd_error, planned.replications, 0.95)
    assert low < by_pilot < planned.power < high
    truth = sl.simulate(pair.replace(horizon=800, replications=2_000), arms)
    sd = np.std(truth.rewards[:, 1, 0] - truth.rewards[:, 0, 0])
    assert low < power_of(5.0, sd, planned.replications, 0.95) < high
    assert f"({low:.2f} to {high:.2f}, given the measured arms' error)" in planned.verdict
    assert sl.plan(runs.experiment, runs, horizon=800, effect=5.0, power=0.9).power_range == (
        low,
        high,
    )
    relative = sl.plan(runs.experiment, runs, horizon=800, effect="2%", power=0.9)
    assert relative.power_range[0] < relative.power < relative.power_range[1]
