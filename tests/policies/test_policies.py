"""Every policy keeps the contract, found by discovery; the exact rules are checked in `test_simulate.py`."""

import pickle

import numpy as np
import pytest

import cases
import sameluck as sl
from nonempty import nonempty
from sameluck import text_forms
from sameluck.policies.base import POLICIES
from sameluck.policies.registry import as_policy

FAIR = sl.Bernoulli((0.6, 0.5, 0.4))
PLAYS_EACH_ARM_FIRST = [
    sl.UCB1(),
    sl.UCBDelta(),
    sl.EpsilonGreedy(),
    sl.EpsilonGreedy(1.0, "others"),
]


def experiment_of(policy, **changes):
    """A small experiment of one policy."""
    settings = {"policies": {"it": policy}, "arms": 3, "horizon": 60, "replications": 5, **changes}
    return sl.Experiment(**settings)


@pytest.mark.parametrize(
    "policy_class", cases.POLICY_CLASSES, ids=lambda policy_class: policy_class.__name__
)
def test_every_policy_is_documented_public_and_has_examples(policy_class):
    """Its docstring states its rule; it is in the public list; the tests know parameters to try."""
    assert len(policy_class.__doc__) > 40
    assert getattr(sl, policy_class.__name__) is policy_class
    assert cases.policy_examples(policy_class)
    assert POLICIES[text_forms.name_of(policy_class)] is policy_class


@pytest.mark.slow
@pytest.mark.parametrize(
    "policy",
    [
        *cases.POLICIES_EVERYWHERE,
        *(pytest.param(policy, marks=pytest.mark.slow) for policy in cases.OTHER_POLICIES),
    ],
    ids=cases.name,
)
def test_arms_are_in_range_and_play_repeats(policy):
    """Any number of arms; the same experiment twice gives the same arms."""
    periods = range(1, 61)
    for arms in (2, 5, 33):
        experiment = experiment_of(policy, arms=arms)
        environment = sl.Bernoulli((0.5,) * arms)
        first, second = (
            sl.simulate(experiment, environment, checkpoints=periods) for _ in range(2)
        )
        assert (np.diff(first.pulls, axis=2, prepend=0).sum(axis=-1) == 1).all()
        np.testing.assert_array_equal(first.pulls, second.pulls)


@pytest.mark.parametrize("policy", cases.ALL_POLICIES, ids=cases.name)
def test_a_policy_is_frozen_and_survives_pickle(policy):
    """Parameters never change; other processes get the same policy."""
    assert pickle.loads(pickle.dumps(policy)) == policy
    for field in policy._fields:
        with pytest.raises(AttributeError):
            setattr(policy, field, 1)


@pytest.mark.parametrize("policy", cases.ALL_POLICIES, ids=cases.name)
def test_its_text_form_is_the_policy(policy):
    """An experiment takes either and cannot tell which it was given."""
    by_text, by_value = experiment_of(text_forms.write(policy)), experiment_of(policy)

    assert by_text == by_value
    assert by_text.policies["it"] == policy
    assert type(by_text.policies["it"]) is type(policy)


@pytest.mark.slow
@pytest.mark.parametrize("policy", cases.ALL_POLICIES, ids=cases.name)
def test_playing_changes_nothing_outside(policy):
    """Two replications are played with the same working arrays; nothing of the first is left in the second."""
    experiment = experiment_of(policy)
    alone = sl.simulate(experiment, FAIR, replications=range(3, 4))

    runs = sl.simulate(experiment, FAIR, workers=1)

    np.testing.assert_array_equal(runs.pulls[3], alone.pulls[0])
    np.testing.assert_array_equal(runs.rewards[3], alone.rewards[0])


@pytest.mark.parametrize("policy", PLAYS_EACH_ARM_FIRST, ids=cases.name)
def test_each_arm_is_played_once_in_order_first(policy):
    """As the docstrings say, also if the horizon ends before the last arm's turn."""
    for arms, horizon in ((3, 20), (7, 7), (9, 4)):
        experiment = experiment_of(policy, arms=arms, horizon=horizon)
        played = sl.trace(experiment, sl.Bernoulli((0.5,) * arms))["it"].arms
        assert played[:arms].tolist() == list(range(arms))[:horizon]


