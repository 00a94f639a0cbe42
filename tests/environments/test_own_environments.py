"""An environment of one's own: one NamedTuple and one draw function."""

import itertools
import time
from collections.abc import Sequence
from functools import partial
from types import SimpleNamespace
from typing import NamedTuple, get_type_hints

import numpy as np
import pytest

import cases
import sameluck as sl
from budget import SEED, assert_mean
from sameluck import randomness, text_forms
from sameluck.environments import stated_means
from sameluck.environments.base import ENVIRONMENTS, draw_function_of, prepared_parameters
from sameluck.environments.stated_means import check_means
from sameluck.randomness import discrete, exponential, gamma, normal, poisson, uniform

pytestmark = pytest.mark.slow  # each test compiles a loop of its own


def experiment_of(*policies, **changes):
    settings = {"arms": 2, "horizon": 40, "replications": 3, "seed": SEED, **changes}
    return sl.Experiment(policies={str(policy): policy for policy in policies}, **settings)


def exponential_waits():
    class Waits(NamedTuple):
        means: Sequence[float]
        scale: float = 1.0

    @sl.draws(Waits)
    def _(parameters, row, arm, bits):
        return parameters.scale * parameters.means[arm] * exponential(bits)

    return Waits


def test_two_lines_are_an_environment():
    """Simulated, traced with the guard, compared, as text, rehearsed: like one of sameluck's."""
    waits = exponential_waits()((2.0, 1.0))
    experiment = experiment_of(sl.UCB1(), sl.ThompsonGaussian())
    runs = sl.simulate(experiment, waits)

    assert (waits.best_arm, waits.gaps, waits.arms, waits.binary) == (0, (0.0, 1.0), 2, False)
    assert runs.environment == waits
    assert text_forms.write(waits) == "waits(2, 1, scale=1)"
    np.testing.assert_array_equal(sl.simulate(experiment, "waits(2, 1)").rewards, runs.rewards)
    assert sl.trace(experiment, waits, guard=True).environment == waits
    assert sl.compare(runs).effects[0].effect != 0
    with sl.open("sqlite://", clock=sl.VirtualClock()) as store:
        live = store.start("waits", experiment)
        sl.rehearse(live, waits)
        np.testing.assert_array_equal(live.runs().rewards, runs.rewards)


def test_it_gets_methods_and_nothing_of_pythons_own():
    added = vars(exponential_waits()).keys() & vars(sl.Environment).keys()
    assert "best_arm" in added
    assert "__weakref__" not in added
    assert get_type_hints(exponential_waits()) == {"means": Sequence[float], "scale": float}


def test_saved_runs_keep_it(tmp_path):
    waits = exponential_waits()((2.0, 1.0))
    sl.simulate(experiment_of(sl.UCB1()), waits).save(tmp_path / "runs.npz")

    assert sl.Runs.load(tmp_path / "runs.npz").environment == waits
    del ENVIRONMENTS["waits"]
    with pytest.raises(sl.Invalid, match="unknown environment 'waits'"):
        sl.Runs.load(tmp_path / "runs.npz")


def test_the_rewards_follow_the_body():
    """A mean of 2,000 exponential rewards; a wrong one by 15% is found with a false alarm of 1e-6."""
    experiment = experiment_of(sl.Always(0), replications=2_000, horizon=1)
    runs = sl.simulate(experiment, exponential_waits()((2.0, 1.0), scale=3.0), check=False)
    assert_mean(runs.rewards[:, 0, 0], 6.0)


def test_a_class_defined_again_runs_its_new_body():
    """As in a notebook: the machine code of the class before is never run."""
    for reward in (1.0, 2.0):

        class Fixed(NamedTuple):
            means: Sequence[float]

        if reward == 1.0:

            @sl.draws(Fixed)
            def _one(parameters, row, arm, bits):
                return 1.0
        else:

            @sl.draws(Fixed)
            def _two(parameters, row, arm, bits):
                return 2.0

        runs = sl.simulate(experiment_of(sl.Uniform(), horizon=5), Fixed((reward, reward)))
        assert (runs.rewards == 5 * reward).all()


