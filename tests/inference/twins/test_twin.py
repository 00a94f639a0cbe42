"""`twin`: equal to a literal transcription, the same with any workers, and refused where it would mislead."""

import math
from collections import Counter
from dataclasses import replace

import matplotlib.figure
import numpy as np
import pytest
from scipy import special, stats

import sameluck as sl
from nonempty import nonempty
from sameluck.inference.twins.copies import EmpiricalCopy, copy_arms
from sameluck.inference.twins.failures import Failure
from sameluck.inference.twins.observed_rewards import ObservedStacks
from sameluck.inference.twins.stability import Stability
from sameluck.inference.twins.ties import BernoulliArms, TiedArms
from sameluck.randomness.streams import ALL_POLICIES, TWIN, stream, word
from sameluck.simulation.rewards import observed_rewards, reward_at

EFFORT = {"replications": 400, "draws": 24, "draw_replications": 40}


def experiment(**changes):
    values = {
        "policies": {"ucb": sl.UCB1(2.0), "greedy": sl.EpsilonGreedy(0.2)},
        "arms": 2,
        "horizon": 60,
        "replications": 3,
        "seed": 5,
    }
    return sl.Experiment(**{**values, **changes})


BERNOULLI = sl.Bernoulli([0.7, 0.4])


@pytest.fixture(scope="module")
def runs():
    return sl.simulate(experiment(), BERNOULLI, checkpoints=[20, 60])


@pytest.fixture(scope="module")
def twin(runs):
    return sl.twin(runs, **EFFORT)


def literal_ledger(runs):
    """Return U and S of each arm, entry by entry, up to the deepest policy of each replication."""
    users, successes = np.zeros(2), np.zeros(2)
    for replication in range(runs.replications):
        for arm in range(2):
            depth = max(runs.pulls[replication, policy, -1, arm] for policy in range(2))
            for position in range(depth):
                users[arm] += 1
                successes[arm] += reward_at(
                    runs.experiment, runs.environment, replication, None, arm, position
                )
    return users, successes


def literal_differences(runs, means, replications):
    """Simulate greedy minus ucb at the horizon, with the twin's random numbers."""
    seed = int(word(stream(runs.experiment.seed, TWIN, 0, ALL_POLICIES), 0))
    whole = runs.experiment.replace(seed=seed, replications=replications)
    out = sl.simulate(whole, sl.Bernoulli(means), workers=1)
    return out.rewards[:, 1, 0] - out.rewards[:, 0, 0], seed


def literal_draws(users, successes, seed):
    """Draw 12 means of the two arms from their posterior distribution, and 12 with tied arms."""
    generator = np.random.Generator(np.random.PCG64([seed, 2]))
    places = np.column_stack([generator.permutation(12) for _ in range(2)])
    grid = (places + generator.random((12, 2))) / 12
    tied = TiedArms(BernoulliArms(successes, users - successes))
    independent = [
        [
            stats.beta.ppf(row[a], successes[a] + 0.5, users[a] - successes[a] + 0.5)
            for a in range(2)
        ]
        for row in grid
    ]
    return [*independent, *tied.draws(12, generator).tolist()], tied.equality


