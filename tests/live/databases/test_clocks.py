"""Deadlines follow the server's clock, or that of this machine without its jumps; a clock that is off is named."""

import os
import time
from datetime import datetime, timedelta

import pytest

import sameluck as sl
from sameluck.live.calls.timing import SteadyClock
from sameluck.live.diagnostics.database import examine

SMALL = sl.Experiment(policies={"a": "ucb1"}, arms=2, horizon=50, replications=1)
LIVE = sl.LiveOptions(reward=sl.Reward(window_seconds=600))
HOURS = 7_200


@pytest.fixture
def jump(monkeypatch):
    """Set the clock of this machine to another time."""
    real = time.time

    def by(seconds):
        monkeypatch.setattr(time, "time", lambda: real() + seconds)

    return by


def due(live, id):
    return datetime.fromisoformat(live.describe(id).due_at)


def test_a_jump_does_not_change_a_steady_clock(jump):
    clock = SteadyClock()
    before = clock.now()
    jump(HOURS)
    assert 0 <= clock.now() - before < 60
    assert HOURS - 60 < clock.ahead() < HOURS + 60
    clock.set(1_000.0, time.monotonic() - 5)
    assert 1_005 <= clock.now() < 1_065


@pytest.mark.parametrize("seconds", [HOURS, -HOURS])
def test_a_clock_that_jumps_ends_no_window(url, jump, seconds):
    with sl.open(url, timeout=60) as store:
        live = store.start("trial", SMALL, options=LIVE)
        first = live.assign("ann").id
        jump(seconds)
        assert live.tick() == 0
        second = live.assign("bob")
        assert second.reason == "NO_OPEN_SLOT"
        assert live.reward(first, 1.0).applied
        later = due(live, live.assign("carl").id)
        assert later - datetime.fromisoformat(live.started_at) < timedelta(seconds=660)


def test_a_process_whose_clock_is_off_serves_by_that_of_the_server(postgres_url, jump):
    with sl.open(postgres_url, timeout=60) as right:
        live = right.start("trial", SMALL, options=LIVE)
        id = live.assign("ann").id
        first = due(live, id)
        jump(HOURS)
        with sl.open(postgres_url, timeout=60) as wrong:
            served = wrong.load("trial")
            assert served.tick() == 0
            assert served.reward(id, 1.0).applied
            second = served.assign("bob").id
        assert due(live, second) - first < timedelta(seconds=60)


def test_a_clock_that_is_off_is_named(url, jump):
    with sl.open(url, timeout=60) as store:
        live = store.start("trial", SMALL)
        assert not [check for check in examine(store) if check.name == "clocks"]
        live.assign("ann")
        (check,) = [check for check in examine(store) if check.name == "clocks"]
        assert check.verdict == "fine"
        jump(2 * HOURS)
        store.load("trial").assign("bob")  # a process notes its clock when it first assigns
        (check,) = [check for check in examine(store) if check.name == "clocks"]
        assert check.verdict == "watch"
        assert f":{os.getpid()} is " in check.sentence
        assert check.sentence.count("ahead") == 1
