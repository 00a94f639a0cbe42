"""Metrics of `compare`: what each is, that its estimate is right, and that its intervals keep their level."""

import dataclasses
import json
import math

import numpy as np
import pytest
from scipy import stats

import sameluck as sl
from budget import ALARM, SEED, assert_mean
from nonempty import nonempty
from sameluck import cli
from sameluck.inference.metrics import METRICS, REWARD, as_metric, measured
from sameluck.inference.tails import quantile_difference, quantile_interval, quantile_of
from sameluck.intervals import t_interval, welch_interval

POLICIES = {"bold": sl.UCB1(0.5), "wary": sl.UCB1(2.0)}
MEANS = (0.25, 0.75, 0.5)  # sums of such numbers are exact
BANDIT = sl.Bernoulli(MEANS)
BY_MEANS = ("regret", "realised_regret", "best_arm_share")


def played(environment=BANDIT, replications=120, **changes):
    settings = {"policies": POLICIES, "arms": 3, "horizon": 50, "seed": SEED, **changes}
    experiment = sl.Experiment(replications=replications, **settings)
    return sl.simulate(experiment, environment, checkpoints=[20, 50])


@pytest.fixture(scope="module")
def runs():
    return played()


@pytest.fixture(scope="module")
def many_runs():
    """200 experiments of 100 replications, with continuous rewards."""
    return played(sl.Gaussian(MEANS, 0.5), replications=20_000)


def test_regret_and_what_the_pulls_are_worth_add_up_exactly(runs):
    regret, realised = (measured(runs, METRICS[name]).rewards for name in BY_MEANS[:2])

    best = max(MEANS) * runs.checkpoints
    assert np.array_equal(regret, best - runs.pulls @ np.array(MEANS))
    assert np.array_equal(realised + runs.rewards, np.broadcast_to(best, runs.rewards.shape))


def test_the_reward_is_compared_as_without_a_metric(runs):
    assert measured(runs, REWARD) is runs
    assert sl.compare(runs, metric="reward").effects == sl.compare(runs).effects
    assert str(sl.compare(runs, metric="reward")) == str(sl.compare(runs))


def test_a_share_of_the_best_arm_counts_all_arms_of_the_highest_mean():
    runs = played(sl.Bernoulli((0.5, 0.5, 0.25)), replications=5)
    share = measured(runs, METRICS["best_arm_share"]).rewards

    assert np.array_equal(share, runs.pulls[..., :2].sum(axis=-1) / runs.checkpoints)
    assert sl.compare(runs).policies[0].best_arm_share == pytest.approx(share[:, 0, 0].mean())


def test_a_prior_has_the_means_of_each_replication():
    runs = played(sl.BernoulliPrior(), replications=8)
    regret = measured(runs, METRICS["regret"]).rewards

    means = runs.environment.instance_means(SEED, range(8), 3)
    for replication in range(8):
        gaps = means[replication].max() - means[replication]
        assert regret[replication, 0, 1] == pytest.approx(runs.pulls[replication, 0, 1] @ gaps)


@pytest.mark.parametrize("name", BY_MEANS)
def test_means_have_every_interval_of_a_mean_on_differences_within_replications(runs, name):
    values = measured(runs, METRICS[name]).rewards
    alone = sl.compare(runs, metric=name, simultaneous="none")
    last = alone.last_effects[0]

    difference = values[:, 1, 1] - values[:, 0, 1]
    assert (last.policy, last.control) == ("wary", "bold")
    assert last.effect == pytest.approx(difference.mean())
    assert (last.low, last.high, last.p_value) == t_interval(difference, 0.95)
    assert last.reward == runs.rewards[:, 1, 1].mean()  # a reward under every metric
    for row, (column, index) in zip(alone.values, np.ndindex(2, 2), strict=True):
        expected = t_interval(values[:, column, index], 0.95)
        assert (row.policy, row.checkpoint) == (runs.policies[column], [20, 50][index])
        assert (row.low, row.high) == (expected.low, expected.high)
        assert row.value == values[:, column, index].mean()
    for interval in ("anytime", "median", "bootstrap"):
        assert sl.compare(runs, metric=name, interval=interval).last_effects[0].low < last.effect
    naive = played(design="naive", replications=20)
    first, second = measured(naive, METRICS[name]).rewards[:, :, 1].T
    bounds = welch_interval(second, first, 0.95)
    assert sl.compare(naive, metric=name, simultaneous="none").last_effects[0].low == bounds.low


