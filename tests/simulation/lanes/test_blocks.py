"""Replications in lanes give the bits of replications one after another."""

from typing import NamedTuple

import numpy as np
import pytest

import cases
import sameluck as sl
from budget import SEED
from sameluck.environments.registry import as_environment
from sameluck.randomness.samplers import exponential, uniform
from sameluck.randomness.streams import at
from sameluck.simulation import policy_runner
from sameluck.simulation.policy_runner import PolicyRunner
from sameluck.simulation.tasks import Work, split

CHECKPOINTS = np.array([1, 7, 60])
SOME = range(3, 40)  # a block and a part of one
ENVIRONMENTS = [many[0] for many in cases.environment_examples(3).values()]
# Every policy with one environment, and every environment with one policy: each pair of classes is compiled.
PAIRS = [(policy, ENVIRONMENTS[0]) for policy in cases.POLICIES_EVERYWHERE]
PAIRS += [(sl.UCB1(2), environment) for environment in ENVIRONMENTS[1:]]
EVERY = [
    pytest.param(*pair, id=f"{cases.name(pair[0])}-{cases.name(pair[1])[:20]}")
    for pair in PAIRS
    if cases.fits(*pair)
]


# Of the other policies, those whose bodies can be rewritten; the rest run one replication after another.
LIFTED = (
    sl.MOSS,
    sl.KLUCBGaussian,
    sl.IMED,
    sl.ExploreThenCommit,
    sl.ThompsonPoisson,
    sl.DecreasingEpsilonGreedy,
    sl.Softmax,
)


def runner_of(policy, environment="bernoulli(0.3, 0.5, 0.6)", arms=3):
    experiment = sl.Experiment(
        policies={"it": policy}, arms=arms, horizon=60, replications=40, seed=SEED
    )
    environment = as_environment(environment) if isinstance(environment, str) else environment
    return PolicyRunner(experiment, environment, "it")


def assert_equal(one, other):
    np.testing.assert_array_equal(one.rewards, other.rewards)
    np.testing.assert_array_equal(one.pulls, other.pulls)


@pytest.mark.slow
@pytest.mark.parametrize(("policy", "environment"), EVERY)
def test_lanes_give_the_bits_of_one_after_another(policy, environment):
    runner = runner_of(policy, environment)

    lanes = runner._in_lanes(SOME, CHECKPOINTS)

    if isinstance(policy, sl.Batched):
        assert lanes is None, "the docs say that a batched policy runs one replication at a time"
    else:
        assert_equal(lanes, runner._one_by_one(SOME, CHECKPOINTS, None))


@pytest.mark.slow
@pytest.mark.parametrize("policy", cases.FIRST_OF_OTHERS, ids=cases.name)
def test_every_other_policy_gives_the_same_bits_in_lanes_or_runs_one_after_another(policy):
    runner = runner_of(policy)

    lanes = runner._in_lanes(SOME, CHECKPOINTS)

    assert (lanes is not None) is isinstance(policy, LIFTED)
    if lanes is not None:
        assert_equal(lanes, runner._one_by_one(SOME, CHECKPOINTS, None))


@pytest.mark.slow
@pytest.mark.parametrize("policy", [sl.UCB1(), sl.EpsilonGreedy(0.2, "others")])
def test_many_arms_are_gathered(policy):
    runner = runner_of(policy, sl.Bernoulli(tuple(np.linspace(0.1, 0.9, 20))), arms=20)

    assert_equal(runner._in_lanes(SOME, CHECKPOINTS), runner._one_by_one(SOME, CHECKPOINTS, None))


class Remembering(NamedTuple):
    decay: float = 0.5


@sl.selects(Remembering)
def _remember(policy, tally, period, luck):
    # Memory by lane and by arm, a branch on luck, a read by lane.
    arms = tally.pulls.size
    if period <= arms:
        return period - 1
    tally.memory[tally.last] = policy.decay * tally.memory[tally.last] + tally.reward
    if uniform(at(luck, period, 0)) < 0.1:
        tally.memory[arms] = tally.memory[arms] + 1
        return int(uniform(at(luck, period, 1)) * arms)
    best = 0
    for arm in range(1, arms):
        if tally.memory[arm] > tally.memory[best]:
            best = arm
    return best


