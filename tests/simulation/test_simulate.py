"""`simulate` and `trace` against the literal algorithms, and the properties that make coupling trustworthy."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from itertools import pairwise, permutations
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cases
import literal
import literal_rules
import sameluck as sl
from budget import SEED
from nonempty import nonempty
from sameluck.randomness.samplers import uniform
from sameluck.randomness.streams import at
from sameluck.simulation.plain_runner import PlainRunner
from sameluck.simulation.runners.compiled_runner import CompiledRunner
from sameluck.trajectories import empty_trajectory

BERNOULLI = sl.Bernoulli((0.25, 0.5, 0.75))
EVERY_PAIR = [
    pytest.param(policy, environment, id=f"{cases.name(policy)}-{cases.name(environment)}")
    for policy in cases.POLICIES_EVERYWHERE
    for environment in (many[0] for many in cases.environment_examples(3).values())
    if cases.fits(policy, environment)
]


def experiment_with(*policies, **changes):
    """A small experiment of the given policies."""
    named = {f"{place}: {cases.name(policy)}": policy for place, policy in enumerate(policies)}
    return sl.Experiment(
        **{"policies": named, "arms": 3, "horizon": 80, "replications": 3, "seed": SEED, **changes}
    )


def positions(history, timed):
    """Which entry of its arm's stack each period read: the policy's own pulls of that arm before it."""
    pulled = {}
    found = []
    for period, (arm, _) in enumerate(history):
        found.append(period if timed else pulled.get(arm, 0))
        pulled[arm] = pulled.get(arm, 0) + 1
    return found


def assert_same_traces(one, other):
    """Two traces are equal in every period of every policy."""
    assert list(one) == list(other)
    for policy in one:
        for ours, theirs in zip(one[policy], other[policy], strict=True):
            np.testing.assert_array_equal(ours, theirs)


def assert_same_runs(one, other):
    """Two runs are equal to the bit."""
    for name in ("checkpoints", "rewards", "pulls", "interactions"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


def assert_literal_is_traced(experiment, environment, replication):
    """The literal algorithm and `trace` agree on every arm, position, reward and mark."""
    paths = literal.play(experiment, environment, replication)
    traced = sl.trace(experiment, environment, replication)

    for name, path in paths.items():
        assert traced[name].arms.tolist() == [arm for arm, _ in path.history]
        assert traced[name].rewards.tolist() == [reward for _, reward in path.history]
        assert traced[name].replayed.tolist() == path.replayed
        timed = experiment.design.indexed_by_period
        assert traced[name].positions.tolist() == positions(path.history, timed)
    assert traced.interactions == literal.interactions(paths)


def assert_literal_is_simulated(experiment, environment):
    """The literal algorithm and `simulate` agree at every checkpoint, in one pass over the checkpoints."""
    middle = (experiment.horizon + 1) // 2
    runs = sl.simulate(experiment, environment, checkpoints=[middle, experiment.horizon])

    for replication in range(experiment.replications):
        for column, periods in enumerate(runs.checkpoints):
            paths = literal.play(experiment, environment, replication, int(periods))
            assert runs.interactions[replication, column] == literal.interactions(paths)
            for row, path in enumerate(paths.values()):
                arms = [arm for arm, _ in path.history]
                pulls = np.bincount(arms, minlength=experiment.n_arms)
                assert runs.pulls[replication, row, column].tolist() == pulls.tolist()
                earned = literal_rules.total(reward for _, reward in path.history)
                assert runs.rewards[replication, row, column] == earned


# --- equal to the paper's algorithms ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", cases.POLICY_CLASSES, ids=lambda kind: kind.__name__)
def test_every_policy_has_a_literal_twin_and_examples(kind):
    """Discovery: a policy without its plain rule in `literal_rules.py` is not tested, so it fails here."""
    assert kind in literal_rules.RULES
    assert cases.policy_examples(kind)


@pytest.mark.slow
@given(cases.comparisons())
@settings(max_examples=80)
def test_the_literal_algorithms_give_the_very_same_trajectories(case):
    """Algorithms 1 and 2 with histories, marks and the earliest match = `trace` = `simulate`, equal not close."""
    experiment, environment = case

    for replication in range(experiment.replications):
        assert_literal_is_traced(experiment, environment, replication)
    assert_literal_is_simulated(experiment, environment)


@pytest.mark.slow
@pytest.mark.parametrize("design", cases.ALL_DESIGNS, ids=cases.name)
@pytest.mark.parametrize(("policy", "environment"), EVERY_PAIR)
def test_each_policy_in_each_environment_under_each_design_is_literal(policy, environment, design):
    """Every pair by discovery, next to a policy that pulls other arms, so that some rewards are replayed."""
    experiment = experiment_with(sl.EpsilonGreedy(0.3), policy, horizon=25, design=design)

    assert_literal_is_traced(experiment, environment, 1)


@pytest.mark.slow
@pytest.mark.parametrize("policy", cases.OTHER_POLICIES, ids=cases.name)
def test_every_other_policy_is_literal_and_plain_python(policy):
    """On Bernoulli arms: compiled = literal over 200 periods, = plain Python without reading an address twice."""
    experiment, every = experiment_with(policy, horizon=200), np.arange(1, 201)
    for environment in (BERNOULLI, sl.Bernoulli((0.0, 0.5, 1.0))):
        ((name, path),) = literal.play(experiment, environment, 1).items()
        runner = CompiledRunner(experiment, environment, name)
        compiled = runner.run(range(1, 2), every)
        arms, rewards = (np.array(column) for column in zip(*path.history, strict=True))
        np.testing.assert_array_equal(compiled.pulls[0], np.cumsum(np.eye(3, dtype=int)[arms], 0))
        np.testing.assert_array_equal(compiled.rewards[0], np.cumsum(rewards))
    plain, compiled = PlainRunner(runner).run(2, every), runner.run(range(2, 3), every)
    np.testing.assert_array_equal(compiled.pulls, plain.pulls)
    np.testing.assert_array_equal(compiled.rewards, plain.rewards)


SIXTY_FOURTHS = np.random.default_rng(SEED).normal(size=(3, 40)).round(1) * 64
REWARDS = {
    "normal": (SIXTY_FOURTHS.round() / 64 + [[0.0], [0.5], [-0.25]]).tolist(),
    "bounded": (np.abs(SIXTY_FOURTHS).round() % 65 / 64).tolist(),
    "counts": np.random.default_rng(SEED).poisson([[1.0], [3.0], [2.0]], (3, 40)).tolist(),
}


@pytest.mark.slow
@pytest.mark.parametrize("rewards", REWARDS)
@pytest.mark.parametrize("policy", cases.FIRST_OF_OTHERS, ids=cases.name)
def test_a_policy_is_literal_for_other_rewards_too(policy, rewards):
    """Normal, bounded and count rewards with exact sums, in plain Python, so that nothing is compiled."""
    environment = sl.Empirical(REWARDS[rewards])
    if cases.fits(policy, environment):
        experiment = experiment_with(policy, horizon=60)
        ((name, path),) = literal.play(experiment, environment, 0).items()
        traced = empty_trajectory(60)
        runner = CompiledRunner(experiment, environment, name)
        PlainRunner(runner).run(0, np.array([60]), traced)
        assert path.history == list(zip(traced.arms.tolist(), traced.rewards.tolist(), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("design", cases.ALL_DESIGNS, ids=cases.name)
def test_long_comparisons_are_literal(design):
    """Horizon 3,000: the tuned shortcuts (tables, ceilings) have had time to go wrong.

    They are the policies' and know nothing of the design, so 1,000 periods are enough under the others.
    """
    long = {"horizon": 3_000 if design == sl.Replay() else 1_000, "design": design}
    bernoulli, gaussian = sl.Bernoulli((0.9, 0.8, 0.5)), sl.Gaussian((0.2, 0.1, 0.0))

    assert_literal_is_traced(experiment_with(sl.UCB1(2.5), sl.UCBDelta(), **long), bernoulli, 0)
    assert_literal_is_traced(experiment_with(sl.ThompsonGaussian(), sl.UCB1(), **long), gaussian, 0)
    long["horizon"] = 1_000
    assert_literal_is_traced(
        experiment_with(sl.ThompsonBernoulli(), sl.EpsilonGreedy(), **long), bernoulli, 0
    )


@pytest.mark.slow
@pytest.mark.parametrize(("policy", "environment"), EVERY_PAIR)
def test_compiled_is_plain_python(policy, environment):
    """One function, two worlds: machine code and plain Python give the same bits, and no address is read twice."""
    experiment = experiment_with(policy, sl.Uniform(), horizon=120)

    assert_same_traces(
        sl.trace(experiment, environment, 2), sl.trace(experiment, environment, 2, guard=True)
    )


@pytest.mark.slow
@given(cases.comparisons(replications=3))
@settings(max_examples=40)
def test_a_trace_is_what_simulate_played(case):
    """`trace` of each replication adds up to `simulate`: pulls, rewards and interactions."""
    experiment, environment = case
    runs = sl.simulate(experiment, environment)

    for replication in nonempty(range(experiment.replications)):
        traced = sl.trace(experiment, environment, replication)
        assert traced.interactions == runs.interactions[replication, -1]
        for place, one in nonempty(enumerate(traced.values())):
            pulls = np.bincount(one.arms, minlength=experiment.n_arms)
            np.testing.assert_array_equal(runs.pulls[replication, place, -1], pulls)
            assert runs.rewards[replication, place, -1] == literal_rules.total(one.rewards.tolist())


def test_a_trace_lists_one_record_for_each_policy_and_period():
    """`to_dicts` holds what the arrays hold, in the experiment's order of policies, periods from 1."""
    traced = sl.trace(
        experiment_with(sl.UCB1(), sl.Uniform(), horizon=30), "bernoulli(0.5, 0.4, 0.3)"
    )
    records = traced.to_dicts()

    assert len(records) == len(traced) * 30 == 60
    assert [record["period"] for record in records[:30]] == list(range(1, 31))
    assert sum(not record["replayed"] for record in records) == traced.interactions
    for name, one in traced.items():
        mine = [record for record in records if record["policy"] == name]
        assert [record["arm"] for record in mine] == one.arms.tolist()
        assert [record["position"] for record in mine] == one.positions.tolist()
        assert [record["reward"] for record in mine] == one.rewards.tolist()
    assert "real interactions" in repr(traced)