def test_the_best_policy_is_the_one_with_the_lowest_regret(runs):
    regret = measured(runs, METRICS["regret"]).rewards[:, :, -1].mean(axis=0)
    by_regret = sl.compare(runs, metric="regret", pairs="best", best=True)

    assert by_regret.effects[0].control == runs.policies[int(regret.argmin())]
    assert [standing.may_be_best for standing in by_regret.standings] == [True, False]
    assert "bold is the best of 2 policies by mean pseudo-regret" in by_regret.verdict
    assert by_regret.effects[-1].effect > 0
    assert "The pseudo-regret is" in by_regret.verdict
    assert "higher with wary than with bold" in by_regret.verdict


def test_a_quantile_and_the_worst_tenth_are_those_of_the_sorted_rewards(runs):
    ordered = np.sort(runs.rewards[:, 0, 1])

    quantile = {row.policy: row for row in sl.compare(runs, metric="quantile(0.1)").values[1::2]}
    assert quantile["bold"].value == ordered[11]  # of 120: at least a tenth do not exceed it
    worst = {row.policy: row for row in sl.compare(runs, metric="worst_tenth").values[1::2]}
    assert worst["bold"].value == pytest.approx(ordered[:12].mean())
    effect = sl.compare(runs, metric="worst_tenth").last_effects[0]
    others = np.sort(runs.rewards[:, 1, 1])
    assert effect.effect == pytest.approx(others[:12].mean() - ordered[:12].mean())


@pytest.mark.parametrize(("count", "share"), [(40, 0.1), (41, 0.5), (200, 0.9), (7, 0.5)])
def test_a_quantile_lies_between_the_order_statistics_that_the_binomial_law_allows(count, share):
    values = np.random.default_rng(SEED).permutation(count).astype(float) + 1  # k-th smallest: k
    ranks = range(1, count + 1)
    for level in (0.5, 0.95, 0.999):
        lows = [k for k in ranks if stats.binom.cdf(k - 1, count, share) <= (1 - level) / 2]
        highs = [k for k in ranks if stats.binom.sf(k - 1, count, share) <= (1 - level) / 2]
        low, high = max(lows, default=-math.inf), min(highs, default=math.inf)
        assert quantile_interval(values, share, level)[:2] == (low, high)


def test_intervals_of_a_difference_of_quantiles_are_nested_and_agree_with_the_p_value():
    rng = np.random.default_rng(SEED)
    shared = rng.normal(size=80)
    values, others = shared + 0.3 + 0.3 * rng.normal(size=80), shared

    found = {
        level: quantile_difference(values, others, 0.25, level, paired=True)
        for level in (0.5, 0.8, 0.9, 0.95, 0.99, 0.999)
    }
    for narrow, wide in zip(list(found.values())[:-1], list(found.values())[1:], strict=True):
        assert wide.low <= narrow.low <= narrow.high <= wide.high
    for level, effect in found.items():
        assert (effect.p_value <= 1 - level) == (not effect.low <= 0 <= effect.high)
    independent = quantile_difference(values, others, 0.25, 0.95, paired=False)
    assert independent.high - independent.low > 1.5 * (found[0.95].high - found[0.95].low)


@pytest.mark.slow
def test_both_regrets_have_the_same_mean(many_runs):
    """Wald's identity: rewards exceed the means of the arms played by nothing on average."""
    regret, realised = (measured(many_runs, METRICS[name]).rewards for name in BY_MEANS[:2])

    for column, index in nonempty(np.ndindex(2, 2)):
        assert_mean((realised - regret)[:, column, index], 0.0, looks=4)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*BY_MEANS, "quantile(0.1)", "quantile(0.5)", "worst_tenth"])
def test_intervals_keep_their_level_and_estimates_have_little_bias(many_runs, name):
    """Of 200 experiments of 100 replications; the truth is that of all, 1/14 of an interval away at most.

    A false alarm has probability 1e-6 if intervals miss in 7% (10% for the worst tenth, as documented). A quantile
    of a sample and the mean of its tail are biased by less than their standard error; means are not.
    """
    metric, experiments = as_metric(name), 200
    last = many_runs.at([50])
    truth = sl.compare(last, metric=name)
    missed, missed_difference, estimates = 0, 0, []
    for number in range(experiments):
        part = last.part(100 * number, 100)
        some = sl.compare(part, metric=name, simultaneous="none", check=False)
        one, effect = some.values[0], some.last_effects[0]
        estimates.append(one.value)
        missed += not one.low <= truth.values[0].value <= one.high
        missed_difference += not effect.low <= truth.last_effects[0].effect <= effect.high

    most = stats.binom.isf(ALARM / 12, experiments, 0.1 if name == "worst_tenth" else 0.07)
    assert missed <= most
    assert missed_difference <= most
    if metric.is_mean:
        assert np.mean(estimates) == pytest.approx(truth.values[0].value)
    else:
        assert abs(np.mean(estimates) - truth.values[0].value) < 0.5 * np.std(estimates)


