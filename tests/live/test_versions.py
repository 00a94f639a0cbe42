"""Versions of policies: a rolling deploy of two processes, and a user's own compiled policies."""

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from contract.scenario import ENVIRONMENT, START, TWO, Scenario, assert_same
from contract.versions import NEW, OLD

import sameluck as sl
from sameluck.policies.base import POLICIES

DEPLOYED = Path(__file__).with_name("deployed.py")


class Process(NamedTuple):
    """Another process, which has edited code."""

    popen: subprocess.Popen
    first: str  # what it printed when it loaded the experiment

    def call(self, method, *arguments, **options):
        self.popen.stdin.write(json.dumps([method, arguments, options]) + "\n")
        self.popen.stdin.flush()
        return json.loads(self.popen.stdout.readline())


@contextlib.contextmanager
def deployed(url, name):
    words = [sys.executable, str(DEPLOYED), url, name, str(START)]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as popen:
        try:
            yield Process(popen, json.loads(popen.stdout.readline()))
        finally:
            popen.kill()


def is_simulated(live, makers):
    expected = sl.simulate(live.experiment, ENVIRONMENT, makers=makers, workers=1)
    assert live.status().status == "complete"
    assert_same(live.runs(), expected)
    assert live.verify() == live.experiment.replications


def test_a_rolling_deploy_with_a_changed_policy(postgres_url):
    """Users and rewards go to both processes; the ledger is that of the old version alone, until it is replaced."""
    scenario = Scenario(lambda clock: sl.open(postgres_url, clock=clock))
    policies = {"fixed": "always(0)", "own": sl.External("own")}
    live = scenario.start(policies, makers=OLD, horizon=12)
    with deployed(postgres_url, "trial") as new:
        assert f":{new.popen.pid} has another version of policy 'own'" in new.first
        reasons = []
        while (answer := live.assign(scenario.unit())).reason != "NOT_RUNNING":
            reasons.append(new.call("assign", scenario.unit())[3])
            if answer.id is not None:
                receipt = new.call("reward", answer.id, scenario.reward_of(live, answer.id))
                assert receipt[0] is True
                scenario.serve(live)
        assert set(reasons) <= {"DIVERGED", "NOT_RUNNING"}
        assert reasons[0] == "DIVERGED"
        assert new.call("resume") == "other_version"
        is_simulated(live, OLD)

        replications, differences, applied = new.call("replace_policy_code", "own")
        assert (replications, applied) == (3, False)
        assert any(period is not None for _, period, _, _ in differences)
        assert new.call("replace_policy_code", "own", confirm=True, reason="a bug")[2] is True
        assert new.call("status")[1] == "running"
        scenario.clock.advance(2)
        live.assign("a")
        while live.status().status == "running":  # the old one answers, and rewards reach it
            assert live.assign(scenario.unit()).reason in ("DIVERGED", "NOT_RUNNING")
            (id, _, _, reason) = new.call("assign", scenario.unit())
            if id is not None:
                assert scenario.pay(live, id).applied
            else:
                assert reason in ("NO_OPEN_SLOT", "NOT_RUNNING")
                new.call("tick")
    live = scenario.reopen(live, makers=NEW)
    is_simulated(live, NEW)
    scenario.close()


def test_what_was_behind_is_taken_up_while_a_policy_is_removed(monkeypatch):
    """Between deriving what follows and the change itself, as another process would."""
    scenario = Scenario(lambda clock: sl.open("sqlite://", clock=clock))
    live = scenario.start({**TWO, "own": sl.External("own")}, makers=OLD)
    other = scenario.store.peek("trial", makers=NEW)
    database = scenario.store.database
    for id in scenario.enrol_all(live):
        scenario.pay(other, id)
    assert live.status().behind > 0
    read = database.read

    def then_take_up(work):
        message = read(work)
        monkeypatch.undo()
        live.tick()
        return message

    monkeypatch.setattr(database, "read", then_take_up)
    live.remove_policy("thompson")
    assert live.status().behind == 0
    scenario.finish(live)
    is_simulated(live, OLD)
    scenario.close()


def test_a_forked_process_names_itself():
    """The parent has found out, and said, that its code is another."""
    with sl.open("sqlite://") as store:
        policies = {"own": sl.External("own")}
        store.start(
            "trial", sl.Experiment(policies=policies, arms=3, horizon=9, replications=2), makers=OLD
        )
        live = store.peek("trial", makers=NEW)
        assert f":{os.getpid()} has another" in str(live.open_replications.definition.refusal)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            with contextlib.suppress(BaseException):
                os.write(writing, str(live.open_replications.definition.refusal).encode())
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as output:
            assert f":{child} has another" in output.read()
        os.waitpid(child, 0)


class Stepping(NamedTuple):
    """Plays the arms in turn; a constant of this module decides how."""

    offset: int = 0


STEP = 1


def register():
    @sl.selects(Stepping)
    def body(policy, tally, period, noise):
        return (policy.offset + period * STEP) % tally.pulls.size


@pytest.mark.slow
def test_a_policy_of_a_user_is_identified_by_what_it_does(tmp_path, monkeypatch):
    """Not by its text: registered again it is the same, with another constant it is not; without it others serve."""
    url = f"sqlite:///{tmp_path}/own.db?synchronous=normal"
    scenario = Scenario(lambda clock: sl.open(url, clock=clock))
    register()
    live = scenario.start({**TWO, "own": Stepping(offset=1)})
    late = scenario.start(name="late")
    late.add_policy("own", Stepping(offset=1))
    scenario.serve(live)
    register()
    live = scenario.reopen(live)

    monkeypatch.setitem(globals(), "STEP", 2)
    register()
    with pytest.raises(sl.OtherVersion, match="another version of policy 'own'"):
        scenario.reopen(live)
    changed = scenario.store.peek("trial")
    assert changed.assign("ann").reason == "DIVERGED"
    assert changed.status().status == "running"
    assert changed.replace_policy_code("own", confirm=True).applied
    scenario.finish(changed)
    is_simulated(changed, None)

    monkeypatch.delitem(POLICIES, "stepping")
    with pytest.raises(sl.Invalid, match=r"unknown policy 'stepping'.*import the module"):
        scenario.store.load("trial")
    without = scenario.store.load("late")
    assert tuple(without.experiment.policies) == tuple(TWO)
    assert scenario.serve(without).enrolled
    assert without.status().behind == 1
    without.remove_policy("own", reason="its code is gone")
    scenario.finish(without)
    is_simulated(without, None)
    scenario.close()
