"""Effects and their intervals, against SciPy and against what must hold whatever the numbers."""

import dataclasses
import math

import numpy as np
import pytest
from scipy import stats

import sameluck as sl
from nonempty import nonempty
from sameluck import intervals
from sameluck.inference import simultaneous
from sameluck.inference.interval_methods import INTERVALS
from sameluck.inference.requests import PAIRINGS, first_pair, policy_pairs
from sameluck.inference.variance_ratios import moments, variance_ratio
from sameluck.intervals import anytime_interval, bootstrap_interval, median_interval, t_interval

FROM_DIFFERENCES = sorted(name for name, method in INTERVALS.items() if not method.copies_arms)


def runs_of(rewards: list[list[float]], **changes: object) -> sl.Runs:
    """Runs of made-up rewards (replication, policy) at one checkpoint."""
    array = np.array(rewards, dtype=float)[:, :, None]
    names = [f"p{index}" for index in range(array.shape[1])]
    experiment = sl.Experiment(
        policies={name: sl.Uniform() for name in names},
        arms=2,
        horizon=10,
        replications=array.shape[0],
        **changes,
    )
    pulls = np.full((*array.shape, 2), 5)
    spent = np.full((array.shape[0], 1), 12)
    return sl.Runs(experiment, np.array([10]), array, pulls, spent)


def test_the_t_interval_is_scipys_to_the_last_digits():
    values = np.random.default_rng(1).normal(3, 2, size=17)
    for level in (0.5, 0.9, 0.95, 0.99, 0.9999):
        low, high, p_value = t_interval(values, level)

        theirs = stats.ttest_1samp(values, 0)
        expected = theirs.confidence_interval(level)
        assert low == pytest.approx(expected.low, rel=1e-13)
        assert high == pytest.approx(expected.high, rel=1e-13)
        assert p_value == pytest.approx(theirs.pvalue, rel=1e-12)


def test_an_effect_is_the_mean_difference_within_replications():
    result = sl.compare(runs_of([[1, 4], [2, 4], [6, 10]]))

    (effect,) = result.effects
    assert (effect.policy, effect.control) == ("p1", "p0")
    assert effect.effect == 3.0
    assert effect.sd == pytest.approx(1.0)
    assert (effect.reward, effect.control_reward) == (6.0, 3.0)
    assert (effect.interactions, effect.naive_interactions) == (12, 20)
    naive = np.var([1, 2, 6], ddof=1) + np.var([4, 4, 10], ddof=1)
    assert effect.variance_ratio == pytest.approx(naive / 1.0)


def test_pairs_are_with_the_control_or_all_each_once():
    runs = runs_of([[1, 2, 3], [2, 2, 5]])

    with_control = sl.compare(runs, control="p1").effects
    assert [(effect.policy, effect.control) for effect in with_control] == [
        ("p0", "p1"),
        ("p2", "p1"),
    ]

    every = sl.compare(runs, pairs="all").effects
    assert [(e.policy, e.control) for e in every] == [("p1", "p0"), ("p2", "p0"), ("p2", "p1")]
    with_last = sl.compare(runs, pairs="all", control="p2").effects
    assert [(e.policy, e.control) for e in with_last] == [("p0", "p2"), ("p1", "p2"), ("p1", "p0")]


@pytest.mark.parametrize("interval", FROM_DIFFERENCES)
def test_a_difference_that_has_not_varied_has_no_interval_and_no_p_value(interval):
    """Nothing is known of how much it would vary; only one and the same policy is known to differ by 0."""
    same = sl.compare(runs_of([[1, 1], [2, 2]]), interval=interval).effects[0]
    assert (same.effect, same.low, same.high, same.sd) == (0, 0, 0, 0)
    assert same.p_value == same.p_adjusted == 1
    assert math.isinf(same.variance_ratio)

    shifted = sl.compare(runs_of([[1, 1.1], [2, 2.1]] * 10), interval=interval)
    effect = shifted.effects[0]
    assert (effect.low, effect.high, effect.p_value, effect.p_adjusted) == (
        -math.inf,
        math.inf,
        1,
        1,
    )
    assert "no interval can be given" in shifted.verdict

    policies = {"p0": sl.Uniform(), "p1": sl.UCB1()}
    other = runs_of([[1, 1], [2, 2]] * 10)
    other = dataclasses.replace(other, experiment=other.experiment.replace(policies=policies))
    equal = sl.compare(other, interval=interval)
    effect = equal.effects[0]
    assert (effect.effect, effect.low, effect.high, effect.p_value) == (0, -math.inf, math.inf, 1)
    assert "p1 and p0 earned exactly the same in all 20 replications; no interval" in equal.verdict
    assert "the same policy" not in equal.verdict


