"""Adjusted effects: the same expectation, less noise, and nothing borrowed from the replication it is applied to."""

import dataclasses
import math

import numpy as np
import pytest
from scipy import stats

import budget
import cases
import sameluck as sl
from sameluck.inference.adjustments import adjusted_differences
from sameluck.inference.metrics import known_means

BERNOULLI = sl.Bernoulli((0.9, 0.7, 0.5, 0.3, 0.1))
GAUSSIAN = sl.Gaussian((1.0, 0.8, -2.0, -3.0, -4.0))
EXAMPLES = {
    "example 1": ({"a": sl.UCB1(2.5), "b": sl.UCB1(3.0)}, BERNOULLI),
    "example 2": (
        {"a": sl.UCB1(), "b": sl.ThompsonBernoulli(first_plays=1)},
        sl.Bernoulli((0.7, 0.3)),
    ),
}


def played(policies, environment, **changes):
    settings = {"arms": 3, "horizon": 60, "replications": 60, "seed": budget.SEED, **changes}
    checkpoints = settings.pop("checkpoints", None)
    settings["arms"] = getattr(environment, "arms", None) or settings["arms"]
    experiment = sl.Experiment(policies=policies, **settings)
    return sl.simulate(experiment, environment, checkpoints=checkpoints)


def example(name, **changes):
    policies, environment = EXAMPLES[name]
    return played(policies, environment, **changes)


def some_rows(runs, start, stop):
    """The same runs, fewer replications; the recorded numbers keep their places."""
    rows = slice(start, stop)
    names = ("rewards", "pulls", "interactions", "totals")
    return dataclasses.replace(
        runs, first=runs.first + start, **{name: getattr(runs, name)[rows] for name in names}
    )


def reward_noise_literally(runs, means, index=-1):
    """Per replication: for both policies and each arm, what it paid more than pulls x mean."""
    return [
        [
            runs.totals[row, policy, index, arm]
            - means[row][arm] * runs.pulls[row, policy, index, arm]
            for policy in (1, 0)
            for arm in range(len(means[row]))
        ]
        for row in range(runs.replications)
    ]


PENALTIES = (0.001, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0)


def ridge(table, values, penalty):
    """Intercept and slopes of least squares plus penalty x |slopes|^2, as least squares with further rows."""
    slopes = table.shape[1]
    further = np.hstack([np.zeros((slopes, 1)), math.sqrt(penalty) * np.eye(slopes)])
    rows = np.vstack([np.column_stack([np.ones(len(table)), table]), further])
    return np.linalg.lstsq(rows, np.concatenate([values, np.zeros(slopes)]), rcond=None)[0]


def coefficients_literally(plain, variates):
    """The penalty of the smallest leave-one-out error, each replication left out in turn.

    The coefficients are 0 unless the squared errors fall by more than 2 of their standard errors.
    """
    plain, table, count = np.array(plain), np.array(variates), len(plain)
    used = table.std(axis=0) > 0
    table, scale = table[:, used], table[:, used].std(axis=0)
    table = (table - table.mean(axis=0)) / scale
    others = [np.arange(count) != row for row in range(count)]
    without = np.array([plain[row] - plain[rest].mean() for row, rest in enumerate(others)])
    fits = {}
    for penalty in PENALTIES:
        fitted = [ridge(table[rest], plain[rest], penalty * count) for rest in others]
        fits[penalty] = plain - [fit[0] + table[row] @ fit[1:] for row, fit in enumerate(fitted)]
    best = min(fits, key=lambda penalty: (fits[penalty] ** 2).mean())
    gains = without**2 - fits[best] ** 2
    result = np.zeros(used.size)
    if gains.mean() > 2 * stats.sem(gains):
        result[used] = ridge(table, plain, best * count)[1:] / scale
    return result