# --- what a replication costs -----------------------------------------------------------------------------------


@pytest.mark.slow
@given(cases.comparisons(designs=(sl.Replay(), sl.Replay(share_noise=True))))
def test_replay_costs_between_one_horizon_and_one_for_each_policy(case):
    """T <= interactions <= N T, and what did not come from a real user was replayed."""
    experiment, environment = case
    everywhere = range(1, experiment.horizon + 1)
    runs = sl.simulate(experiment, environment, checkpoints=everywhere)

    assert (runs.interactions >= runs.checkpoints).all()
    assert (runs.interactions <= len(runs.policies) * runs.checkpoints).all()
    most = runs.pulls.max(axis=1).sum(axis=-1)
    np.testing.assert_array_equal(runs.interactions, most)
    total = runs.interactions + runs.replayed
    assert (total == len(runs.policies) * runs.checkpoints).all()


@pytest.mark.slow
@given(cases.comparisons(designs=(sl.Naive(),)))
def test_naive_costs_one_horizon_for_each_policy(case):
    """Interactions = N T, nothing replayed."""
    experiment, environment = case
    runs = sl.simulate(experiment, environment, checkpoints=range(1, experiment.horizon + 1))

    assert (runs.interactions == len(runs.policies) * runs.checkpoints).all()
    assert (runs.replayed == 0).all()


