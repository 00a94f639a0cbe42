"""Machine code of users' functions can be interrupted; whether a policy has one is decided once, not per period."""

from typing import NamedTuple

import pytest

import sameluck as sl
from sameluck.compilation import decorators

SMALL = {"arms": 2, "horizon": 50, "replications": 1}


def make_mine():
    class Mine(NamedTuple):
        arm: int = 1

    sl.selects(Mine)(lambda policy, tally, period, noise: policy.arm)
    return Mine


@pytest.fixture
def counts(monkeypatch):
    """Count the searches for users' functions, and the loops that can be interrupted."""
    found = {"runs_user_code": 0, "interruptible": 0}

    def count(name):
        function = getattr(decorators, name)

        def counted(*arguments):
            found[name] += 1
            return function(*arguments)

        monkeypatch.setattr(decorators, name, counted)

    for name in found:
        count(name)
    return found


def count_in_period(counts, policy):
    """Return what one reward of a running experiment adds to the counts."""
    with sl.open("sqlite://") as store:
        live = store.start("a", sl.Experiment(policies={"a": policy}, **SMALL))
        live.reward(live.assign("first").id, 1.0)
        assignment = live.assign("second")
        before = dict(counts)
        live.reward(assignment.id, 1.0)
        return {name: counts[name] - number for name, number in before.items()}


def test_a_period_searches_no_arguments(counts):
    assert count_in_period(counts, sl.UCB1()) == {"runs_user_code": 0, "interruptible": 0}


@pytest.mark.slow
@pytest.mark.parametrize("wrap", [lambda policy: policy, lambda policy: sl.Batched(policy, 1)])
def test_a_users_policy_can_be_interrupted(counts, wrap):
    """Within another policy too: only the class inside tells that a user wrote it."""
    mine = make_mine()()
    assert count_in_period(counts, wrap(mine)) == {"runs_user_code": 0, "interruptible": 1}
