"""`Drifting` and `Switching`: the law of each period, what is refused, and what results say."""

import math
import re
from typing import NamedTuple

import numpy as np
import pytest
from scipy import stats

import sameluck as sl
from budget import SEED, assert_distribution, assert_probabilities
from distributions import Mixed, lognormal
from nonempty import nonempty
from sameluck.environments.base import draw, law_at, prepared_parameters
from sameluck.environments.registry import as_environment
from sameluck.simulation.plain_runner import PlainRunner
from sameluck.simulation.rewards import RewardSource, bits_at
from sameluck.simulation.runners.compiled_runner import CompiledRunner

ARMS = sl.Bernoulli((0.9, 0.2)), sl.Bernoulli((0.1, 0.2))
SWITCHING, DRIFTING = sl.Switching(ARMS, every=10), sl.Drifting(ARMS, over=20)
NORMAL = sl.Drifting((sl.Gaussian((0.0, 5.0)), sl.Gaussian((4.0, 1.0), sd=3.0)), over=100)


def experiment_of(design="naive", horizon=30, replications=3, **policies):
    return sl.Experiment(
        policies=policies or {"it": sl.Uniform(), "first": sl.Always(0)},
        arms=2,
        horizon=horizon,
        replications=replications,
        design=design,
        seed=SEED,
    )


def sample(environment, period, arm, count=4_000):
    source = RewardSource(experiment_of(), environment, "it", range(1))
    return np.array(source.draw(0, arm, 0, count, period))


@pytest.mark.parametrize(
    ("period", "which"), [(1, 0), (10, 0), (11, 1), (20, 1), (21, 0), (1_000_030, 0)]
)
def test_switching_pays_what_the_environment_of_the_period_pays(period, which):
    assert np.array_equal(sample(SWITCHING, period, 0, 50), sample(ARMS[which], 1, 0, 50))
    assert SWITCHING.means_at(period).tolist() == list(ARMS[which].means)


def test_switching_that_does_not_repeat_stays_with_the_last():
    once = SWITCHING._replace(repeat=False)
    assert once.means_at([10, 11, 21, 999]).tolist() == [[0.9, 0.2], *[[0.1, 0.2]] * 3]
    assert np.array_equal(sample(once, 31, 0, 50), sample(ARMS[1], 1, 0, 50))


@pytest.mark.parametrize(
    ("period", "chance"), [(1, 0.9), (6, 0.7), (11, 0.5), (21, 0.1), (50, 0.1)]
)
def test_drifting_moves_the_success_probability(period, chance):
    rewards = sample(DRIFTING, period, 0)
    assert DRIFTING.means_at(period)[0] == pytest.approx(chance)
    assert_probabilities(np.bincount(rewards.astype(int)), [1 - chance, chance], looks=8)


@pytest.mark.parametrize("period", [1, 26, 51, 500])
def test_between_gaussian_environments_the_mean_and_the_sd_move(period):
    share = min((period - 1) / 100, 1)
    law = stats.norm(4 * share, 1 + 2 * share)
    assert_distribution(sample(NORMAL, period, 0), law.cdf, looks=8)
    assert NORMAL.means_at(period).tolist() == pytest.approx([4 * share, 5 - 4 * share])


def test_between_other_environments_rewards_are_a_mixture_and_independent_of_its_choice():
    """Lognormal rewards need more than one word of bits; a quarter of the way, through the first of two legs."""
    three = sl.Drifting([sl.Lognormal([1, 1], sigma=s) for s in (0.1, 1, 2)], over=40)
    mixture = Mixed(0.5, lognormal(1, 0.1), lognormal(1, 1))
    assert_distribution(sample(three, 11, 0), mixture.cdf, looks=8)
    np.testing.assert_allclose(three.means_at(range(1, 60)), 1)