def literal_effect(runs, level):
    """Compute the interval of the effect step by step, from the rewards of every simulated replication."""
    users, successes = literal_ledger(runs)
    estimate = [(successes[a] + 0.5) / (users[a] + 1) for a in range(2)]
    seed = int(word(stream(runs.experiment.seed, TWIN, 0, ALL_POLICIES), 0))
    draws, equality = literal_draws(users, successes, seed)
    copies = np.array([estimate, *draws])
    whole = runs.experiment.replace(seed=seed, replications=400 + 24 * 40)
    simulated = []  # group, differences of rewards and of each arm's pulls, users and successes of each arm
    parts = [(estimate, range(400))]
    parts += [(means, range(400 + 40 * b, 440 + 40 * b)) for b, means in enumerate(draws)]
    for means, replications in parts:
        out = sl.simulate(whole, sl.Bernoulli(means), replications=replications, workers=1)
        for row in range(out.replications):
            difference = [out.rewards[row, 1, 0] - out.rewards[row, 0, 0]]
            difference += (out.pulls[row, 1, 0] - out.pulls[row, 0, 0]).tolist()
            part = out.part(row, 1)  # entry by entry as above, but read at once
            by_arm = ObservedStacks(part.depths, observed_rewards(part)).by_arm()
            ledger = [values.size for values in by_arm], [values.sum() for values in by_arm]
            simulated.append((replications[row] % 16, difference, *ledger))

    def log_likelihood(wins, depths, means):
        terms = [
            wins[a] * math.log(means[a]) + (depths[a] - wins[a]) * math.log1p(-means[a])
            for a in range(2)
        ]
        return sum(terms)

    sums = np.zeros((25, 16, 4))  # of weights, of weighted differences and of weighted pulls
    for group, difference, depths, wins in simulated:
        likelihoods = [math.exp(log_likelihood(wins, depths, values)) for values in copies]
        mixture = 400 * likelihoods[0] + 40 * sum(likelihoods[1:])
        for b in range(25):
            sums[b, group] += likelihoods[b] / mixture * np.array([1, *difference])

    control = literal_control(
        np.array([row[1][0] for row in simulated[:400]]),
        np.array([np.dot(row[1][1:], estimate) for row in simulated[:400]]),
    )

    def effects(groups):
        total = sums[:, groups].sum(axis=1)
        values, expected = (
            total[:, 1] / total[:, 0],
            (total[:, 2:] * copies).sum(axis=1) / total[:, 0],
        )
        values = values + control * (expected - values)
        return np.where(copies[:, 0] == copies[:, 1], 0.0, values)

    all_ = list(range(16))
    theta = np.array(effects(all_))
    left_out = [np.array(effects(all_[:g] + all_[g + 1 :])) for g in range(16)]
    sides = np.array([literal_ends(values[1:13], values[13:], level) for values in left_out]).T
    errors = [math.sqrt(15 / 16 * ((side - side.mean()) ** 2).sum()) for side in sides]
    apart = np.array([values[1:13] - values[1:13].mean() for values in left_out])
    noise = np.mean([15 / 16 * ((apart[:, b] - apart[:, b].mean()) ** 2).sum() for b in range(12)])
    return literal_interval(theta, noise, errors, equality, level)


def literal_control(values, expected):
    """Return the regression coefficient of the differences on their noise."""
    noise = values - expected
    return np.cov(values, noise)[0, 1] / noise.var(ddof=1)


def literal_ends(independent, tied, level, resampled=math.inf):
    """Return the ends with 95% of the independent draws and 90% of the others, for a level of 95%.

    The k-th smallest of n draws has a share k / (n + 1) beyond it. If `resampled` rewards were resampled, the ends
    are as far as those of Student's t distribution.
    """

    def quantile(draws, share):
        ranks = np.arange(1, len(draws) + 1)
        return np.interp(share * (len(draws) + 1), ranks, np.sort(draws))

    tail, tied_tail = (
        stats.norm.cdf(
            stats.t.ppf(tail, resampled - 1) * math.sqrt(resampled / (resampled - 1))
            if resampled < math.inf
            else stats.norm.ppf(tail)
        )
        for tail in (0.5 - level / 2, 1 - level)
    )
    lows = quantile(independent, tail), quantile(tied, tied_tail)
    highs = quantile(independent, 1 - tail), quantile(tied, 1 - tied_tail)
    return min(lows), max(highs)


def literal_interval(theta, noise, errors, equality, level, resampled=math.inf):
    """Return effect and interval from effects on the copy, on 12 independent draws and on 12 with tied arms."""
    on_copy, independent, tied = theta[0], theta[1:13], theta[13:]
    variance = independent.var(ddof=1)
    factor = math.sqrt(max(variance / 2, variance - noise) / variance)
    centre = independent.mean()
    z = special.ndtri(0.5 + level / 2)
    low, high = literal_ends(centre + (independent - centre) * factor, tied, level, resampled)
    low, high = low - z * errors[0], high + z * errors[1]
    if equality >= 1 - level:
        low, high = min(low, 0), max(high, 0)
    return np.clip(2 * on_copy - centre, low, high), low, high


