"""Each policy on its own against direct sums, and who may be the best against a literal version and known truth."""

import dataclasses
import math

import numpy as np
import pytest
from scipy import stats

import budget
import cases
import sameluck as sl
from nonempty import nonempty
from sameluck import intervals
from sameluck.inference import simultaneous
from sameluck.inference.interval_methods import INTERVALS
from sameluck.inference.policy_summaries import standings, summarise
from sameluck.inference.requests import Request

FROM_DIFFERENCES = sorted(name for name, method in INTERVALS.items() if not method.copies_arms)

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
    found = {(summary.policy, summary.checkpoint): summary for summary in summarise(runs)}

    assert list(found) == [(name, end) for name in POLICIES for end in (20, 80)]
    for (name, end), summary in found.items():
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
        assert summary.reward == pytest.approx(float(np.mean(earned)))
        assert summary.sd == pytest.approx(float(np.std(earned, ddof=1)))
        assert summary.pulls == pytest.approx(tuple(np.mean(pulls, axis=0)))
        assert summary.regret == pytest.approx(np.mean(regret), abs=1e-9)
        assert summary.best_arm_share == pytest.approx(np.mean(best))
        assert sum(summary.pulls) == pytest.approx(end)


def test_known_policies_have_known_regret():
    arms = {f"arm {arm}": sl.Always(arm) for arm in range(3)}
    runs = played(sl.Bernoulli((0.6, 0.1, 0.5)), arms, checkpoints=[80])

    assert [summary.regret for summary in summarise(runs)] == pytest.approx([0.0, 40.0, 8.0])
    assert [summary.best_arm_share for summary in summarise(runs)] == [1.0, 0.0, 0.0]


def test_real_traffic_has_no_regret_to_tell_and_one_replication_no_spread():
    real = dataclasses.replace(played(ENVIRONMENTS[0]), environment=None)
    for summary in summarise(real):
        assert summary.regret is summary.best_arm_share is None
        assert summary.sd > 0
    single = sl.simulate(real.experiment, ENVIRONMENTS[0], replications=range(1))
    assert math.isnan(summarise(single)[0].sd)


def test_a_comparison_has_the_summaries_and_standings_only_if_requested():
    runs = played(ENVIRONMENTS[0])

    assert sl.compare(runs).policies == summarise(runs)
    assert sl.compare(runs).standings == ()
    comparison = sl.compare(runs, best=True, level=0.8)
    assert comparison.standings == standings(runs, Request(level=0.8, interval="t"))
    assert {standing.checkpoint for standing in comparison.standings} == {80}


def one_sided_literally(columns, level):
    """The quantile of the largest t after random rotations of the residuals, between Student's and Bonferroni's.

    A rotation takes the direction (1, ..., 1) to a uniform one. The random numbers are those of the package.
    """
    count, size = columns.shape
    residuals = columns - columns.mean(axis=0)
    factor = np.linalg.qr(residuals / np.sqrt((residuals**2).sum(axis=0)))[1]
    rng = np.random.Generator(np.random.PCG64(20_240_301))
    inside = rng.standard_normal((simultaneous.ROTATIONS, size))
    length = np.sqrt((inside**2).sum(axis=1) + rng.chisquare(count - size, simultaneous.ROTATIONS))
    cosines = (inside @ factor).max(axis=1) / length
    law = sorted(cosines * math.sqrt(count - 1) / np.sqrt(1 - cosines**2))
    rotated = law[math.ceil(level * len(law)) - 1]
    if (1 - level) * len(law) < 100:
        rotated = math.inf
    alone, bonferroni = (stats.t.isf((1 - level) / k, count - 1) for k in (1, size))
    return sorted([alone, rotated, bonferroni])[1]