@pytest.mark.parametrize(
    ("environment", "design"),
    [(SWITCHING, "naive"), (DRIFTING, "time_coupled"), (NORMAL, "naive")],
)
def test_every_reward_of_a_simulation_has_the_law_of_its_period(environment, design):
    """Compiled, in plain Python and by a Python object: the draw at the address and the period, bit for bit."""
    experiment = experiment_of(design, it=sl.Uniform())
    one = sl.trace(experiment, environment, 2, guard=True)["it"]
    law = prepared_parameters(environment, SEED, range(2, 3), 2)
    plain = []
    for period, (arm, position) in enumerate(zip(one.arms, one.positions, strict=True), 1):
        bits = bits_at(experiment, 2, "it", int(arm), int(position))
        plain.append(float(draw(law_at(law, period), 0, None, int(arm), bits)))
    assert one.rewards.tolist() == plain
    arms = one.arms.tolist()
    makers = {"known": lambda _: lambda past, _: arms[len(past)]}
    known = experiment.replace(policies={"it": sl.External("known")})
    assert sl.trace(known, environment, 2, makers=makers)["it"].rewards.tolist() == plain


@pytest.mark.slow
def test_an_arm_that_is_played_again_without_selecting_it_has_the_law_of_each_period():
    """The compiled loop stays with an arm of UCB1 that is sure to be chosen; plain Python selects in every period."""
    runner = CompiledRunner(experiment_of(horizon=400, it=sl.UCB1(alpha=0.1)), SWITCHING, "it")
    periods = np.arange(1, 401)
    compiled, plain = runner.run(range(1), periods), PlainRunner(runner).run(0, periods)
    assert np.array_equal(compiled.rewards, plain.rewards)
    assert np.array_equal(compiled.pulls, plain.pulls)


def test_a_policy_has_its_law_whatever_the_design():
    """The arm that is always played earns the same law under both; with a fixed arm the sum is binomial."""
    both = {
        design: sl.simulate(experiment_of(design, 10, 4_000), SWITCHING).rewards[:, 1, 0]
        for design in ("naive", "time_coupled")
    }
    for rewards in nonempty(both.values()):
        counts = np.bincount(rewards.astype(int), minlength=11)[6:]
        chances = stats.binom(10, 0.9).pmf(np.arange(6, 11))
        chances[0] = stats.binom(10, 0.9).cdf(6)
        counts[0] += 4_000 - counts.sum()
        assert_probabilities(counts, chances, looks=2)


@pytest.mark.parametrize("call", [sl.simulate, sl.trace])
def test_replay_is_refused_with_the_reason_and_the_remedy(call):
    with pytest.raises(
        sl.Invalid, match=r"it has no period .* use design='naive' or 'time_coupled', .*rehearse"
    ):
        call(experiment_of("replay"), SWITCHING)


def test_no_pooled_stacks():
    runs = sl.simulate(experiment_of(), SWITCHING)
    for call in (sl.twin, lambda one: sl.compare(one, interval="twin")):
        with pytest.raises(sl.Invalid, match="a twin copies stationary arms"):
            call(runs)


def test_results_say_that_rewards_are_not_iid_and_which_claims_fall():
    runs = sl.simulate(experiment_of(replications=20), SWITCHING)
    result = sl.compare(runs)
    said = r"not i\.i\.d\.: the switching environment .* Not valid: replay, twins, pseudo-regret"
    assert re.search(said, result.cautions[0])
    assert "not i.i.d." in str(result)
    assert "not i.i.d." in result.to_html()
    plan = sl.plan(runs.experiment, SWITCHING, effect=5.0, pilot=20)
    assert "not i.i.d." in plan.verdict
    assert [row.design for row in plan.rows] == ["naive", "time_coupled"]
    race = sl.race(dict(runs.experiment.policies), SWITCHING, tolerance=20, horizon=30, failures=1)
    assert "not i.i.d." in race.verdict
    assert race.users == race.replications * 60
    assert [*sl.designs(runs.experiment, SWITCHING).results] == ["naive", "time_coupled"]


def test_an_environment_that_stands_still_has_no_such_caution():
    assert not sl.Bernoulli((0.5, 0.5)).is_moving
    assert sl.Bernoulli((0.5, 0.5)).moves_between == (sl.Bernoulli((0.5, 0.5)),)
    runs = sl.simulate(experiment_of(), ARMS[0])
    assert not [one for one in sl.compare(runs).cautions if "i.i.d." in one]


