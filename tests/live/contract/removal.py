"""Rules about what is removed for good: experiments, units, and old lines of the audit log."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pytest

from contract.scenario import (
    FIVE,
    WINDOW,
    Scenario,
    assert_finished,
    assert_finishes,
    conflict_code,
    explicit,
    options,
)
from sameluck.errors import Conflict, Invalid, Unknown
from sameluck.live import records
from sameluck.live.control import removal
from sameluck.live.databases.base import Transaction, Values
from sameluck.live.databases.rows import (
    EventRow,
    ExperimentRow,
    HistoryRow,
    ReplicationMark,
)
from sameluck.live.experiment import LiveExperiment

MONTH = 30 * 86_400.0


class RemovalRules:
    """Rules about deletion, erasure and retention."""

    def _audit(self, live: LiveExperiment) -> str:
        (check,) = [check for check in live.diagnostics() if check.name == "audit log"]
        return check.verdict

    def test_a_deleted_experiment_is_gone_and_others_stay(self, scenario: Scenario) -> None:
        """Its name may be used again, its history has a line more, and who still has it gets the fallback arm."""
        kept = scenario.start(name="kept")
        for _ in range(5):
            scenario.serve(kept)
        live = scenario.start(FIVE)
        live.disable_arm(2)
        ids = [scenario.enrol(live), scenario.enrol(live)]
        scenario.pay(live, ids[0])
        for _ in range(20):
            live.assign(scenario.unit())
        live.stop(drain=False)
        scenario.store.delete("trial", reason="over")
        assert scenario.store.names() == ["kept"]
        for _ in range(2):
            assert live.assign("ann") == (None, "0", False, records.NOT_RUNNING)
            scenario.clock.advance(2)
        for call in (live.status, live.runs, live.resume, lambda: live.reward(ids[1], 1.0)):
            with pytest.raises(Unknown):
                call()
        with pytest.raises(Unknown):
            scenario.store.delete("trial")
        what = [(change.what, change.reason) for change in live.history()]
        assert what[0] == ("started", "")
        assert what[-1] == ("deleted", "over")
        again = scenario.start()
        assert again.id > live.id
        assert_finishes(scenario, again)
        assert_finishes(scenario, kept)

    def test_an_experiment_that_runs_is_not_deleted(self, scenario: Scenario) -> None:
        """A paused or draining experiment is not deleted either."""
        live = scenario.start()
        for prepare in (None, live.pause, live.resume, live.stop):
            if prepare is not None:
                prepare()
            with pytest.raises(
                Conflict, match=r"cannot be deleted; call stop\(drain=False\) first"
            ):
                scenario.store.delete("trial")
        scenario.finish(live)
        scenario.store.delete("trial")
        assert scenario.store.names() == []

    def test_a_deletion_that_was_interrupted_continues(
        self, scenario: Scenario, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """After each transaction what is left is consistent."""
        live = scenario.start(replications=4)
        scenario.finish(live)
        delete, left = removal._delete, [1]

        def interrupted(tables: Sequence[str], key: Values, transaction: Transaction) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise Invalid("interrupted")
            delete(tables, key, transaction)

        monkeypatch.setattr(removal, "MAX_ENTRIES", 10)
        monkeypatch.setattr(removal, "_delete", interrupted)
        with pytest.raises(Invalid, match="interrupted"):
            scenario.store.delete("trial")
        live = scenario.reopen(live)
        assert live.status().status == "stopped"
        assert 0 < live.verify() < 4
        monkeypatch.undo()
        scenario.store.delete("trial")
        assert scenario.store.names() == []
        assert [change.what for change in scenario.store.history()].count("deleted") == 1

    def test_an_erased_unit_leaves_no_way_back(self, scenario: Scenario) -> None:
        """Its reward stays; its hash, its visits, its lines in the audit log and its ids are gone."""
        live = scenario.start(FIVE)
        ann = live.assign("ann")
        live.assign("ann")
        value = scenario.reward_of(live, str(ann.id))
        live.reward(ann.id, value)
        with pytest.raises(Conflict):
            live.reward(ann.id, value + 1)
        code = live.enrolment.unit_hash("ann")
        assert live.erase("ann", reason="her request") == 1
        for row in (HistoryRow, EventRow):
            statement = {HistoryRow: "history", EventRow: "events"}[row]
            text = str(scenario.rows(live, row, statement))
            assert code not in text
            assert str(ann.id) not in text
        rows = scenario.rows(live, HistoryRow, "history")
        (entry,) = [row for row in rows if row.state == "settled"]
        assert (entry.value, entry.source) == (value, "observed")
        assert str(entry.unit).startswith("erased ")
        assert entry.assigned_us is not None
        assert entry.assigned_us % 3_600_000_000 == 0
        for call in (lambda: live.describe(str(ann.id)), lambda: live.reward(ann.id, value)):
            with pytest.raises(Unknown):
                call()
        change = live.history()[-1]
        assert (change.what, change.subject, change.reason) == ("unit erased", "", "her request")
        assert live.erase("ann") == 0
        assert live.history()[-1] == change
        again = live.assign("ann")
        assert again.reason == records.ASSIGNED
        scenario.finish(live, waiting=[str(again.id)])
        assert_finished(live)
        assert self._audit(live) == "fine"

    @pytest.mark.parametrize("exposed", [False, True])
    def test_a_unit_that_is_erased_in_flight(self, scenario: Scenario, exposed: bool) -> None:
        """Exposed, its entry gets the default reward; otherwise it goes to another unit."""
        live = scenario.start({"ucb": "ucb1"}, options=explicit())
        ann = live.assign("ann")
        if exposed:
            live.expose(ann.id)
        assert live.erase("ann") == 1
        status = live.status()
        assert (status.waiting, status.defaulted, status.voided) == (0, exposed, not exposed)
        with pytest.raises(Unknown):
            live.reward(ann.id, 1.0)
        assert live.extend_windows(10 * WINDOW) == (0, 0, 0, 0)
        assert live.verify() == 1
        if not exposed:
            scenario.finish(live)
            assert_finished(live, voided=1)

    def test_a_unit_that_was_turned_away_is_erased(self, scenario: Scenario) -> None:
        """It is a new one, also if its visits were not written yet."""
        live = scenario.start({"ucb": "ucb1"}, options=options(open_replications=1))
        waiting = scenario.enrol(live)
        for _ in range(3):
            live.assign("ann")
        assert live.erase("ann") == 0
        live.enrolment.flush()
        assert live.history()[-1].what == "unit erased"
        assert live.erase("ann") == 0
        assert [change.what for change in live.history()].count("unit erased") == 1
        scenario.pay(live, waiting)
        assert live.assign("ann").reason == records.ASSIGNED

    def test_a_store_erases_a_unit_everywhere(self, scenario: Scenario) -> None:
        """A hostile name is a name, or refused."""
        lives = [scenario.start(name=name) for name in ("one", "two")]
        name = "'; DROP TABLE assignment; -- \x00\u202e%"
        for live in lives:
            assert live.assign(name).enrolled
        assert scenario.store.erase(name) == 2
        assert scenario.store.erase(name) == 0
        assert [live.status().users for live in lives] == [1, 1]
        for unit in ("", "x" * 1_001, None, 1.5, b"ann", "\ud800"):
            with pytest.raises(Invalid, match="a unit must be"):
                scenario.store.erase(unit)  # type: ignore[arg-type]

    def test_units_are_forgotten_once_the_experiment_has_ended(self, scenario: Scenario) -> None:
        """The key is destroyed, so a guess cannot be confirmed, and no user can be requested."""
        live = scenario.start(options=options(open_replications=1))
        ann = live.assign("ann")
        assert conflict_code(live.forget_units) == "invalid_transition"
        scenario.finish(live, waiting=[str(ann.id)])
        for _ in range(2):
            live.forget_units(reason="the year is over")
        assert [row.salt for row in scenario.rows(live, ExperimentRow, "experiment_now")] == [""]
        assert [change.what for change in live.history()].count("units forgotten") == 1
        assert live.assign("ann").reason == records.NOT_RUNNING
        assert live.erase("ann") == 0
        live = scenario.reopen(live)
        assert live.assign("ann").reason == records.NOT_RUNNING
        assert live.erase("ann") == 0
        with pytest.raises(Invalid, match="were forgotten; start another"):
            live.add_policy("late", "uniform")
        assert_finished(live)

    def test_old_lines_of_the_audit_log_are_pruned(self, scenario: Scenario) -> None:
        """Rows of complete replications are removed; the ledger can still be compared with the rows that remain."""
        live = scenario.start(FIVE, options=options(open_replications=2))
        while live.status().complete < 1:
            for each, one in scenario.enrol_all(live).items():
                if one.replication == 0 or one.position == 0:
                    scenario.pay(live, each)
        before = len(scenario.rows(live, EventRow, "events"))
        scenario.clock.advance(2 * MONTH)
        id = scenario.enrol(live)
        for _ in range(2):
            scenario.pay(live, id)
        removed = scenario.store.prune(MONTH, reason="policy")
        assert 0 < removed < before
        rows = scenario.rows(live, EventRow, "events")
        assert len(rows) == before + 2 - removed
        assert {row.replication for row in rows}.isdisjoint({0})
        change = live.history()[-1]
        assert (change.what, change.reason) == ("audit log pruned", "policy")
        assert change.subject.startswith(f"{removed} rewards reported before 2023-12-14")
        assert scenario.store.prune(timedelta(days=30)) == 0
        assert self._audit(live) == "fine"
        live = scenario.reopen(live)
        scenario.finish(live)
        assert live.status().status == "complete"
        assert scenario.store.prune(0) > 0
        assert self._audit(live) == "fine"
        assert live.verify() == 3

    @pytest.mark.parametrize(
        "edit",
        [
            "UPDATE entry SET value = value + 1 WHERE position = 0 AND arm = 1 AND replication = 0",
            "DELETE FROM reward_event WHERE id = (SELECT MAX(id) FROM reward_event)",
            "UPDATE replication SET pruned = pruned + 1 WHERE number = 0",
        ],
        ids=["a reward", "a line", "the number"],
    )
    def test_after_pruning_an_edit_is_found(self, scenario: Scenario, edit: str) -> None:
        """A reward without its row, or an old row that was not pruned, raises an alarm."""
        live = scenario.start(FIVE, options=options(open_replications=1))
        while live.status().complete < 1:
            scenario.serve(live)
        scenario.clock.advance(MONTH)
        assert scenario.store.prune(60) > 0
        scenario.serve(live)
        assert self._audit(live) == "fine"
        scenario.store.database.write(
            lambda transaction: transaction.connection.execute(edit)  # type: ignore[attr-defined]
        )
        assert self._audit(live) == "alarm"

    def test_erased_and_pruned(self, scenario: Scenario) -> None:
        """The order does not matter, and the sums equal the rewards."""
        live = scenario.start(FIVE, replications=2)
        ann = live.assign("ann")
        bob = live.assign("bob")
        scenario.finish(live, waiting=[str(ann.id), str(bob.id)])
        assert live.erase("ann") == 1
        scenario.clock.advance(MONTH)
        scenario.store.prune(0)
        assert live.erase("bob") == 1
        rows = scenario.rows(live, ReplicationMark, "marks")
        assert sum(row.pruned for row in rows) == live.status().settled
        assert self._audit(live) == "fine"
        assert_finished(scenario.reopen(live))

    @pytest.mark.parametrize("age", [-1, float("nan"), float("inf"), "90", None, True, 1e300])
    def test_an_age_that_is_none(self, scenario: Scenario, age: float) -> None:
        """Is refused."""
        with pytest.raises(Invalid, match="older_than must be"):
            scenario.store.prune(age)