def test_a_median_interval_from_0_to_0_is_no_claim_that_policies_are_the_same():
    result = sl.compare(runs_of([[1, 1]] * 18 + [[1, 4], [3, 2]]), interval="median")
    assert result.effects[0][4:6] == (0, 0)
    assert "the same policy" not in result.verdict
    assert (
        "In the median replication no difference between p1 and p0 is shown over 10 periods"
        in result.verdict
    )


@pytest.mark.parametrize(
    ("arguments", "fragment"),
    [
        ({"level": 1.0}, "level must be between 0 and 1"),
        ({"level": 95}, "level must be between 0 and 1"),
        ({"level": True}, "level must be between 0 and 1"),
        ({"level": float("nan")}, "level must be between 0 and 1"),
        ({"pairs": "some"}, "unknown pairs 'some'; known: control, all, best"),
        ({"interval": "z"}, "unknown interval 'z'; known"),
        ({"control": "p9"}, "unknown control 'p9'; known: p0, p1"),
    ],
)
def test_bad_arguments_are_refused_with_a_message(arguments, fragment):
    with pytest.raises(sl.Invalid, match=fragment):
        sl.compare(runs_of([[1, 2], [2, 4]]), **arguments)


def test_runs_that_cannot_be_compared_are_refused_with_a_message():
    with pytest.raises(sl.Invalid, match="at least 2 replications, got 1"):
        sl.compare(runs_of([[1, 2]]))
    with pytest.raises(sl.Invalid, match=r"however many users it has$"):  # a twin has no quantiles
        sl.compare(runs_of([[1, 2]]), metric="quantile(0.5)")
    with pytest.raises(sl.Invalid, match="at least two policies"):
        sl.compare(runs_of([[1], [2]]))
    with pytest.raises(sl.Invalid, match="must be finite"):
        sl.compare(runs_of([[1, 2], [math.nan, 3]]))
    with pytest.raises(sl.Invalid, match="takes the Runs"):
        sl.compare("runs")


@pytest.mark.parametrize("name", PAIRINGS)
def test_every_pairing_names_two_different_policies_and_no_pair_twice(name):
    pairs = policy_pairs(name, ("a", "b", "c", "d"), "c", "b")
    assert all(policy != control for policy, control in pairs)
    assert len({frozenset(pair) for pair in pairs}) == len(pairs)


@pytest.mark.slow
def test_the_t_interval_covers_as_often_as_it_says():
    """99% intervals from 10 replications of Example 1 against the mean of 20,000 others.

    2,000 experiments: binomial sd 0.0022; the bound of 5 sd has a false-alarm chance under 1e-6 and sees a coverage
    of 0.97.
    """
    policies = {"low": sl.UCB1(2.5), "high": sl.UCB1(3.0)}
    experiment = sl.Experiment(policies=policies, arms=5, horizon=300, replications=40_000, seed=5)
    runs = sl.simulate(experiment, sl.Bernoulli((0.9, 0.7, 0.5, 0.3, 0.1)))
    differences = runs.rewards[:, 1, 0] - runs.rewards[:, 0, 0]
    truth = differences[20_000:].mean()

    groups = differences[:20_000].reshape(2_000, 10)
    hits = [low <= truth <= high for low, high, _ in (t_interval(row, 0.99) for row in groups)]

    assert abs(np.mean(hits) - 0.99) < 5 * math.sqrt(0.99 * 0.01 / 2_000)


def test_on_a_prior_the_naive_variance_cannot_be_estimated_from_the_same_runs():
    """The naive design would meet the same bandit, so the two policies' variances do not add up to its own."""
    experiment = sl.Experiment(
        policies={"a": "ucb1", "b": "uniform"}, arms=2, horizon=50, replications=40
    )
    result = sl.compare(sl.simulate(experiment, sl.BernoulliPrior()))
    assert math.isnan(result.effects[0].variance_ratio)
    assert math.isnan(result.effects[0].naive_replications)
    assert result.cautions == ()
    assert " -\n" in str(result)


MADE_UP = np.random.default_rng(4).normal(size=(20, 3, 2)).cumsum(axis=2) @ np.array(
    [[3.0, 1.0], [0.0, 2.0]]
) + np.array([5.0, 5.5, 6.5])[:, None] * np.array([1.0, 4.0])


