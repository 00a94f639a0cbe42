"""Runs that are simulated again are equal, and a difference is named."""

from dataclasses import replace

import pytest

import sameluck as sl
from sameluck.simulation.verification import difference_from_rerun

EXPERIMENT = sl.Experiment(
    policies={"a": sl.UCB1(), "b": sl.Uniform()}, arms=2, horizon=30, replications=5, seed=3
)


@pytest.fixture(scope="module")
def runs():
    return sl.simulate(EXPERIMENT, "bernoulli(0.7, 0.3)", checkpoints=[10, 30])


def test_the_same_bits(runs):
    assert difference_from_rerun(runs) is None
    assert difference_from_rerun(runs.part(2, 2)) is None


@pytest.mark.parametrize(
    ("name", "place", "message"),
    [
        (
            "rewards",
            (2, 1, 0),
            "1 of 20 rewards differ, first in replication 2 of policy 'b' at checkpoint 10",
        ),
        (
            "pulls",
            (4, 0, 1, 1),
            "1 of 40 pulls differ, first in replication 4 of policy 'a' at checkpoint 30",
        ),
        (
            "interactions",
            (0, 1),
            "1 of 10 interactions differ, first in replication 0 at checkpoint 30",
        ),
    ],
)
def test_a_difference_is_named(runs, name, place, message):
    changed = getattr(runs, name).copy()
    changed[place] += 1
    assert difference_from_rerun(replace(runs, **{name: changed})) == message


def test_live_runs_cannot_be_simulated_again(runs):
    with pytest.raises(sl.Invalid, match="no environment: they are of a live experiment"):
        difference_from_rerun(replace(runs, environment=None))
