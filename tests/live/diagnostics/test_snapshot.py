"""Diagnostics of real ledgers: quiet when all is well, loud when something was broken on purpose.

A sound experiment fails a random check here with probability at most 1e-6 (`budget`), whatever the units' hashes.
What is broken is broken so badly that its p-value is far below an alarm's.
"""

import hashlib
import json
import sys

import numpy as np
import pytest
from users import ENDED, Users, finish

import budget
import sameluck as sl
from sameluck.live import diagnostics
from sameluck.live.diagnostics import check, snapshot
from sameluck.live.diagnostics.snapshot import Snapshot
from sameluck.live.diagnostics.summaries import MAX_VOIDS
from sameluck.live.state import ledger

BERNOULLI = sl.Bernoulli([0.5, 0.6])
START = 1_700_000_000.0
ALWAYS = {
    "rebuild",
    "audit log",
    "open slots",
    "enrolment",
    "visits",
    "sample ratio",
    "drift",
    "loss",
    "delay",
}


def experiment(**changes):
    values = {
        "policies": {"old": "ucb1", "new": "thompson_bernoulli"},
        "arms": ("red", "blue"),
        "horizon": 30,
        "replications": 12,
        "seed": 2,
    }
    return sl.Experiment(**{**values, **changes})


def uniform_at(*place):
    """A number in [0, 1) that belongs to a place."""
    digest = hashlib.blake2b(repr(place).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") / 2**64


def serve(live, clock, answer, *, units=3_000, seconds=1.0, first=0):
    """One unit per second; `answer(assignment, n)` gives its reward, or None for none."""
    for n in range(first, first + units):
        clock.advance(seconds)
        assignment = live.assign(n)
        if assignment.id is not None and (value := answer(assignment, n)) is not None:
            live.reward(assignment.id, value)


def by_name(found):
    return {row.name: row for row in found}


class TestAnEmptyExperiment:
    @pytest.mark.parametrize("design", ["replay", "naive"])
    def test_nothing_is_known_and_nothing_breaks(self, any_store, design):
        live = any_store.start(
            "shop", experiment(design=design), options=sl.LiveOptions(audit_share=0.1)
        )

        checks = by_name(live.diagnostics())

        audits = {"replay audit"} if design == "replay" else set()
        assert set(checks) == ALWAYS | audits
        for name in {"enrolment", "visits", "drift", "loss", "delay"} | audits:
            assert checks[name].verdict == "unknown"
        for name in ("rebuild", "open slots", "sample ratio"):
            assert checks[name].verdict == "fine"

    def test_equal_policies_and_no_replication_complete(self, store):
        live = store.start("shop", experiment(), options=sl.LiveOptions(aa=True))

        assert by_name(live.diagnostics())["same policy"].verdict == "unknown"

    def test_read_only(self, tmp_path):
        url = f"sqlite:///{tmp_path / 'live.db'}?synchronous=normal"
        with sl.open(url) as store:
            store.start("shop", experiment())
        with sl.open(url, read_only=True) as store:
            assert by_name(store.peek("shop").diagnostics())["rebuild"].verdict == "fine"

    def test_an_imported_log(self, store):
        rows = [{"arm": ("red", "blue")[n % 2], "paid": n % 3 == 0} for n in range(60)]
        policies = dict(experiment().policies)
        record = store.import_log("shop", rows, arm="arm", reward="paid", policies=policies)

        checks = by_name(record.live.diagnostics())

        assert checks["rebuild"].verdict == "fine"
        assert checks["drift"].verdict == "unknown", "a log's rewards are not of current users"


@pytest.mark.slow
def test_a_sound_experiment_raises_no_alarm(any_store):
    live = any_store.start(
        "shop",
        experiment(),
        options=sl.LiveOptions(traffic_share=0.7, audit_share=0.2, open_replications=12),
    )
    users = Users(live.experiment, BERNOULLI)
    for unit in range(10_000):
        any_store.settings.clock.advance(1.0)
        if (assignment := live.assign(unit)).id:
            live.reward(assignment.id, users.reward(live, assignment.id))
        elif assignment.reason == "NOT_RUNNING":
            break

    checks = live.diagnostics()

    assert live.status().status in ENDED
    assert {row.name for row in checks} == ALWAYS | {"replay audit"}
    random = {"sample ratio", "drift", "replay audit"}
    for row in checks:
        if row.name in random:
            assert row.p_value > budget.ALARM
        else:
            assert row.verdict == "fine", row
    for row in checks:
        assert json.loads(json.dumps(row._asdict()))["details"] == row.details
        assert row.sentence.endswith((".", "?"))


@pytest.mark.slow
def test_drift_is_seen_in_the_order_of_assignment(store):
    live = store.start("shop", experiment(replications=20))

    def answer(given, n):
        chance = 0.3 if live.status().complete < 10 else 0.8
        return int(uniform_at("drift", n) < chance)

    serve(live, store.settings.clock, answer, units=1_300)

    drift = by_name(live.diagnostics())["drift"]
    assert live.status().complete == 20
    assert drift.verdict == "alarm"


@pytest.mark.slow
def test_of_the_latest_users_only_the_quick_have_ended_and_they_are_not_judged(store):
    """Only purchases are reported: a unit that has ended within the last window has bought."""
    options = sl.LiveOptions(open_replications=60, reward=sl.Reward(window_seconds=100))
    live = store.start("shop", experiment(replications=60), options=options)
    given = []

    def answer(assignment, n):
        given.append(assignment.id)
        return 1 if uniform_at("buys", n) < 0.5 else None

    serve(live, store.settings.clock, answer, units=600)
    states = [live.describe(id).status for id in given]
    ended = states.index("assigned")

    checks = by_name(live.diagnostics(silence_is_zero=True))

    assert 0 < ended < len(given) - 20
    assert "settled" in states[ended:]
    assert sum(row["rewards"] for row in checks["drift"].details["arms"]) == ended
    assert sum(row["assigned"] for row in checks["loss"].details["arms"]) == ended
    bought = sum(live.describe(id).source == "observed" for id in given[:ended])
    assert sum(row["rewards"] for row in checks["delay"].details["arms"]) == bought < ended


def test_of_a_long_ledger_a_sample_is_read(any_store, monkeypatch):
    """Of more assignments than fit every fourth entry of a stack is read, whatever its reward; the checks say so."""
    live = any_store.start("shop", experiment(), options=sl.LiveOptions(open_replications=4))
    users = Users(live.experiment, BERNOULLI)
    for unit in range(100):
        any_store.settings.clock.advance(1.0)
        if assignment := live.assign(unit).id:
            live.reward(assignment, users.reward(live, assignment))

    def read():
        return live.open_replications.read(
            lambda rows: (found := Snapshot(rows, live.options, 0)).ended and found
        )

    whole = read()
    assert whole.ended.step == 1
    assert whole.ended.arm.size > 30
    monkeypatch.setattr(ledger, "MAX_REPLICATIONS", 1)
    assert [row.tolist() for row in read().ended[:4]] == [row.tolist() for row in whole.ended[:4]]
    monkeypatch.setattr(snapshot, "MAX_SAMPLE", -(-whole.assigned // 3))
    sample = read()
    assert sample.ended.step == 4
    rows = np.concatenate([summary.assignments for summary in whole.summaries.values()])
    rows = rows[np.argsort(rows["assigned_us"], kind="stable")]
    chosen = (rows["position"] + rows["arm"] + rows["replication"]) % 4 == 0
    assert 0.15 < chosen.mean() < 0.35
    for name in ("arm", "end", "value"):
        assert (getattr(sample.ended, name) == getattr(whole.ended, name)[chosen]).all()
    checks = by_name(live.diagnostics())
    for name in ("drift", "loss", "delay"):
        assert (
            f"Read: one assignment in 4, {sample.ended.arm.size:,} ended" in checks[name].sentence
        )
        assert checks[name].details["every"] == 4


def test_of_many_units_a_sample_is_read(any_store, monkeypatch):
    live = any_store.start("shop", experiment(), options=sl.LiveOptions(open_replications=4))
    for unit in range(200):
        live.assign(unit)
    whole = by_name(live.diagnostics())["visits"]
    monkeypatch.setattr("sameluck.live.diagnostics.traffic.MAX_UNITS", 60)
    sample = by_name(live.diagnostics())["visits"]
    assert whole.details["arrived"] == 200
    assert sample.details["every"] == 4
    # Binomial with mean 50 and standard deviation 6.1: outside with probability below 1e-7
    assert 15 < sample.details["arrived"] < 86
    assert sample.sentence.endswith("Read: one unit in 4.")


def test_time_is_up_whether_or_not_anybody_ticked(store):
    options = sl.LiveOptions(open_replications=12, reward=sl.Reward(window_seconds=100))
    live = store.start("shop", experiment(), options=options)
    for unit in range(10):
        live.assign(unit)
    assert by_name(live.diagnostics())["loss"].verdict == "unknown"

    store.settings.clock.advance(1_000)

    checks = by_name(live.diagnostics())["loss"]
    assert sum(row["defaulted"] for row in checks.details["arms"]) == 10
    assert live.status().defaulted == 0, "looking changes nothing"


@pytest.mark.slow
class TestLoss:
    def options(self):
        return sl.LiveOptions(
            exposure="explicit", open_replications=12, reward=sl.Reward(window_seconds=2)
        )

    def lossy(self, store, lost):
        live = store.start("shop", experiment(replications=60), options=self.options())
        clock = store.settings.clock
        for n in range(1_500):
            clock.advance(1.0)
            assignment = live.assign(n)
            if assignment.id is None:
                continue
            live.expose(assignment.id)
            if uniform_at("lost", n) >= lost[assignment.arm]:
                live.reward(assignment.id, int(uniform_at("paid", n) < 0.5))
        clock.advance(10)
        return live

    def test_one_arm_loses_rewards(self, store):
        live = self.lossy(store, {"red": 0.0, "blue": 0.4})

        checks = by_name(live.diagnostics())["loss"]

        assert checks.verdict == "alarm"
        assert "rewards of one arm fail to come more often" in checks.sentence

    def test_silence_may_be_how_nothing_is_reported(self, store):
        live = self.lossy(store, {"red": 0.0, "blue": 0.4})

        checks = by_name(live.diagnostics(silence_is_zero=True))["loss"]

        assert checks.verdict == "fine"
        assert checks.details["silence_is_zero"]

    def test_late_rewards_are_counted_once(self, store):
        live = store.start("shop", experiment(), options=self.options())
        id = live.assign("slow").id
        live.expose(id)
        store.settings.clock.advance(5)
        for _ in range(3):
            with pytest.raises(sl.Conflict):
                live.reward(id, 1)

        arms = by_name(live.diagnostics())["loss"].details["arms"]

        assert sum(row["late"] for row in arms) == 1


@pytest.mark.parametrize("now", [0.0, 1.8e9 + START])
def test_a_clock_that_is_far_off(tmp_path, now):
    url = f"sqlite:///{tmp_path}/ledger.db"
    with sl.open(url, clock=sl.VirtualClock(START)) as store:
        store.start("shop", experiment())
    with sl.open(url, clock=sl.VirtualClock(now)) as store:
        checks = by_name(store.load("shop").diagnostics())["open slots"]

    assert (
        "replication 0, opened at 2023-11-14T22:13:20+00:00, far from the time" in checks.sentence
    )


def test_delays_count_from_exposure(store):
    options = sl.LiveOptions(
        exposure="explicit",
        lease_seconds=60,
        reward=sl.Reward(window_seconds=100),
        open_replications=12,
    )
    live = store.start("shop", experiment(replications=20), options=options)
    for n in range(200):
        assignment = live.assign(n)
        store.settings.clock.advance(50)
        live.expose(assignment.id)
        store.settings.clock.advance(95)
        live.reward(assignment.id, n % 2)

    checks = by_name(live.diagnostics())["delay"]

    assert checks.verdict == "alarm"
    assert all(row["median"] == 95 for row in checks.details["arms"])


class TestSampleRatio:
    def counted(self, live, **calls):
        rows = [{"experiment": live.id, "reason": r, "calls": n} for r, n in calls.items()]
        live.open_replications.database.write(
            lambda transaction: transaction.execute_many("count_answers", rows)
        )
        return by_name(live.diagnostics())["sample ratio"]

    @pytest.mark.slow
    def test_the_gate(self, store):
        live = store.start("shop", experiment(), options=sl.LiveOptions(traffic_share=0.5))

        fine = self.counted(live, ASSIGNED=400, NO_OPEN_SLOT=580, NOT_IN_TRAFFIC_SHARE=1_000)
        broken = self.counted(live, NOT_IN_TRAFFIC_SHARE=1_000)

        assert fine.verdict == "fine"
        assert broken.verdict == "alarm"

    def test_calls_of_one_user_are_not_several_users(self, store):
        live = store.start("shop", experiment(), options=sl.LiveOptions(traffic_share=0.5))

        checks = self.counted(live, ASSIGNED=400, STICKY=7_600, NOT_IN_TRAFFIC_SHARE=8_600)

        assert checks.details["calls_a_user"] == 20
        assert (checks.details["inside"], checks.details["outside"]) == (400, 430)
        assert checks.verdict == "fine"

    def test_calls_that_are_still_in_memory_count(self, store):
        live = store.start("shop", experiment())
        for unit in range(7):
            live.assign(unit)

        assert by_name(live.diagnostics())["enrolment"].details["could_enter"] == 7


@pytest.mark.slow
class TestReplayAudit:
    def run(self, store, shift, replications=30):
        live = store.start(
            "shop",
            experiment(replications=replications, horizon=20),
            options=sl.LiveOptions(audit_share=0.5, open_replications=1),
        )
        users = Users(live.experiment, BERNOULLI)
        differences = {}
        for unit in range(20_000):
            if (assignment := live.assign(unit)).id is None:
                break
            row = live.describe(assignment.id)
            value = users.reward(live, assignment.id)
            if row.audit:
                fresh = int(uniform_at("audit", unit) < BERNOULLI.means[row.arm_index] + shift)
                differences[row.replication] = differences.get(row.replication, 0) + fresh - value
                value = fresh
            live.reward(assignment.id, value)
        return live, differences

    def test_users_give_what_was_replayed(self, store):
        live, differences = self.run(store, 0.0)

        checks = by_name(live.diagnostics())["replay audit"]

        assert checks.p_value > budget.ALARM
        counted = [differences[number] for number in range(live.status().complete - 1)]
        assert checks.details["replications"] in (len(counted), len(counted) + 1)
        if checks.details["replications"] == len(counted):
            assert checks.details["mean"] == pytest.approx(np.mean(counted))

    def test_users_give_less_now(self, store):
        live, _ = self.run(store, -0.5)

        assert by_name(live.diagnostics())["replay audit"].verdict == "alarm"

    def test_a_replication_whose_audit_is_not_settled_ends_the_prefix(self, store):
        live, _ = self.run(store, 0.0)
        before = by_name(live.diagnostics())["replay audit"].details["replications"]
        undo = (
            "UPDATE entry SET state = 'wanted', value = NULL, source = NULL, settled = NULL, assignment = NULL "
            "WHERE owner = -1 AND replication = 12"
        )
        store.database.write(lambda transaction: transaction.connection.execute(undo))

        after = by_name(live.diagnostics())["replay audit"].details["replications"]

        assert after == 12 < before


class TestSamePolicy:
    def found(self, store, **changes):
        live = store.start("shop", experiment(**changes))
        finish(live, Users(live.experiment, BERNOULLI))
        return [row for row in live.diagnostics() if row.name == "same policy"]

    @pytest.mark.slow
    def test_deterministic_ones_agree_to_the_bit(self, store):
        policies = {"a": "ucb1", "other": "uniform", "b": "ucb1", "c": "ucb1"}

        first, second = self.found(store, policies=policies)

        assert first.details["policies"] == ["b", "a"]
        assert second.details["policies"] == ["c", "a"]
        for row in (first, second):
            assert row.verdict == "fine"
            assert row.details["exact"]
            assert row.details["replications"] == 12
        live = store.peek("shop")
        names = ["c", "other"]
        live.runs()  # from which the runs of some policies are taken
        alone = store.peek("shop").runs(policies=names)
        assert live.runs(policies=names).rewards.tolist() == alone.rewards.tolist()

    @pytest.mark.slow
    def test_with_shared_noise_they_do_too(self, store):
        policies = {"a": "thompson_bernoulli", "b": "thompson_bernoulli"}

        (row,) = self.found(store, policies=policies, design="replay(share_noise=true)")

        assert (row.verdict, row.details["exact"]) == ("fine", True)

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "changes",
        [
            {"policies": {"a": "uniform", "b": "uniform"}},
            {"policies": {"a": "ucb1", "b": "ucb1"}, "design": "naive"},
        ],
    )
    def test_otherwise_they_differ_at_random(self, store, changes):
        (row,) = self.found(store, **changes)

        assert not row.details["exact"]
        assert row.p_value > budget.ALARM

    @pytest.mark.slow
    def test_different_ones_are_not_compared(self, store):
        assert self.found(store, policies={"a": "ucb1(alpha=1)", "b": "ucb1(alpha=2)"}) == []


def test_a_module_of_the_package_is_a_check(store, tmp_path, monkeypatch):
    (tmp_path / "arrivals.py").write_text(
        "from sameluck.live.diagnostics.check import Check, diagnostic\n\n\n"
        "@diagnostic('arrivals')\n"
        "def arrivals(snapshot):\n"
        "    calls = sum(snapshot.calls.values())\n"
        "    yield Check('arrivals', 'fine', f'{calls} calls.', None, {'calls': calls})\n"
    )
    monkeypatch.setattr(diagnostics, "__path__", [*diagnostics.__path__, str(tmp_path)])
    monkeypatch.setattr(check, "_registered", dict(check._registered))
    order = (*check.ORDER[:6], "arrivals", *check.ORDER[6:])
    monkeypatch.setattr(check, "ORDER", order)
    live = store.start("shop", experiment())
    live.assign("ann")

    names = [check.name for check in live.diagnostics()]

    sys.modules.pop("sameluck.live.diagnostics.arrivals")
    unlisted = [name for name in names if name not in order]
    assert names == [name for name in order if name in ALWAYS | {"arrivals"}] + unlisted
    assert set(unlisted) == ALWAYS - set(order)


@pytest.mark.slow
def test_a_ledger_that_was_edited(any_store):
    live = any_store.start("shop", experiment(policies={"a": "ucb1", "b": "ucb1"}))
    finish(live, Users(live.experiment, BERNOULLI))
    change = "UPDATE entry SET value = 1 - value WHERE replication = 5 AND position < 8"
    any_store.database.write(lambda transaction: transaction.connection.execute(change))

    checks = by_name(live.diagnostics())

    assert checks["rebuild"].verdict == "alarm"
    assert checks["rebuild"].sentence.startswith("Replication 5: ")
    assert "same policy" not in checks, "there is no check of what cannot be derived"
    assert live.status().status == "complete", "looking changes nothing"


class TestOpenSlots:
    def test_the_head_of_the_line(self, store):
        live = store.start("shop", experiment(), options=sl.LiveOptions(open_replications=3))
        live.assign("somebody")
        store.settings.clock.advance(7_200)

        checks = by_name(live.diagnostics())["open slots"]

        assert checks.verdict == "fine"
        assert checks.details["head_of_line"] == 0
        assert checks.details["open_for_seconds"] == 7_200
        assert checks.details["wanted"] == live.status().wanted == 4
        assert checks.details["assigned"] == 1
        assert "4 entries wait for a user and 1 for a reward" in checks.sentence
        assert "replication 0, open for 2 h" in checks.sentence

    @pytest.mark.slow
    def test_a_replication_that_takes_far_longer_than_others(self, store):
        live = store.start(
            "shop",
            experiment(replications=30),
            options=sl.LiveOptions(open_replications=2, reward=sl.Reward(window_seconds=1e6)),
        )
        users = Users(live.experiment, BERNOULLI)
        first = live.assign("never answers")
        assert live.describe(first.id).replication == 0
        serve(
            live,
            store.settings.clock,
            lambda assignment, _: users.reward(live, assignment.id),
            units=800,
        )

        early = by_name(live.diagnostics())["open slots"]
        store.settings.clock.advance(10_000)
        late = by_name(live.diagnostics())["open slots"]

        assert early.details["slowest_complete_seconds"] > 0
        assert late.verdict == "watch"
        assert "Results wait for replication 0" in late.sentence
        assert "No complete replication took longer than" in late.sentence
        live.pause()
        at_rest = by_name(live.diagnostics())["open slots"]
        assert at_rest.verdict == "fine"
        assert at_rest.sentence.endswith("replication 0 stays unfinished until it is resumed.")
        live.resume()
        live.stop(drain=False)
        at_rest = by_name(live.diagnostics())["open slots"]
        assert at_rest.verdict == "fine"
        assert at_rest.sentence.endswith("replication 0 stays unfinished.")

    @pytest.mark.slow
    def test_an_arm_that_cannot_be_shown(self, any_store):
        live = any_store.start("shop", experiment())
        for n in range(MAX_VOIDS + 1):
            assert by_name(live.diagnostics())["open slots"].verdict == "fine" or n > MAX_VOIDS
            live.void(live.assign(n).id)

        checks = by_name(live.diagnostics())["open slots"]

        assert checks.verdict == "watch"
        assert checks.details["voided_often"] == [
            {"replication": 0, "arm": "red", "position": 0, "times": MAX_VOIDS + 1}
        ]
        assert "1 entry was voided more than 20 times" in checks.sentence
        assert "arm red in replication 0 21 times" in checks.sentence

    def test_nothing_is_open_any_more(self, store):
        live = store.start("shop", experiment(replications=2))
        finish(live, Users(live.experiment, BERNOULLI))

        checks = by_name(live.diagnostics())["open slots"]

        assert checks.verdict == "fine"
        assert checks.sentence == "No replication is open."