@pytest.mark.slow
@given(cases.comparisons(designs=(sl.TimeCoupled(),)))
def test_time_coupled_costs_the_distinct_pairs_of_period_and_arm(case):
    """Policies that play the same arm in the same period share one user."""
    experiment, environment = case
    checkpoints = range(1, experiment.horizon + 1)
    runs = sl.simulate(experiment, environment, checkpoints=checkpoints)

    for replication in nonempty(range(experiment.replications)):
        traced = sl.trace(experiment, environment, replication)
        played = [one.arms.tolist() for one in traced.values()]
        together = [len(set(arms)) for arms in zip(*played, strict=True)]
        np.testing.assert_array_equal(runs.interactions[replication], np.cumsum(together))


@pytest.mark.slow
@given(cases.comparisons())
def test_pulls_add_up_to_the_periods(case):
    """Each policy pulls one arm a period, whatever the design, at every checkpoint."""
    experiment, environment = case
    runs = sl.simulate(experiment, environment, checkpoints=[1, experiment.horizon])

    assert (runs.pulls >= 0).all()
    assert (runs.pulls.sum(axis=-1) == runs.checkpoints).all()


@pytest.mark.slow
@pytest.mark.parametrize("policy", [sl.UCB1(), sl.UCBDelta(), sl.Always(2), sl.EpsilonGreedy(0.0)])
def test_twins_without_randomness_differ_by_nothing_and_cost_one_horizon(policy):
    """Identical deterministic policies under Replay: effect exactly 0, T interactions, whatever their names."""
    experiment = experiment_with(policy, policy, policy, horizon=500, replications=20)
    runs = sl.simulate(experiment, sl.Gaussian((0.3, 0.2, 0.1)))

    assert (runs.rewards == runs.rewards[:, :1]).all()
    assert (runs.interactions == 500).all()


