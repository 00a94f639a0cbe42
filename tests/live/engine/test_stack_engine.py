"""What needs reward stacks refuses an engine without them; all else works with the protocol alone."""

from itertools import count

import pytest
from plain_engine import PlainEngine

import sameluck as sl
from sameluck.live.engine.protocol import StackEngine
from sameluck.live.engine.replication import Scheduler
from sameluck.live.rehearsal import VirtualClock
from sameluck.live.state import definition

POLICIES = {"ucb": "ucb1", "greedy": "epsilon_greedy"}
OPTIONS = sl.LiveOptions(reward=sl.Reward(window_seconds=60), audit_share=0.5)


@pytest.fixture
def plain(monkeypatch):
    monkeypatch.setattr(definition, "Scheduler", PlainEngine)


@pytest.fixture
def clock():
    return VirtualClock(1_700_000_000.0)


@pytest.fixture
def live(clock):
    experiment = sl.Experiment(policies=POLICIES, arms=2, horizon=4, replications=2, seed=1)
    with sl.open("sqlite://", clock=clock) as store:
        yield store.start("shop", experiment, options=OPTIONS)


def serve(live):
    for unit in count():
        if (assignment := live.assign(unit)).id is None:
            return
        live.reward(assignment.id, 0.5)


def refusal(function):
    return (
        rf"^{function} needs an experiment with reward stacks, got design replay; start another experiment with "
        r"Replay\(\) or Naive\(\)$"
    )


def test_reward_stacks_are_a_stack_engine():
    engine = Scheduler(sl.Experiment(policies=POLICIES, arms=2, horizon=4, replications=2))

    assert isinstance(engine, StackEngine)
    assert not isinstance(PlainEngine(engine.experiment), StackEngine)
    assert (engine.admits_challengers, engine.deals) == (True, False)


@pytest.mark.usefixtures("plain")
def test_users_are_served_to_the_end_by_an_engine_of_the_protocol_alone(live):
    serve(live)

    assert live.status().status == "complete"
    assert live.runs().replications == 2
    assert live.runs().observed is None


@pytest.mark.usefixtures("plain")
def test_a_challenger_needs_stacks(live):
    for call in (live.add_policy, live.preview_policy):
        with pytest.raises(sl.Invalid, match=refusal("add_policy")):
            call("late", "uniform")
    assert list(live.experiment.policies) == list(POLICIES)


def test_an_engine_may_admit_no_challengers(live, monkeypatch):
    monkeypatch.setattr(Scheduler, "admits_challengers", False)

    with pytest.raises(
        sl.Invalid, match=r"^add_policy: design replay takes no policy after the start"
    ):
        live.add_policy("late", "uniform")


@pytest.mark.usefixtures("plain")
def test_default_rewards_are_taken_back_from_stacks_alone(live, clock):
    live.assign("anna")
    clock.advance(61)
    live.tick()

    with pytest.raises(sl.Invalid, match=refusal("extend_windows")):
        live.extend_windows(3600, reason="a slow queue")
    assert live.status().defaulted == 1


@pytest.mark.usefixtures("plain")
def test_a_log_is_imported_into_stacks_alone():
    rows = [{"arm": arm, "reward": 0.5} for arm in ("a", "b")]
    with sl.open("sqlite://") as store, pytest.raises(sl.Invalid, match=refusal("import_log")):
        store.import_log("shop", rows, arm="arm", reward="reward", policies=POLICIES)


@pytest.mark.usefixtures("plain")
def test_the_replay_audit_tells_that_it_has_no_stacks(live):
    serve(live)

    (audit,) = [check for check in live.diagnostics() if check.name == "replay audit"]
    assert audit.verdict == "unknown"
    assert audit.sentence.startswith(
        "The replay audit needs an experiment with reward stacks, got "
    )


@pytest.mark.usefixtures("plain")
def test_the_engine_counts_the_users_of_results(live, monkeypatch):
    periods = []

    def users(_, results):
        periods.append([int(result.pulls[-1].sum()) for result in results])
        return 100 + results[0].checkpoints

    monkeypatch.setattr(PlainEngine, "users", users)
    serve(live)

    runs = live.runs(checkpoints=[2, 4])
    assert runs.interactions.tolist() == [[102, 104]] * 2
    assert periods == [[4, 4]] * 2
    backwards = live.runs(checkpoints=[2, 4], policies=["greedy", "ucb"])
    assert backwards.policies == ("greedy", "ucb")
    assert backwards.interactions.tolist() == [[102, 104]] * 2
    assert backwards.observed is None
