"""Pausing, resuming, stopping; when an experiment is over."""

import itertools

import pytest

import sameluck as sl
from sameluck.live.control.challengers import Challenger
from sameluck.live.databases.sqlite import SqliteTransaction

EXPERIMENT = sl.Experiment(
    policies={"a": sl.UCB1(), "b": sl.Uniform()}, arms=2, horizon=6, replications=4, seed=2
)


@pytest.fixture
def store():
    with sl.open("sqlite://") as opened:
        yield opened


def serve(live, count=10_000):
    """Users whose rewards are reported at once, until none is needed."""
    units = itertools.count(int(live.status().users * 1_000))
    for _ in range(count):
        answer = live.assign(next(units))
        if not answer.enrolled:
            return
        live.reward(answer.id, 1.0)


def test_a_drain_continues_after_a_pause(store):
    live = store.start("x", EXPERIMENT, options=sl.LiveOptions(open_replications=2))
    live.stop(reason="enough")
    live.pause()
    live.resume()
    assert live.status().status == "draining"
    serve(live)
    status = live.status()
    assert (status.status, status.complete, status.opened) == ("stopped", 2, 2)


def test_a_run_continues_after_two_pauses(store):
    live = store.start("x", EXPERIMENT)
    live.pause()
    live.pause()
    live.resume()
    assert live.status().status == "running"


def test_what_was_stopped_at_once_stays_so_when_a_challenger_joins(store):
    live = store.start("x", EXPERIMENT)
    live.stop(drain=False)
    live.add_policy("late", sl.UCBDelta())
    assert live.status().status == "stopped"
    assert live.assign("u").reason == "NOT_RUNNING"


def test_while_a_challenger_joins_only_replications_with_new_rewards_are_read(
    tmp_path, monkeypatch
):
    with sl.open(f"sqlite:///{tmp_path / 'x.db'}?synchronous=normal") as store:
        live = store.start("x", EXPERIMENT, options=sl.LiveOptions(open_replications=4))
        serve(live, 9)
        writer = store.database.write(lambda t: t.connection)
        executed, execute, catch_up = [], SqliteTransaction._execute, Challenger.catch_up

        def note(transaction, name, values):
            if transaction.connection is writer:
                executed.append((name, values.get("replication")))
            return execute(transaction, name, values)

        def serve_after(challenger, derived):
            catch_up(challenger, derived)
            late.append(live.assign("late").id)
            live.reward(late[0], 1.0)
            monkeypatch.setattr(SqliteTransaction, "_execute", note)

        late = []
        monkeypatch.setattr(Challenger, "catch_up", serve_after)
        live.add_policy("late", "thompson_bernoulli")
        monkeypatch.undo()
        reads = {"ledger", "settled_since", "values"}
        expected = [("settled_since", live.describe(late[0]).replication)]
        assert [row for row in executed if row[0] in reads] == expected
        serve(live)
        assert live.verify() == 4


def test_a_reward_that_a_challenger_cannot_read_keeps_it_out_even_at_the_last_moment(
    tmp_path, monkeypatch
):
    with sl.open(f"sqlite:///{tmp_path / 'x.db'}?synchronous=normal") as store:
        live = store.start("x", EXPERIMENT)
        catch_up = Challenger.catch_up

        def serve_after(challenger, derived):
            catch_up(challenger, derived)
            live.reward(live.assign("late").id, 0.5)

        monkeypatch.setattr(Challenger, "catch_up", serve_after)
        for _ in range(2):  # the second time it is found before
            with pytest.raises(sl.Invalid, match="needs rewards 0 and 1"):
                live.add_policy("late", "thompson_bernoulli")
        assert list(live.experiment.policies) == ["a", "b"]
        serve(live)
        assert live.verify() == 4


def test_a_window_that_ends_in_a_failing_policy_costs_no_user_the_arm():
    class Breaks:
        def __init__(self, *_):
            self.seen = 0

        def select(self, period):
            return 0 if period == 1 else self.missing

        def update(self, *_):
            self.seen += 1

    now = [1_000.0]
    alone = EXPERIMENT.replace(policies={"breaks": sl.External("breaks")}, replications=1)
    with sl.open("sqlite://", clock=lambda: now[0]) as store:
        live = store.start("x", alone, makers={"breaks": Breaks})
        assert live.assign("first").enrolled
        now[0] += 1e6
        answer = live.assign("second")
        assert (answer.enrolled, answer.arm, answer.reason) == (False, "0", "NOT_RUNNING")
        assert "AttributeError" in live.status().reason


def test_looking_and_pausing_take_no_policies(tmp_path):
    class Zero:
        def __init__(self, *_):
            pass

        def select(self, *_):
            return 0

        def update(self, *_):
            pass

    url = f"sqlite:///{tmp_path / 'x.db'}"
    with sl.open(url) as store:
        store.start("x", EXPERIMENT.replace(policies={"z": sl.External("z")}), makers={"z": Zero})
    with sl.open(url) as store:
        live = store.peek("x")
        live.pause()
        assert live.status().status == "paused"
        with pytest.raises(sl.Invalid, match="pass makers"):
            live.runs()


def test_closing_counts_the_last_calls(tmp_path):
    url = f"sqlite:///{tmp_path / 'x.db'}?synchronous=normal"
    with sl.open(url) as store:
        live = store.start("x", EXPERIMENT)
        for unit in range(50):
            live.assign(unit)
    with sl.open(url) as store:
        assert sum(store.load("x").status().answers.values()) == 50


def test_a_live_experiment_is_not_its_runs(store):
    with pytest.raises(sl.Invalid, match=r"live\.runs\(\)"):
        sl.compare(store.start("x", EXPERIMENT))


def test_an_experiment_is_over_when_its_audits_are(store):
    live = store.start("x", EXPERIMENT, options=sl.LiveOptions(audit_share=1.0))
    serve(live)
    status = live.status()
    assert (status.status, status.complete, status.wanted) == ("complete", 4, 0)
    replayed = int(live.runs().replayed.sum())
    assert status.users == int(live.runs().interactions.sum()) + replayed


def test_results_do_not_wait_for_audits(store):
    live = store.start(
        "x", EXPERIMENT, options=sl.LiveOptions(audit_share=1.0, open_replications=1)
    )
    units = itertools.count()
    while live.status().complete < 4:
        answer = live.assign(next(units))
        if not live.describe(answer.id).audit:
            live.reward(answer.id, 0.0)
    assert live.runs().replications == 4
    assert live.status().status == "running"