@pytest.mark.slow
@pytest.mark.parametrize("policy", cases.ALL_POLICIES, ids=cases.name)
def test_twins_that_share_their_noise_differ_by_nothing(policy):
    """With shared decision noise that holds for every policy; without it, randomised twins do differ."""
    twins = experiment_with(policy, policy, horizon=200, replications=5)
    shared = sl.simulate(
        twins.replace(design=sl.Replay(share_noise=True)), sl.Bernoulli((0.5, 0.4, 0.3))
    )

    assert (shared.rewards[:, 0] == shared.rewards[:, 1]).all()
    assert (shared.pulls[:, 0] == shared.pulls[:, 1]).all()
    assert (shared.interactions == 200).all()


def test_randomised_twins_have_random_numbers_of_their_own():
    """Two names, two decision streams: uniform twins pull apart, and a new name gives new numbers."""
    runs = sl.simulate(
        experiment_with(sl.Uniform(), sl.Uniform(), replications=50), "bernoulli(0.5, 0.5, 0.5)"
    )

    assert (runs.pulls[:, 0] != runs.pulls[:, 1]).any(axis=-1).mean() > 0.5
    assert (runs.interactions > 80).mean() > 0.5


# --- what must not matter ---------------------------------------------------------------------------------------


@pytest.mark.slow
@given(cases.comparisons(), st.randoms(use_true_random=False))
def test_reordering_policies_permutes_the_results(case, random):
    """Random numbers are keyed by name: another order gives each policy the same bits, and the same interactions."""
    experiment, environment = case
    names = list(experiment.policies)
    random.shuffle(names)
    shuffled = experiment.replace(policies={name: experiment.policies[name] for name in names})

    before, after = sl.simulate(experiment, environment), sl.simulate(shuffled, environment)

    places = [before.policies.index(name) for name in names]
    np.testing.assert_array_equal(after.rewards, before.rewards[:, places])
    np.testing.assert_array_equal(after.pulls, before.pulls[:, places])
    np.testing.assert_array_equal(after.interactions, before.interactions)


