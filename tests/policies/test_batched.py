"""`Batched`: a policy that acts several times on what it knew, against plain loops that freeze what is known."""

import re
from typing import NamedTuple

import numpy as np
import pytest

import budget
import cases
import literal
import literal_rules
import sameluck as sl
from nonempty import nonempty
from sameluck import cli, text_forms
from sameluck.compilation.functions import is_builtin
from sameluck.experiment import MAX_COUNT
from sameluck.policies.base import POLICIES, memory_of, prepare, rule_of, select_function_of
from sameluck.policies.batched import batch_of
from sameluck.randomness.streams import DECISION, owner_of, stream

SIZES = (1, 2, 3, 7)
HORIZON = 59  # the last batch of 2, of 3 and of 7 is shorter
ORDINARY, OTHERS = (
    [policy for policy in policies if not isinstance(policy, sl.Batched)]
    for policies in (cases.POLICIES_EVERYWHERE, cases.OTHER_POLICIES)
)
BERNOULLI, GAUSSIAN = sl.Bernoulli((0.6, 0.5, 0.4)), sl.Gaussian((-0.2, 0.1, 0.0))


def environment_for(policy):
    return BERNOULLI if getattr(policy, "needs_binary", False) else GAUSSIAN


def experiment_of(policy, **changes):
    settings = {"policies": {"it": policy}, "arms": 3, "horizon": HORIZON, "replications": 3}
    return sl.Experiment(**{**settings, "seed": budget.SEED, **changes})