@pytest.mark.slow
def test_the_effect_equals_a_literal_transcription(runs, monkeypatch):
    """The effort is not raised, so that all numbers of the simulation are known."""
    monkeypatch.setattr("sameluck.inference.twins.intervals.PRECISE", math.inf)
    effect = sl.twin(runs, **EFFORT).effects[-1]

    assert (effect.policy, effect.control, effect.checkpoint) == ("greedy", "ucb", 60)
    expected = literal_effect(runs, 0.95)
    np.testing.assert_allclose((effect.effect, effect.low, effect.high), expected, rtol=1e-9)


def literal_resample(values, generator):
    """Resample with replacement; the share of a reward above one half is drawn from Jeffreys' posterior."""
    commonest, times = Counter(values.tolist()).most_common(1)[0]
    if 2 * times <= len(values):
        return generator.choice(values, len(values))
    others = [value for value in values if value != commonest]
    share = generator.beta(len(others) + 0.5, times + 0.5)
    drawn = generator.choice(others, round(share * len(values)))
    return [*drawn, *[commonest] * (len(values) - len(drawn))]


def literal_effect_of_values(runs, level):
    """Compute the same for copied values: 24 resamples, 40 replications with the long run's random numbers."""
    stacks = ObservedStacks(runs.depths, observed_rewards(runs))
    values = [np.sort(arm_values) for arm_values in stacks.by_arm()]
    seed = int(word(stream(runs.experiment.seed, TWIN, 0, ALL_POLICIES), 0))

    def differences(arms, replications):
        whole = runs.experiment.replace(seed=seed, replications=replications)
        out = sl.simulate(
            whole, sl.Empirical([arm_values.tolist() for arm_values in arms]), workers=1
        )
        return out.rewards[:, 1, 0] - out.rewards[:, 0, 0], out.pulls[:, 1, 0] - out.pulls[:, 0, 0]

    means = [arm_values.mean() for arm_values in values]
    rewards, pulls = differences(values, 400)
    weight = literal_control(rewards, pulls @ means)
    on_copy = rewards + weight * (pulls @ means - rewards)
    generator = np.random.Generator(np.random.PCG64([seed, 2]))
    independent = [
        [np.sort(literal_resample(arm_values, generator)) for arm_values in values]
        for _ in range(12)
    ]
    copy = EmpiricalCopy(tuple(values))
    tied_means = copy.tied_arms.draws(12, generator)
    tied = [environment.samples for environment in copy.with_means(tied_means, generator)]
    wanted = [[arm_values.mean() for arm_values in draw] for draw in independent]
    table = np.empty((24, 40))
    for b, draw in enumerate([*independent, *tied]):
        rewards, pulls = differences(draw, 40)
        actual = np.array([np.mean(arm_values) for arm_values in draw])
        target = np.array([*wanted, *tied_means])[b]
        table[b] = rewards + weight * (pulls @ actual - rewards) + pulls @ (target - actual)
    by_replication = table[:12].mean(axis=0)
    residual = table[:12] - table[:12].mean(axis=1)[:, None] - by_replication + table[:12].mean()
    msi = (residual**2).sum() / (11 * 39)
    theta = table.mean(axis=1) + on_copy.mean() - on_copy[:40].mean()
    theta[12:][np.ptp(tied_means, axis=1) == 0] = 0
    error = math.sqrt(
        (by_replication - on_copy[:40]).var(ddof=1) / 40 + on_copy.var(ddof=1) / on_copy.size
    )
    theta = np.array([on_copy.mean(), *theta])
    resampled = []  # rewards of each arm
    for arm_values in values:
        times = Counter(arm_values.tolist()).most_common(1)[0][1]
        rare = 2 * times > len(arm_values)
        resampled.append(len(arm_values) - times if rare else len(arm_values))
    return literal_interval(
        theta, msi / 40, [error] * 2, copy.tied_arms.equality, level, min(resampled)
    )


