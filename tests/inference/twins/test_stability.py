"""Stationary arms are rejected at the size of the test; arms that change are rejected."""

import numpy as np
import pytest
from scipy import stats

import sameluck as sl
from budget import assert_count, assert_distribution
from nonempty import nonempty
from sameluck.inference.twins.observed_rewards import ObservedStacks
from sameluck.inference.twins.simulations import CopySimulator, run_long
from sameluck.inference.twins.stability import check_stability, sample_statistics


def stability_results(change, experiments, replications, seed):
    """Test whether the arms of some experiments are stationary, after `change(stacks)`."""
    results = []
    for number in range(experiments):
        experiment = sl.Experiment(
            policies={"a": sl.UCB1(0.5), "b": sl.EpsilonGreedy(0.1)},
            arms=2,
            horizon=80,
            replications=replications,
            seed=seed + number,
        )
        runs = sl.simulate(experiment, sl.Bernoulli([0.7, 0.5]), workers=1)
        simulator = CopySimulator(runs, workers=1)
        long_run = run_long(runs, None, simulator, 500)
        stacks = change(long_run.stacks)
        results.append(check_stability(stacks, long_run.runs, simulator.generator(0)))
    return results


@pytest.mark.slow
@pytest.mark.parametrize("replications", [1, 6])
def test_size(replications):
    """A test that rejects 2 or fewer of 400 experiments fails, as does one that rejects 45 or more of them.

    P-values are uniform: a test that is too careful, or too bold, shows long before it never or always rejects.
    """
    results = stability_results(lambda stacks: stacks, 400, replications, 10)

    assert_count(sum(result.rejected for result in results), 400, 0.05)
    assert_distribution([result.trend for result in results], stats.uniform.cdf, looks=2)
    if replications > 1:
        assert_distribution(
            [result.heterogeneity for result in results], stats.uniform.cdf, looks=2
        )


def test_equal_rewards_show_nothing():
    """Of 0.1, whose sums are rounded."""
    depths = np.array([[[40, 7]], [[3, 90]]])
    for statistic in nonempty(
        sample_statistics(ObservedStacks(depths, np.full(140, 0.1)).moments(), np.eye(2, dtype=int))
    ):
        assert not statistic.any()


def test_a_change_is_found():
    """The last replications pay nothing at all."""

    def change(stacks):
        values = stacks.values.copy()
        values[-stacks.depths[3:].sum() :] = 0
        return stacks._replace(values=values)

    assert all(result.rejected for result in stability_results(change, 3, 6, 10))


def test_a_trend_is_found():
    """The first half of every stack pays nothing."""

    def change(stacks):
        values = stacks.values.copy()
        depths = stacks.depths.ravel()
        position = np.arange(values.size) - np.repeat(np.cumsum(depths) - depths, depths)
        values[position < np.repeat(depths // 2, depths)] = 0
        return stacks._replace(values=values)

    assert all(result.rejected for result in stability_results(change, 3, 4, 10))