# --- the rule ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("policy", ORDINARY, ids=cases.name)
def test_a_batch_of_one_is_the_policy_itself(policy):
    """To the bit, in a long run of many arms: the tuned bodies and those for batches are one rule."""
    for arms, horizon in ((2, 3_000), (7, 700)):
        spread = tuple((arm + 1) / (arms + 2) for arm in range(arms))
        environment = (
            sl.Bernoulli(spread) if environment_for(policy) is BERNOULLI else sl.Gaussian(spread)
        )
        plain = experiment_of(policy, arms=arms, horizon=horizon)
        late = plain.replace(policies={"it": sl.Batched(policy, 1)})
        checkpoints = [1, arms, arms + 1, horizon // 2, horizon]
        one, other = (
            sl.simulate(variant, environment, checkpoints=checkpoints) for variant in (plain, late)
        )
        np.testing.assert_array_equal(one.pulls, other.pulls)
        np.testing.assert_array_equal(one.rewards, other.rewards)


def played_with_a_frozen_tally(experiment, environment, replication, policy, size):
    """Arms and rewards of one replication: the plain body sees a copy of the tally, made when a batch begins."""
    rule = rule_of(policy, experiment.n_arms, experiment.horizon)
    if memory_of(rule, experiment.n_arms):
        rule = rule.batched()
    users = literal.RealUsers(experiment, environment, replication, owner_of("it"))
    noise = stream(np.uint64(experiment.seed), DECISION, replication, np.uint64(owner_of("it")))
    pulls, totals, means = (
        np.zeros(experiment.n_arms, dtype) for dtype in (np.int64, float, float)
    )
    arm, reward, path = 0, 0.0, []
    for period in range(1, experiment.horizon + 1):
        if period % size == 1 or size == 1:
            frozen = sl.Tally(pulls.copy(), totals.copy(), means.copy(), np.zeros(0), arm, reward)
        arm = int(select_function_of(rule)(rule, frozen, period, noise))
        reward = users.pull(arm)
        pulls[arm] += 1
        totals[arm] += reward
        means[arm] = totals[arm] / pulls[arm]
        path.append((arm, reward))
    return path


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("policy", ORDINARY, ids=cases.name)
@pytest.mark.filterwarnings("ignore:overflow encountered")  # addresses wrap around
def test_a_plain_loop_that_freezes_the_tally_gives_the_same_bits(policy, size):
    environment = environment_for(policy)
    experiment = experiment_of(sl.Batched(policy, size), design=sl.Naive())
    runs = sl.simulate(experiment, environment, checkpoints=[10, HORIZON])

    for replication in nonempty(range(experiment.replications)):
        path = played_with_a_frozen_tally(experiment, environment, replication, policy, size)
        for column, periods in nonempty(enumerate(runs.checkpoints)):
            arms, rewards = zip(*path[:periods], strict=True)
            pulls = np.bincount(arms, minlength=3)
            np.testing.assert_array_equal(runs.pulls[replication, 0, column], pulls)
            assert runs.rewards[replication, 0, column] == literal_rules.total(rewards)


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("policy", ORDINARY, ids=cases.name)
def test_the_literal_rule_on_the_history_before_the_batch_gives_the_same_arms(policy, size):
    """Nothing is shared with the bodies here: the rules of `literal_rules.py` see the history up to the batch."""
    environment = environment_for(policy)
    policies = {"other": sl.Uniform(), "it": sl.Batched(policy, size)}
    experiment = experiment_of(policy).replace(policies=policies, control="other")

    path = literal.play(experiment, environment, 1)["it"]
    traced = sl.trace(experiment, environment, 1, guard=True)["it"]

    assert list(zip(traced.arms.tolist(), traced.rewards.tolist(), strict=True)) == path.history
    assert traced.replayed.tolist() == path.replayed


@pytest.mark.slow
@pytest.mark.parametrize("policy", OTHERS, ids=cases.name)
def test_every_other_policy_is_literal_in_batches_or_refused(policy):
    """Refused if it keeps numbers from period to period that the tally at the start of a batch does not give."""
    if memory_of(rule_of(policy, 3, HORIZON), 3):
        with pytest.raises(sl.Invalid, match="learns from every single reward"):
            experiment_of(sl.Batched(policy, 3))
        return
    experiment = experiment_of(sl.Batched(policy, 3))
    path = literal.play(experiment, BERNOULLI, 1)["it"]
    traced = sl.trace(experiment, BERNOULLI, 1)["it"]
    assert list(zip(traced.arms.tolist(), traced.rewards.tolist(), strict=True)) == path.history


class Follower(NamedTuple):
    """Play the last arm again if it paid, else the next one."""


def follower(policy, tally, period, noise):
    return tally.last_arm if tally.last_reward > 0.5 else (tally.last_arm + 1) % tally.pulls.size


@pytest.mark.slow
def test_the_last_arm_and_its_reward_are_those_before_the_batch():
    sl.selects(Follower)(follower)
    for size in (1, 2, 5):
        experiment = experiment_of(sl.Batched(Follower(), size))
        path = sl.trace(experiment, BERNOULLI, guard=True)["it"]
        last, paid = 0, 0.0
        for period in range(HORIZON):
            if period % size == 0 and period > 0:
                last, paid = path.arms[period - 1], path.rewards[period - 1]
            assert path.arms[period] == (last if paid > 0.5 else (last + 1) % 3)


def test_the_first_batch_is_played_blind():
    """As the docstring says: each arm in its turn, then all that are unseen tie, and the lowest is played."""
    for inner in (sl.UCB1(), sl.UCBDelta(), sl.EpsilonGreedy(0.0)):
        arms = sl.trace(experiment_of(sl.Batched(inner, 20)), BERNOULLI)["it"].arms
        assert arms[:20].tolist() == [0, 1, 2, *([0] * 17)]


def test_an_arm_that_has_not_been_seen_has_an_infinite_bound():
    """Batches of 2: in period 4 the third arm was played, but nothing of it seen."""
    for inner in (sl.UCB1(), sl.UCB1(0.0), sl.UCBDelta(), sl.UCBDelta(delta=1.0)):
        arms = sl.trace(experiment_of(sl.Batched(inner, 2)), sl.Gaussian((9.0, 9.0, 9.0)))["it"]
        assert arms.arms[:4].tolist() == [0, 1, 2, 2]


@pytest.mark.slow
def test_a_batch_longer_than_the_horizon_sees_nothing():
    """Thompson sampling then draws from its prior in every period: a fixed law, whatever the arms pay."""
    one, other = (
        sl.trace(experiment_of(sl.Batched(sl.ThompsonGaussian(), MAX_COUNT)), environment)[
            "it"
        ].arms
        for environment in (GAUSSIAN, sl.Gaussian((9.0, -9.0, 0.0)))
    )
    assert one.tolist() == other.tolist()
    assert len(set(one.tolist())) == 3


def test_batch_of_says_when_rewards_are_seen():
    assert [batch_of(policy) for policy in ORDINARY] == [1] * len(ORDINARY)
    assert batch_of(sl.Batched(sl.UCB1(), 12)) == 12


# --- its text form ----------------------------------------------------------------------------------------------


def test_a_batched_policy_is_one_policy_however_it_is_given():
    ways = [
        sl.Batched(sl.UCB1(2), 10),
        sl.Batched(sl.UCB1(2.0), np.int64(10)),
        sl.Batched("ucb1(alpha=2)", 10),
        "batched(ucb1(alpha=2.0), 10)",
        "batched(ucb1(alpha=2), size=10)",
        'batched("ucb1", 10)',
    ]
    experiments = [experiment_of(way) for way in ways]

    assert len({experiment.digest for experiment in experiments}) == 1
    assert experiments[0].policies["it"] == sl.Batched(sl.UCB1(2.0), 10)
    assert all(type(e.policies["it"].policy) is sl.UCB1 for e in experiments)


@pytest.mark.parametrize("policy", ORDINARY, ids=cases.name)
def test_experiments_with_it_go_to_json_and_toml_and_back(policy):
    experiment = experiment_of(sl.Batched(policy, 4))

    for again in (
        sl.Experiment.from_json(experiment.to_json()),
        sl.Experiment.from_toml(experiment.to_toml()),
    ):
        assert again == experiment
        assert again.policies["it"] == sl.Batched(policy, 4)
        assert type(again.policies["it"].policy) is type(policy)


def test_in_brief_the_defaults_of_what_it_holds_are_left_out():
    assert text_forms.write(sl.Batched(sl.UCB1(), 3)) == "batched(ucb1(alpha=2), size=3)"
    assert text_forms.write(sl.Batched(sl.UCB1(), 3), brief=True) == "batched(ucb1, size=3)"
    for policy in ORDINARY:
        short = text_forms.write(sl.Batched(policy, 3), brief=True)
        read = text_forms.parse(short, POLICIES, "policy")
        assert text_forms.normal_form(read) == sl.Batched(policy, 3)


def test_the_command_line_takes_and_lists_it(capsys):
    words = ["compare", "batched(ucb1(alpha=2), 5)", "now=ucb1", "--env", "bernoulli(0.7, 0.3)"]
    assert cli.run([*words, "--horizon", "50", "--replications", "3"]) == 0
    assert "batched(ucb1, size=5)" in capsys.readouterr().out
    assert cli.run(["policies"]) == 0
    assert "batched(ucb1(alpha=2), size=10)\n    Act `size` times" in capsys.readouterr().out


# --- what is refused --------------------------------------------------------------------------------------------


class Remembering(NamedTuple):
    """A user's policy with memory."""

    def memory(self, arms):
        return arms


class RememberingInVain(NamedTuple):
    """One whose variant for batches has no body."""

    def memory(self, arms):
        return arms

    def batched(self):
        return Forgetful()


class Forgetful(NamedTuple):
    """A variant that is not registered."""


class NoVariant(NamedTuple):
    """One whose `batched` forgets to return its variant."""

    def batched(self):
        return None


def counts_in_memory(policy, tally, period, noise):
    tally.memory[0] += 1.0
    return int(tally.memory[0]) % tally.pulls.size


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (lambda: sl.Batched(sl.UCB1(-1.0), 3), r"UCB1\.alpha must be >= 0"),
        (sl.Batched(sl.Always(3), 3), r"Always\.arm must be a whole number from 0 to 2"),
        (lambda: sl.Batched("ucb9", 3), "unknown policy 'ucb9'; did you mean 'ucb1'"),
        (lambda: sl.Batched(sl.Batched(sl.UCB1(), 2), 3), "must not be batched itself.*batch once"),
        ("batched(batched(ucb1, 2), 3)", "must not be batched itself"),
        (
            sl.Batched(Remembering(), 3),
            r"remembering keeps numbers in tally\.memory.*give Remembering a method `batched\(\)`",
        ),
        (sl.Batched(RememberingInVain(), 3), "Forgetful has no select function; register one"),
        (
            sl.Batched(NoVariant(), 3),
            r"NoVariant\.batched must return a NamedTuple that a select function is registered for, got None; return",
        ),
    ],
)
def test_what_cannot_be_batched_is_refused_with_a_message(policy, message):
    sl.selects(Remembering)(counts_in_memory)
    sl.selects(RememberingInVain)(counts_in_memory)
    sl.selects(NoVariant)(counts_in_memory)
    with pytest.raises(sl.Invalid, match=message) as refused:
        experiment_of(policy() if callable(policy) else policy)
    assert "\n" not in str(refused.value)


