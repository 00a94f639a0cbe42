"""A tournament among many arms gives the very arms that a loop over all arms gives: equal, not close."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import budget
import literal
import sameluck as sl
from sameluck.live.engine.walker import CompiledWalker, PreparedPolicy, empty_results
from sameluck.policies import base
from sameluck.policies.fast import tournament
from sameluck.policies.fast.tournament import MANY_ARMS
from sameluck.simulation.plain_runner import PlainRunner
from sameluck.simulation.runners.compiled_runner import CompiledRunner

POLICIES = [
    sl.UCB1(),
    sl.UCB1(0.02),
    sl.UCBDelta(delta=0.1),
    sl.EpsilonGreedy(0.2),
    sl.EpsilonGreedy(0.2, "others"),
]
TWO_VALUED = ((0.0, 1.0), (0.0, 1.0, 1.0), (0.0, 0.0, 1.0))
# What the arms pay: ties in every period, no ties, sums that round, bounds that differ by rounding alone.
REWARDS = [
    TWO_VALUED,
    ((1.0,),),
    ((0.0,), (1.0,)),
    ((0.1, 0.2, 0.3), (0.3, 0.2, 0.1)),
    ((-1.3, 0.4, 0.9001, 2.2), (0.5, 0.6, 0.7)),
    ((1e-20, 2e-20, 1.0), (1.0, 1.0 + 2**-52)),
    ((-1e9, 1e9), (1e9, 1e-9)),
]
SCALES = (0.0, 1e-300, 1e-9, 0.02, 0.5, 2.0, 30.0, 1e9, 1e16, 1e22, 1e30)


def paying(arms, pools, seed=budget.SEED):
    """An environment of many arms, each with one of a few distributions."""
    chosen = np.random.default_rng(seed).integers(len(pools), size=arms)
    return sl.Empirical(tuple(pools[pool] for pool in chosen))


def experiment_of(policy, arms, horizon, **changes):
    settings = {"policies": {"it": policy}, "replications": 2, "seed": budget.SEED, **changes}
    return sl.Experiment(arms=arms, horizon=horizon, **settings)


def runner_of(experiment, environment, *, in_tournament):
    """The policy prepared for a tournament or for a loop over all arms, whatever the number of arms."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tournament, "MANY_ARMS", 1 if in_tournament else math.inf)
        return CompiledRunner(experiment, environment, "it")


def assert_equal(one, other):
    np.testing.assert_array_equal(one.pulls, other.pulls)
    np.testing.assert_array_equal(one.rewards, other.rewards)


def assert_same_arms(policy, environment, horizon, **changes):
    """A tournament and a loop over all arms agree at a hundred checkpoints of two replications."""
    experiment = experiment_of(policy, environment.arms, horizon, **changes)
    checkpoints = np.unique(np.linspace(1, horizon, 100).astype(np.int64))
    runs = [
        runner_of(experiment, environment, in_tournament=way).run(range(2), checkpoints)
        for way in (True, False)
    ]
    assert_equal(*runs)


@pytest.mark.slow
@given(
    arms=st.sampled_from((2, 3, 7, 64, 65, 100, 128, 129, 1_000)),
    rounds=st.integers(2, 40),
    policy=st.sampled_from([sl.UCB1(scale) for scale in SCALES])
    | st.sampled_from([*POLICIES, sl.EpsilonGreedy(0.0), sl.UCBDelta(d=0.0), sl.UCBDelta(d=1e20)]),
    pools=st.sampled_from(REWARDS),
    seed=st.integers(0, 999),
)
@example(arms=1_000, rounds=12, policy=sl.UCB1(0.5), pools=TWO_VALUED, seed=1)
@example(arms=129, rounds=40, policy=sl.UCB1(1e22), pools=REWARDS[4], seed=1)
# Here the ceiling of a block must not be used: a winner of a subtree changes within the block, or a new arm leads.
@example(arms=4, rounds=14, policy=sl.UCB1(0.1), pools=TWO_VALUED, seed=585)
@example(arms=4, rounds=52, policy=sl.UCB1(0.5), pools=TWO_VALUED, seed=610)
@example(arms=7, rounds=36, policy=sl.UCB1(0.5), pools=REWARDS[4], seed=23)
@settings(max_examples=100)
def test_a_tournament_gives_the_arms_of_a_loop_over_all(arms, rounds, policy, pools, seed):
    assert_same_arms(policy, paying(arms, pools, seed), arms * rounds + 3, seed=seed)


