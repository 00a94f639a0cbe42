"""What compare promises as a whole: on equal policies, over families, for each design, at planned looks."""

import math
import operator
import re

import numpy as np
import pytest
from scipy import stats

import budget
import cases
import sameluck as sl
from sameluck.inference import simultaneous
from sameluck.inference.interval_methods import INTERVALS
from sameluck.inference.planning.power import power_of
from sameluck.inference.variance_ratios import variance_ratio
from sameluck.intervals import obrien_fleming, t_interval

FROM_DIFFERENCES = sorted(name for name, method in INTERVALS.items() if not method.copies_arms)

BERNOULLI = sl.Bernoulli((0.9, 0.7, 0.5, 0.3, 0.1))
THREE = sl.Bernoulli((0.6, 0.5, 0.4))
GAUSSIAN = sl.Gaussian((1.0, 0.8, -2.0, -3.0, -4.0))
NEAR = sl.Gaussian((0.3, 0.0, 0.1))
SHARED = "replay(share_noise=true)"


def played(policies, environment, **changes):
    settings = {"arms": 3, "horizon": 50, "replications": 40, "seed": budget.SEED, **changes}
    checkpoints = settings.pop("checkpoints", None)
    settings["arms"] = getattr(environment, "arms", None) or settings["arms"]
    experiment = sl.Experiment(policies=policies, **settings)
    return sl.simulate(experiment, environment, checkpoints=checkpoints)


def rows_of(runs, rows):
    """Some replications as an experiment of their own."""
    return sl.Runs(
        runs.experiment,
        runs.checkpoints,
        runs.rewards[rows],
        runs.pulls[rows],
        runs.interactions[rows],
        runs.environment,
    )


def assert_at_most(hits, trials, rate):
    chance = stats.binom.sf(hits - 1, trials, rate)
    assert chance > budget.ALARM, f"{hits} of {trials} instead of {rate:.0%}: chance {chance:.1e}"


def assert_more_than(hits, trials, rate):
    chance = stats.binom.sf(hits - 1, trials, rate)
    assert chance < budget.ALARM, f"only {hits} of {trials}; {rate:.0%} explains that"


@pytest.mark.slow
@pytest.mark.parametrize("design", ["replay", "naive", "time_coupled"])
def test_p_values_of_equal_randomised_policies_are_uniform(design):
    """1,000 A/A experiments of 20 replications (Kolmogorov and Smirnov at 1e-6; sees 10% of rejections at 1%)."""
    twins = {"a": sl.ThompsonGaussian(), "b": sl.ThompsonGaussian()}
    runs = played(twins, NEAR, design=design, replications=20_000)

    found = [
        sl.compare(rows_of(runs, slice(start, start + 20)), check=False).effects[0].p_value
        for start in range(0, 20_000, 20)
    ]

    budget.assert_distribution(found, stats.uniform.cdf)


QUIET = (sl.UCB1, sl.UCBDelta, sl.Always)
TWINS = [
    (policy, design)
    for policy in cases.POLICIES_EVERYWHERE
    for design in ("replay", "time_coupled", SHARED)
    if design == SHARED or isinstance(policy, QUIET)
]


@pytest.mark.slow
@pytest.mark.parametrize(("policy", "design"), TWINS, ids=cases.name)
def test_equal_policies_on_the_same_luck_are_exactly_equal_and_cost_one(policy, design):
    """Deterministic ones under every design that shares rewards; randomised ones if it shares noise too."""
    runs = played({"a": policy, "b": policy}, THREE, design=design, checkpoints=[7, 50])

    for effect in sl.compare(runs).effects:
        assert (effect.effect, effect.low, effect.high, effect.sd, effect.p_value) == (
            0,
            0,
            0,
            0,
            1,
        )
        assert effect.interactions == effect.checkpoint
        assert effect.naive_interactions == 2 * effect.checkpoint
    assert (runs.replayed == runs.checkpoints).all()


ARMS = {f"arm {arm}": sl.Always(arm) for arm in range(3)}
HORIZONS = [10, 25, 50]


def truth(effect):
    """The true effect of playing one arm instead of another."""
    means = {f"arm {arm}": mean for arm, mean in enumerate(NEAR.means)}
    return (means[effect.policy] - means[effect.control]) * effect.checkpoint


def families_missed(result, family):
    """Whether an interval misses its true effect: for each family that should hold together."""
    label = {
        "both": lambda e: e.level,
        "pairs": lambda e: e.checkpoint,
        "checkpoints": lambda e: e[:2],
    }
    missed = {}
    for effect in result.effects:
        key = label[family](effect)
        missed[key] = missed.get(key, False) or not effect.low <= truth(effect) <= effect.high
    return list(missed.values())