def test_realised_regret_is_against_the_best_arm_of_each_period():
    runs = sl.simulate(experiment_of(horizon=25), SWITCHING, checkpoints=[5, 15, 25])
    best = np.array([5 * 0.9, 10 * 0.9 + 5 * 0.2, 10 * 0.9 + 10 * 0.2 + 5 * 0.9])
    values = sl.compare(runs, metric="realised_regret").values
    by_hand = best - runs.rewards.mean(axis=0)
    found = {(one.policy, one.checkpoint): one.value for one in values}
    for column, name in enumerate(runs.policies):
        for place, checkpoint in enumerate((5, 15, 25)):
            assert found[name, checkpoint] == pytest.approx(by_hand[column, place])
    for metric in ("regret", "best_arm_share"):
        with pytest.raises(sl.Invalid, match=f'{metric}.*one mean per arm.*use "realised_regret"'):
            sl.compare(runs, metric=metric)
    assert sl.compare(runs).policies[0].regret is None
    with pytest.raises(sl.Invalid, match="arms do not move"):
        sl.compare(sl.simulate(experiment_of(), SWITCHING), adjust="means")


class Lopsided(NamedTuple):
    """An environment of a user."""

    means: tuple[float, ...]


@sl.draws(Lopsided)
def _lopsided(parameters, row, arm, bits):
    return 2.0 * parameters.means[arm] if bits & np.uint64(1) else 0.0


@pytest.mark.slow
def test_it_moves_between_environments_of_ones_own():
    """Compiled and checked, or from any Python function."""

    def sloping(arm, uniform):
        return math.nan if 0.5 < uniform < 0.52 else uniform

    own = sl.Switching([Lopsided((1.0, 2.0)), sl.python_environment(sloping, [0.5, 0.5])], every=2)
    experiment = experiment_of(horizon=6, it=sl.Always(0))
    rewards = sl.trace(experiment, own)["it"].rewards
    assert {*rewards[:2], *rewards[4:]} <= {0.0, 2.0}
    assert all(0 < one < 1 for one in rewards[2:4])
    with pytest.raises(sl.Invalid, match="not a finite number"):
        sl.trace(experiment.replace(horizon=600), own)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("drifting(bernoulli(0.7, 0.3), over=10)", "a list of 2 to 10 environments"),
        ("drifting(bernoulli(0.7, 0.3), bernoulli(0.7, 0.3))", "lacks over; for example drifting"),
        ("drifting(bernoulli(0.7, 0.3), bernoulli(0.7, 0.3), over=0)", "Drifting.over"),
        ("drifting(bernoulli(0.7, 0.3), bernoulli(0.7, 0.3), over=1.5)", "Drifting.over"),
        (
            "drifting(bernoulli(0.7, 0.3), bernoulli(0.7), over=5)",
            r"\[1\] has 1 arms, and the first",
        ),
        ("drifting(bernoulli(0.7, 0.3), bernoulli_prior, over=5)", "not a prior"),
        ("drifting(bernoulli(0.7, 1.3), bernoulli(0.7, 0.3), over=5)", "Bernoulli.means"),
        ("switching(0.7, 0.3, every=5)", r"Switching.environments\[0\] must be an environment"),
        ("switching(bernoulli(0.7, 0.3), bernoulli(0.7, 0.3), every=-1)", "Switching.every"),
        ("switching(bernoulli(0.7), bernoulli(0.3), every=5, repeat=3)", "Switching.repeat"),
    ],
)
def test_bad_parameters_are_refused(text, message):
    with pytest.raises(sl.Invalid, match=message):
        as_environment(text)


def test_one_within_another_and_other_numbers_of_arms_are_refused():
    with pytest.raises(sl.Invalid, match="not drifting or switching itself"):
        sl.Drifting([SWITCHING, SWITCHING], over=5)
    with pytest.raises(sl.Invalid, match="have 2 arms, but there are 3"):
        sl.simulate(experiment_of().replace(arms=3), SWITCHING)
    for wrong in (0, [3, -1], "a", 1.5):
        with pytest.raises(sl.Invalid, match="periods are whole numbers from 1 on"):
            SWITCHING.means_at(wrong)
    with pytest.raises(sl.Invalid, match=r"call means_at\(period\)"):
        SWITCHING.instance_means(0, range(1), 2)


def test_runs_are_saved_loaded_and_run_again(tmp_path):
    runs = sl.simulate(experiment_of(), SWITCHING)
    runs.save(tmp_path / "runs.npz")
    again = sl.Runs.load(tmp_path / "runs.npz")
    assert again.environment == SWITCHING
    assert np.array_equal(sl.simulate(again.experiment, again.environment).rewards, runs.rewards)