@pytest.mark.slow
def test_the_effect_of_other_rewards_equals_a_literal_transcription(monkeypatch):
    monkeypatch.setattr("sameluck.inference.twins.intervals.PRECISE", math.inf)
    ratings = sl.Empirical([[1.0, 2.0, 4.0, 5.0], [0.0, 2.0, 3.0, 3.0, 3.0]])
    policies = {"ucb": sl.UCB1(2.0), "greedy": sl.EpsilonGreedy(0.2)}
    runs = sl.simulate(experiment(policies=policies, replications=6), ratings)
    (effect,) = sl.twin(runs, **EFFORT).effects

    expected = literal_effect_of_values(runs, 0.95)
    np.testing.assert_allclose((effect.effect, effect.low, effect.high), expected, rtol=1e-9)


@pytest.mark.slow
def test_the_interval_around_the_mean_equals_a_literal_transcription(runs):
    """For one replication the quantiles are the long run's, and the mean is the observed difference."""
    single = runs.part(0, 1)
    users, successes = literal_ledger(single)
    on_copy, _ = literal_differences(single, (successes + 0.5) / (users + 1), 400)
    mean = float(single.rewards[0, 1, -1] - single.rewards[0, 0, -1])
    low, high = np.quantile(on_copy - on_copy.mean(), [0.025, 0.975])
    half = special.ndtri(0.975) * on_copy.std(ddof=1)

    effect = sl.twin(single, **{**EFFORT, "draws": 20}).observed[-1]

    expected = (mean, mean - max(half, high), mean + max(half, -low))
    np.testing.assert_allclose((effect.effect, effect.low, effect.high), expected, rtol=1e-9)


@pytest.mark.slow
def test_what_a_twin_holds(runs, twin):
    """It has every pair and checkpoint, the copy, the long run and the experiment's users."""
    users, successes = literal_ledger(runs)

    assert [(effect.policy, effect.control, effect.checkpoint) for effect in twin.effects] == [
        ("greedy", "ucb", 20),
        ("greedy", "ucb", 60),
    ]
    assert twin.environment.means == tuple((successes + 0.5) / (users + 1))
    assert twin.runs.replications >= 400
    assert twin.long_run.stacks.users.tolist() == users.tolist()
    assert twin.effects[0].replications == 3
    assert twin.effects[1].interactions == runs.interactions[:, 1].mean()
    for effect, end in zip(twin.effects, twin.guaranteed, strict=True):
        assert effect.low < effect.effect < effect.high
        assert end[:3] == effect[:3]
        assert end.low < effect.effect < end.high
    record = twin.to_dicts()[1]
    assert record["guaranteed_low"] == twin.guaranteed[1].low
    assert record["observed_high"] == twin.observed[1].high


@pytest.mark.slow
def test_rewards_are_the_long_runs_and_only_the_effect_has_no_bias(runs, twin):
    """The mean change from the copy to its draws is subtracted from the difference of the rewards."""
    for index, effect in nonempty(enumerate(twin.effects)):
        rewards = dict(zip(twin.runs.policies, twin.runs.rewards[:, :, index].T, strict=True))

        assert effect.reward == pytest.approx(rewards[effect.policy].mean())
        assert effect.control_reward == pytest.approx(rewards[effect.control].mean())
        assert effect.effect != pytest.approx(effect.reward - effect.control_reward, rel=0.01)


@pytest.mark.slow
def test_workers_change_no_bit(runs, twin):
    again = sl.twin(runs, workers=1, **EFFORT)

    assert again.effects == twin.effects
    assert again.observed == twin.observed
    assert again.guaranteed == twin.guaranteed
    assert again.stability == twin.stability


