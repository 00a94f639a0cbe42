"""Each policy on its own against direct sums, and who may be the best against a literal version and known truth."""

import dataclasses
import math

import numpy as np
import pytest
from scipy import stats

import budget
import cases
import sameluck as sl
from sameluck.inference.effects import Request
from sameluck.inference.policy_summaries import standings, summarise

POLICIES = {"ucb": sl.UCB1(), "greedy": sl.EpsilonGreedy(), "random": sl.Uniform()}


def played(environment, policies=None, **changes):
    settings = {"arms": 3, "horizon": 80, "replications": 25, "seed": budget.SEED, **changes}
    checkpoints = settings.pop("checkpoints", [20, 80])
    experiment = sl.Experiment(policies=policies or POLICIES, **settings)
    return sl.simulate(experiment, environment, checkpoints=checkpoints)


def made_up(rewards):
    """Runs of given rewards (replication, policy) at one checkpoint."""
    table = np.asarray(rewards, float)[:, :, None]
    names = {f"p{index}": sl.Uniform() for index in range(table.shape[1])}
    experiment = sl.Experiment(policies=names, arms=2, horizon=10, replications=len(table))
    return sl.Runs(
        experiment,
        np.array([10]),
        table,
        np.full((*table.shape, 2), 5),
        np.full((len(table), 1), 10),
    )


ENVIRONMENTS = [
    sl.Bernoulli((0.6, 0.3, 0.5)),
    sl.Gaussian((-1.0, 2.0, 1.5)),
    sl.Empirical(((0.0, 1.0), (5.0,), (-1.0, 1.0, 3.0))),
    sl.BernoulliPrior(),
    sl.GaussianPrior(mean=0.5, sd=2.0),
]


@pytest.mark.slow
@pytest.mark.parametrize("environment", ENVIRONMENTS, ids=cases.name)
def test_a_summary_is_the_direct_sum_over_replications_with_each_its_own_means(environment):
    """Reward, spread, pulls, regret and share of the best arm, by loops; also for runs that start later."""
    experiment = played(environment, replications=40).experiment
    runs = sl.simulate(experiment, environment, checkpoints=[20, 80], replications=range(15, 40))
    found = {(one.policy, one.checkpoint): one for one in summarise(runs)}

    assert list(found) == [(name, end) for name in POLICIES for end in (20, 80)]
    for (name, end), one in found.items():
        column, index = list(POLICIES).index(name), [20, 80].index(end)
        regret, best, pulls = [], [], []
        for row in range(25):
            bandit = environment
            if hasattr(environment, "instance"):
                bandit = environment.instance(experiment.seed, 15 + row, 3)
            means, counts = list(bandit.means), runs.pulls[row, column, index].tolist()
            regret.append(sum((max(means) - m) * n for m, n in zip(means, counts, strict=True)))
            best.append(counts[means.index(max(means))] / end)
            pulls.append(counts)
        earned = runs.rewards[:, column, index]
        assert one.reward == pytest.approx(float(np.mean(earned)))
        assert one.sd == pytest.approx(float(np.std(earned, ddof=1)))
        assert one.pulls == pytest.approx(tuple(np.mean(pulls, axis=0)))
        assert one.regret == pytest.approx(np.mean(regret), abs=1e-9)
        assert one.best_arm_share == pytest.approx(np.mean(best))
        assert sum(one.pulls) == pytest.approx(end)


def test_known_policies_have_known_regret():
    arms = {f"arm {arm}": sl.Always(arm) for arm in range(3)}
    runs = played(sl.Bernoulli((0.6, 0.1, 0.5)), arms, checkpoints=[80])

    assert [one.regret for one in summarise(runs)] == pytest.approx([0.0, 40.0, 8.0])
    assert [one.best_arm_share for one in summarise(runs)] == [1.0, 0.0, 0.0]


def test_real_traffic_has_no_regret_to_tell_and_one_replication_no_spread():
    real = dataclasses.replace(played(ENVIRONMENTS[0]), environment=None)
    for one in summarise(real):
        assert one.regret is one.best_arm_share is None
        assert one.sd > 0
    single = sl.simulate(real.experiment, ENVIRONMENTS[0], replications=range(1))
    assert math.isnan(summarise(single)[0].sd)


def test_a_comparison_has_the_summaries_and_standings_only_if_requested():
    runs = played(ENVIRONMENTS[0])

    assert sl.compare(runs).policies == summarise(runs)
    assert sl.compare(runs).standings == ()
    comparison = sl.compare(runs, best=True, level=0.8)
    assert comparison.standings == standings(runs, Request(level=0.8, interval="t"))
    assert {one.checkpoint for one in comparison.standings} == {80}