@pytest.mark.slow
@pytest.mark.parametrize("interval", ["t", "anytime"])
@pytest.mark.parametrize("family", ["pairs", "checkpoints", "both"])
def test_simultaneous_intervals_hold_together(family, interval, monkeypatch):
    """All pairs of three policies of known means at three horizons, 250 experiments of 20 at 90%.

    The first family (of "both" there is one) misses at most 10% of the time, exact binomial at 1e-6 (sees 21%);
    t intervals of each alone together miss more often than that.
    """
    monkeypatch.setattr(simultaneous, "ROTATIONS", 3_000)
    runs = played(ARMS, NEAR, checkpoints=HORIZONS, replications=5_000)
    together = apart = 0
    for start in range(0, 5_000, 20):
        sample = rows_of(runs, slice(start, start + 20))
        arguments = {"pairs": "all", "interval": interval, "level": 0.9, "check": False}
        wide = sl.compare(sample, simultaneous=family, **arguments)
        together += families_missed(wide, family)[0]
        if interval == "t":
            narrow = sl.compare(sample, simultaneous="none", **arguments)
            apart += families_missed(narrow, family)[0]
            for effect, other in zip(wide.effects, narrow.effects, strict=True):
                assert effect.high - effect.low >= (other.high - other.low) * (1 - 1e-12)
                assert effect.effect == other.effect
    assert_at_most(together, 250, 0.1)
    if interval == "t" and family == "both":
        assert_more_than(apart, 250, 0.1)


@pytest.mark.slow
@pytest.mark.parametrize("interval", FROM_DIFFERENCES)
def test_wider_families_have_wider_intervals_around_the_same_effect(interval):
    """Those of the median lie on values, so that they may be as wide."""
    less = operator.le if interval == "median" else operator.lt
    runs = played({**ARMS, "ucb": sl.UCB1()}, NEAR, checkpoints=HORIZONS)
    arguments = {"pairs": "all", "interval": interval}
    single = sl.compare(runs, simultaneous="none", **arguments).effects
    assert (
        sl.compare(runs, **arguments).effects
        == sl.compare(runs, simultaneous="pairs", **arguments).effects
    )
    families = {
        family: sl.compare(runs, simultaneous=family, **arguments).effects
        for family in ("pairs", "checkpoints", "both")
    }
    for index, effect in enumerate(single):
        width = {name: found[index].high - found[index].low for name, found in families.items()}
        assert less(effect.high - effect.low, min(width["pairs"], width["checkpoints"]))
        assert less(max(width["pairs"], width["checkpoints"]), width["both"])
        for found in families.values():
            assert found[index].effect == effect.effect
            assert effect.p_value == effect.p_adjusted
            assert found[index].p_adjusted >= found[index].p_value
            if interval != "anytime":  # whose p-values are those of the family's level
                assert math.isclose(found[index].p_value, effect.p_value, rel_tol=1e-12)


def findings_of_equal_policies(runs, size, experiments, **arguments):
    """In how many experiments anything is claimed of equal policies."""
    hits = 0
    for start in range(0, size * experiments, size):
        result = sl.compare(rows_of(runs, slice(start, start + size)), check=False, **arguments)
        claimed = any(not effect.low <= 0 <= effect.high for effect in result.effects)
        assert claimed == any(effect.p_adjusted <= 1 - effect.level for effect in result.effects)
        # Of the leader, or of other pairs alone.
        assert claimed == bool(re.search(r" than | [1-9]\d* of \d+ pairs differ", result.verdict))
        hits += claimed
    return hits


@pytest.fixture(scope="module")
def equals():
    """Ten equal randomised policies."""
    policies = {f"p{index}": sl.ThompsonGaussian() for index in range(10)}
    return played(policies, NEAR, horizon=20, replications=5_000)


@pytest.fixture(scope="module")
def eight(equals):
    names = list(equals.experiment.policies)[:8]
    policies = {name: equals.experiment.policies[name] for name in names}
    return sl.Runs(
        equals.experiment.replace(policies=policies),
        equals.checkpoints,
        equals.rewards[:, :8],
        equals.pulls[:, :8],
        equals.interactions,
        equals.environment,
    )