Remembering.memory = lambda self, arms: arms + 1


class Waiting(NamedTuple):
    means: tuple[float, ...] = (0.5, 1.0)


@sl.draws(Waiting)
def _wait(law, row, arm, bits):
    return law.means[arm] * exponential(bits)


class Guarded(NamedTuple):
    """Its table has an entry for the first 30 pulls only."""

    def prepare(self, arms, horizon):
        return _Guarded(np.arange(30.0))


class _Guarded(NamedTuple):
    table: np.ndarray


@sl.selects(_Guarded)
def _guard(policy, tally, period, luck):
    best, highest = 0, -1.0
    for arm in range(tally.pulls.size):
        score = 40.0
        if tally.pulls[arm] < 30:
            score = policy.table[tally.pulls[arm]]
        if score > highest:
            best, highest = arm, score
    return best


class Careless(NamedTuple):
    """Chooses an arm that does not exist, late and in some replications only."""


@sl.selects(Careless)
def _careless(policy, tally, period, luck):
    return 3 if tally.totals[0] > 20 else 0


@pytest.mark.slow
def test_own_bodies_run_in_lanes_or_fall_back_with_the_same_bits(monkeypatch):
    monkeypatch.setattr("sameluck.simulation.lanes.blocks.is_fast", lambda: True)
    monkeypatch.setattr(policy_runner, "_LEAST_STEPS_IN_LANES", {True: 0, False: 0})
    environment = Waiting((0.5, 1.0, 0.8))
    for policy, lifts in ((Remembering(), True), (Guarded(), False)):
        runner = runner_of(policy, environment)
        assert (runner._in_lanes(SOME, CHECKPOINTS) is not None) is lifts
        assert runner._lanes_agree is lifts
        expected = runner._one_by_one(SOME, CHECKPOINTS, None)
        assert_equal(runner.run(SOME, CHECKPOINTS), expected)


@pytest.mark.slow
def test_an_error_in_lanes_is_the_error_of_one_after_another(monkeypatch):
    monkeypatch.setattr("sameluck.simulation.lanes.blocks.is_fast", lambda: True)
    monkeypatch.setattr(policy_runner, "_LEAST_STEPS_IN_LANES", {True: 0, False: 0})
    runner = runner_of(Careless())

    with pytest.raises(sl.Invalid, match=r"outside 0\.\.2 in period \d+ of replication \d+"):
        runner.run(SOME, CHECKPOINTS)


@pytest.mark.slow
def test_results_do_not_depend_on_lanes_workers_or_processor(monkeypatch):
    experiment = sl.Experiment(
        policies={"a": "ucb1", "b": "epsilon_greedy"}, arms=2, horizon=50, replications=150, seed=2
    )
    plain = sl.simulate(experiment, "bernoulli(0.6, 0.4)", checkpoints=[10, 50])
    monkeypatch.setattr(policy_runner, "_LEAST_STEPS_IN_LANES", {True: 0, False: 0})
    for fast in (True, False):
        monkeypatch.setattr("sameluck.simulation.lanes.blocks.is_fast", lambda fast=fast: fast)
        for workers in (1, 2):
            runs = sl.simulate(
                experiment, "bernoulli(0.6, 0.4)", checkpoints=[10, 50], workers=workers
            )
            assert_equal(runs, plain)
            np.testing.assert_array_equal(runs.interactions, plain.interactions)


@pytest.mark.parametrize("workers", [1, 2, 64])
@pytest.mark.parametrize("count", [1, 16, 33, 100, 129, 1000, 10_007])
def test_tasks_are_whole_blocks_and_cover_every_replication(workers, count):

    experiment = sl.Experiment(
        policies={"a": "ucb1", "b": "uniform"}, arms=2, horizon=1000, replications=count
    )
    work = Work(experiment, None, np.array([1000]), range(count))
    tasks = split(work, workers, 1.0)

    for name in ("a", "b"):
        covered = [n for task in tasks if task.policies == (name,) for n in task.replications]
        assert covered == list(range(count))
    sizes = [len(task.replications) for task in tasks if task.policies == ("a",)]
    assert all(size % 32 == 0 for size in sizes[:-1]) or max(sizes) <= 16
    assert min(sizes) * 2 >= max(sizes[:1])