def test_a_class_registered_again_runs_its_new_body():
    class Fixed(NamedTuple):
        means: Sequence[float]

    sl.draws(Fixed)(lambda parameters, row, arm, bits: 1.0)
    experiment, environment = experiment_of(sl.Uniform(), horizon=5), Fixed((1.0, 1.0))
    assert (sl.simulate(experiment, environment).rewards == 5).all()
    sl.draws(Fixed)(lambda parameters, row, arm, bits: 3.0)
    assert (sl.simulate(experiment, Fixed((3.0, 3.0))).rewards == 15).all()
    with pytest.raises(
        sl.Invalid, match=r"states the mean 1 for arm 0, and [\d,]+ draws have the mean 3;"
    ):
        sl.simulate(experiment, environment)


def test_a_prior_of_its_own_reads_the_row_of_its_replication():
    class Law(NamedTuple):
        means: np.ndarray

    class Levels(NamedTuple):
        means: Sequence[float]

        @property
        def is_prior(self):
            return True

        def compiled_parameters(self, seed, replications, arms):
            return Law(self.instance_means(seed, replications, arms))

        def instance_means(self, seed, replications, arms):
            return np.array([[r + arm / 10 for arm in range(arms)] for r in replications])

    sl.draws(Levels)(lambda parameters, row, arm, bits: parameters.means[row, arm])
    runs = sl.simulate(experiment_of(sl.Always(1), horizon=10), Levels((1.0, 1.0)), workers=2)

    np.testing.assert_allclose(runs.rewards[:, 0, 0], [1.0, 11.0, 21.0])