@pytest.mark.slow
@pytest.mark.parametrize(("size", "experiments"), [(10, 100), (20, 60), (50, 60)])
def test_of_eight_equal_policies_nothing_is_found(size, experiments, eight, monkeypatch):
    """All 28 pairs: at most 5% of experiments with any finding, exact binomial at 1e-6 (60 see 40%, 100 see 27%).

    Each pair alone gives one in 58% of them.
    """
    monkeypatch.setattr(simultaneous, "ROTATIONS", 2_000)
    hits = findings_of_equal_policies(eight, size, experiments, pairs="all")
    assert_at_most(hits, experiments, 0.05)
    if size == 20:
        alone = findings_of_equal_policies(eight, size, 40, pairs="all", simultaneous="none")
        assert_more_than(alone, 40, 0.1)


@pytest.mark.slow
def test_choosing_the_winner_of_ten_equal_policies_finds_nothing(equals, monkeypatch):
    """pairs="best", 200 experiments of 10: at most 5%, exact binomial at 1e-6 (sees 20%); it was 12 to 21%."""
    monkeypatch.setattr(simultaneous, "ROTATIONS", 2_000)
    assert_at_most(findings_of_equal_policies(equals, 10, 200, pairs="best"), 200, 0.05)


@pytest.mark.slow
def test_equal_policies_differ_at_no_checkpoint_if_these_are_simultaneous(monkeypatch):
    """A/A at 20 horizons, 100 experiments of 20: at most 5%, exact binomial at 1e-6 (sees 27%); pointwise not."""
    monkeypatch.setattr(simultaneous, "ROTATIONS", 2_000)
    twins = {"a": sl.ThompsonGaussian(), "b": sl.ThompsonGaussian()}
    runs = played(twins, NEAR, checkpoints=list(range(5, 101, 5)), horizon=100, replications=2_000)
    hits = {"pairs": 0, "checkpoints": 0}
    for start in range(0, 2_000, 20):
        for family in hits:
            part = rows_of(runs, slice(start, start + 20))
            result = sl.compare(part, simultaneous=family, check=False)
            hits[family] += any(effect.p_adjusted <= 0.05 for effect in result.effects)
    assert_at_most(hits["checkpoints"], 100, 0.05)
    assert_more_than(hits["pairs"], 100, 0.1)


def test_replications_that_tie_are_never_significant_by_their_ties():
    """Example 1 at 50 periods with 3 replications: of 300 intervals 52 had no width, 11 of them p = 0."""
    runs = played({"a": sl.UCB1(2.5), "b": sl.UCB1(3.0)}, BERNOULLI, replications=900)
    tied = 0
    for start in range(0, 900, 3):
        result = sl.compare(rows_of(runs, slice(start, start + 3)), check=False)
        effect = result.effects[0]
        assert effect.p_value > 0
        assert effect.low < effect.high
        if effect.sd == 0:
            tied += 1
            assert (effect.low, effect.high, effect.p_value, effect.p_adjusted) == (
                -np.inf,
                np.inf,
                1,
                1,
            )
            assert "in all 3 replications; no interval can be given" in result.verdict
    assert 20 < tied < 120


def test_naive_is_compared_as_two_samples_and_shared_rewards_within_replications():
    """SciPy's Welch and paired t tests; a prior's instance is shared even under naive."""
    policies = {"a": sl.UCB1(), "b": sl.EpsilonGreedy()}
    cases_ = [
        ("naive", NEAR, False),
        ("replay", NEAR, True),
        ("time_coupled", NEAR, True),
        ("naive", sl.GaussianPrior(), True),
        ("replay", sl.BernoulliPrior(), True),
    ]
    for design, environment, within in cases_:
        runs = played(policies, environment, design=design)
        control, other = runs.rewards[:, 0, 0], runs.rewards[:, 1, 0]
        effect = sl.compare(runs, level=0.9).effects[0]

        test = (
            stats.ttest_rel(other, control)
            if within
            else stats.ttest_ind(other, control, equal_var=False)
        )
        assert (effect.low, effect.high) == pytest.approx(
            tuple(test.confidence_interval(0.9)), rel=1e-10
        )
        assert effect.p_value == pytest.approx(test.pvalue, rel=1e-9)
        assert (effect.variance_ratio == 1) == (not within)