@pytest.mark.slow
@pytest.mark.parametrize("policy", [*POLICIES, sl.UCB1(30.0), sl.UCBDelta()], ids=str)
@pytest.mark.parametrize(("arms", "horizon"), [(65, 1_000_000), (500, 100_000), (5_000, 30_000)])
def test_also_in_long_runs_and_on_the_papers_arms_repeated(policy, arms, horizon):
    """Five arms of 0 and 1 with probabilities 0.1 to 0.9, repeated: the arms tie in most periods."""
    five = [(1.0,) * ones + (0.0,) * (10 - ones) for ones in (9, 7, 5, 3, 1)]
    assert_same_arms(policy, paying(arms, five), horizon)


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES, ids=str)
@pytest.mark.parametrize("design", [sl.Replay(), sl.TimeCoupled()], ids=str)
def test_plain_python_and_the_literal_rule_give_the_same_arms(policy, design):
    """In each of 250 periods of 70 arms."""
    environment, periods = paying(70, TWO_VALUED), np.arange(1, 251)
    experiment = experiment_of(policy, 70, 250, design=design)
    runner = CompiledRunner(experiment, environment, "it")

    compiled = runner.run(range(1, 2), periods)

    assert_equal(compiled, PlainRunner(runner).run(1, periods))
    path = literal.play(experiment, environment, 1)["it"]
    counts = np.cumsum(np.eye(70, dtype=np.int64)[[arm for arm, _ in path.history]], axis=0)
    np.testing.assert_array_equal(compiled.pulls[0], counts)


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_a_batch_of_one_among_many_arms_is_the_policy_itself(policy):
    environment, checkpoints = paying(70, TWO_VALUED), np.arange(10, 1_001, 10)
    runs = [
        CompiledRunner(experiment_of(variant, 70, 1_000), environment, "it").run(
            range(2), checkpoints
        )
        for variant in (policy, sl.Batched(policy, 1))
    ]
    assert_equal(*runs)


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_a_live_policy_plays_the_same_arms(policy):
    """Its rewards arrive one at a time."""
    environment = paying(70, TWO_VALUED)
    experiment = experiment_of(policy, 70, 400)
    simulated = sl.trace(experiment, environment)["it"]
    settled = dict(
        zip(
            zip(simulated.arms.tolist(), simulated.positions.tolist(), strict=True),
            simulated.rewards.tolist(),
            strict=True,
        )
    )
    results = empty_results(experiment, trajectory=True)
    prepared = base.prepare(policy, 70, 400)
    live = PreparedPolicy(experiment, "it", prepared, base.memory_of(prepared, 70), batch=1)
    walker = CompiledWalker(live, 0, None, results)

    walker.advance()
    while entries := walker.next_entries():
        for arm, position in entries:
            walker.push(arm, [settled[arm, position]])
        walker.advance()

    np.testing.assert_array_equal(results.trajectory.arms, simulated.arms)


def test_more_than_64_arms_meet_in_a_tournament_of_bounded_memory():
    for policy, per_arm in ((sl.UCB1(), 8), (sl.UCBDelta(), 8), (sl.EpsilonGreedy(), 1)):
        loop, tree = (base.prepare(policy, MANY_ARMS + more, 100) for more in (0, 1))
        assert type(loop) is not type(tree)
        assert base.memory_of(loop, MANY_ARMS) <= 1
        assert base.memory_of(tree, 10_000) == per_arm * 10_000


# --- how long a winner is certain ---------------------------------------------------------------------------------


def bound(arm, growth):
    return arm.mean + growth * arm.width


@pytest.mark.slow
def test_a_winner_wins_as_long_as_it_is_certain():
    """Pairs of arms with bounds that differ by a few units in the last place, or cross near: 4,000 of them."""
    rng = np.random.default_rng(budget.SEED)
    lasting = 0
    for _ in range(4_000):
        now = np.sqrt(np.log(rng.integers(2, 10**6)))
        low_mean, low_width = rng.normal() * 10.0 ** rng.integers(-9, 4), rng.random()
        factor = 1.0 + rng.choice([0.0, 1.0, -1.0]) * 2.0 ** -rng.integers(1, 54)
        high_width = low_width * factor
        near = low_mean + now * (low_width - high_width)  # equal bounds now, but for rounding
        high_mean = near + rng.integers(-4, 5) * np.spacing(near) * 4.0 ** rng.integers(0, 20)
        low = tournament._Winner(1.0, low_mean, low_width, np.inf)
        high = tournament._Winner(2.0, high_mean, high_width, np.inf)
        best, other = (high, low) if bound(high, now) > bound(low, now) else (low, high)

        winner = tournament._compared(*((low, high) if rng.random() < 0.5 else (high, low)), now)

        assert winner.arm == best.arm
        assert winner.until >= now
        lasting += winner.until > now
        last = min(winner.until, 1e6)
        growths = np.append(np.linspace(now, last, 100), np.nextafter(last, now))
        ahead, behind = bound(best, growths), bound(other, growths)
        assert ((ahead > behind) | ((ahead == behind) & (best.arm < other.arm))).all()
    assert lasting > 1_000


def test_exact_ties_are_certain_for_ever():
    one, other = (tournament._Winner(float(arm), 0.1, 0.3, np.inf) for arm in (3, 7))
    for pair in ((one, other), (other, one)):
        assert tournament._compared(*pair, 1.5) == one
