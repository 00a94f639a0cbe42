"""A fast version of `benchmarks/twin.py`: few experiments of short horizons, simulated briefly.

Rates include the error of a brief simulation. A bound is exceeded with probability at most 1e-6 if the true rate of
misses is 10%, twice the nominal rate; a rate of 70% is detected with probability above 0.95.
"""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import sameluck as sl
from budget import ALARM, SEED
from sameluck.inference.twins.simulations import CopySimulator, Effort, run_long
from sameluck.inference.twins.stability import check_stability

SOURCE = Path(__file__).parents[3] / "benchmarks" / "twin.py"
spec = importlib.util.spec_from_file_location("twin_benchmark", SOURCE)
benchmark = importlib.util.module_from_spec(spec)
spec.loader.exec_module(benchmark)

pytestmark = pytest.mark.slow

EXPERIMENTS = 25
EFFORT = Effort(500, 30, 48, 0)
UCBS = {"low": sl.UCB1(0.5), "high": sl.UCB1(3.0)}
BOLD = {"safe": sl.UCB1(2.0), "bold": sl.UCB1(0.05)}


def measured(policies, means, horizon, count):
    case = benchmark.Case(policies, sl.Bernoulli(means), horizon)
    true = benchmark.truth(case, 20_000)
    first = 1_000 * SEED
    return [
        benchmark.measure(case, count, first + number, EFFORT, true)
        for number in range(EXPERIMENTS)
    ]


@pytest.mark.parametrize("count", [1, 5])
def test_intervals_cover(count):
    rows = measured(UCBS, (0.8, 0.6, 0.3), 60, count)

    for name in ("copy", "mean"):
        misses = sum(row[name][0] for row in rows)
        assert stats.binom.sf(misses - 1, EXPERIMENTS, 0.1) > ALARM, name
    assert sum(row["outside"] for row in rows) <= 10  # of 25 at 5%: 1e-7
    assert not any(row["flagged"] for row in rows)
    # The effect on the copy is far more precise than the interval around the mean.
    widths = [np.median([row[name][1] for row in rows]) for name in ("copy", "mean")]
    assert widths[0] < widths[1]


@pytest.mark.parametrize("arms", [2, 10])
def test_intervals_cover_the_effect_0_of_equal_arms(arms):
    """Draws without ties miss in every experiment, because they never have equal arms."""
    policies = {"uniform": sl.Uniform(), "ucb": sl.UCB1(0.5)}
    rows = measured(policies, (0.4,) * arms, 60, 1)
    misses = sum(row["copy"][0] for row in rows)

    assert stats.binom.sf(misses - 1, EXPERIMENTS, 0.1) > ALARM


def test_failures_that_were_not_met_are_flagged():
    """Nearly every experiment of one replication flags failures, and hardly any has met one."""
    rows = measured(BOLD, (0.9, 0.5), 300, 1)

    assert sum(row["flagged"] for row in rows) >= 22
    assert sum(row["met"] > 0 for row in rows) <= 9


def test_a_falling_arm_is_rejected_and_a_stationary_arm_is_not():
    """The best arm falls by 0.3 in each of eight replications."""

    def rejected(fall, number):
        runs = benchmark.drifting_runs(8, fall, number, horizon=400)
        simulator = CopySimulator(runs, workers=1)
        long_run = run_long(runs, None, simulator, 500)
        return check_stability(long_run.stacks, long_run.runs, simulator.generator(0)).rejected

    assert all(rejected(0.3, number) for number in range(3))
    assert sum(rejected(0.0, number) for number in range(3)) <= 2