@pytest.mark.slow
@given(cases.comparisons())
def test_a_policy_alone_does_what_it_does_in_company(case):
    """Adding or removing policies leaves the bits of the others as they are."""
    experiment, environment = case
    together = sl.simulate(experiment, environment)

    for place, (name, policy) in nonempty(enumerate(experiment.policies.items())):
        alone = sl.simulate(experiment.replace(policies={name: policy}), environment)
        np.testing.assert_array_equal(alone.rewards[:, 0], together.rewards[:, place])
        np.testing.assert_array_equal(alone.pulls[:, 0], together.pulls[:, place])


@pytest.mark.slow
@given(cases.comparisons(replications=5))
def test_more_replications_leave_the_first_ones_as_they_are(case):
    """A replication has its own random numbers: the first three of five are the three of three."""
    experiment, environment = case

    five = sl.simulate(experiment, environment)
    three = sl.simulate(experiment.replace(replications=3), environment)

    np.testing.assert_array_equal(three.rewards, five.rewards[:3])
    np.testing.assert_array_equal(three.pulls, five.pulls[:3])
    np.testing.assert_array_equal(three.interactions, five.interactions[:3])


MANY = experiment_with(
    sl.UCB1(), sl.ThompsonBernoulli(), sl.Uniform(), horizon=150, replications=37
)


@pytest.mark.parametrize("design", cases.ALL_DESIGNS, ids=cases.name)
@pytest.mark.parametrize("workers", [2, 3, 7, 64])
def test_the_number_of_workers_does_not_matter(workers, design):
    """Workers decide how replications are cut into chunks and who plays them; the bits are the same."""
    experiment = MANY.replace(design=design)
    environment = sl.BernoulliPrior()

    assert_same_runs(
        sl.simulate(experiment, environment, workers=1, checkpoints=[1, 100, 150]),
        sl.simulate(experiment, environment, workers=workers, checkpoints=[1, 100, 150]),
    )


@pytest.mark.parametrize("design", cases.ALL_DESIGNS, ids=cases.name)
def test_a_range_of_replications_is_a_part_of_the_whole(design):
    """Played apart, in any cut, and joined: the same bits as in one call."""
    experiment = MANY.replace(design=design)
    environment = sl.BernoulliPrior()
    whole = sl.simulate(experiment, environment)

    parts = [
        sl.simulate(experiment, environment, replications=range(first, last))
        for first, last in pairwise([0, 1, 20, 37])
    ]

    assert [one.first for one in parts] == [0, 1, 20]
    assert_same_runs(sl.Runs.concat(parts), whole)


def backwards(function, items):
    """A map that does the last task first."""
    done = {place: function(item) for place, item in reversed(list(enumerate(items)))}
    return [done[place] for place in sorted(done)]


@pytest.mark.parametrize("design", cases.ALL_DESIGNS, ids=cases.name)
def test_the_order_of_work_does_not_matter(design):
    """Any map-like: the built-in one, one that works backwards, a thread pool's."""
    experiment = MANY.replace(design=design)
    expected = sl.simulate(experiment, "bernoulli_prior", workers=1)

    with ThreadPoolExecutor(3) as pool:
        for each in (map, backwards, pool.map):
            assert_same_runs(expected, sl.simulate(experiment, "bernoulli_prior", map=each))


@pytest.fixture(scope="module")
def processes():
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


@pytest.mark.slow
@pytest.mark.parametrize("design", [sl.Replay(), sl.TimeCoupled()], ids=cases.name)
def test_another_process_gives_the_same_bits(processes, design):
    """Tasks travel by pickle to freshly started processes and come back equal."""
    experiment = MANY.replace(design=design)
    expected = sl.simulate(experiment, sl.BernoulliPrior(), workers=1)

    assert_same_runs(expected, sl.simulate(experiment, sl.BernoulliPrior(), map=processes.map))


def test_progress_counts_up_to_everything():
    """`progress(done, total)` rises to replications times policies, also when nothing is drawn from threads."""
    calls = []
    sl.simulate(MANY, "bernoulli(0.5, 0.4, 0.3)", progress=lambda *call: calls.append(call))

    assert all(total == 37 * 3 for _, total in calls)
    assert all(before[0] < after[0] for before, after in pairwise(calls))
    assert calls[-1][0] == 37 * 3


