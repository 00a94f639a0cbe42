"""Every environment of `laws` has its law, and pays the same compiled and in plain Python."""

import numpy as np
import pytest

import cases
import sameluck as sl
from budget import SEED, assert_distribution, assert_probabilities
from distributions import DISTRIBUTIONS, ZERO
from nonempty import nonempty
from sameluck.environments.base import draw
from sameluck.simulation.plain_runner import PlainRunner
from sameluck.simulation.rewards import RewardSource, bits_at
from sameluck.simulation.runners.compiled_runner import CompiledRunner

EVERY = pytest.mark.parametrize("environment", DISTRIBUTIONS, ids=cases.name)
DRAWS = 20_000


def experiment_of(horizon):
    return sl.Experiment(
        policies={"it": sl.Uniform()}, arms=3, horizon=horizon, replications=40, seed=SEED
    )


def test_no_environment_is_left_out():
    """One that is added needs its law here, or examples in `cases`, which pair it with every policy."""
    covered = {type(environment) for environment in DISTRIBUTIONS} | {
        *cases.environment_examples(3)
    }
    assert covered == {*cases.ENVIRONMENT_CLASSES}


def assert_discrete(sample, law):
    counts = np.bincount(sample.astype(int))
    chances = law.pmf(np.arange(counts.size))
    chances[-1] = law.sf(counts.size - 2)
    possible = chances > 0

    assert (sample == sample.astype(int)).all()
    assert not counts[~possible].any()
    if np.count_nonzero(possible) > 1:
        assert_probabilities(counts[possible], chances[possible], looks=3 * len(DISTRIBUTIONS))


def assert_continuous(sample, law):
    zero = sample == 0
    sample[zero] = np.linspace(*ZERO.support(), zero.sum())
    assert_distribution(sample, law.cdf, looks=3 * len(DISTRIBUTIONS))


@pytest.mark.slow
@EVERY
def test_it_has_its_law(environment):
    """KS or chi-square of 20,000 rewards of each arm, false alarm 1e-6 in all; the means are exact."""
    source = RewardSource(experiment_of(DRAWS), environment, "it", range(1))
    first = environment.instance(SEED, 0, 3) if environment.is_prior else environment
    for arm, law in nonempty(enumerate(DISTRIBUTIONS[environment])):
        sample = np.array(source.draw(0, arm, 0, DRAWS))
        (assert_discrete if hasattr(law, "pmf") else assert_continuous)(sample, law)
        assert first.means[arm] == pytest.approx(law.mean(), rel=1e-10, abs=1e-9)


@EVERY
def test_its_standard_deviations_are_exact(environment):
    if not environment.is_prior and not environment.is_moving:
        expected = [law.std() for law in DISTRIBUTIONS[environment]]
        assert environment.standard_deviations == pytest.approx(expected, rel=1e-9, abs=1e-8)


def test_the_other_environments_know_their_standard_deviations():
    """Of a prior: the root of the mean variance of its instances (a million instances, within 1%)."""
    assert sl.Bernoulli((0.5, 0.1)).standard_deviations == pytest.approx([0.5, 0.3])
    assert sl.Gaussian((0.0, 1.0), (2.0, 0.5)).standard_deviations.tolist() == [2.0, 0.5]
    logged = sl.Empirical(((0.0, 1.0, 5.0), (2.0, 2.0)))
    assert logged.standard_deviations == pytest.approx([np.std([0, 1, 5]), 0])
    family = sl.ByFamily((sl.Poisson((4.0,)), logged))
    assert family.standard_deviations == pytest.approx([2, np.std([0, 1, 5]), 0])
    generator = np.random.default_rng(SEED)
    means = generator.beta(2, 3, 1_000_000)
    expected = np.sqrt((means * (1 - means)).mean())
    assert sl.BernoulliPrior(2, 3).standard_deviations == pytest.approx([expected], rel=0.01)
    assert sl.GaussianPrior(noise_sd=(1, 3)).standard_deviations.tolist() == [1, 3]
    assert sl.PoissonPrior(8, 2).standard_deviations == pytest.approx([2])


@pytest.mark.slow
@EVERY
def test_compiled_is_plain_python(environment):
    """The first rewards, bit for bit."""
    experiment = experiment_of(300)
    source = RewardSource(experiment, environment, "it", range(1))
    for arm in range(3):
        bits = [bits_at(experiment, 0, "it", arm, position) for position in range(300)]
        plain = [float(draw(source.parameters, 0, None, arm, word)) for word in bits]
        assert source.draw(0, arm, 0, 300) == plain


@pytest.mark.slow
@EVERY
def test_the_loop_is_plain_python(environment):
    """Each period, bit for bit."""
    runner = CompiledRunner(experiment_of(60), environment, "it")
    checkpoints, replications = np.arange(1, 61), range(3, 5)
    compiled = runner.run(replications, checkpoints)

    for row, replication in nonempty(enumerate(replications)):
        plain = PlainRunner(runner).run(replication, checkpoints)
        np.testing.assert_array_equal(plain.rewards[0], compiled.rewards[row])
        np.testing.assert_array_equal(plain.pulls[0], compiled.pulls[row])
