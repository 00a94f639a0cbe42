"""A policy declares the scale of rewards that it assumes; a mismatch is one caution that names the parameter."""

import re
from dataclasses import replace
from typing import NamedTuple

import pytest

import sameluck as sl
from budget import SEED
from sameluck.environments.registry import as_environment
from sameluck.inference.assumptions import scale_mismatch, simulated_scale_mismatch
from sameluck.policies.base import RewardScale, rescaled, reward_scale
from sameluck.randomness.samplers import exponential
from sameluck.reporting import cautions


def scale_caution(runs):
    return next(cautions.scale_caution(scale_mismatch(runs)), None)


POLICIES = {
    "ucb": sl.UCB1(),
    "delta": sl.UCBDelta(),
    "thompson": sl.ThompsonGaussian(),
    "greedy": sl.EpsilonGreedy(),
}


def runs_of(environment, policies=POLICIES, **changes):
    arms = changes.pop("arms", 2)
    settings = {"arms": arms, "horizon": 200, "replications": 30, "seed": SEED, **changes}
    return sl.simulate(sl.Experiment(policies=policies, **settings), environment)


@pytest.mark.parametrize(
    ("environment", "names"),
    [
        ("gaussian(1.0, 0.8)", ("ucb", "delta", "thompson", "greedy")),  # the paper's Example 3
        ("gaussian(1.0, 0.8, sd=1.6)", ("ucb", "delta", "thompson")),
        ("gaussian(0.5, 0.6, sd=0.1)", ("ucb", "delta", "greedy")),  # they fill [0, 1]
        ("gaussian(0, 0, sd=0)", ("ucb", "delta", "thompson")),
        ("bernoulli(0.5, 0.4)", ("ucb", "delta", "thompson", "greedy")),
        ("bernoulli(0.02, 0.01)", ("ucb", "delta", "greedy")),
        ("bernoulli_prior", ("ucb", "delta")),
        ("empirical([0, 0.2, 0.9], [0.4, 0.5])", ("ucb", "delta", "greedy")),
        ("gaussian(1000, 1100, sd=300)", ("greedy",)),
    ],
)
def test_a_fitting_scale_has_no_caution(environment, names):
    runs = runs_of(environment, {name: POLICIES[name] for name in names})
    assert scale_caution(runs) is None
    assert scale_caution(replace(runs, environment=None)) is None


REVENUE = sl.Gaussian((1_000.0, 1_100.0), sd=300.0)


def test_a_plan_and_a_race_have_the_caution_of_the_comparison():
    """Both run the policies in the same units; also a plan of a pilot that exists."""
    policies = {name: POLICIES[name] for name in ("greedy", "ucb")}
    experiment = sl.Experiment(policies=policies, arms=2, horizon=200, replications=30, seed=SEED)
    runs = sl.simulate(experiment, REVENUE)
    caution = scale_caution(runs)
    race = sl.race(policies, REVENUE, tolerance=5_000.0, horizon=200, failures=1.0, seed=SEED)
    for pilot in (REVENUE, runs):
        plan = sl.plan(experiment, pilot, effect=2_000.0, power=0.9, pilot=30)
        assert [
            caution for caution in plan.cautions if "standard deviation of the rewards" in caution
        ] == [caution]
        assert str(caution) in plan.verdict
    assert caution in race.cautions
    assert race.scale == scale_mismatch(runs)


def test_a_plan_and_a_race_whose_scale_fits_have_no_caution_of_it():
    policies = {name: POLICIES[name] for name in ("greedy", "ucb")}
    experiment = sl.Experiment(policies=policies, arms=2, horizon=200, replications=30, seed=SEED)
    environment = sl.Bernoulli((0.6, 0.4))
    race = sl.race(policies, environment, tolerance=50.0, horizon=200, failures=1.0, seed=SEED)
    plan = sl.plan(experiment, environment, effect=5.0, power=0.9, pilot=30)
    assert race.scale is None
    assert not any("standard deviation of the rewards" in caution for caution in plan.cautions)


def test_a_scale_that_is_too_small_names_each_parameter_and_its_value():
    """Revenue: without the caution, "greedy beats ucb by 32,252" is a matter of units."""
    policies = {**POLICIES, "late": sl.Batched("ucb1", 10)}
    caution = scale_caution(runs_of("gaussian(1000, 1100, sd=300)", policies))

    assert caution is not None
    assert "ucb, delta, thompson, late assume less" in caution
    assert "a poor arm may be kept" in caution
    assert "greedy" not in caution
    for remedy in (r"set alpha=\d{6} \(ucb, late\)", r"divide the rewards by \d{3} \(delta\)"):
        assert re.search(remedy, caution)
    assert re.search(r"set prior_sd=1[01]00 and noise_sd=\d{3} \(thompson\)", caution)