def knows_its_horizon(policy):
    """Whether its docstring has T in the rule, as UCBDelta's delta = T^-d; in batches too."""
    if isinstance(policy, sl.Batched):
        return knows_its_horizon(policy.policy)
    match policy:
        case sl.MOSS() | sl.UCBDelta(delta=None) | sl.EXP3(gamma=None) | sl.EXP3IX(eta=None):
            return True
        case sl.BayesUCB():
            return policy.c > 0
    return False


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "design"),
    [
        (policy, design)
        for policies, designs in (
            (cases.POLICIES_EVERYWHERE, cases.ALL_DESIGNS),
            (cases.OTHER_POLICIES, [sl.Replay()]),
        )
        for policy in policies
        for design in designs
        if not knows_its_horizon(policy)
    ],
    ids=cases.name,
)
def test_checkpoints_are_shorter_runs(policy, design):
    """Prefix property: a checkpoint of a long run is the result of a run that ends there."""
    long = experiment_with(policy, sl.EpsilonGreedy(0.2), horizon=130, design=design)
    environment = sl.Bernoulli((0.7, 0.6, 0.1))
    shorter = [1, 2, 3, 17, 64, 129, 130]

    runs = sl.simulate(long, environment, checkpoints=shorter)

    for column, horizon in enumerate(shorter):
        short = sl.simulate(long.replace(horizon=horizon), environment)
        np.testing.assert_array_equal(short.rewards[..., 0], runs.rewards[..., column])
        np.testing.assert_array_equal(short.pulls[:, :, 0], runs.pulls[:, :, column])
        np.testing.assert_array_equal(short.interactions[:, 0], runs.interactions[:, column])


def test_a_rule_that_knows_the_horizon_keeps_it_at_checkpoints():
    """UCBDelta at a checkpoint plays with the experiment's delta, not with the checkpoint's."""
    experiment = experiment_with(sl.UCBDelta(), horizon=400)
    fixed = experiment_with(sl.UCBDelta(delta=400.0**-2), horizon=40)
    environment = sl.Bernoulli((0.7, 0.6, 0.5))

    runs = sl.simulate(experiment, environment, checkpoints=[40])

    np.testing.assert_array_equal(runs.pulls, sl.simulate(fixed, environment).pulls)


def test_checkpoints_come_back_ascending_and_once():
    """Their order and repetition in the call do not matter."""
    experiment = experiment_with(sl.UCB1())

    mixed = sl.simulate(experiment, "bernoulli(0.3, 0.2, 0.1)", checkpoints=[80, 5, 5, 40])
    plain = sl.simulate(experiment, "bernoulli(0.3, 0.2, 0.1)", checkpoints=(5, 40, 80))

    assert mixed.checkpoints.tolist() == [5, 40, 80]
    assert_same_runs(mixed, plain)


def test_order_of_policies_decides_only_who_reveals_an_entry():
    """Symmetry: in any order the trajectories and the total of real interactions are the same."""
    policies = {"ucb": sl.UCB1(), "ts": sl.ThompsonBernoulli(), "any": sl.Uniform()}
    environment = sl.Bernoulli((0.6, 0.5, 0.4))
    experiment = experiment_with(sl.UCB1())
    traces = [
        sl.trace(experiment.replace(policies=dict(order)), environment)
        for order in permutations(policies.items())
    ]

    for one in traces[1:]:
        assert one.interactions == traces[0].interactions
        for name in policies:
            np.testing.assert_array_equal(one[name].arms, traces[0][name].arms)
            np.testing.assert_array_equal(one[name].rewards, traces[0][name].rewards)
    assert any((one["ucb"].replayed != traces[0]["ucb"].replayed).any() for one in traces[1:])


