"""Effects on draws of the arms: importance weights of replications on all draws, or shared random numbers."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import sameluck as sl
from sameluck.inference.twins.copies import BernoulliCopy, GaussianCopy, copy_arms
from sameluck.inference.twins.draws import WeightedEffects
from sameluck.inference.twins.intervals import ends_of_draws
from sameluck.inference.twins.observed_rewards import ObservedStacks
from sameluck.inference.twins.simulations import CopySimulator, Effort, checked_effort, run_long


def sums_of(values):
    return np.array([values.size, values.sum(), (values**2).sum()])


@pytest.mark.parametrize(
    ("copy", "values", "distributions"),
    [
        (
            BernoulliCopy(np.array([9.0]), np.array([4.0])),
            np.array([0.0, 1, 1, 0, 1]),
            [(sl.Bernoulli((p,)), stats.bernoulli(p).logpmf) for p in (0.2, 0.9)],
        ),
        (
            GaussianCopy(np.array([9.0]), np.array([1.0]), np.array([2.0])),
            np.array([0.5, -1.0, 3.0]),
            [(sl.Gaussian((m,), (s,)), stats.norm(m, s).logpdf) for m, s in ((1, 2), (-0.3, 0.7))],
        ),
        (
            GaussianCopy(np.array([9.0]), np.array([1e9]), np.array([2.0])),
            np.array([1e9 + 0.5, 1e9 - 1.0]),
            [
                (sl.Gaussian((m,), (s,)), stats.norm(m, s).logpdf)
                for m, s in ((1e9, 2), (1e9 + 1, 0.7))
            ],
        ),
    ],
)
def test_coefficients_give_the_ratio_of_likelihoods(copy, values, distributions):
    """The likelihood has a further factor, which is the same for all environments."""
    stacks = ObservedStacks(np.array([[[values.size]]]), values)
    if copy.origins is not None:
        stacks = stacks.minus(copy.origins)
    first, second = copy.coefficients([environment for environment, _ in distributions]) @ sums_of(
        stacks.values
    )
    expected = [density(values).sum() for _, density in distributions]

    assert first - second == pytest.approx(expected[0] - expected[1])


def test_constant_arms_give_finite_coefficients():
    """A mean of 0 or 1 and a standard deviation of 0 give finite numbers."""
    gaussian = GaussianCopy(np.array([5.0]), np.array([1.0]), np.array([0.0]))
    bernoulli = BernoulliCopy(np.array([0.0]), np.array([0.0]))

    equal = ObservedStacks(np.array([[[10]]]), np.full(10, 0.1))  # whose mean is rounded
    assert copy_arms(equal, "gaussian", ["red"]) == (10, 0.1, 0)
    assert not gaussian.coefficients([gaussian.environment]).any()
    assert np.isfinite(bernoulli.coefficients([sl.Bernoulli((0.0,)), sl.Bernoulli((1.0,))])).all()


def effects_of(family, environment, extensions):
    policies = {"ucb": sl.UCB1(2.0), "greedy": sl.EpsilonGreedy(0.2)}
    experiment = sl.Experiment(policies=policies, arms=2, horizon=60, replications=4, seed=8)
    runs = sl.simulate(experiment, environment)
    simulator = CopySimulator(replace(runs, environment=environment), workers=1)
    long_run = run_long(runs, family, simulator, 800)
    weighted = WeightedEffects(long_run, long_run.copy, Effort(800, 40, 32, 0))
    for count in extensions:
        weighted.extend(count)
    return weighted.effects(0.95)[0][0], simulator, long_run, weighted.drawn


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "environment"),
    [("bernoulli", sl.Bernoulli((0.7, 0.4))), ("gaussian", sl.Gaussian((1.0, 0.5)))],
)
def test_effects_equal_long_simulations_on_each_draw(family, environment):
    """They agree within five standard errors (false alarm below 1e-6)."""
    effect, simulator, long_run, drawn = effects_of(family, environment, [32])
    environments = [long_run.copy.environment, *drawn.environments]
    tasks = [(environment, range(10_000, 12_000)) for environment in environments]
    simulated = [simulator.differences(runs.rewards).ravel() for runs in simulator.run_each(tasks)]
    on_copy, on_independent = simulated[0], np.mean(simulated[1 : 1 + drawn.independent], axis=0)
    corrected = 2 * on_copy - on_independent  # without the estimated bias
    error = np.hypot(2 * effect.error, corrected.std() / np.sqrt(corrected.size))

    assert abs(effect.effect - corrected.mean()) < 5 * error
    means = np.mean(simulated[1:], axis=1)
    ends = ends_of_draws(means[: drawn.independent], means[drawn.independent :], 0.95)
    assert effect.interval.low - 5 * error < ends[0] < effect.effect < ends[1]
    assert ends[1] < effect.interval.high + 5 * error


@pytest.mark.slow
def test_more_simulation_gives_a_smaller_error():
    """Replications beyond the planned number are scaled down to it."""
    arms = sl.Bernoulli((0.7, 0.4))
    brief, longer = (effects_of("bernoulli", arms, [32] * many)[0] for many in (1, 16))

    assert longer.error < brief.error
    assert abs(longer.effect - brief.effect) < 5 * brief.error


def test_more_draws_have_fewer_replications_each():
    """Each replication is weighted on every draw, so the time grows with the product."""
    usual, higher = (
        checked_effort(0.95, 20_000, None, None),
        checked_effort(0.999, 20_000, None, None),
    )

    assert (usual.draws, usual.weighted) == (200, 64)
    assert (higher.draws, higher.weighted, higher.draw_replications) == (4_000, 20, 64)
    assert checked_effort(0.999, 20_000, None, 100).weighted == 100


class PlaysTheWinner:
    """Repeats an arm that has just paid, otherwise plays the other arm; starts with either."""

    def __init__(self, seed):
        self.arm = seed % 2

    def select(self, period):
        return self.arm

    def update(self, arm, reward):
        self.arm = arm if reward else 1 - arm


class StaysWithOne(PlaysTheWinner):
    """Plays the first arm until it has failed twice, then the second."""

    def __init__(self, seed):
        self.arm, self.failures = 0, 0

    def update(self, arm, reward):
        self.failures += 1 - reward
        self.arm = int(self.failures >= 2)


def exact_reward(make, means, horizon):
    """Return the expected reward, from all tables of rewards and both seeds."""
    expected = 0.0
    for table in itertools.product((0, 1), repeat=2 * horizon):
        stacks = [table[:horizon], table[horizon:]]
        probability = math.prod(
            mean if paid else 1 - mean
            for mean, stack in zip(means, stacks, strict=True)
            for paid in stack
        )
        for seed in (0, 1):
            policy, depths = make(seed), [0, 0]
            for period in range(1, horizon + 1):
                arm = policy.select(period)
                reward = stacks[arm][depths[arm]]
                depths[arm] += 1
                expected += probability * reward / 2
                policy.update(arm, reward)
    return expected


@pytest.mark.slow
@pytest.mark.parametrize("design", ["replay", "naive"])
def test_effects_of_objects_are_the_exact_expectations(design):
    """All tables of rewards over four periods are enumerated; agreement within five standard errors."""
    makers = {"winner": PlaysTheWinner, "one": StaysWithOne}
    policies = {name: f"external({name})" for name in makers}
    whole = sl.Experiment(
        policies=policies, arms=2, horizon=4, replications=3, design=design, seed=1
    )
    runs = sl.simulate(whole, sl.Bernoulli((0.7, 0.2)), makers=makers, workers=1)
    simulator = CopySimulator(runs, workers=1, makers=makers)
    long_run = run_long(runs, None, simulator, 1_000)
    weighted = WeightedEffects(long_run, long_run.copy, Effort(1_000, 20, 50, 0))
    weighted.extend(50)
    effect = weighted.effects(0.95)[0][0]

    on_copy, *exact = [
        exact_reward(StaysWithOne, environment.means, 4)
        - exact_reward(PlaysTheWinner, environment.means, 4)
        for environment in [long_run.copy.environment, *weighted.drawn.environments]
    ]
    assert max(exact) - min(exact) > 10 * effect.error
    independent, tied = np.split(np.array(exact), [weighted.drawn.independent])
    ends, margin = ends_of_draws(independent, tied, 0.95), stats.norm.ppf(0.975) * effect.error
    corrected = 2 * on_copy - independent.mean()
    assert abs(effect.effect - corrected) < 5 * effect.error
    assert effect.interval.low + margin == pytest.approx(ends[0], abs=7 * effect.error)
    assert effect.interval.high - margin == pytest.approx(ends[1], abs=7 * effect.error)


@pytest.mark.parametrize("family", ["bernoulli", "gaussian", "empirical"])
def test_equal_arms_have_the_effect_0_exactly(family):
    """Draws with all arms tied are among the draws, and their effect has no simulation error."""
    policies = {"uniform": sl.Uniform(), "ucb": sl.UCB1(0.5)}
    experiment = sl.Experiment(policies=policies, arms=3, horizon=60, replications=2, seed=2)
    arms = sl.Bernoulli([0.5] * 3) if family == "bernoulli" else sl.Gaussian([1.0] * 3)
    runs = sl.simulate(experiment, arms)
    twin = sl.twin(runs, family=family, replications=200, draws=40, draw_replications=20)
    (effect,) = twin.effects

    assert twin.admits_equal_arms
    assert min(abs(effect.low), abs(effect.high)) == 0 or effect.low < 0 < effect.high
    assert not effect.shows_difference


def test_many_checkpoints_leave_out_the_pulls(monkeypatch):
    """Rewards alone estimate the same effects, with a larger error."""
    arms = sl.Bernoulli((0.7, 0.4))
    usual = effects_of("bernoulli", arms, [32])[0]
    monkeypatch.setattr("sameluck.inference.twins.draws.MAX_COLUMNS", 1)
    without = effects_of("bernoulli", arms, [32])[0]

    assert without != usual
    assert abs(without.effect - usual.effect) < 5 * (without.error + usual.error)


def test_draws_that_use_up_the_long_run_have_an_interval():
    """Empirical draws share the long run's random numbers: where those are used up, nothing more is simulated."""
    policies = {"a": sl.UCB1(20.0), "b": sl.EpsilonGreedy(0.1)}
    experiment = sl.Experiment(policies=policies, arms=2, horizon=60, replications=2, seed=1)
    runs = sl.simulate(experiment, sl.Empirical([[1, 2, 3, 4, 5], [1, 2, 2, 3, 5]]))
    (effect,) = sl.twin(runs, replications=200, draws=20, draw_replications=200).effects

    assert effect.low <= effect.effect < effect.high