HEAVY = ("zero_inflated_lognormal(0.05, 0.04, amount=60, sigma=1)", 21.7)
LOGGED = (sl.Empirical(((0.0,) * 96 + (80.0,) * 4, (0.0,) * 97 + (70.0,) * 3)), 15.7)


class OwnScale(NamedTuple):
    means: tuple[float, ...] = (2.0, 3.0)


sl.draws(OwnScale)(lambda parameters, row, arm, bits: parameters.means[arm] * exponential(bits))


@pytest.mark.parametrize(("environment", "sd"), [HEAVY, LOGGED, (OwnScale(), 3.3)])
def test_the_scale_does_not_depend_on_the_seed(environment, sd):
    """The standard deviation is exact where the environment knows it, else from 120 draws."""
    experiment = sl.Experiment(policies={"ucb": sl.UCB1()}, arms=2, horizon=9, replications=9)
    arms = as_environment(environment)
    mismatches = [
        simulated_scale_mismatch(experiment.replace(seed=seed), arms) for seed in range(4)
    ]
    assert mismatches == mismatches[:1] * 4
    assert mismatches[0].sd == pytest.approx(sd, rel=0.05)


def test_a_scale_that_is_too_large_learns_slowly():
    policies = {"thompson": sl.ThompsonGaussian(), "ucb": sl.UCB1()}
    caution = scale_caution(runs_of("gaussian(0.010, 0.011, sd=0.004)", policies))
    assert caution is not None
    assert "thompson, ucb assume more, so that much is explored and learning is slow" in caution
    assert "set noise_sd=0.00" in caution


def test_the_policies_that_the_caution_names_have_none():
    """What a caution proposes ends it."""
    environment, policies = "gaussian(1000, 1100, sd=300)", dict(POLICIES)
    del policies["delta"]
    better = {name: rescaled(one, 300.0, 1100.0) or one for name, one in policies.items()}
    assert better["ucb"] == sl.UCB1(alpha=180_000.0)
    assert scale_caution(runs_of(environment, better)) is None


@pytest.mark.parametrize("sd", [1.0, 30.0])
def test_live_rewards_are_judged_by_their_sums(sd):
    """30 replications estimate the scale within a factor of 1.5 here, far from the bound of 3."""
    runs = replace(runs_of(sl.Gaussian((1.0, 0.8), sd)), environment=None)
    caution = scale_caution(runs)
    assert (caution is None) == (sd == 1.0)
    assert caution is None or "ucb, delta, thompson assume less" in caution
    assert scale_caution(runs.part(0, 8)) is None


def test_live_rewards_0_and_1_whose_means_drift_fit():
    runs = replace(runs_of("bernoulli_prior", {"ucb": sl.UCB1()}), environment=None)
    assert scale_caution(runs) is None


def test_a_comparison_has_one_sentence_for_all():
    result = sl.compare(runs_of("gaussian(1, 2, sd=10)"))
    about = [
        caution for caution in result.cautions if "standard deviation of the rewards" in caution
    ]
    assert len(about) == 1
    assert about[0] in str(result).replace("\n", " ")


@pytest.mark.parametrize(
    "policy", [sl.EpsilonGreedy(), sl.Uniform(), sl.Always(0), sl.ThompsonBernoulli()], ids=str
)
def test_some_policies_assume_no_scale(policy):
    assert reward_scale(policy) is None
    assert reward_scale(sl.Batched(policy, 3)) is None
    assert rescaled(sl.Batched(policy, 3), 2.0, 1.0) is None


def test_a_rule_that_never_explores_has_no_scale():
    runs = runs_of("gaussian(1, 2, sd=10)", {"ucb": sl.UCB1(alpha=0)})
    assert scale_caution(runs) is None


def test_a_policy_of_ones_own_declares_its_scale():
    class Own(NamedTuple):
        scale: object = RewardScale(1.0, 1.0)

        def reward_scale(self):
            return self.scale

    class Named(NamedTuple):
        reward_scale: float = 1.0

    assert reward_scale(Own()) == (1.0, 1.0, False)
    assert reward_scale(Named()) is None
    with pytest.raises(sl.Invalid, match=r"Own\.reward_scale must return a RewardScale, got 3"):
        reward_scale(Own(3))