def test_a_policy_for_binary_rewards_needs_them_in_batches_too():
    experiment = experiment_of(sl.Batched(sl.ThompsonBernoulli(), 3))

    with pytest.raises(sl.Invalid, match=re.escape("(batched(thompson_bernoulli(a=1")):
        sl.simulate(experiment, GAUSSIAN)


# --- policies of one's own --------------------------------------------------------------------------------------


def first_arm(policy, tally, period, noise):
    return 0


def second_arm(policy, tally, period, noise):
    return 1


def a_float(policy, tally, period, noise):
    return 1.7


def an_arm_too_many(policy, tally, period, noise):
    return 3


def a_slip(policy, tally, period, noise):
    return tally.puls[0]


def make_mine(body):
    class Mine(NamedTuple):
        size: float = 1.0

    sl.selects(Mine)(body)
    return Mine


def arms_played(policy):
    # Under this design `simulate` and `trace` run the same compiled loop: one compilation for both.
    experiment = experiment_of(policy, design=sl.TimeCoupled())
    compiled = sl.simulate(experiment, BERNOULLI).pulls[:, 0, 0]
    traced = sl.trace(experiment, BERNOULLI, guard=True)["it"].arms
    return {*np.flatnonzero(compiled.sum(axis=0)).tolist(), *traced.tolist()}


