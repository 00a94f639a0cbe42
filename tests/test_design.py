"""A design is a choice of owners: the contract each keeps, by discovery."""

import numpy as np
import pytest

import cases
import sameluck as sl
from sameluck import text_forms
from sameluck.design import as_design
from sameluck.randomness.streams import ALL_POLICIES, owner_of

NAMES = ["ucb", "thompson", "\N{SAUROPOD}", " "]


@pytest.mark.parametrize("kind", cases.DESIGN_CLASSES, ids=lambda kind: kind.__name__)
def test_every_design_has_examples(kind):
    """Discovery: a design that is added must be added to the tests' examples."""
    assert cases.DESIGN_EXAMPLES.get(kind)


@pytest.mark.parametrize("design", cases.ALL_DESIGNS, ids=cases.name)
def test_owners_are_shared_by_all_or_by_none(design):
    """An owner is `ALL_POLICIES` or a hash of the policy's own name, so no two policies share numbers by accident."""
    for owner in (design.reward_owner, design.noise_owner):
        found = [owner(name) for name in NAMES]
        assert found in ([ALL_POLICIES] * len(NAMES), [owner_of(name) for name in NAMES])


@pytest.mark.parametrize(
    ("design", "rewards_shared", "noise_shared", "indexed_by_period"),
    [
        (sl.Naive(), False, False, False),
        (sl.Replay(), True, False, False),
        (sl.Replay(share_noise=True), True, True, False),
        (sl.TimeCoupled(), True, False, True),
    ],
    ids=str,
)
def test_what_each_design_shares(design, rewards_shared, noise_shared, indexed_by_period):
    """The whole of a design: who owns rewards, who owns noise, and whether the period indexes rewards."""
    assert (design.reward_owner("a") == design.reward_owner("b")) is rewards_shared
    assert (design.noise_owner("a") == design.noise_owner("b")) is noise_shared
    assert design.indexed_by_period is indexed_by_period


@pytest.mark.parametrize("design", cases.ALL_DESIGNS, ids=cases.name)
def test_a_design_holds_its_parameters_and_nothing_else(design):
    """It is part of an experiment's identity: equal by class and parameters, and nothing can be added later."""
    same, others = as_design(text_forms.write(design)), set(cases.ALL_DESIGNS) - {design}
    assert (same, hash(same)) == (design, hash(design))
    assert len(others) == len(cases.ALL_DESIGNS) - 1
    assert not any(design == other for other in others)
    assert all(design != other for other in others)
    assert design != tuple(design)
    for name in ("indexed_by_period", "shares_rewards", "shares_noise", "share_noise", "note"):
        with pytest.raises(AttributeError):
            setattr(design, name, True)
    assert not hasattr(design, "__dict__")


def test_interactions_are_the_largest_pulls_on_shared_stacks_and_all_pulls_otherwise():
    """Two replications of three policies at two checkpoints, counted arm by arm."""
    pulls = np.arange(2 * 3 * 2 * 4).reshape(2, 3, 2, 4) ** 2 % 17
    for design in (sl.Naive(), sl.Replay(), sl.Replay(share_noise=True)):
        count = max if design.shares_rewards else sum
        expected = [
            [sum(count(pulls[row, :, index, arm]) for arm in range(4)) for index in range(2)]
            for row in range(2)
        ]
        assert design.interactions(pulls).tolist() == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("naive", sl.Naive()),
        ("Replay", sl.Replay()),
        ("replay(share_noise=true)", sl.Replay(share_noise=True)),
        ("replay(True)", sl.Replay(share_noise=True)),
        ("time-coupled", sl.TimeCoupled()),
        ("TimeCoupled()", sl.TimeCoupled()),
    ],
)
def test_a_design_may_be_given_by_name(text, expected):
    """The text form, in any spelling of the name."""
    assert as_design(text) == expected
    assert type(as_design(text)) is type(expected)


@pytest.mark.parametrize(
    ("value", "fragment"),
    [
        ("replai", "did you mean 'replay'"),
        ("", "ends too early"),
        (None, "unknown design None"),
        (7, "unknown design 7"),
        (sl.Naive, "unknown design"),
        (sl.UCB1(), "unknown design"),
        ({}, "unknown design {}"),
        (sl.Replay(share_noise=1), "share_noise must be true or false"),
        ("replay(share_noise=1)", "share_noise must be true or false"),
        ("replay(share_noise=yes)", "share_noise must be true or false"),
        ("naive(true)", "takes 0"),
    ],
)
def test_a_design_that_is_none_is_refused(value, fragment):
    """One message that names what was wrong."""
    with pytest.raises(sl.Invalid) as refused:
        as_design(value)
    assert fragment in str(refused.value)
