"""Bandits of river, MABWiser, SMPyBandits and bayesianbandits: the same wherever policies run, and beside our own.

Those packages are slow to import, so all tests that need them are in this file.
"""

import contextlib
import math
import random
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from contract.scenario import Scenario, assert_same
from scipy import integrate, stats

import bandit_packages as packages
import budget
import literal_rules
import sameluck as sl
from sameluck.adapters.bandit_packages import AdaptedMaker
from sameluck.randomness.streams import DECISION, owner_of, stream

pytestmark = [
    pytest.mark.slow,  # importing the packages takes seconds
    pytest.mark.filterwarnings("ignore:.*:RuntimeWarning"),  # SMPyBandits divides by pulls of 0
]

ARMS = packages.ARMS
BERNOULLI = sl.Bernoulli((0.6, 0.5, 0.4))
HORIZON = 300
MAKERS = {
    "river": sl.adapters.river(packages.river_thompson),
    "mabwiser": sl.adapters.mabwiser(packages.mabwiser("EpsilonGreedy", 0.2, arms="abc")),
    "smpybandits": sl.adapters.smpybandits(packages.smpybandits("EpsilonGreedy")),
    "bayesianbandits": sl.adapters.bayesianbandits(
        packages.bayesianbandits("NormalInverseGammaRegressor")
    ),
}
POLICIES = {"ucb": sl.UCB1(), **{name: sl.External(name) for name in MAKERS}}


def experiment_of(policies, **changes):
    usual = {"arms": ARMS, "horizon": 15, "replications": 3, "seed": 3}
    return sl.Experiment(policies=policies, **{**usual, **changes})


@pytest.fixture(scope="module", autouse=True)
def installed():
    for name in ("river.bandit", "mabwiser.mab", "SMPyBandits.Policies", "bayesianbandits"):
        packages.module(name)


@pytest.fixture(scope="module")
def runs(installed):
    return sl.simulate(experiment_of(POLICIES), BERNOULLI, makers=MAKERS, workers=1)


class TestEverywhere:
    """The maker of one adapter does in every place."""

    def test_simulate_and_compare(self, runs):
        again = sl.simulate(experiment_of(POLICIES), BERNOULLI, makers=MAKERS, workers=2)
        assert_same(again, runs)
        assert {one.policy for one in sl.compare(runs).effects} == {*MAKERS}

    def test_trace_checks_every_period(self, runs):
        traced = sl.trace(experiment_of(POLICIES), BERNOULLI, 1, makers=MAKERS, guard=True)
        for place, name in enumerate(POLICIES):
            pulls = np.bincount(traced[name].arms, minlength=ARMS)
            assert runs.pulls[1, place, 0].tolist() == pulls.tolist()

    def test_race_and_plan(self):
        two = {"ucb": sl.UCB1(), "river": sl.External("river")}
        makers = {"river": MAKERS["river"]}
        race = sl.race(two, BERNOULLI, horizon=15, tolerance=10.0, makers=makers)
        assert {one.policy for one in race.runners} == {*two}
        plan = sl.plan(experiment_of(two), BERNOULLI, effect=2.0, pilot=10, makers=makers)
        assert plan.replications >= 2

    def test_live_is_the_simulation(self, runs):
        scenario = Scenario(lambda clock: sl.open("sqlite://", clock=clock))
        with contextlib.closing(scenario):
            size = {"horizon": 15, "replications": 3, "seed": 3}
            live = scenario.start(POLICIES, makers=MAKERS, **size)
            scenario.finish(live, BERNOULLI)
            assert_same(live.runs(), runs)
            assert live.verify() == 3

    def test_batches(self):
        policies = {name: sl.External(name, batch=7) for name in MAKERS}
        runs = sl.simulate(experiment_of(policies), BERNOULLI, makers=MAKERS, workers=1)
        assert (runs.pulls.sum(axis=-1) == 15).all()


class TestRandomness:
    def test_smpybandits_leaves_the_global_generators_alone(self):
        made = MAKERS["smpybandits"](5)
        np.random.seed(1)  # noqa: NPY002
        random.seed(1)
        before = np.random.get_state()[1].tolist(), random.getstate()  # noqa: NPY002
        for _ in range(20):
            made.update(made.pull([0, 1, 2]), 0.5)
        assert (np.random.get_state()[1].tolist(), random.getstate()) == before  # noqa: NPY002

    def test_randomness_of_the_constructor_is_the_seeds(self):
        """Exp3 draws the order of its first plays when it is made."""
        make = sl.adapters.smpybandits(packages.smpybandits("Exp3", arms=20))
        orders = [make(seed).bandit._initial_exploration.tolist() for seed in (1, 1, 2)]
        assert orders[0] == orders[1] != orders[2]