@pytest.mark.parametrize(
    "policy",
    [sl.ThompsonBernoulli(first_plays=2), sl.ThompsonGaussian(first_plays=2)],
    ids=cases.name,
)
def test_first_plays_go_round_the_arms(policy):
    """Each arm n times, in index order, round after round."""
    played = sl.trace(experiment_of(policy), FAIR)["it"].arms

    assert played[:6].tolist() == [0, 1, 2, 0, 1, 2]


@pytest.mark.parametrize(
    "policy", [sl.UCB1(0.0), sl.UCBDelta(delta=1.0), sl.EpsilonGreedy(0.0)], ids=cases.name
)
def test_ties_go_to_the_lowest_arm(policy):
    """All arms pay 1 always: after each was played once, the first one is the only one."""
    played = sl.trace(experiment_of(policy), sl.Bernoulli((1.0, 1.0, 1.0)))["it"].arms

    assert played[:3].tolist() == [0, 1, 2]
    assert (played[3:] == 0).all()


def test_always_plays_its_arm():
    """In every period of every replication."""
    runs = sl.simulate(experiment_of(sl.Always(2)), FAIR)

    assert (runs.pulls[:, 0, 0] == [0, 0, 60]).all()


def test_a_sure_winner_is_found():
    """Arms pay 0, 0, 1: every learning policy plays the last one in most of 300 periods."""
    learning = [sl.UCB1(0.5), sl.UCBDelta(delta=0.5), sl.ThompsonBernoulli(), sl.EpsilonGreedy()]
    experiment = sl.Experiment(
        policies={cases.name(policy): policy for policy in [*learning, sl.ThompsonGaussian()]},
        arms=3,
        horizon=300,
        replications=20,
    )

    runs = sl.simulate(experiment, sl.Bernoulli((0.0, 0.0, 1.0)))

    assert (runs.pulls[:, :, 0, 2].mean(axis=0) > 200).all()


def test_thompson_sampling_survives_tiny_priors():
    """Beta(0.001, 0.001) draws round to 0 and 1; the log odds still order the arms, so no arm is favoured by ties.

    In period 1 all arms have the same law: each is first in a third of 3,000 replications. False alarm 1e-6.
    """
    experiment = experiment_of(
        sl.ThompsonBernoulli(a=0.001, b=0.001), horizon=1, replications=3_000
    )

    first = sl.simulate(experiment, FAIR).pulls[:, 0, 0].sum(axis=0)

    assert (abs(first - 1_000) < 5.1 * np.sqrt(3_000 * 2 / 9)).all()


@pytest.mark.slow
@pytest.mark.parametrize("arms", [1_000])
@pytest.mark.parametrize(
    "policy_class", cases.POLICY_CLASSES, ids=lambda policy_class: policy_class.__name__
)
def test_many_arms_are_no_problem(policy_class, arms):
    """A thousand arms, fewer periods than arms and more."""
    policy = cases.policy_examples(policy_class)[0]
    for horizon in (10, 1_500):
        experiment = experiment_of(policy, arms=arms, horizon=horizon, replications=1)
        runs = sl.simulate(experiment, sl.Bernoulli((0.5,) * arms))
        assert runs.pulls.sum() == horizon