def made_up_runs(rewards=MADE_UP, **changes):
    """Three policies at two checkpoints, with rewards, pulls and users of no policy in particular."""
    experiment = sl.Experiment(
        policies={"a": sl.Uniform(), "b": sl.UCB1(), "c": sl.UCB1(2.0)},
        arms=2,
        horizon=40,
        replications=len(rewards),
        **changes,
    )
    pulls = np.full((*rewards.shape, 2), 5)
    users = np.arange(2 * len(rewards)).reshape(-1, 2) ** 2
    return sl.Runs(experiment, np.array([10, 40]), rewards, pulls, users)


def jackknife(first, second, level):
    """The variance ratio with an interval of its logarithm, each replication left out in turn."""

    def ratio(rows):
        x, y = first[rows], second[rows]
        return (x.var(ddof=1) + y.var(ddof=1)) / (x - y).var(ddof=1)

    count = first.size
    logs = np.log([ratio(np.arange(count) != left_out) for left_out in range(count)])
    error = math.sqrt((count - 1) / count * ((logs - logs.mean()) ** 2).sum())
    value, factor = ratio(slice(None)), math.exp(stats.t.ppf(0.5 + level / 2, count - 1) * error)
    return value, value / factor, value * factor


def largest_t_literally(members):
    """The largest |t| of a family's columns after random rotations of their residuals.

    A rotation takes the direction (1, ..., 1) to a uniform one. The random numbers are those of the package.
    """
    residuals = np.column_stack([values - values.mean() for values in members])
    lengths = np.sqrt((residuals**2).sum(axis=0))
    count, factor = len(residuals), np.linalg.qr(residuals / lengths)[1]
    rng = np.random.Generator(np.random.PCG64(20_240_301))
    inside = rng.standard_normal((simultaneous.ROTATIONS, len(factor)))
    length = (inside**2).sum(axis=1) + rng.chisquare(count - len(factor), simultaneous.ROTATIONS)
    cosines = np.abs(inside @ factor).max(axis=1) / np.sqrt(length)
    return np.sort(cosines * math.sqrt(count - 1) / np.sqrt(1 - cosines**2)).tolist()


def max_t_literally(members, values, level):
    """Bounds and p-value of one comparison of a family: by the largest |t|, between Student's and Bonferroni's."""
    law, size, error = largest_t_literally(members), len(members), stats.sem(values)
    alone, bonferroni = (stats.t.isf((1 - level) / 2 / k, len(values) - 1) for k in (1, size))
    critical = sorted([alone, law[math.ceil(level * len(law)) - 1], bonferroni])[1]
    statistic = abs(values.mean()) / error
    share = max(1, sum(t >= statistic for t in law)) / len(law)
    single = stats.ttest_1samp(values, 0).pvalue
    p_value = sorted([single, share, size * single])[1]
    return values.mean() - critical * error, values.mean() + critical * error, p_value


def welch_literally(first, second, size, level):
    """Bonferroni's method over `size` independent comparisons."""
    test = stats.ttest_ind(first, second, equal_var=False)
    return *test.confidence_interval(1 - (1 - level) / size), min(1, size * test.pvalue)


@pytest.mark.parametrize("design", ["replay", "naive"])
def test_every_field_of_an_effect_follows_from_its_definition(design, monkeypatch):
    monkeypatch.setattr(simultaneous, "ROTATIONS", 3_000)
    runs, level = made_up_runs(design=design), 0.9
    found = sl.compare(runs, pairs="all", level=level).effects
    pairs = [("b", "a"), ("c", "a"), ("c", "b")]
    assert [effect[:3] for effect in found] == [(*pair, at) for pair in pairs for at in (10, 40)]
    for effect in found:
        index = (10, 40).index(effect.checkpoint)
        sides = {pair: [MADE_UP[:, "abc".index(name), index] for name in pair] for pair in pairs}
        pair = effect[:2]
        first, second = sides[pair]
        if design == "replay":
            alone = stats.ttest_rel(first, second)
            members = [x - y for x, y in sides.values()]
            together = max_t_literally(members, first - second, level)
        else:
            alone = stats.ttest_ind(first, second, equal_var=False)
            together = welch_literally(first, second, 3, level)
        apart = first.var(ddof=1) + second.var(ddof=1)
        variance = (first - second).var(ddof=1) if design == "replay" else apart
        ratio = jackknife(first, second, level) if design == "replay" else (1, 1, 1)
        expected = {
            "effect": first.mean() - second.mean(),
            "low": together[0],
            "high": together[1],
            "level": level,
            "p_value": alone.pvalue,
            "p_adjusted": together[2],
            "sd": math.sqrt(variance),
            "reward": first.mean(),
            "control_reward": second.mean(),
            "replications": 20,
            "interactions": runs.interactions[:, index].mean(),
            "naive_interactions": 3 * effect.checkpoint,
            "variance_ratio": ratio[0],
            "ratio_low": ratio[1],
            "ratio_high": ratio[2],
            "naive_replications": math.ceil(20 * ratio[0]),
            "plain_effect": first.mean() - second.mean(),
            "plain_sd": math.sqrt(variance),
        }
        assert effect[:3] == (*pair, effect.checkpoint)
        assert {name: getattr(effect, name) for name in expected} == pytest.approx(
            expected, rel=1e-9
        )
        assert len(expected) + 3 == len(effect)