class Rule(NamedTuple):
    """A policy of ours and one of another package that is the same under our conventions."""

    ours: tuple
    make: AdaptedMaker
    binary: bool = False  # rewards; otherwise continuous, so that no two bounds are equal after the first plays


def smpybandits(kind, *arguments, **parameters):
    return sl.adapters.smpybandits(packages.smpybandits(kind, *arguments, **parameters))


LOWEST = packages.LowestArm()
DETERMINISTIC = {
    "river UCB": Rule(
        sl.UCB1(2 * 0.8**2), sl.adapters.river(packages.river("UCB", delta=0.8, ties=LOWEST))
    ),
    "river BayesUCB": Rule(
        sl.BayesUCB(), sl.adapters.river(packages.river("BayesUCB", ties=LOWEST)), binary=True
    ),
    "MABWiser UCB1": Rule(
        sl.UCB1(2 * 0.7**2), sl.adapters.mabwiser(packages.mabwiser("UCB1", 0.7))
    ),
    "SMPyBandits UCBalpha": Rule(sl.UCB1(1.5), smpybandits("UCBalpha", 3.0)),
    "SMPyBandits klUCB": Rule(sl.KLUCB(), smpybandits("klUCB", tolerance=1e-12)),
    "SMPyBandits MOSSH": Rule(sl.MOSS(), smpybandits("MOSSH", HORIZON)),
    "SMPyBandits BayesUCB": Rule(sl.BayesUCB(), smpybandits("BayesUCB"), binary=True),
    "SMPyBandits UCBV": Rule(sl.UCBV(zeta=1.0), smpybandits("UCBV")),
    "SMPyBandits SWUCB": Rule(sl.SlidingWindowUCB(40, 0.6), smpybandits("SWUCB", 40, 0.6)),
}


def literal(policy, history, period):
    """The arm of a policy of ours by its literal rule, which equals the compiled one period by period."""
    noise = stream(np.uint64(budget.SEED), DECISION, 0, np.uint64(owner_of("it")))
    inputs = literal_rules.RuleInputs(history, period, ARMS, HORIZON, noise)
    return literal_rules.RULES[type(policy)](policy, inputs)


def both(rule, monkeypatch, horizon=HORIZON):
    """The arms of our policy and of theirs on the rewards that ours gets; of equal arms the lowest."""
    monkeypatch.setattr(
        np.random, "choice", lambda best: best[0]
    )  # among equal ones in SMPyBandits
    generator, made, history, theirs = np.random.default_rng(5), rule.make(5), [], []
    for period in range(1, horizon + 1):
        theirs.append(int(made.pull([*range(ARMS)])))
        arm = literal(rule.ours, history, period)
        mean = (0.6, 0.5, 0.4)[arm]
        reward = generator.beta(2 * mean, 2 - 2 * mean)
        history.append((arm, float(reward < mean) if rule.binary else reward))
        made.update(*history[-1])
    return [arm for arm, _ in history], theirs


@pytest.mark.parametrize("name", DETERMINISTIC)
def test_a_deterministic_policy_plays_the_arms_of_ours(name, monkeypatch):
    ours, theirs = both(DETERMINISTIC[name], monkeypatch)
    assert theirs == ours


HISTORY = [(0, 1.0), (1, 0.0), (2, 1.0), (0, 1.0), (2, 0.0), (1, 1.0), (0, 0.0), (2, 0.0)]
DRAWS = 2_000
SLOW_DRAWS = 400  # bayesianbandits takes a millisecond to choose


def largest(*laws):
    """The chance that each of independent continuous numbers is the largest."""

    def chance(one):
        others = [law for law in laws if law is not one]
        low, high = one.ppf(1e-9), one.ppf(1 - 1e-9)
        return integrate.quad(
            lambda x: one.pdf(x) * math.prod(other.cdf(x) for other in others), low, high, limit=200
        )[0]

    return [chance(law) for law in laws]


def rewards_by_arm():
    return [[reward for arm, reward in HISTORY if arm == one] for one in range(ARMS)]


def by_posterior(law):
    """Chances under Thompson sampling with the posterior `law(rewards)` of an arm's mean."""
    return lambda: largest(*map(law, rewards_by_arm()))


