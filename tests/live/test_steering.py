"""Pausing, resuming, stopping; when an experiment is over."""

import itertools

import pytest

import sameluck as sl

EXPERIMENT = sl.Experiment(
    policies={"a": sl.UCB1(), "b": sl.Uniform()}, arms=2, horizon=6, replications=4, seed=2
)


@pytest.fixture
def store():
    with sl.open("sqlite://") as opened:
        yield opened


def serve(live, count=10_000):
    """Users who are paid at once, until nobody is needed."""
    units = itertools.count(int(live.status().users * 1_000))
    for _ in range(count):
        answer = live.assign(next(units))
        if not answer.enrolled:
            return
        live.reward(answer.id, 1.0)


def test_a_drain_goes_on_after_a_pause(store):
    live = store.start("x", EXPERIMENT, live=sl.Live(open_replications=2))
    live.stop(reason="enough")
    live.pause()
    live.resume()
    assert live.status().status == "draining"
    serve(live)
    status = live.status()
    assert (status.status, status.complete, status.opened) == ("stopped", 2, 2)


def test_a_run_goes_on_after_two_pauses(store):
    live = store.start("x", EXPERIMENT)
    live.pause()
    live.pause()
    live.resume()
    assert live.status().status == "running"


def test_an_experiment_is_over_when_its_audits_are(store):
    live = store.start("x", EXPERIMENT, live=sl.Live(audit_share=1.0))
    serve(live)
    status = live.status()
    assert (status.status, status.complete, status.wanted) == ("complete", 4, 0)
    replayed = int(live.runs().replayed.sum())
    assert status.users == int(live.runs().interactions.sum()) + replayed


def test_results_do_not_wait_for_audits(store):
    live = store.start("x", EXPERIMENT, live=sl.Live(audit_share=1.0, open_replications=1))
    units = itertools.count()
    while live.status().complete < 4:
        answer = live.assign(next(units))
        if not live.describe(answer.id).audit:
            live.reward(answer.id, 0.0)
    assert live.runs().replications == 4
    assert live.status().status == "running"