def standing_literally(table, index, level):
    """Nelson and Matejcik with two-sided Bonferroni: the worst of the differences, with its own half-width."""
    count, policies = table.shape
    critical = stats.t.ppf(1 - (1 - level) / (policies - 1) / 2, count - 1)
    lows, highs = [], []
    for other in range(policies):
        if other != index:
            values = [row[index] - row[other] for row in table]
            half = critical * np.std(values, ddof=1) / math.sqrt(count)
            lows.append(np.mean(values) - half)
            highs.append(np.mean(values) + half)
    return min(0.0, *lows), max(0.0, min(highs)), min(highs) >= 0


@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
@pytest.mark.parametrize("policies", [2, 3, 7])
def test_standings_are_the_literal_comparison_with_the_best(policies, level):
    rng = np.random.default_rng(policies)
    table = rng.normal(0, 3, (12, 1)) + rng.normal(np.linspace(0, 1.5, policies), 1, (12, policies))

    found = standings(made_up(table), Request(level=level, interval="t"))

    for index, one in enumerate(found):
        low, high, may = standing_literally(table, index, level)
        assert (one.low, one.high) == pytest.approx((low, high), abs=1e-10)
        assert one.may_be_best == may
        assert one.low <= 0 <= one.high
        assert one.policy == f"p{index}"


@pytest.mark.parametrize("interval", ["t", "bootstrap", "anytime"])
def test_the_leader_may_always_be_the_best_and_equals_too(interval):
    rng = np.random.default_rng(8)
    for _ in range(20):
        table = rng.normal(rng.normal(0, 2, 4), 1, (10, 4))
        found = standings(made_up(table), Request(level=0.9, interval=interval))
        assert found[int(table.mean(axis=0).argmax())].may_be_best
    equal = standings(made_up([[1, 1, 0]] * 10), Request(level=0.9, interval=interval))
    assert [one.may_be_best for one in equal] == [True, True, False]


def test_standings_of_a_higher_level_rule_out_no_more():
    rng = np.random.default_rng(9)
    runs = made_up(rng.normal(np.arange(6) / 4, 1, (15, 6)))
    loose, strict = (
        {
            one.policy
            for one in standings(runs, Request(level=level, interval="t"))
            if one.may_be_best
        }
        for level in (0.5, 0.99)
    )
    anytime = {
        one.policy
        for one in standings(runs, Request(level=0.5, interval="anytime"))
        if one.may_be_best
    }
    assert loose <= strict
    assert loose <= anytime


TRUTH = (12.6, 12.3, 12.0)  # 30 periods of these means: close enough that chance often decides
FIELD = {f"arm {arm}": sl.Always(arm) for arm in range(3)}
BANDIT = sl.Gaussian(tuple(mean / 30 for mean in TRUTH), sd=0.25)


def experiments(count, size):
    """Rewards (experiment, replication, policy) of policies whose expectations are known."""
    runs = played(BANDIT, FIELD, horizon=30, checkpoints=[30], replications=count * size)
    return runs.rewards[:, :, 0].reshape(count, size, 3)


def assert_seldom(misses, trials, rate):
    chance = stats.binom.sf(misses - 1, trials, rate)
    assert chance > budget.ALARM, f"{misses} misses in {trials}: chance {chance:.1e}"


@pytest.mark.slow
def test_the_true_best_is_seldom_ruled_out_and_all_the_bounds_hold_together():
    """1,000 experiments of 12 at 90%: at most 10% misses, exact binomial bound at 1e-6 (sees 15%).

    The second is often enough ruled out, so the bounds are not merely wide.
    """
    excluded = missed = decided = 0
    for table in experiments(1_000, 12):
        found = standings(made_up(table), Request(level=0.9, interval="t"))
        excluded += not found[0].may_be_best
        gaps = [t - max(o for p, o in enumerate(TRUTH) if p != k) for k, t in enumerate(TRUTH)]
        missed += any(not s.low <= gap <= s.high for s, gap in zip(found, gaps, strict=True))
        decided += not found[2].may_be_best
    assert_seldom(excluded, 1_000, 0.1)
    assert_seldom(missed, 1_000, 0.1)
    assert decided > 50


@pytest.mark.slow
def test_the_anytime_standings_hold_at_every_look():
    """200 experiments looked at after 5, 10, ..., 60: the best ever ruled out at most 10% of the time (1e-6)."""
    ever = 0
    for table in experiments(200, 60):
        looks = (
            standings(made_up(table[:count]), Request(level=0.9, interval="anytime"))
            for count in range(5, 61, 5)
        )
        ever += any(not found[0].may_be_best for found in looks)
    assert_seldom(ever, 200, 0.1)