SAMPLERS = {
    "uniform": (lambda parameters, row, arm, bits: uniform(bits), 0.5),
    "normal": (lambda parameters, row, arm, bits: 4.0 + normal(bits), 4.0),
    "gamma": (lambda parameters, row, arm, bits: gamma(bits, 2.5), 2.5),
    "poisson": (lambda parameters, row, arm, bits: poisson(bits, 12.0), 12.0),
    "discrete": (lambda parameters, row, arm, bits: 1.0 * discrete(bits, parameters.means), 1.5),
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_every_sampler_works_in_a_body(name):
    """Its mean over 500 rewards, with a false alarm of 1e-6; compiled and in plain Python the same."""
    body, mean = SAMPLERS[name]

    class Sampled(NamedTuple):
        means: Sequence[float]

    sl.draws(Sampled)(body)
    environment = Sampled(
        (1.0, 2.0, 3.0, 4.0)
    )  # for `discrete` the running sums of four equal chances
    experiment = experiment_of(sl.Always(0), arms=4, horizon=500, replications=1)
    trace = sl.trace(experiment, environment, guard=True, check=False)  # the stated means are not
    assert_mean(trace["Always(arm=0)"].rewards, mean)
    assert name in randomness.__all__


class Stated(NamedTuple):
    means: Sequence[float]
    spread: float = 1.0


def complement(parameters, row, arm, bits):
    return 1.0 if uniform(bits) >= parameters.means[arm] else 0.0


def lognormal(parameters, row, arm, bits):
    return np.exp(parameters.means[arm] + parameters.spread * normal(bits))


# The mean of the complement is 0.4, and of a lognormal exp(mu + sigma^2 / 2): 3.004 and 833.
WRONG_MEANS = {
    "0.(39|4)": (complement, 1.0),
    r"(2\.9|3\.0)": (lognormal, 1.0),
    r"\d{3}": (lognormal, 3.5),
}


@pytest.mark.parametrize("drawn", WRONG_MEANS)
def test_stated_means_that_the_draws_do_not_have_are_refused_with_both_numbers(drawn):
    body, spread = WRONG_MEANS[drawn]
    sl.draws(Stated)(body)
    environment, experiment = Stated((0.6, 0.4), spread), experiment_of(sl.Uniform())
    message = rf"Stated states the mean 0\.6 for arm 0, and [\d,]+ draws have the mean {drawn}"
    with pytest.raises(sl.Invalid, match=message):
        sl.simulate(experiment, environment)
    with pytest.raises(sl.Invalid, match=message):
        sl.check_environment(environment)
    later = sl.Switching((sl.Gaussian((0.0, 0.0)), environment), every=5)
    with pytest.raises(sl.Invalid, match=message):
        sl.simulate(experiment.replace(design="naive"), later)
    assert sl.simulate(experiment, environment, check=False).replications


def test_a_python_function_with_other_means_is_refused():
    environment = sl.python_environment(lambda arm, number: 3 * number, [1.5, 1.0], name="three")
    with pytest.raises(
        sl.Invalid, match=r"Three states the mean 1 for arm 1, and .* mean 1\.(5|49)"
    ):
        sl.simulate(experiment_of(sl.Uniform()), environment)


@pytest.mark.slow
@pytest.mark.parametrize(
    "environment",
    [
        sl.Bernoulli((0.3, 0.00001)),
        sl.Lognormal((1.0, 1_000.0), sigma=5.0),
        sl.StudentT((0.0, 5.0), df=2.1),
        sl.ZeroInflatedLognormal((0.03, 0.0001), amount=60.0, sigma=1.5),
        sl.GaussianPrior(sd=30.0),
        sl.Drifting((sl.Gaussian((0.0, 1.0)), sl.Exponential((5.0, 0.0))), over=100),
    ],
    ids=cases.name,
)
def test_heavy_tails_priors_and_moving_arms_are_not_refused(environment):
    """As own environments, with 20 other seeds: each refuses the true means with probability 1e-9."""
    sl.check_environment(environment)
    for seed in range(20) if not environment.is_moving else ():
        check_means(environment, 2, 100, seed=seed)


def test_means_that_move_are_checked_in_several_periods(monkeypatch):
    drifting = sl.Drifting((sl.Gaussian((0.0, 1.0)), sl.Exponential((5.0, 1.0))), over=100)
    monkeypatch.setattr(sl.Drifting, "means_at", lambda self, period: np.array([0.05 * period] * 2))
    with pytest.raises(
        sl.Invalid,
        match=r"Drifting states the mean 0\.05 for arm 1 in period 1, .* the mean (1|0\.99)",
    ):
        check_means(drifting, 2, 100)


def test_a_busy_machine_draws_as_many_rewards(monkeypatch):
    """The clock runs on by a second between any two looks at it, once the speed of the draws is known."""
    looks = itertools.count(-12)
    clock = SimpleNamespace(
        perf_counter=lambda: time.perf_counter() + max(0, next(looks)),
        thread_time=time.thread_time,
    )
    monkeypatch.setattr(stated_means, "time", clock)
    sl.draws(Stated)(complement)
    with pytest.raises(sl.Invalid, match=r"[\d,]+ draws have the mean 0\.(39|4)"):
        check_means(Stated((0.6, 0.4), 1.0), 2, 100)


def a_new_array(parameters, row, arm, bits):
    return (parameters.means + 1.0)[arm]


def a_slip(parameters, row, arm, bits):
    return parameters.menas[arm]


def no_number(parameters, row, arm, bits):
    return None


def a_changed_law(parameters, row, arm, bits):
    parameters.means[arm] += 1.0
    return parameters.means[arm]


def true_or_false(parameters, row, arm, bits):
    return uniform(bits) < parameters.means[arm]


def an_unknown_name(parameters, row, arm, bits):
    return unknown_name  # noqa: F821


def not_a_number(parameters, row, arm, bits):
    return np.nan


def endless(parameters, row, arm, bits):
    return np.inf


def other_names(parameters, row, arm):
    return 0.0


def test_a_whole_number_is_a_reward():
    class Whole(NamedTuple):
        means: Sequence[float]

    sl.draws(Whole)(lambda parameters, row, arm, bits: 1 if arm == 0 else 0)
    experiment = experiment_of(sl.Always(0), horizon=4)
    assert (sl.simulate(experiment, Whole((1.0, 0.0))).rewards == 4).all()


BAD = {
    a_new_array: r"environment Bad cannot be run: it makes a new array: write a loop over the arms \(line \d+\)",
    a_slip: r"environment Bad cannot be run: Unknown attribute 'menas'.* \(line \d+\)",
    no_number: "environment Bad cannot be run: what it returns, None, is not a number",
    a_changed_law: r"environment Bad cannot be run: it writes to parameters\.means, which it must not change",
    true_or_false: "what it returns, .*, is not a number, but True or False: write 1.0 if",
    an_unknown_name: "environment Bad cannot be run: name 'unknown_name' is not defined",
    not_a_number: "environment Bad cannot be run: it returns nan, which is not a finite number",
    endless: "environment Bad cannot be run: it returns inf, which is not a finite number",
    other_names: r"a function of Bad must take \(parameters, row, arm, bits\), got \(parameters, row, arm\)",
}


@pytest.mark.parametrize("body", BAD, ids=lambda body: body.__name__)
def test_a_body_that_cannot_be_run_is_refused_with_its_line(body):
    class Bad(NamedTuple):
        means: Sequence[float]

    def register_and_run():
        sl.draws(Bad)(body)
        sl.simulate(experiment_of(sl.Uniform()), Bad((1.0, 2.0)))

    with pytest.raises(sl.Invalid, match=BAD[body]) as refused:
        register_and_run()
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 500


def test_what_may_not_be_registered_is_refused():
    class Bernoulli(NamedTuple):
        means: Sequence[float]

    class bernoulli(NamedTuple):
        means: Sequence[float]

    class Meanless(NamedTuple):
        chance: float = 0.5

    def body(parameters, row, arm, bits):
        return 0.0

    refusals = {
        sl.Bernoulli: "Bernoulli is a class of sameluck; define a class of your own",
        Bernoulli: "sameluck has an environment called Bernoulli; give yours another name",
        bernoulli: "sameluck has an environment called Bernoulli; give yours another name",
        Meanless: "Meanless has no means",
        dict: "not a class for an environment",
    }
    for environment_class, message in refusals.items():
        with pytest.raises(sl.Invalid, match=message):
            sl.draws(environment_class)(body)
    for no_function in (3, max, partial(body)):
        with pytest.raises(sl.Invalid, match="must be a plain Python function"):
            sl.draws(exponential_waits())(no_function)
    with pytest.raises(sl.Invalid, match=r"not an environment.*sameluck\.draws"):
        sl.simulate(experiment_of(sl.Uniform()), Meanless())


def test_its_parameters_are_checked():
    waits = exponential_waits()
    for means in ((1.0,), (1.0, float("nan")), (1.0, 1e60)):
        with pytest.raises(sl.Invalid, match=r"Waits\.means"):
            sl.simulate(experiment_of(sl.Uniform()), waits(means))


def test_lists_of_unequal_lengths_are_refused():
    class Ragged(NamedTuple):
        means: Sequence[float]
        table: Sequence[Sequence[float]] = ((1.0,), (2.0, 3.0))

    sl.draws(Ragged)(lambda parameters, row, arm, bits: parameters.means[arm])
    with pytest.raises(
        sl.Invalid, match=r"Ragged\.table must be numbers in lists of equal lengths"
    ):
        sl.simulate(experiment_of(sl.Uniform()), Ragged((1.0, 2.0)))


def test_the_guard_finds_a_wrong_index_before_machine_code_reads_it():
    """Machine code does not check indices: this one would end the process."""

    class Beyond(NamedTuple):
        means: Sequence[float]

    sl.draws(Beyond)(lambda parameters, row, arm, bits: parameters.means[arm + 100_000_000])
    with pytest.raises(
        sl.Invalid,
        match=r"environment Beyond cannot be run: it reads parameters\.means\[10000000[01]\]",
    ):
        sl.trace(experiment_of(sl.Uniform()), Beyond((1.0, 2.0)), guard=True)


def test_environments_whose_laws_are_of_one_class_keep_their_bodies():
    class Law(NamedTuple):
        means: np.ndarray

    def add(amount):
        class Add(NamedTuple):
            means: Sequence[float]

            def compiled_parameters(self, seed, replications, arms):
                return Law(np.asarray(self.means))

        sl.draws(Add)(lambda parameters, row, arm, bits: parameters.means[arm] + amount)
        return Add

    first, second = add(1.0)((0.0, 0.0)), add(2.0)((0.0, 0.0))
    prepared = [prepared_parameters(env, SEED, range(1), 2) for env in (first, second, first)]
    assert [draw_function_of(parameters)(parameters, 0, 0, 0) for parameters in prepared] == [
        1.0,
        2.0,
        1.0,
    ]
    assert type(prepared[0]) is type(prepared[2])


def test_means_may_be_a_property_that_returns_an_array_and_laws_return_a_named_tuple():
    class Slope(NamedTuple):
        top: float = 1.0

        @property
        def means(self):
            return np.array([self.top, self.top / 2])

    class Lawless(NamedTuple):
        means: Sequence[float]

        def compiled_parameters(self, seed, replications, arms):
            return None

    for environment_class in (Slope, Lawless):
        sl.draws(environment_class)(lambda parameters, row, arm, bits: parameters.top / (1 + arm))
    assert (sl.simulate(experiment_of(sl.Always(1)), Slope()).rewards == 20).all()
    with pytest.raises(
        sl.Invalid, match=r"Lawless\.compiled_parameters must return a NamedTuple, got None"
    ):
        sl.simulate(experiment_of(sl.Uniform()), Lawless((1.0, 2.0)))