def discounted_beta(gamma):
    def chances():
        laws = []
        for one in range(ARMS):
            seen = [(gamma**age, r) for age, (arm, r) in enumerate(HISTORY[::-1]) if arm == one]
            won = sum(weight * reward for weight, reward in seen)
            laws.append(stats.beta(1 + won, 1 + sum(weight for weight, _ in seen) - won))
        return largest(*laws)

    return chances


def exploring(epsilon):
    """Chances of epsilon-greedy."""
    means = [np.mean(rewards) for rewards in rewards_by_arm()]
    return lambda: epsilon / ARMS + (1 - epsilon) * np.eye(ARMS)[np.argmax(means)]


def exponential_weights(gamma):
    """Chances of EXP3."""

    def chances():
        weights, shares = np.ones(ARMS), np.full(ARMS, 1 / ARMS)
        for arm, reward in HISTORY:
            weights[arm] *= math.exp(gamma * reward / (shares[arm] * ARMS))
            shares = (1 - gamma) * weights / weights.sum() + gamma / ARMS
        return shares

    return chances


def beta_law(rewards):
    return stats.beta(1 + sum(rewards), 1 + len(rewards) - sum(rewards))


def normal_law(rewards):
    """Prior precision 2, precision of a reward 4."""
    precision = 2.0 + 4.0 * len(rewards)
    return stats.norm(4.0 * sum(rewards) / precision, precision**-0.5)


def gamma_law(rewards):
    return stats.gamma(1.5 + sum(rewards), scale=1 / (2.0 + len(rewards)))


def student_law(rewards):
    """Of the mean, with the variance integrated out: prior mean 0, weight 1, shape 2, scale 0.5."""
    n, total = len(rewards), sum(rewards)
    weight, shape = 1.0 + n, 2.0 + n / 2
    mean = total / weight
    scale = 0.5 + (sum(reward**2 for reward in rewards) - weight * mean**2) / 2
    return stats.t(2 * shape, mean, math.sqrt(scale / (shape * weight)))


def sum_of_ones(samples):
    """The share of rewards that are 1, of a DirichletClassifier's classes 0 and 1."""
    return samples[..., 1]


class Law(NamedTuple):
    """A randomised policy of ours, one of another package, and the chances that both must have after `HISTORY`."""

    ours: tuple
    make: AdaptedMaker
    chances: Callable


def agent(learner, *arguments, **parameters):
    return sl.adapters.bayesianbandits(packages.bayesianbandits(learner, *arguments, **parameters))


RANDOMISED = {
    "river ThompsonSampling": Law(
        sl.ThompsonBernoulli(), sl.adapters.river(packages.river_thompson), by_posterior(beta_law)
    ),
    "river EpsilonGreedy": Law(
        sl.EpsilonGreedy(0.3),
        sl.adapters.river(packages.river("EpsilonGreedy", epsilon=0.3)),
        exploring(0.3),
    ),
    "river Exp3": Law(
        sl.EXP3(0.4),
        sl.adapters.river(packages.river("Exp3", gamma=0.4)),
        exponential_weights(0.4),
    ),
    "MABWiser ThompsonSampling": Law(
        sl.ThompsonBernoulli(),
        sl.adapters.mabwiser(packages.mabwiser("ThompsonSampling")),
        by_posterior(beta_law),
    ),
    "MABWiser EpsilonGreedy": Law(
        sl.EpsilonGreedy(0.3),
        sl.adapters.mabwiser(packages.mabwiser("EpsilonGreedy", 0.3)),
        exploring(0.3),
    ),
    "SMPyBandits Thompson": Law(
        sl.ThompsonBernoulli(), smpybandits("Thompson"), by_posterior(beta_law)
    ),
    "SMPyBandits Exp3": Law(sl.EXP3(0.4), smpybandits("Exp3", gamma=0.4), exponential_weights(0.4)),
    "bayesianbandits DirichletClassifier": Law(
        sl.ThompsonBernoulli(),
        agent("DirichletClassifier", {0: 1, 1: 1}, reward=sum_of_ones),
        by_posterior(beta_law),
    ),
    "bayesianbandits NormalRegressor": Law(
        sl.ThompsonGaussian(0.0, 2**-0.5, 0.5),
        agent("NormalRegressor", 2.0, 4.0),
        by_posterior(normal_law),
    ),
    "bayesianbandits GammaRegressor": Law(
        sl.ThompsonPoisson(1.5, 2.0), agent("GammaRegressor", 1.5, 2.0), by_posterior(gamma_law)
    ),
    "bayesianbandits NormalInverseGammaRegressor": Law(
        sl.ThompsonNormalInverseGamma(0.0, 1.0, 2.0, 0.5),
        agent("NormalInverseGammaRegressor", mu=0.0, lam=1.0, a=2.0, b=0.5),
        by_posterior(student_law),
    ),
}