def test_pairing_a_prior_under_naive_is_worth_it():
    """The instance is most of what two policies earn: its variance cancels (ratio above 3; measured 10 to 20)."""
    policies = {"a": sl.UCB1(), "b": sl.EpsilonGreedy()}
    runs = played(policies, sl.GaussianPrior(sd=3.0), design="naive", replications=400)

    apart = runs.rewards[:, :, 0].var(axis=0, ddof=1).sum()
    assert apart > 3 * sl.compare(runs).effects[0].sd ** 2


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bernoulli", "gaussian"])
def test_the_interval_of_the_variance_ratio_covers_that_of_a_large_run(name):
    """400 experiments of 50 at 95% against the ratio of all 20,000: at most 10% misses (it is approximate).

    Exact binomial at 1e-6: sees misses of 20%.
    """
    policies, environment = {
        "bernoulli": ({"a": sl.UCB1(2.5), "b": sl.UCB1(3.0)}, BERNOULLI),
        "gaussian": ({"a": sl.UCB1(), "b": sl.ThompsonGaussian()}, NEAR),
    }[name]
    runs = played(policies, environment, horizon=100, replications=20_000)
    control, other = runs.rewards[:, 0, 0], runs.rewards[:, 1, 0]
    whole = (np.var(control) + np.var(other)) / np.var(other - control)
    missed = 0
    for start in range(0, 20_000, 50):
        rows = slice(start, start + 50)
        ratio = variance_ratio(other[rows], control[rows], 0.95)
        missed += not ratio.low <= whole <= ratio.high
        assert ratio.low < ratio.value < ratio.high

    assert_at_most(missed, 400, 0.1)
    effect = sl.compare(runs).effects[0]
    assert effect.variance_ratio == pytest.approx(whole, rel=1e-3)
    assert effect.naive_replications == int(np.ceil(20_000 * effect.variance_ratio))


@pytest.mark.slow
@pytest.mark.parametrize("looks", [2, 5])
def test_planned_looks_keep_the_level_and_the_same_looks_at_t_do_not(looks):
    """2,000 A/A experiments of 100 replications: ever significant at most 5% (binomial at 1e-6: sees 7.5%)."""
    twins = {"a": sl.ThompsonGaussian(), "b": sl.ThompsonGaussian()}
    runs = played(twins, NEAR, horizon=20, replications=200_000)
    groups = (runs.rewards[:, 1, 0] - runs.rewards[:, 0, 0]).reshape(2_000, 100)

    def ever_decided(levels):
        decided = 0
        for values in groups:
            ends = (
                t_interval(values[: look.replications], level)
                for look, level in zip(plan, levels, strict=True)
            )
            decided += any(low > 0 or high < 0 for low, high, _ in ends)
        return decided

    plan = obrien_fleming(100, looks, 0.95)
    assert [look.replications for look in plan][-1] == 100
    assert_at_most(ever_decided([look.level for look in plan]), 2_000, 0.05)
    if looks == 5:  # about 14%; two looks at 8% would need more experiments
        assert_more_than(ever_decided([0.95] * looks), 2_000, 0.05)


FAMILY = {
    "flat": sl.ThompsonBernoulli(),
    "peaked": sl.ThompsonBernoulli(3.0, 3.0),
    "curious": sl.EpsilonGreedy(0.1),
    "calm": sl.EpsilonGreedy(0.05, "others"),
    "random": sl.Uniform(),
    "ucb": sl.UCB1(),
}


@pytest.mark.slow
def test_shared_noise_leaves_every_policys_own_law_as_it_is():
    """Rewards and pulls of the first arm at two horizons, with and without sharing, on seeds of their own.

    Two-sample Kolmogorov and Smirnov and chi-square, 24 looks each sharing 1e-6; 5,000 replications a side see a
    shift of an eighth of a standard deviation.
    """
    plain = played(FAMILY, THREE, horizon=120, checkpoints=[30, 120], replications=5_000, seed=11)
    shared = played(
        FAMILY,
        THREE,
        horizon=120,
        checkpoints=[30, 120],
        replications=5_000,
        seed=12,
        design=SHARED,
    )
    looks = 2 * len(FAMILY) * 2
    for column, name in enumerate(FAMILY):
        for index in range(2):
            for effect, other in (
                (plain.rewards[:, column, index], shared.rewards[:, column, index]),
                (plain.pulls[:, column, index, 0], shared.pulls[:, column, index, 0]),
            ):
                p_value = stats.ks_2samp(effect, other).pvalue
                assert p_value > budget.ALARM / looks, f"{name}: p = {p_value:.1e}"
                budget.assert_same_distribution(effect, other, looks)


