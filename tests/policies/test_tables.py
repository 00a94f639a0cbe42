"""Tables of a policy are made once per process, whatever the number of tasks and threads."""

import numpy as np
import pytest

import sameluck as sl
from sameluck.policies import base
from sameluck.policies.fast import rule_tables as tables


@pytest.fixture
def made(monkeypatch):
    """The horizons for which UCB1 made tables."""
    horizons, prepare = [], sl.UCB1.prepare

    def counted(policy, arms, horizon):
        horizons.append(horizon)
        return prepare(policy, arms, horizon)

    monkeypatch.setattr(sl.UCB1, "prepare", counted)
    monkeypatch.setattr(tables, "_kept", {})
    return horizons


def test_all_tasks_and_threads_share_tables(made):
    experiment = sl.Experiment(
        policies={"a": sl.UCB1(1.5), "b": sl.Uniform()}, arms=2, horizon=123, replications=64
    )
    for workers in (1, 4):
        sl.simulate(experiment, sl.Bernoulli([0.4, 0.6]), workers=workers)
    assert made.count(123) == 1


def test_policies_that_compare_equal_have_tables_of_their_own():
    """NamedTuples of different classes are equal if their fields are."""
    assert sl.UCBDelta(2.0, None) == sl.UCBDelta(2, None)
    delta, ucb = base.prepare(sl.UCBDelta(2.0, None), 2, 50), base.prepare(sl.UCB1(2.0), 2, 50)
    assert not np.array_equal(delta.growth, ucb.growth)
    assert base.prepare(sl.UCB1(2.0), 2, 50).growth is ucb.growth
    assert base.prepare(sl.UCB1(2), 2, 50).growth is not ucb.growth
    assert base.prepare(sl.UCB1(2.0), 2, 51).growth is not ucb.growth


def test_only_the_last_tables_are_kept(made, monkeypatch):
    monkeypatch.setattr(tables, "MAX_BYTES", 3 * 2 * 8 * 101)
    for alpha in (1.0, 2.0, 3.0, 4.0):
        base.prepare(sl.UCB1(alpha), 2, 100)
    base.prepare(sl.UCB1(4.0), 2, 100)
    assert len(made) == 4
    base.prepare(sl.UCB1(1.0), 2, 100)
    assert len(made) == 5
    for _ in range(2):
        base.prepare(sl.UCB1(5.0), 2, 10**6)
    assert len(made) == 6
    base.prepare(sl.UCB1(1.0), 2, 100)
    assert len(made) == 7  # the large tables were kept alone


def test_tables_that_are_kept_are_found_without_measuring_all(made, monkeypatch):
    """Else every task of a long process takes time for all the tables that earlier ones left."""
    base.prepare(sl.UCB1(1.0), 2, 100)
    monkeypatch.setattr(tables, "_bytes", None)
    base.prepare(sl.UCB1(1.0), 2, 100)
    assert made == [100]