def theirs(make):
    """How often another package's policy chooses each arm after `HISTORY`."""
    made = make(budget.SEED)
    arms = list(range(ARMS))
    for arm, reward in HISTORY:
        made.pull(arms)
        made.update(arm, reward)
    draws = SLOW_DRAWS if make.adapter.package == "bayesianbandits" else DRAWS
    return np.bincount([made.pull(arms) for _ in range(draws)], minlength=ARMS)


def ours(policy):
    """How often ours does."""
    first = len(HISTORY) + 1
    chosen = [literal(policy, HISTORY, period) for period in range(first, first + DRAWS)]
    return np.bincount(chosen, minlength=ARMS)


@pytest.mark.parametrize("name", RANDOMISED)
def test_a_randomised_policy_has_the_law_of_ours(name):
    """The budget is shared by the two samples; both have the exact chances after the same rewards."""
    law = RANDOMISED[name]
    chances = law.chances()
    for counts in (theirs(law.make), ours(law.ours)):
        budget.assert_probabilities(counts, chances, looks=2)


class TestDifferences:
    """What docs/policies.md says of rules that are not ours."""

    @pytest.mark.parametrize(
        "rule",
        [
            Rule(sl.IMED(), smpybandits("IMED")),
            Rule(sl.UCBTuned(), smpybandits("UCBVtuned")),
            Rule(sl.DiscountedUCB(0.95, xi=0.5), smpybandits("DiscountedUCB", 4.0, 0.95)),
        ],
        ids=lambda rule: type(rule.ours).__name__,
    )
    def test_the_same_name_for_another_rule(self, rule, monkeypatch):
        ours, theirs = both(rule, monkeypatch, horizon=60)
        assert theirs != ours

    def test_epsilon_greedy_of_smpybandits(self):
        """It exploits the largest sum and never explores the last arm."""
        make = smpybandits("EpsilonGreedy", 0.5)
        made = make(1)
        for arm, reward in [(0, 0.4), (0, 0.4), (1, 0.6), (2, 0.0)]:
            made.update(arm, reward)
        counts = np.bincount([made.pull([0, 1, 2]) for _ in range(1_000)], minlength=ARMS)
        assert counts.argmax() == 0
        assert counts[2] == 0


class TestRefusals:
    @pytest.mark.parametrize(
        ("make", "reason"),
        [
            (sl.adapters.mabwiser(packages.mabwiser("Random", arms="ab")), "made with 2 arms"),
            (smpybandits("UCB", arms=5), "made with 5 arms, but the experiment has 3"),
            (agent("GammaRegressor", 1.0, 1.0, tokens="wxyz"), "made with 4 arms"),
            (sl.adapters.river(lambda seed: object()), "a policy of river.bandit, got object"),
            (sl.adapters.mabwiser(packages.river("UCB", delta=1)), "a mabwiser.mab.MAB, got UCB"),
            (
                sl.adapters.river(lambda seed: packages.module("river.bandit").LinUCBDisjoint(1.0)),
                "LinUCBDisjoint of river needs a context",
            ),
            (
                sl.adapters.mabwiser(packages.mabwiser("LinUCB", 1.0)),
                "MAB of mabwiser needs a context",
            ),
            (
                sl.adapters.mabwiser(lambda seed: packages.mabwiser("Random")(123456)),
                "made without a seed.* write MAB",
            ),
        ],
    )
    def test_what_cannot_play(self, make, reason):
        experiment = experiment_of({"it": sl.External("it")})
        with pytest.raises(sl.Invalid, match="policy 'it'.*" + reason):
            sl.simulate(experiment, BERNOULLI, makers={"it": make})

    def test_agents_with_contexts(self):
        def make(seed):
            bandits = packages.module("bayesianbandits")
            arms = [bandits.Arm(one, learner=bandits.GammaRegressor(1, 1)) for one in range(ARMS)]
            return bandits.ContextualAgent(arms, bandits.ThompsonSampling(), random_seed=seed)

        with pytest.raises(sl.Invalid, match="ContextualAgent of bayesianbandits needs a context"):
            sl.adapters.bayesianbandits(make)(1)