def test_seeds_replications_and_names_give_different_numbers():
    """Another seed, replication or name gives another path (in 80 periods of uniform play: chance 3^-80 of none)."""
    uniform_play = experiment_with(sl.Uniform())
    environment = sl.Gaussian((0.0, 0.0, 0.0))
    first = sl.trace(uniform_play, environment, 0)["0: uniform"]

    others = [
        sl.trace(uniform_play, environment, 1)["0: uniform"],
        sl.trace(uniform_play.replace(seed=SEED + 1), environment, 0)["0: uniform"],
        sl.trace(uniform_play.replace(policies={"other": sl.Uniform()}), environment, 0)["other"],
    ]

    assert all((other.arms != first.arms).any() for other in others)


# --- a user's own policy ----------------------------------------------------------------------------------------


class Optimist(NamedTuple):
    """A user's policy: plays an arm of its choice with some chance, else the best so far."""

    favourite: int
    chance: float = 0.5


class TwiceReader(NamedTuple):
    """A user's policy that reads one slot of its noise twice in a period."""


class OutOfRange(NamedTuple):
    """A user's policy that names an arm that is not there, in period 5."""

    arm: int = 99


def optimist(policy, tally, period, noise):
    if uniform(at(noise, period, 0)) < policy.chance:
        return policy.favourite
    best = 0
    for arm in range(1, tally.pulls.size):
        if tally.means[arm] > tally.means[best]:
            best = arm
    return best


def twice_reader(policy, tally, period, noise):
    return 0 if uniform(at(noise, period, 0)) < uniform(at(noise, period, 0)) else 1


def out_of_range(policy, tally, period, noise):
    return policy.arm if period == 5 else 0


@pytest.mark.slow
def test_a_policy_of_ones_own_works_everywhere():
    """One NamedTuple and one function: simulate, trace, guard, text form and Experiment all take it."""
    sl.selects(Optimist)(optimist)
    experiment = experiment_with(Optimist(2), sl.UCB1(), horizon=300)
    environment = sl.Bernoulli((0.2, 0.3, 0.6))

    runs = sl.simulate(experiment, environment)

    assert runs.pulls[:, 0, 0, 2].min() > 100
    compiled, plain = (sl.trace(experiment, environment, 1, guard=guard) for guard in (False, True))
    assert_same_traces(compiled, plain)


def test_a_policy_of_ones_own_has_a_text_form():
    """It is parsed by the one grammar, so files and the command line take it too."""
    sl.selects(Optimist)(optimist)
    experiment = experiment_with(Optimist(2))

    assert sl.Experiment.from_json(experiment.to_json()) == experiment
    assert experiment.replace(policies={"it": "optimist(2)"}).policies["it"] == Optimist(2, 0.5)


@pytest.mark.slow
def test_reading_an_address_twice_is_refused():
    """The fresh-key lemma as a check: the guard names the policy and says what to do."""
    sl.selects(TwiceReader)(twice_reader)
    experiment = experiment_with(TwiceReader())

    with pytest.raises(sl.AddressReused, match=r"twice_reader.*read twice.*another slot"):
        sl.trace(experiment, "bernoulli(0.5, 0.5, 0.5)", guard=True)


@pytest.mark.slow
def test_an_arm_that_is_not_there_is_refused():
    """Not a crash, not another arm's memory: a message with policy, period and replication, through every door."""
    sl.selects(OutOfRange)(out_of_range)
    message = r"outside 0\.\.2 in period 5 of replication 0"

    for arm in (3, 99, -1):
        experiment = experiment_with(OutOfRange(arm))
        for play in (sl.simulate, sl.trace, partial(sl.trace, guard=True)):
            with pytest.raises(sl.Invalid, match=message):
                play(experiment, "bernoulli(0.5, 0.5, 0.5)")


@pytest.mark.parametrize("value", [np.ones(2), "yes", None, 1], ids=str)
def test_a_flag_that_is_not_true_or_false_is_refused(value):
    experiment = sl.Experiment(policies={"it": sl.Uniform()}, arms=2, horizon=4, replications=2)
    for flag in ("guard", "check"):
        with pytest.raises(sl.Invalid, match=f"{flag} must be True or False, got "):
            sl.trace(experiment, sl.Bernoulli((0.5, 0.5)), **{flag: value})
