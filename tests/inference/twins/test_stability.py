"""Arms that stand still pass at the level; arms that change do not."""

import numpy as np
import pytest

import sameluck as sl
from budget import assert_count
from sameluck.inference.twins.observed_rewards import ObservedStacks
from sameluck.inference.twins.simulations import CopySimulator, run_long
from sameluck.inference.twins.stability import _statistics, check_stability


def stability(values_of, experiments, replications, seed):
    """How often the ledger of an experiment is rejected; `values_of(stacks)` changes its rewards."""
    rejected = 0
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
        stacks = values_of(long_run.stacks)
        rejected += check_stability(stacks, long_run.runs, simulator.generator(0)).rejected
    return rejected


@pytest.mark.slow
@pytest.mark.parametrize("replications", [1, 6])
def test_size(replications):
    """At the 5% level, with Bonferroni a little below; far less than a test that knows nothing of bandits."""
    rejected = stability(lambda stacks: stacks, 100, replications, 10)

    assert_count(max(rejected, 5), 100, 0.05)


def test_equal_rewards_show_nothing():
    """Of 0.1, whose sums are rounded."""
    depths = np.array([[[40, 7]], [[3, 90]]])
    for statistic in _statistics(
        ObservedStacks(depths, np.full(140, 0.1)).moments(), np.eye(2, dtype=int)
    ):
        assert not statistic.any()


def test_a_change_is_found():
    """The last replications pay nothing at all."""

    def change(stacks):
        values = stacks.values.copy()
        values[-stacks.depths[3:].sum() :] = 0
        return stacks._replace(values=values)

    assert stability(change, 3, 6, 10) == 3


def test_a_trend_is_found():
    """The first half of every stack pays nothing."""

    def change(stacks):
        values = stacks.values.copy()
        depths = stacks.depths.ravel()
        position = np.arange(values.size) - np.repeat(np.cumsum(depths) - depths, depths)
        values[position < np.repeat(depths // 2, depths)] = 0
        return stacks._replace(values=values)

    assert stability(change, 3, 4, 10) == 3