NONSENSE = [
    (sl.UCB1, "alpha", [-1, -1e-9, float("nan"), float("inf"), "2", None, True, [1.0], 1 + 2j]),
    (sl.UCBDelta, "d", [-0.1, float("nan"), float("inf"), "x", None, False]),
    (sl.UCBDelta, "delta", [0, -1, 1.1, float("nan"), "x", True]),
    (sl.ThompsonBernoulli, "a", [0, -1, float("nan"), float("inf"), None, "1"]),
    (sl.ThompsonBernoulli, "b", [0, -1, float("nan"), float("inf"), None, "1"]),
    (sl.ThompsonBernoulli, "first_plays", [-1, 1.0, 0.5, "1", None, True, 10**7]),
    (sl.ThompsonGaussian, "prior_mean", [float("nan"), float("-inf"), "0", None]),
    (sl.ThompsonGaussian, "prior_sd", [0, -1, float("nan"), float("inf"), 1e200, None]),
    (sl.ThompsonGaussian, "noise_sd", [0, -1, float("nan"), float("inf"), 1e200, None]),
    (sl.ThompsonGaussian, "first_plays", [-1, 1.0, None, True]),
    (sl.EpsilonGreedy, "epsilon", [-0.1, 1.1, float("nan"), "x", None, True]),
    (sl.EpsilonGreedy, "explore", ["", "some", None, 1, ["all"]]),
    (sl.Always, "arm", [-1, 3, 1.0, "0", None, True]),
    (sl.Batched, "policy", [None, 3, True, [1.0], (), sl.UCB1, sl.Naive(), sl.Batched("ucb1", 2)]),
    (sl.Batched, "size", [0, -1, 1.0, 2.5, "2", None, True, 2**40 + 1, float("nan")]),
]
NEEDED = {sl.Always: {"arm": 0}, sl.Batched: {"policy": sl.UCB1(), "size": 2}}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy_class", "field", "value"),
    [(policy_class, field, value) for policy_class, field, values in NONSENSE for value in values],
)
def test_nonsense_parameters_are_refused_by_name(policy_class, field, value):
    """`Invalid`, and the message says which parameter of which class."""
    with pytest.raises(sl.Invalid) as refused:
        experiment_of(policy_class(**{**NEEDED.get(policy_class, {}), field: value}))
    assert f"{policy_class.__name__}.{field}" in str(refused.value)
    assert repr(value) in str(refused.value) or isinstance(value, list | sl.Batched)


WITH_FIELDS = [policy_class for policy_class in cases.POLICY_CLASSES if policy_class._fields]


@pytest.mark.parametrize(
    "policy_class", WITH_FIELDS, ids=lambda policy_class: policy_class.__name__
)
@pytest.mark.parametrize("value", [float("nan"), object()], ids=["nan", "object"])
def test_every_parameter_is_checked(policy_class, value):
    """Discovery: a parameter of a new policy is covered without a row in the table above."""
    usual = cases.policy_examples(policy_class)[0]
    for field in nonempty(policy_class._fields):
        with pytest.raises(sl.Invalid, match=f"{policy_class.__name__}.{field}"):
            experiment_of(usual._replace(**{field: value}))


@pytest.mark.parametrize(
    "policy_class",
    [*WITH_FIELDS, sl.External],
    ids=lambda policy_class: policy_class.__name__,
)
@pytest.mark.parametrize("value", [float("nan"), object(), np.zeros(10**4)], ids=type)
def test_a_constructor_refuses_what_is_not_valid(policy_class, value):
    """When it is made, in one line without data; `_replace` and pickles make what an experiment checks."""
    usual = (
        sl.External("mine")
        if policy_class is sl.External
        else cases.policy_examples(policy_class)[0]
    )
    for field in nonempty(policy_class._fields):
        with pytest.raises(sl.Invalid, match=f"{policy_class.__name__}.{field}") as refused:
            policy_class(**{**usual._asdict(), field: value})
        assert len(str(refused.value)) < 400
        assert "\n" not in str(refused.value)


def test_a_constructor_takes_what_is_valid_for_some_number_of_arms():
    """An experiment knows how many there are."""
    assert sl.Batched(sl.Always(7), 3).policy.arm == 7
    with pytest.raises(sl.Invalid, match=r"Always\.arm must be a whole number from 0 to 1,048,575"):
        sl.Always(-1)


def test_whole_numbers_become_the_floats_they_mean():
    """`UCB1(2)` and `UCB1(2.0)` are one policy, with one digest; NumPy's numbers are numbers."""
    digests = {
        experiment_of(policy).digest
        for policy in (sl.UCB1(2), sl.UCB1(2.0), sl.UCB1(np.int64(2)), "ucb1(2)")
    }

    assert len(digests) == 1


@pytest.mark.parametrize(
    "value", [None, 3, dict, ("ucb1",), object(), sl.Naive(), sl.Bernoulli((0.5, 0.5))]
)
def test_what_is_no_policy_is_refused(value):
    """The message says so, how to register one and how to name a Python object."""
    with pytest.raises(sl.Invalid, match=r"is not a policy.*sameluck\.selects.*External\('mine'\)"):
        as_policy(value, 3)


def test_a_class_in_place_of_a_policy_is_refused():
    with pytest.raises(sl.Invalid, match=r"is not a policy; it is a policy class: write UCB1\(\)$"):
        as_policy(sl.UCB1, 3)