def test_what_a_metric_needs_is_refused_with_the_remedy(runs):
    live = dataclasses.replace(runs, environment=None)
    for name in BY_MEANS:
        with pytest.raises(sl.Invalid, match=r"needs the true means .* in simulations only"):
            sl.compare(live, metric=name)
    assert sl.compare(live, metric="quantile(0.5)").last_effects[0].effect != 0
    with pytest.raises(sl.Invalid, match=r"needs 100 replications.*got 20"):
        sl.compare(runs.part(0, 20), metric="worst_tenth")
    for metric in ("regrets", 3, None, "quantile", "quantile(x)"):
        with pytest.raises(sl.Invalid, match="is not known"):
            sl.compare(runs, metric=metric)
    with pytest.raises(sl.Invalid, match="between 0 and 1"):
        sl.compare(runs, metric="quantile(1.5)")
    with pytest.raises(sl.Invalid, match="interval of its own"):
        sl.compare(runs, metric="quantile(0.1)", interval="anytime")
    with pytest.raises(sl.Invalid, match="is for rewards"):
        sl.compare(runs, metric="regret", interval="twin")
    with pytest.raises(sl.Invalid, match="is for rewards"):
        sl.compare(runs, metric="regret", adjust="means")
    with pytest.raises(sl.Invalid, match="a metric that is a mean"):
        sl.compare(runs, metric="worst_tenth", best=True)


def test_a_quantile_without_enough_replications_has_no_bounds_and_says_so(runs):
    result = sl.compare(runs.part(0, 20), metric="quantile(0.1)")

    assert result.last_effects[0].low == -math.inf
    assert any(
        "Too few replications for the 10% quantile" in caution for caution in result.cautions
    )


@pytest.mark.slow
def test_text_page_and_curves_say_what_is_compared(runs, tmp_path):
    result = sl.compare(runs, metric="regret")
    text = str(result)

    assert text.startswith("pseudo-regret, the means of the best arm")
    assert "(lower is better)" in text.partition("policy ")[0].replace("\n", " ")
    assert "policy  horizon  pseudo-regret" in text
    page = result.to_html()
    assert "Pseudo-regret of each policy" in page
    assert "--metric regret" in page
    assert "pseudo-regret" in sl.compare(runs).to_html()  # its column says which regret it is
    assert (
        "Pseudo-regret of each policy" in result._repr_html_()
        or "pseudo-regret" in result._repr_html_()
    )
    result.plot_policies(tmp_path / "curves.svg")
    assert "pseudo-regret" in (tmp_path / "curves.svg").read_text()
    assert "effect on pseudo-regret" in plotted(result, tmp_path / "effects.svg")


def plotted(result, path):
    result.plot(path)
    return path.read_text()


def test_the_command_line_takes_a_metric(capsys, tmp_path):
    words = ["compare", "bold=ucb1(0.5)", "wary=ucb1", "--env", "bernoulli(0.25,0.75,0.5)"]
    words += ["--horizon", "50", "--replications", "120", "--seed", str(SEED)]
    assert cli.run([*words, "--metric", "regret", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)

    expected = sl.compare(played().at([50]), metric="regret")
    assert record["metric"] == "regret"
    assert record["effects"] == json.loads(json.dumps(expected.to_dicts()))
    assert [row["value"] for row in record["values"]] == [row.value for row in expected.values]
    assert cli.run([*words, "--metric", "regrets"]) == 2
    assert "did you mean 'regret'?" in capsys.readouterr().err
    assert cli.run([*words, "--json"]) == 0
    assert "values" not in json.loads(capsys.readouterr().out)


def test_one_quantile_is_the_smallest_value_that_a_share_does_not_exceed():
    assert quantile_of(np.array([3.0, 1.0, 2.0, 4.0]), 0.5) == 2.0
    assert quantile_of(np.array([3.0, 1.0, 2.0, 4.0]), 0.51) == 3.0