@pytest.mark.slow
def test_a_policy_of_ones_own_is_batched_as_it_was_last_defined():
    """A class redefined under its name, or given another body, never runs the machine code of the one before."""
    old = make_mine(first_arm)
    assert arms_played(sl.Batched(old(), 3)) == {0}
    new = make_mine(second_arm)
    assert arms_played(sl.Batched(new(), 3)) == arms_played("batched(mine(size=2), 3)") == {1}
    sl.selects(new)(first_arm)
    assert arms_played(sl.Batched(new(), 3)) == {0}


def test_machine_code_of_ones_own_policies_is_never_kept():
    mine = make_mine(first_arm)
    builtin = [
        is_builtin(select_function_of(prepare(policy, 3, HORIZON)))
        for policy in (mine(), sl.Batched(mine(), 3), sl.UCB1(), sl.Batched(sl.UCB1(), 3))
    ]
    assert builtin == [False, False, True, True]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "message"),
    [
        (a_float, "not a whole number"),
        (a_slip, "Unknown attribute 'puls' of the tally"),
        (an_arm_too_many, r"outside 0\.\.2 in period 1"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_body_that_cannot_be_run_is_refused_with_a_message(body, message):
    with pytest.raises(sl.Invalid, match=message) as refused:
        arms_played(sl.Batched(make_mine(body)(), 3))
    assert "\n" not in str(refused.value)


class Wins(NamedTuple):
    """Play the arm with the most wins of late, remembered in memory."""

    def memory(self, arms):
        return arms

    def batched(self):
        return WinsAnew()


class WinsAnew(NamedTuple):
    """The same, from the totals."""


def wins(policy, tally, period, noise):
    if period > 1:
        tally.memory[tally.last_arm] += tally.last_reward
    best = 0
    for arm in range(1, tally.pulls.size):
        if tally.memory[arm] > tally.memory[best]:
            best = arm
    return best if period > tally.pulls.size else period - 1


def wins_anew(policy, tally, period, noise):
    best = 0
    for arm in range(1, tally.pulls.size):
        if tally.totals[arm] > tally.totals[best]:
            best = arm
    return best if period > tally.pulls.size else period - 1


@pytest.mark.slow
def test_a_policy_of_ones_own_with_memory_is_played_by_its_variant_for_batches():
    sl.selects(Wins)(wins)
    sl.selects(WinsAnew)(wins_anew)
    plain, one, late = (
        sl.trace(experiment_of(policy), BERNOULLI, 2, guard=True)["it"].arms.tolist()
        for policy in (Wins(), sl.Batched(Wins(), 1), sl.Batched(Wins(), 4))
    )
    assert one == plain
    assert late[:4] == [0, 1, 2, 0]
    assert all(len(set(late[start : start + 4])) == 1 for start in range(4, HORIZON, 4))