def standings_literally(table, level):
    """Each policy minus each other one with an upper bound; what may be the best, and how far from the others."""
    policies = range(table.shape[1])
    ahead, upper = {}, {}
    for i in policies:
        others = [j for j in policies if j != i]
        columns = np.column_stack([table[:, i] - table[:, j] for j in others])
        critical = one_sided_literally(columns, level)
        for j, values in zip(others, columns.T, strict=True):
            ahead[i, j] = values.mean()
            upper[i, j] = values.mean() + critical * stats.sem(values)
    may = [all(upper[i, j] >= 0 for j in policies if j != i) for i in policies]
    found = []
    for i in policies:
        high = min(upper[i, j] for j in policies if j != i)
        lows = [-upper[j, i] for j in policies if j != i and may[j]]
        found.append((min([0.0, *lows]), max(0.0, high), may[i]))
    return found


@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
@pytest.mark.parametrize("policies", [2, 3, 7])
def test_standings_are_the_literal_comparison_with_the_best(policies, level, monkeypatch):
    monkeypatch.setattr(simultaneous, "ROTATIONS", 3_000)
    rng = np.random.default_rng(policies)
    table = rng.normal(0, 3, (12, 1)) + rng.normal(np.linspace(0, 1.5, policies), 1, (12, policies))

    found = standings(made_up(table), Request(level=level, interval="t"))

    for index, (standing, expected) in nonempty(
        enumerate(zip(found, standings_literally(table, level), strict=True))
    ):
        assert (standing.low, standing.high) == pytest.approx(expected[:2], abs=1e-10)
        assert standing.may_be_best == expected[2]
        assert standing.low <= 0 <= standing.high
        assert standing.policy == f"p{index}"


def test_standings_of_two_are_one_sided():
    """Of two policies: Student's one-sided bound, 10 to 16% shorter than the two-sided one."""
    table = np.random.default_rng(5).normal((0.0, 0.4), 1, (15, 2))
    values = table[:, 1] - table[:, 0]
    half = stats.t.ppf(0.95, 14) * stats.sem(values)
    behind, leader = standings(made_up(table), Request(level=0.95, interval="t"))
    assert leader.high == pytest.approx(max(0, values.mean() + half), rel=1e-12)
    assert behind.low == pytest.approx(-values.mean() - half, rel=1e-12)
    anytime = standings(made_up(table), Request(level=0.95, interval="anytime"))[1]
    wide = intervals.anytime_half_widths(values, 0.9)[-1]
    assert anytime.high == pytest.approx(values.mean() + wide, rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("interval", FROM_DIFFERENCES)
def test_the_leader_may_be_the_best_and_nothing_rules_out_what_never_varied(interval, monkeypatch):
    monkeypatch.setattr(simultaneous, "ROTATIONS", 2_000)
    rng = np.random.default_rng(8)
    for _ in range(20):
        table = rng.normal(rng.normal(0, 2, 4), 1, (10, 4))
        found = standings(made_up(table), Request(level=0.9, interval=interval))
        assert found[int(table.mean(axis=0).argmax())].may_be_best
    fixed = standings(made_up([[0.1, 0.1, 0]] * 10), Request(level=0.9, interval=interval))
    assert [(standing.may_be_best, standing.low, standing.high) for standing in fixed] == [
        (True, -math.inf, math.inf)
    ] * 3


def test_standings_of_a_higher_level_rule_out_no_more():
    rng = np.random.default_rng(9)
    runs = made_up(rng.normal(np.arange(6) / 4, 1, (15, 6)))
    loose, strict = (
        {
            standing.policy
            for standing in standings(runs, Request(level=level, interval="t"))
            if standing.may_be_best
        }
        for level in (0.5, 0.99)
    )
    anytime = {
        standing.policy
        for standing in standings(runs, Request(level=0.5, interval="anytime"))
        if standing.may_be_best
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
def test_the_true_best_is_seldom_ruled_out_and_all_the_bounds_hold_together(monkeypatch):
    """1,000 experiments of 12 at 90%: at most 10% misses, exact binomial bound at 1e-6 (sees 15%).

    The second is often enough ruled out, so the bounds are not merely wide.
    """
    monkeypatch.setattr(simultaneous, "ROTATIONS", 2_000)
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