def variates_literally(noise, known):
    """The difference of both policies' noise for each arm; both of them from 100 replications for each arm on."""
    arms = len(noise[0]) // 2
    if known >= 100 * arms:
        return np.array(noise)
    return np.array([[row[arm] - row[arms + arm] for arm in range(arms)] for row in noise])


def cross_fitted_literally(plain, noise):
    """Coefficients from the other four fifths."""
    variates, slopes = variates_literally(noise, len(plain)), []
    for fold in range(5):
        others = [row for row in range(len(plain)) if row % 5 != fold]
        slopes.append(coefficients_literally([plain[row] for row in others], variates[others]))
    return [value - np.dot(variates[row], slopes[row % 5]) for row, value in enumerate(plain)]


def predictable_literally(plain, noise):
    """Coefficients from earlier replications: from 20 on, fitted again after 10 or a tenth more."""
    result, known = list(plain[:20]), 20
    while known < len(plain):
        variates = variates_literally(noise, known)
        slopes = coefficients_literally(plain[:known], variates[:known])
        until = known + max(10, known // 10)
        result += [
            plain[row] - np.dot(variates[row], slopes)
            for row in range(known, min(until, len(plain)))
        ]
        known = until
    return result


@pytest.mark.slow
@pytest.mark.parametrize("design", ["replay", "naive", "time_coupled", "replay(share_noise=true)"])
@pytest.mark.parametrize("name", EXAMPLES)
def test_adjusting_by_means_is_the_literal_regression_under_every_design(name, design):
    runs = example(name, design=design)
    means = [runs_means(EXAMPLES[name][1])] * runs.replications
    plain = runs.rewards[:, 1, 0] - runs.rewards[:, 0, 0]

    effect = sl.compare(runs, adjust="means").effects[0]

    expected = cross_fitted_literally(plain, reward_noise_literally(runs, means))
    np.testing.assert_allclose(
        adjusted_differences(runs, ("b", "a"), 0, predictable=False), expected, atol=1e-8
    )
    assert effect.effect == pytest.approx(np.mean(expected), abs=1e-9)
    assert effect.sd == pytest.approx(np.std(expected, ddof=1), rel=1e-9)
    assert effect.plain_effect == pytest.approx(plain.mean(), abs=1e-12)
    assert sl.compare(runs).effects[0].sd == pytest.approx(effect.plain_sd)


def runs_means(environment):
    return [float(mean) for mean in environment.means]


@pytest.mark.parametrize(
    "prior", [sl.BernoulliPrior(), sl.GaussianPrior(sd=0.7, noise_sd=1.5)], ids=cases.name
)
@pytest.mark.slow
def test_with_a_prior_each_replication_has_the_means_of_its_own_instance(prior):
    """Also for runs that start later; and what is subtracted has mean zero (6 looks, |z| bound of 1e-6 in all)."""
    policies = {"a": sl.UCB1(), "b": sl.EpsilonGreedy()}
    settings = {"policies": policies, "arms": 3, "horizon": 40, "replications": 2_000}
    experiment = sl.Experiment(**settings, seed=budget.SEED)
    runs = sl.simulate(experiment, prior, replications=range(7, 1_207))

    means = [prior.instance(experiment.seed, 7 + row, 3).means for row in range(1_200)]
    luck = np.array(reward_noise_literally(runs, means))

    np.testing.assert_allclose(known_means(runs), means, rtol=1e-12)
    plain = runs.rewards[:60, 1, 0] - runs.rewards[:60, 0, 0]
    np.testing.assert_allclose(
        adjusted_differences(some_rows(runs, 0, 60), ("b", "a"), 0, predictable=False),
        cross_fitted_literally(plain, luck[:60].tolist()),
        atol=1e-8,
    )
    for column in luck.T:
        budget.assert_mean(column, 0.0, looks=6)


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_adjusting_by_means_is_unbiased_in_small_experiments(name):
    """The adjusted effect minus the plain one has mean zero over 200 experiments of 50 (or 20) replications.

    One z test at 1e-6. It sees a bias of 0.4 standard errors of one experiment's plain effect, as wrong means give.
    """
    size = 50 if name == "example 1" else 20
    runs = example(name, horizon=100, replications=200 * size)

    moved = []
    for start in range(0, runs.replications, size):
        part = some_rows(runs, start, start + size)
        effect = sl.compare(part, adjust="means", check=False).effects[0]
        moved.append(effect.effect - effect.plain_effect)

    budget.assert_mean(moved, 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_adjusting_by_means_takes_most_of_the_variance_on_the_first_two_examples(name):
    """At 1,000 periods the variance falls to 0.16 and 0.19 of replay's, with an error of 0.006 and 0.035 here.

    0.4 is 6 of them away (false alarm below 1e-6); taking out nothing (1.0) or all with coefficient 1 (1.4) is seen.
    """
    runs = example(name, horizon=1_000, replications=3_000)

    by_folds = sl.compare(runs, adjust="means").effects[0]
    by_past = sl.compare(runs, adjust="means", interval="anytime").effects[0]

    assert (by_folds.sd / by_folds.plain_sd) ** 2 < 0.4
    assert (by_past.sd / by_past.plain_sd) ** 2 < 0.45  # the first 50 or 20 are as they were
    assert by_folds.high - by_folds.low < 2 * 0.65 * 1.97 * by_folds.plain_sd / 3_000**0.5


def test_under_naive_and_with_means_the_variance_falls_too():
    """Example 2 under naive: most of the variance is reward noise; below half, measured 0.05 to 0.1."""
    effect = sl.compare(example("example 2", design="naive", horizon=500), adjust="means").effects[
        0
    ]

    assert effect.sd**2 < 0.5 * effect.plain_sd**2


def test_a_replication_is_adjusted_with_coefficients_of_other_folds_only():
    """Exactly: what a replication earned more is what its adjusted value is more; others of its fold stay."""
    runs = example("example 2", design="naive")
    before = adjusted_differences(runs, ("b", "a"), 0, predictable=False)
    for row in (0, 13, 59):
        rewards = runs.rewards.copy()
        rewards[row, 1] += 1_000.0
        after = adjusted_differences(
            dataclasses.replace(runs, rewards=rewards), ("b", "a"), 0, predictable=False
        )
        same_fold = [other for other in range(60) if other % 5 == row % 5 and other != row]
        assert after[row] - before[row] == pytest.approx(1_000.0, abs=1e-9)
        assert after[same_fold].tolist() == before[same_fold].tolist()
        assert after[(row + 1) % 60] != before[(row + 1) % 60]


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_the_anytime_version_uses_past_replications_only(name):
    """Changing a replication changes no adjusted value before it, and its own by exactly as much."""
    runs = example(name, replications=120, design="naive")
    before = adjusted_differences(runs, ("b", "a"), 0, predictable=True)
    for row in (0, 30, 55, 119):
        rewards, totals = runs.rewards.copy(), runs.totals.copy()
        rewards[row, 1] += 7.0
        totals[row + 1 :] += 3.0
        after = adjusted_differences(
            dataclasses.replace(runs, rewards=rewards, totals=totals),
            ("b", "a"),
            0,
            predictable=True,
        )
        assert after[:row].tolist() == before[:row].tolist()
        assert after[row] - before[row] == pytest.approx(7.0, abs=1e-9)
    plain = runs.rewards[:, 1, 0] - runs.rewards[:, 0, 0]
    means = [runs_means(EXAMPLES[name][1])] * runs.replications
    expected = predictable_literally(plain.tolist(), reward_noise_literally(runs, means))
    assert before[:20].tolist() == plain[:20].tolist()
    np.testing.assert_allclose(before, expected, atol=1e-8)
    assert (before != plain).any()


@pytest.mark.parametrize("name", EXAMPLES)
def test_more_replications_change_no_earlier_anytime_value(name):
    """Also where their number allows for variates of each policy: 200 of two arms."""
    runs = example(name, replications=260)
    longest = adjusted_differences(runs, ("b", "a"), 0, predictable=True)
    for count in (20, 61, 199, 200, 201):
        prefix = adjusted_differences(some_rows(runs, 0, count), ("b", "a"), 0, predictable=True)
        np.testing.assert_allclose(prefix, longest[:count], atol=1e-12)


@pytest.mark.slow
def test_many_replications_have_a_coefficient_for_each_policy_and_arm():
    """200 of two arms, by folds, against the literal ridge regression with four variates."""
    runs = example("example 2", replications=200)
    noise = reward_noise_literally(runs, [runs_means(EXAMPLES["example 2"][1])] * 200)
    plain = runs.rewards[:, 1, 0] - runs.rewards[:, 0, 0]
    assert variates_literally(noise, 200).shape == (200, 4)
    np.testing.assert_allclose(
        adjusted_differences(runs, ("b", "a"), 0, predictable=False),
        cross_fitted_literally(plain, noise),
        atol=1e-8,
    )


HARD = {
    "example 3": (
        {"a": sl.ThompsonGaussian(first_plays=1), "b": sl.EpsilonGreedy()},
        GAUSSIAN,
    ),
    "rarely failing": (
        {"a": sl.UCB1(2.0), "b": sl.EpsilonGreedy(0.0)},
        sl.Bernoulli((0.95, 0.5)),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HARD)
def test_adjusting_by_means_raises_no_variance_where_rare_replications_rule(name):
    """The variance of the adjusted effect over 100 experiments of 20 and 50 is at most 1.05 of the plain one.

    The standard error of the log ratio is 0.004 to 0.025 here (its influence function); two bounds share 1e-6. With
    plain regression the ratio was 1.5 to 1.8. Over 300 to 500 experiments it is 0.996 to 1.010 (0.010).
    """
    policies, environment = HARD[name]
    runs = played(policies, environment, horizon=1_000, replications=5_000)
    for size in (20, 50):
        parts = [some_rows(runs, start, start + size) for start in range(0, 100 * size, size)]
        adjusted, plain = (
            np.array([values(part).mean() for part in parts])
            for values in (
                lambda part: adjusted_differences(part, ("b", "a"), 0, predictable=False),
                lambda part: part.rewards[:, 1, 0] - part.rewards[:, 0, 0],
            )
        )
        squares, plain_squares = ((x - x.mean()) ** 2 for x in (adjusted, plain))
        error = budget.standard_error(
            squares / squares.mean() - plain_squares / plain_squares.mean()
        )
        ratio = squares.mean() / plain_squares.mean()
        assert error < 0.06
        assert math.log(ratio) < math.log(1.05) + budget.z_bound(2) * error


def test_an_arm_first_pulled_late_changes_no_earlier_anytime_value():
    """Past means past: whether an arm has noise to subtract must not depend on later replications either."""
    runs = played({"a": sl.Always(0), "b": sl.Always(1)}, sl.Bernoulli((0.6, 0.5)))
    before = adjusted_differences(runs, ("b", "a"), 0, predictable=True)
    totals, pulls = runs.totals.copy(), runs.pulls.copy()
    totals[50, 0, 0], pulls[50, 0, 0] = (20.0, 7.0), (50, 10)
    late = dataclasses.replace(runs, totals=totals, pulls=pulls)

    after = adjusted_differences(late, ("b", "a"), 0, predictable=True)

    assert after[:50].tolist() == before[:50].tolist()


def test_too_few_replications_for_the_variates_are_refused():
    """Twenty, or four for each arm."""
    with pytest.raises(sl.Invalid, match="adjust='means' needs 20 replications for 2 arms, got 19"):
        sl.compare(example("example 2", replications=19), adjust="means")
    assert sl.compare(example("example 2", replications=20), adjust="means").effects
    seven = sl.Bernoulli((0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.0))
    for count, fits in ((27, False), (28, True)):
        runs = played({"a": sl.UCB1(), "b": sl.Uniform()}, seven, replications=count)
        if fits:
            assert sl.compare(runs, adjust="means").effects
        else:
            with pytest.raises(sl.Invalid, match="needs 28 replications for 7 arms, got 27"):
                sl.compare(runs, adjust="means")


def test_rewards_without_noise_leave_nothing_to_subtract():
    certain = played({"a": sl.UCB1(), "b": sl.Uniform()}, sl.Bernoulli((1.0, 1.0)))
    effect = sl.compare(certain, adjust="means").effects[0]
    assert effect.effect == effect.plain_effect == 0


def test_runs_that_cannot_be_adjusted_are_refused_with_a_message():
    runs = example("example 2")
    with pytest.raises(sl.Invalid, match="needs each arm's total reward, which these runs do not"):
        sl.compare(dataclasses.replace(runs, totals=None), adjust="means")
    with pytest.raises(sl.Invalid, match="unknown adjust 'mean'; did you mean 'means'"):
        sl.compare(runs, adjust="mean")
    with pytest.raises(sl.Invalid, match=r"unknown adjust 'exploration'; .*means"):
        sl.compare(runs, adjust="exploration")
    with pytest.raises(sl.Invalid, match="not for real traffic"):
        sl.compare(dataclasses.replace(runs, environment=None), adjust="means")


def test_the_verdict_says_what_the_effect_is_without_adjustment():
    result = sl.compare(example("example 2"), adjust="means")

    assert "adjusted interval" in str(result)
    assert "Without adjustment the first effect is" in result.verdict


@pytest.mark.slow
@pytest.mark.parametrize("design", ["replay", "naive", "time_coupled", "replay(share_noise=true)"])
@pytest.mark.parametrize("environment", [GAUSSIAN, sl.GaussianPrior()], ids=cases.name)
def test_totals_are_those_of_the_trace_summed_in_plain_python(environment, design):
    checkpoints = [2, 3, 30, 60]
    runs = played(
        {"greedy": sl.EpsilonGreedy(0.2), "uniform": sl.Uniform(), "ucb": sl.UCB1()},
        environment,
        design=design,
        replications=5,
        checkpoints=checkpoints,
    )
    for replication in range(5):
        trace = sl.trace(runs.experiment, environment, replication)
        for column, name in enumerate(runs.policies):
            totals = [0.0] * runs.experiment.n_arms
            steps = zip(trace[name].arms, trace[name].rewards, strict=True)
            for period, (arm, reward) in enumerate(steps, 1):
                totals[arm] += float(reward)
                if period in checkpoints:
                    found = runs.totals[replication, column, checkpoints.index(period)]
                    assert found.tolist() == pytest.approx(totals, rel=1e-12)
    np.testing.assert_allclose(runs.totals.sum(axis=-1), runs.rewards, rtol=1e-10, atol=1e-9)


def test_totals_are_the_same_bits_for_any_workers_parts_and_file(tmp_path):
    policies = {"greedy": sl.EpsilonGreedy(0.2), "thompson": sl.ThompsonGaussian()}
    whole = played(policies, GAUSSIAN, checkpoints=[20, 60], replications=30)
    options = {"checkpoints": [20, 60]}

    others = [sl.simulate(whole.experiment, GAUSSIAN, workers=many, **options) for many in (1, 3)]
    parts = [
        sl.simulate(whole.experiment, GAUSSIAN, replications=replications, **options)
        for replications in (range(11), range(11, 30))
    ]
    others.append(sl.Runs.concat(parts))
    whole.save(tmp_path / "runs.npz")
    others.append(sl.Runs.load(tmp_path / "runs.npz"))
    for other in others:
        assert other.totals.tobytes() == whole.totals.tobytes()
        assert other.totals.shape == whole.pulls.shape

    of_another_version = dataclasses.replace(parts[1], totals=None)
    assert sl.Runs.concat([parts[0], of_another_version]).totals is None