FAMILY_SIZES = {"pairs": 3, "checkpoints": 2, "both": 6, "none": 1, None: 3}
BONFERRONI = {
    "anytime": anytime_interval,
    "bootstrap": bootstrap_interval,
    "median": median_interval,
}


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILY_SIZES)
def test_simultaneous_intervals_share_the_level_within_their_family(family, monkeypatch):
    """Bonferroni for the anytime, bootstrap and median interval; for t by max-t over the columns of the family.

    Not given means pairs; "none" means each alone. The p-value of each alone stays beside it; that of the anytime
    interval is of the mixture that the adjusted level uses, or an adjusted one could be below it.
    """
    monkeypatch.setattr(simultaneous, "ROTATIONS", 3_000)
    runs, size = made_up_runs(), FAMILY_SIZES[family]
    arguments = {"pairs": "all", "level": 0.9}
    differences = {
        effect[:3]: MADE_UP[:, "abc".index(effect.policy), index]
        - MADE_UP[:, "abc".index(effect.control), index]
        for effect in sl.compare(runs, **arguments).effects
        for index in [(10, 40).index(effect.checkpoint)]
    }
    for name, method in BONFERRONI.items():
        for effect in nonempty(
            sl.compare(runs, interval=name, simultaneous=family, **arguments).effects
        ):
            values = differences[effect[:3]]
            narrow = method(values, 1 - 0.1 / size)
            assert (effect.low, effect.high) == pytest.approx(narrow[:2], rel=1e-12)
            assert effect.p_adjusted == pytest.approx(min(1, size * narrow.p_value), rel=1e-12)
            assert effect.p_value == pytest.approx(narrow.p_value, rel=1e-12)
            assert effect.effect == (np.median if name == "median" else np.mean)(values)
    for effect in nonempty(sl.compare(runs, simultaneous=family, **arguments).effects):
        part = {
            "checkpoints": slice(0, 2), "both": slice(0, 0), "none": slice(0, 3),
        }.get(family, slice(2, 3))  # fmt: skip
        members = [values for key, values in differences.items() if key[part] == effect[:3][part]]
        values = differences[effect[:3]]
        low, high, p_adjusted = max_t_literally(members, values, 0.9)
        if family == "none":
            (low, high), p_adjusted = t_interval(values, 0.9)[:2], effect.p_value
        assert len(members) == size
        assert (effect.low, effect.high) == pytest.approx((low, high), rel=1e-9)
        assert effect.p_adjusted == pytest.approx(p_adjusted, rel=1e-9)
        assert effect.p_value == pytest.approx(stats.ttest_1samp(values, 0).pvalue, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("interval", FROM_DIFFERENCES)
@pytest.mark.parametrize("level", [0.01, 0.5, 0.95, 0.999])
def test_an_adjusted_p_value_is_never_below_that_of_the_pair_alone(interval, level):
    for scale in (0.01, 1.0, 100.0):
        runs = made_up_runs(MADE_UP + scale * np.array([0.0, 1.0, 2.0])[:, None])
        for effect in nonempty(
            sl.compare(runs, interval=interval, level=level, pairs="all").effects
        ):
            assert effect.p_value <= effect.p_adjusted <= 1


@pytest.mark.slow
@pytest.mark.parametrize("interval", FROM_DIFFERENCES)
@pytest.mark.parametrize("design", ["replay", "naive"])
@pytest.mark.parametrize("family", ["pairs", "checkpoints", "both", "none"])
def test_the_p_value_and_the_interval_are_of_one_family(interval, design, family, monkeypatch):
    """At most 1 - level exactly if the interval leaves out 0, and the sentence claims the same."""
    monkeypatch.setattr(simultaneous, "ROTATIONS", 2_000)
    monkeypatch.setattr(intervals, "RESAMPLES", 999)
    rng, decided = np.random.default_rng(3), []
    for _ in range(12):
        rewards = rng.normal(size=(25, 3, 2)) + 0.5 * np.arange(3)[:, None]
        runs = made_up_runs(rewards, design=design)
        result = sl.compare(runs, pairs="all", interval=interval, simultaneous=family)
        answer, _, others = result.verdict.partition(", at 95%")
        leader, differ = answer.split()[0], 0
        for effect in result.effects:
            out = not effect.low <= 0 <= effect.high
            assert (effect.p_adjusted <= 1 - effect.level) == out
            assert effect.p_value <= effect.p_adjusted
            if effect.checkpoint == 40:
                decided.append(out)
                differ += out
                if leader in effect[:2]:
                    (other,) = {*effect[:2]} - {leader}
                    assert (f" {other} by " in answer) == out
        assert f" {differ} of 3 pairs differ (see the table)." in others
    assert 0 < sum(decided) < len(decided)


def test_against_the_best_the_family_is_that_of_all_pairs(monkeypatch):
    """The winner was chosen on the same data: its intervals are those of all pairs, literally."""
    monkeypatch.setattr(simultaneous, "ROTATIONS", 3_000)
    rewards = MADE_UP[:, :, 1]
    found = sl.compare(made_up_runs(), pairs="best", level=0.9).effects
    winner = "abc"[int(rewards.mean(axis=0).argmax())]
    order = [*(name for name in "abc" if name != winner)]
    pairs = [*((name, winner) for name in order), tuple(order)]
    for index in (0, 1):
        columns = [
            MADE_UP[:, "abc".index(x), index] - MADE_UP[:, "abc".index(y), index] for x, y in pairs
        ]
        for one in nonempty(found):
            if one.checkpoint == (10, 40)[index]:
                values = columns[pairs.index(one[:2])]
                expected = max_t_literally(columns, values, 0.9)
                assert (one.low, one.high, one.p_adjusted) == pytest.approx(expected, rel=1e-9)
    for effect in nonempty(
        sl.compare(made_up_runs(), pairs="best", level=0.9, interval="anytime").effects
    ):
        index = (10, 40).index(effect.checkpoint)
        first, second = (MADE_UP[:, "abc".index(name), index] for name in effect[:2])
        alone = anytime_interval(first - second, 1 - 0.1 / 3)
        assert (effect.low, effect.high) == pytest.approx(alone[:2], rel=1e-12)


def test_the_variance_ratio_without_enough_variation():
    """No bounds below four replications, or if a replication carries all the variance of the difference."""
    two = np.array([[1.0, 2.0], [3.0, 3.0], [2.0, 5.0], [4.0, 6.5], [0.0, 1.0]])
    assert variance_ratio(two[:3, 0], two[:3, 1], 0.9)[1:] == (0, math.inf)
    assert variance_ratio(two[:4, 0], two[:4, 1], 0.9) == pytest.approx(
        jackknife(two[:4, 0], two[:4, 1], 0.9), rel=1e-9
    )
    assert variance_ratio(two[:, 0], two[:, 0] + 5.0 * (np.arange(5) == 2), 0.9)[1:] == (
        0,
        math.inf,
    )
    assert variance_ratio(two[:, 0], two[:, 0] + 1, 0.9) == (math.inf,) * 3
    assert variance_ratio(np.ones(5), np.zeros(5), 0.9) == (1, 1, 1)
    assert math.isfinite(variance_ratio(two[:4, 0], two[:4, 1], 1 - 1e-12).high)


def test_the_best_policy_is_that_of_the_last_checkpoint():
    """The control of pairs="best" earned most at the end, not before; an infinite reward is named by its row."""
    rewards = MADE_UP.copy()
    rewards[:, 0, 0] += 1_000
    rewards[:, 1, 1] += 1_000
    assert {
        effect.control for effect in sl.compare(made_up_runs(rewards), pairs="best").effects
    } == {"b"}
    rewards[7, 2, 0] = math.inf
    with pytest.raises(
        sl.Invalid, match="rewards must be finite; replication 7 has one that is not"
    ):
        sl.compare(made_up_runs(rewards))


def test_variances_without_each_value_are_those_of_the_others():
    values = np.random.default_rng(3).exponential(size=9)
    others = [np.delete(values, index).var(ddof=1) for index in range(values.size)]
    assert moments(values).without_each == pytest.approx(others)


@pytest.mark.parametrize(("control", "pair"), [("a", ("b", "a")), ("b", ("a", "b"))])
def test_the_first_pair_is_the_first_other_policy_and_the_control(control, pair):
    policies = dict.fromkeys("abc", sl.UCB1())
    experiment = sl.Experiment(
        policies=policies, arms=2, horizon=5, replications=2, control=control
    )
    assert first_pair(experiment) == pair