RELATIVES = {
    "thompson, other priors": (
        {"a": sl.ThompsonBernoulli(), "b": sl.ThompsonBernoulli(3.0, 3.0)},
        THREE,
    ),
    "gaussian thompson, other priors": (
        {"a": sl.ThompsonGaussian(), "b": sl.ThompsonGaussian(prior_sd=2.0)},
        GAUSSIAN,
    ),
    "epsilon-greedy": ({"a": sl.EpsilonGreedy(0.1), "b": sl.EpsilonGreedy(0.05)}, GAUSSIAN),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", RELATIVES)
def test_shared_noise_lowers_the_variance_between_relatives(name):
    """The log of the variance ratio, with its error from 40 groups, is below log 0.95 by the bound of 1e-6."""
    policies, environment = RELATIVES[name]
    spreads = {}
    for design in ("replay", SHARED):
        runs = played(policies, environment, design=design, horizon=200, replications=8_000)
        values = runs.rewards[:, 1, 0] - runs.rewards[:, 0, 0]
        spreads[design] = ((values - values.mean()) ** 2).reshape(40, 200).mean(axis=1)
    shared, plain = spreads[SHARED], spreads["replay"]
    error = np.hypot(
        budget.standard_error(shared) / shared.mean(), budget.standard_error(plain) / plain.mean()
    )

    assert np.log(shared.mean() / plain.mean()) + budget.z_bound() * error < np.log(0.95)


def test_shared_noise_changes_nothing_for_deterministic_policies():
    policies = {"a": sl.UCB1(0.5), "b": sl.UCB1(), "c": sl.UCBDelta()}
    plain, shared = (played(policies, THREE, design=design) for design in ("replay", SHARED))

    assert plain.rewards.tobytes() == shared.rewards.tobytes()
    assert plain.pulls.tobytes() == shared.pulls.tobytes()


def power_literally(effect, replications, level):
    """Of the t test of normal values with sd 1: averaged over a fine grid of quantiles of the sample sd."""
    freedom = replications - 1
    critical = stats.t.ppf(0.5 + level / 2, freedom)
    chances = (np.arange(200_000) + 0.5) / 200_000
    spread = np.sqrt(stats.chi2.ppf(chances, freedom) / freedom)
    centre = effect * np.sqrt(replications)
    upper, lower = (stats.norm.sf(critical * spread + sign * centre) for sign in (-1, 1))
    return float(np.mean(upper + lower))


@pytest.mark.slow
def test_power_is_that_of_the_t_test():
    for replications, effect in ((5, 1.0), (10, 1.5), (30, 0.6)):
        expected = power_literally(effect, replications, 0.95)
        assert power_of(effect, 1.0, replications, 0.95) == pytest.approx(expected, abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(("replications", "level"), [(2, 0.95), (2, 0.99), (3, 0.99), (4, 0.999)])
def test_power_of_very_few_replications_is_that_of_the_t_test_too(replications, level):
    """A few degrees of freedom spread the noncentral t far: 0.74 to 0.97 here, not 1."""
    critical = stats.t.ppf(0.5 + level / 2, replications - 1)
    effect = (critical + 8.5) / np.sqrt(replications)
    expected = power_literally(effect, replications, level)

    assert power_of(effect, 1.0, replications, level) == pytest.approx(expected, abs=1e-3)


PAIR = {"a": sl.UCB1(), "b": sl.EpsilonGreedy()}


@pytest.mark.slow
@pytest.mark.parametrize("design", ["naive", "time_coupled", SHARED])
def test_a_pilot_of_another_design_is_used_or_refused_with_a_message(design):
    runs = played(PAIR, NEAR, design=design)
    try:
        planned = sl.plan(runs.experiment.replace(design="replay"), runs, effect=1.0, power=0.9)
    except sl.Invalid as error:
        assert "design" in str(error)  # noqa: PT017
    else:
        assert design in [row.design for row in planned.rows]


def test_a_pilot_of_other_policies_or_another_horizon_is_refused():
    runs = played(PAIR, NEAR)
    for other in ({"policies": {"x": sl.Uniform(), "y": sl.UCB1()}}, {"horizon": 999}):
        with pytest.raises(sl.Invalid):
            sl.plan(runs.experiment.replace(**other), runs, effect=1.0, power=0.9)


@pytest.mark.slow
def test_the_naive_row_of_a_plan_has_the_spread_that_compare_finds():
    """With a prior the instance is shared under naive too; both from 1,000 replications, within a fifth."""
    prior = sl.BernoulliPrior()
    runs = played(PAIR, prior, design="naive", replications=1_000)
    planned = sl.plan(
        runs.experiment.replace(design="replay"), prior, effect=1.0, power=0.9, pilot=1_000
    )
    naive = next(row for row in planned.rows if row.design == "naive")

    assert naive.sd == pytest.approx(sl.compare(runs).effects[0].sd, rel=0.2)


@pytest.mark.parametrize("level", [0.0, 1.0, 95, float("nan")])
def test_a_level_that_is_none_is_refused_by_coverage_and_planned_looks(level):
    experiment = played(PAIR, NEAR).experiment
    with pytest.raises(sl.Invalid, match="level"):
        sl.coverage(experiment, NEAR, level=level, experiments=10)
    with pytest.raises(sl.Invalid, match="level"):
        obrien_fleming(100, 5, level)