@pytest.mark.slow
def test_progress_ends_at_its_total(runs):
    calls = []
    sl.twin(runs, progress=lambda done, total: calls.append((done, total)), **EFFORT)

    done = [call[0] for call in calls]
    assert done == sorted(done)
    assert calls[-1][0] == calls[-1][1]


@pytest.mark.slow
@pytest.mark.parametrize("limit", [0.0, math.inf])
def test_a_long_twin_says_beforehand_how_long_it_takes(runs, limit, monkeypatch, caplog):
    monkeypatch.setattr("sameluck.inference.twins.simulations.LONG_SECONDS", limit)
    sl.twin(runs, **EFFORT)

    assert ("the twin takes about" in caplog.text) == (limit == 0)


@pytest.mark.slow
def test_the_text_of_equal_arms_does_not_contradict_itself():
    """No difference is claimed, the reason is given, and a running experiment continues."""
    policies = {"uniform": "uniform", "ucb": "ucb1(0.5)"}
    equal = experiment(policies=policies, arms=3, horizon=100, replications=1)
    runs = sl.simulate(equal, sl.Bernoulli([0.5] * 3))
    running = replace(
        runs,
        environment=None,
        observed=observed_rewards(runs),
        experiment=equal.replace(replications=9),
    )
    twin = sl.twin(running, **EFFORT)

    assert twin.admits_equal_arms
    assert not twin.effects[0].shows_difference
    assert "The ledger does not rule out equal arms, so the effect may be 0." in twin.verdict
    assert "test of constancy, p = " in twin.verdict
    assert twin.suggestion == "The twin is not sure yet of ucb and uniform: continue."
    clear = sl.twin(sl.simulate(experiment(replications=9), sl.Bernoulli([0.9, 0.2])), **EFFORT)
    assert "rule out equal arms" not in clear.verdict


@pytest.mark.slow
def test_three_policies_and_the_naive_design():
    policies = {"a": "ucb1", "b": "uniform", "c": "batched(ucb1(alpha=2), size=5)"}
    three = experiment(policies=policies, design="naive", replications=1)
    runs = sl.simulate(three, BERNOULLI)
    twin = sl.twin(runs, **EFFORT)

    assert [effect[:2] for effect in twin.effects] == [("b", "a"), ("c", "a"), ("c", "b")]
    assert twin.long_run.stacks.users.sum() == 3 * 60
    assert "each alone" in str(twin)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("environment", "family"),
    [(sl.Gaussian((1.0, 0.5)), None), (sl.Gaussian((1.0, 0.5)), "gaussian")],
)
def test_other_rewards(environment, family):
    """The copy has the observed values, or a Gaussian fit of them, and no guaranteed interval."""
    gaussian = experiment(
        policies={"t": sl.ThompsonGaussian(), "g": sl.EpsilonGreedy(0.2)}, replications=2
    )
    runs = sl.simulate(gaussian, environment)
    twin = sl.twin(runs, family=family, **EFFORT)
    (effect,) = twin.effects

    assert math.isfinite(effect.low)
    assert twin.guaranteed == ()
    environment_class = sl.Gaussian if family == "gaussian" else sl.Empirical
    assert isinstance(twin.environment, environment_class)
    assert twin.environment.means == pytest.approx((1.0, 0.5), abs=0.5)


@pytest.mark.slow
def test_the_same_policy_twice():
    same = experiment(policies={"a": "ucb1", "b": "ucb1"}, replications=1)
    twin = sl.twin(sl.simulate(same, BERNOULLI), **EFFORT)

    assert (twin.effects[0].low, twin.effects[0].high) == (0, 0)
    assert "the same policy" in twin.verdict
    assert "equal arms" not in twin.verdict
    running = replace(twin.source, environment=None, experiment=same.replace(replications=9))
    suggested = replace(twin, long_run=twin.long_run._replace(observed=running)).suggestion
    assert suggested.startswith("The policies never differ on the copy")


