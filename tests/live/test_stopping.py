"""Stopping early: what is biased, what is not, and the level of the anytime interval of the complete prefix.

If every reward comes before the next user, users fill one replication after the other, in both orders: the runs of a
simulation say what a live experiment has when a user arrives. The first test compares them with live experiments, the
others emulate ways to stop. Every statistical check raises a false alarm with probability at most 1e-6.
"""

import numpy as np
import pytest
from contract.scenario import Scenario, assert_same, options, simulated
from scipy import stats

import budget
import sameluck as sl
from sameluck.intervals import anytime_half_widths, t_critical
from sameluck.live.options import ORDERS

LEVEL = 0.95
FAR = 10.0  # standard errors


def passed_at(runs, order):
    """The user at whom both policies have passed a period, by replication and period; every period is a checkpoint.

    In lock-step all users so far are those that both need until then. In phase order the first policy takes one user
    per period, and the second one follows on these rewards; it takes users when the first has reached the horizon.
    """
    results = runs.interactions
    if order == "phase":
        leading, following = runs.pulls[:, 0], runs.pulls[:, 1]
        entries = np.all(following[:, :, None] <= leading[:, None], axis=-1)
        entries &= np.triu(np.ones(entries.shape[1:], bool))  # the first has passed it too
        later = np.maximum(leading[:, -1:], following).sum(axis=-1)
        results = np.where(entries.any(axis=-1), entries.argmax(axis=-1) + 1, later)
    whole = runs.interactions[:, -1:]
    return np.cumsum(whole, axis=0) - whole + results


@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("open_at_once", [1, 3])
def test_simulated_runs_say_what_is_complete_when_a_user_arrives(order, open_at_once):
    scenario = Scenario(lambda clock: sl.open("sqlite://", clock=clock))
    live = scenario.start(
        replications=6, options=options(order=order, open_replications=open_at_once)
    )
    horizon = live.experiment.horizon
    passed = passed_at(simulated(live.experiment, checkpoints=range(1, horizon + 1)), order)

    for user in range(1, 41):
        scenario.serve(live)
        begun = min(6, np.sum(passed[:, -1] <= user) + open_at_once)
        assert (live.status().users, live.status().opened) == (user, begun)
        for period in (3, 6, horizon):
            complete = live.runs([period]).replications
            assert complete == np.sum(passed[:, period - 1] <= user)
    live.stop()
    scenario.finish(live)
    assert_same(live.runs(), simulated(live.experiment), begun)
    scenario.close()


def simulate_experiments(policies, environment, *, horizon, replications, experiments):
    """Differences of two policies and users of each replication, by experiment and replication."""
    experiment = sl.Experiment(
        policies=policies,
        arms=environment.arms,
        horizon=horizon,
        replications=replications * experiments,
        seed=budget.SEED,
    )
    runs = sl.simulate(experiment, environment)
    shape = (experiments, replications)
    return np.diff(runs.rewards[:, :, -1]).reshape(shape), runs.interactions.reshape(shape)


def test_the_mean_is_biased_by_a_plain_stop_and_not_by_a_number_chosen_beforehand():
    """All arms are equal, so every effect is 0. Where greedy loses more it also needs more users.

    Stopped at user 100, an experiment has begun one replication or two: it is off by 0.6, 15 standard errors; over
    the first two an error of 0.15 would be seen.
    """
    policies = {"greedy": sl.EpsilonGreedy(epsilon=0.0), "ucb": sl.UCB1(alpha=2.0)}
    differences, users = simulate_experiments(
        policies, sl.Gaussian([0.0, 0.0]), horizon=70, replications=2, experiments=30_000
    )
    complete = np.sum(np.cumsum(users, axis=1) <= 100, axis=1)
    plain = np.where(complete == 0, differences[:, 0], differences.mean(axis=1))
    z = np.mean(plain) / budget.standard_error(plain)

    assert set(complete) == {0, 1}
    assert z > FAR, f"stopping at a user should be biased: {np.mean(plain)}, z = {z:.1f}"
    budget.assert_mean(differences.mean(axis=1), 0.0)


MOST = 40  # replications
CASES = {
    "equal arms": ({"greedy": sl.EpsilonGreedy(epsilon=0.0), "ucb": sl.UCB1(2.0)}, (0.0, 0.0)),
    "a small effect": ({"ucb": sl.UCB1(2.0), "thompson": sl.ThompsonGaussian()}, (0.0, 0.5)),
    "a large effect": ({"ucb": sl.UCB1(2.0), "uniform": sl.Uniform()}, (0.0, 0.3)),
}


def rules(differences, users, half_widths):
    """The replications that results use, one number per experiment, under each way to stop."""
    counts = np.arange(1, MOST + 1)
    excludes_zero = np.abs(np.cumsum(differences, axis=1) / counts) >= half_widths
    passed = np.cumsum(users, axis=1)
    at_user = np.sum(passed <= 1_000, axis=1)
    looks = np.diff((passed - 1) // 200, append=1_000_000) > 0  # prefixes at users 200, 400, ...
    return {
        "when the interval excludes 0": first(excludes_zero),
        "at once at a user": at_user,
        "at a user, drained": at_user + 1,
        "at a look after every 200 users": first(looks & excludes_zero),
    }


def first(marks):
    """The number of the first marked replication, the last one if none is marked."""
    return np.where(marks.any(axis=1), marks.argmax(axis=1) + 1, MOST)


def misses(differences, half_widths, truth, stopped):
    rows = np.arange(len(stopped))
    means = np.cumsum(differences, axis=1)[rows, stopped - 1] / stopped
    return int(np.sum(np.abs(means - truth) >= half_widths[rows, stopped - 1]))


def t_half_widths(differences):
    counts = np.arange(2, MOST + 1)
    errors = [differences[:, :count].std(axis=1, ddof=1) / np.sqrt(count) for count in counts]
    half = np.transpose(errors) * [t_critical(count - 1, LEVEL) for count in counts]
    return np.insert(half, 0, np.inf, axis=1)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_the_anytime_interval_keeps_its_level_however_an_experiment_is_stopped(case):
    """2,000 experiments each: more than 7.5% misses instead of at most 5 would be seen; t at a look misses more."""
    policies, means = CASES[case]
    differences, users = simulate_experiments(
        policies, sl.Gaussian(means), horizon=50, replications=MOST, experiments=2_000
    )
    truth = 0.0 if len(set(means)) == 1 else differences.mean()
    half = np.array([anytime_half_widths(row, LEVEL) for row in differences])

    stopped = rules(differences, users, half)
    for rule, numbers in stopped.items():
        count = misses(differences, half, truth, numbers)
        p_value = stats.binom.sf(count - 1, 2_000, 1 - LEVEL)
        assert p_value > budget.ALARM / len(stopped) / len(CASES), f"{rule}: {count} of 2,000"
    if truth == 0:
        t_half = t_half_widths(differences)
        peeking = rules(differences, users, t_half)["when the interval excludes 0"]
        assert misses(differences, t_half, truth, peeking) > 0.2 * 2_000