@pytest.mark.parametrize(
    ("changes", "environment", "message"),
    [
        ({"design": "time_coupled"}, BERNOULLI, "has none; use replay or naive"),
        ({}, sl.BernoulliPrior(), "a prior draws new arms"),
    ],
)
def test_what_is_refused(runs, changes, environment, message):
    other = replace(runs, experiment=experiment(**changes), environment=environment)

    with pytest.raises(sl.Invalid, match=message):
        sl.twin(other, **EFFORT)


def test_one_policy_is_refused():
    runs = sl.simulate(experiment(policies={"a": "ucb1"}), BERNOULLI)

    with pytest.raises(sl.Invalid, match="at least two policies"):
        sl.twin(runs, **EFFORT)


def test_bad_arguments(runs):
    with pytest.raises(sl.Invalid, match=r"live\.runs"):
        sl.twin(3)
    with pytest.raises(sl.Invalid, match="family"):
        sl.twin(runs, family="poisson")
    with pytest.raises(sl.Invalid, match="level"):
        sl.twin(runs, level=2)
    with pytest.raises(sl.Invalid, match="draw_replications"):
        sl.twin(runs, replications=300, draw_replications=301)


def test_an_arm_without_rewards_is_refused_by_name():
    stacks = ObservedStacks(np.array([[[1, 0]]]), np.array([0.5]))

    with pytest.raises(
        sl.Invalid, match="arm blue has 0 rewards, and a copy of it needs at least 1"
    ):
        copy_arms(stacks, None, ["red", "blue"])
    with pytest.raises(sl.Invalid, match="arm red has 1 reward, and a copy of it needs at least 2"):
        copy_arms(stacks, "gaussian", ["red", "blue"])


def test_a_twin_is_sure_only_if_the_guaranteed_interval_leaves_out_0(runs, twin):
    running = replace(runs, environment=None, experiment=experiment(replications=9))
    sure = replace(
        twin,
        effects=tuple(effect._replace(low=1.0, high=2.0) for effect in twin.effects),
        failures=(),
        withheld=(),
        long_run=twin.long_run._replace(observed=running),
    )

    def words(*bounds):
        last = twin.guaranteed[-1]
        ends = tuple(last._replace(low=low, high=high) for low, high in bounds)
        return replace(sure, guaranteed=ends).suggestion

    assert words().endswith("stopping at the first look that is sure misses more often.")
    for bounds in ((-1.0, 3.0), (0.0, 3.0), (-3.0, 0.0)):
        assert "sure" not in words(bounds)
        assert words(bounds).endswith("contains 0 for greedy and ucb: continue.")
    assert words((0.5, 3.0)).endswith("the guaranteed interval, for every look, also leaves out 0.")
    failure = Failure("greedy", "ucb", 60, 9.0, 50.0, met=1, replications=3)
    sure = replace(sure, guaranteed=())
    assert "no replication has met" not in replace(sure, failures=(failure,)).suggestion
    unmet = failure._replace(met=0)
    assert "no replication has met" in replace(sure, failures=(unmet,)).suggestion


@pytest.mark.parametrize("guaranteed", [False, True])
def test_arms_that_changed_leave_only_the_observed_mean(twin, guaranteed):
    changed = replace(
        twin,
        stability=Stability(0.001, None, 0),
        guaranteed=twin.guaranteed if guaranteed else (),
    )

    assert changed.verdict.endswith("Read the observed mean instead.")
    assert ("the guaranteed interval assumes it too" in changed.verdict) == guaranteed


def test_the_notes_of_the_runs_are_cautions(runs, twin):
    noted = replace(runs, notes=("The rewards of an arm are not i.i.d.",))
    cautioned = replace(twin, long_run=twin.long_run._replace(observed=noted))

    assert cautioned.cautions[0] == "The rewards of an arm are not i.i.d."
    assert "not i.i.d." in str(cautioned)


def test_the_share_of_rare_rewards_is_drawn_from_its_posterior():
    """It is from Beta(k + 1/2, n - k + 1/2), with k of n rewards other than the commonest, which are resampled."""
    rare, common = np.array([0.0] * 30 + [5.0, 7.0, 9.0]), np.arange(8.0)
    draws = EmpiricalCopy((rare, common)).draws(20, np.random.Generator(np.random.PCG64(7)))
    generator = np.random.Generator(np.random.PCG64(7))
    for draw in nonempty(draws):
        count = round(33 * generator.beta(3.5, 30.5))
        paid = sorted(generator.choice([5.0, 7.0, 9.0], count))

        assert list(draw.samples[0]) == [0.0] * (33 - count) + paid
        assert list(draw.samples[1]) == sorted(generator.choice(common, 8))


def test_a_constant_arm_is_copied_unchanged():
    (draw,) = EmpiricalCopy((np.full(9, 2.5),)).draws(1, np.random.Generator(np.random.PCG64(7)))

    assert list(draw.samples[0]) == [2.5] * 9


def test_too_few_values_withhold_the_effect():
    """The distribution of an arm with rewards of nearly always 0 is not known, so there is no interval."""
    rare = sl.Empirical([[0.0] * 30 + [9.0], [0.0] * 30 + [8.0]])
    policies = {"a": sl.UCB1(50), "b": sl.EpsilonGreedy(0.3)}
    runs, calls = sl.simulate(experiment(policies=policies, replications=1), rare), []
    twin = sl.twin(runs, progress=lambda *call: calls.append(call), **EFFORT)

    assert "fewer than 20" in twin.withheld[0]
    (effect,) = twin.effects
    assert effect.low == -math.inf
    assert effect.effect == pytest.approx(effect.reward - effect.control_reward)  # nothing removed
    assert calls[-1][0] == calls[-1][1]  # though it simulates less than was expected
    assert "No interval of the effect is given" in twin.verdict
    assert "withheld" in str(twin)
    assert math.isfinite(twin.observed[0].low)


@pytest.mark.slow
def test_text_of_one_replication(runs):
    """It says that one replication hardly tests the assumption, that users are few, and that no copy is needed."""
    twin = sl.twin(runs.part(0, 1), **EFFORT)

    assert "one replication can hardly test that" in twin.verdict
    assert any("Fewer than 20 users" in caution for caution in twin.cautions)
    assert any("more replications of simulate" in caution for caution in twin.cautions)
    assert twin.suggestion is None
    assert "Twin of 1 replication" in str(twin)


@pytest.mark.slow
def test_pages_and_records(twin, tmp_path):
    page = twin.to_html(tmp_path / "twin.html")

    assert "<svg" in page
    assert "On a copy of the arms" in page
    assert (tmp_path / "twin.html").read_text() == page
    assert len(twin.to_pandas()) == len(twin.to_polars()) == 2
    assert "tabular" in twin.to_latex()
    assert "<table>" in twin._repr_html_()
    assert twin.to_record()["effects"] == twin.to_dicts()
    figure = twin.plot(tmp_path / "twin.svg")
    assert len(figure.axes) == 3
    axes = matplotlib.figure.Figure().add_subplot()
    assert twin.plot(ax=axes) is axes.figure
    assert (
        axes.get_title()
        == f"One replication: {twin.effects[0].policy} minus {twin.effects[0].control}"
    )


class Turns:
    """Policy that plays the arms in turn."""

    def __init__(self, seed):
        self.next = seed % 2

    def select(self, period):
        return (self.next + period) % 2

    def update(self, arm, reward):
        pass


@pytest.mark.slow
def test_python_objects():
    """They need their makers; the message without them says so."""
    mixed = experiment(
        policies={"ucb": "ucb1", "turns": "external(turns)"}, horizon=10, replications=1
    )
    call = {"replications": 200, "draws": 20, "draw_replications": 20, "workers": 1}
    runs = sl.simulate(mixed, BERNOULLI, makers={"turns": Turns})
    twin = sl.twin(runs, makers={"turns": Turns}, **call)

    assert math.isfinite(twin.effects[0].low)
    with pytest.raises(sl.Invalid, match="makers="):
        sl.twin(runs, **call)
