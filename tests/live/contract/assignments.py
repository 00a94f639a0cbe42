"""Rules of assignment: units keep their arm, entries are requested in order, units that are not needed get an arm."""

from __future__ import annotations

import pytest

from contract.scenario import TWO, Scenario, assert_finished, assert_finishes, options, simulated
from sameluck.live import records
from sameluck.live.databases.base import Transaction
from sameluck.live.databases.rows import HistoryRow
from sameluck.live.records import Assignment


class AssignmentRules:
    """Rules about units, entries and the fallback arm."""

    def test_a_unit_keeps_its_arm(self, scenario: Scenario) -> None:
        """Before and after its reward, and after a restart, without another user."""
        live = scenario.start()
        first = live.assign("ann")
        assert (first.enrolled, first.reason) == (True, records.ASSIGNED)
        again = first._replace(reason=records.STICKY)
        assert live.assign("ann") == again
        scenario.pay(live, str(first.id))
        assert live.assign("ann") == again
        live = scenario.reopen(live)
        assert live.assign("ann") == again
        assert live.status().users == 1

    def test_a_number_is_the_unit_of_that_text(self, scenario: Scenario) -> None:
        """`assign(7)` and `assign("7")` are the same unit."""
        live = scenario.start()
        assert live.assign(7).id == live.assign("7").id

    def test_units_are_stored_as_hashes(self, scenario: Scenario) -> None:
        """No row of the database contains the unit's name."""
        live = scenario.start()
        live.assign("ann@example.org")
        rows = scenario.rows(live, HistoryRow, "history")
        assert not any("ann" in str(value) for row in rows for value in row)

    def test_traffic_share_is_a_fixed_function_of_the_unit(self, scenario: Scenario) -> None:
        """A unit outside stays outside; of 400 units 58 to 144 are inside with probability 1 - 1e-6."""
        live = scenario.start(options=options(traffic_share=0.25))
        units = [scenario.unit() for _ in range(400)]
        outside = [live.assign(unit).reason == records.NOT_IN_TRAFFIC_SHARE for unit in units]
        assert 58 <= 400 - sum(outside) <= 144
        live = scenario.reopen(live)
        assert [
            live.assign(unit).reason == records.NOT_IN_TRAFFIC_SHARE for unit in units
        ] == outside

    def test_policies_that_wait_for_the_same_entry_share_one_user(self, scenario: Scenario) -> None:
        """Three equal policies need one user per period, not three."""
        policies = dict.fromkeys(["a", "b", "c"], "ucb1(alpha=2)")
        live = scenario.start(policies, options=options(open_replications=1))
        assert len(scenario.enrol_all(live)) == 1
        live.stop(drain=False)
        live = scenario.start(policies, name="whole")
        assert_finishes(scenario, live)
        assert live.status().users == 8 * 3

    def test_position_is_fixed_at_assignment(self, scenario: Scenario) -> None:
        """Rewards reported in reverse order count at the position of the assignment, not of arrival."""
        live = scenario.start(
            {"fixed": "always(1)"}, horizon=6, replications=1, options=options(batch=6)
        )
        assignments = scenario.enrol_all(live)
        assert [assignment.position for assignment in assignments.values()] == list(range(6))
        values = {id: scenario.reward_of(live, id) for id in assignments}
        for id in reversed(assignments):
            scenario.pay(live, id)
            assert live.describe(id).position == assignments[id].position
        assert live.trace(0)["fixed"].rewards.tolist() == list(values.values())
        assert_finished(live)

    def test_the_lowest_open_replication_comes_first(self, scenario: Scenario) -> None:
        """A unit is assigned to the first replication that wants one."""
        live = scenario.start({"ucb": "ucb1"}, options=options(open_replications=3))
        assignments = scenario.enrol_all(live)
        assert [assignment.replication for assignment in assignments.values()] == [0, 1, 2]
        for id in reversed(assignments):
            scenario.pay(live, id)
        assert [assignment.replication for assignment in scenario.enrol_all(live).values()] == [
            0,
            1,
            2,
        ]

    def test_in_lock_step_policies_advance_together(self, scenario: Scenario) -> None:
        """A policy that is ahead waits: no user is requested for it until the others have reached its period."""
        live = scenario.start(design="naive", options=options(open_replications=1))
        for _ in range(8):
            first, second = scenario.enrol_all(live).values()
            assert (first.policy, second.policy) == tuple(TWO)
            scenario.pay(live, second.id)
            assert scenario.enrol_all(live) == {}
            scenario.pay(live, first.id)
        assert live.status().complete == 1

    def test_in_phase_order_one_policy_follows_the_other(self, scenario: Scenario) -> None:
        """No user is requested for the second policy before the first has reached the horizon."""
        live = scenario.start(design="naive", replications=1, options=options(order="phase"))
        for policy in TWO:
            for _ in range(8):
                (assignment,) = scenario.enrol_all(live).values()
                assert assignment.policy == policy
                scenario.pay(live, assignment.id)
        assert_finished(live)

    def test_replications_open_one_after_the_other(self, scenario: Scenario) -> None:
        """A complete replication opens the next; at most `open_replications` are open."""
        live = scenario.start({"ucb": "ucb1"}, horizon=2, options=options(open_replications=2))
        for opened, complete in [(2, 0), (2, 0), (3, 1), (3, 1), (3, 2), (3, 2)]:
            status = live.status()
            assert (status.opened, status.complete) == (opened, complete)
            scenario.serve(live)
        assert live.status().status == "complete"

    def test_the_database_forbids_a_second_live_assignment_of_an_entry(
        self, scenario: Scenario
    ) -> None:
        """A unique index forbids it, whatever the code does."""
        self._insert_refused(scenario, same_entry=True, unit="another unit")

    def test_the_database_forbids_a_second_enrolment_of_a_unit(self, scenario: Scenario) -> None:
        """A unique index forbids it, whatever the code does."""
        self._insert_refused(scenario, same_entry=False, unit=None)

    def _insert_refused(self, scenario: Scenario, *, same_entry: bool, unit: str | None) -> None:
        live = scenario.start()
        assignment = live.describe(scenario.enrol(live))
        place = {"stack_owner": 0, "arm": assignment.arm_index, "position": assignment.position}
        other = place if same_entry else {**place, "position": 5}
        key = {"experiment": live.id, "replication": 0}
        code = unit or live.enrolment.unit_hash("unit 0")
        database = scenario.store.database

        def insert(transaction: Transaction) -> None:
            if not same_entry:
                transaction.execute("want", **key, **other)
            transaction.execute("enrol", assignment="asg_raw", **key, **other, unit=code, now=0)

        with pytest.raises(Exception, match=r"(?i)unique"):
            database.write(insert)
        assert live.status().users == 1
        scenario.finish(live, waiting=[assignment.id])
        assert_finished(live)

    def test_a_unit_that_is_not_needed_gets_the_fallback_arm(self, scenario: Scenario) -> None:
        """No reward is expected, and reporting one has no effect."""
        live = scenario.start(
            arms=("old", "new", "odd"), options=options(open_replications=1, fallback="odd")
        )
        scenario.enrol_all(live)
        answer = live.assign(scenario.unit())
        assert answer == Assignment(None, "odd", enrolled=False, reason=records.NO_OPEN_SLOT)
        live.expose(answer.id)
        assert live.reward(answer.id, 0.5) == (False, False, 0.5)
        live.void(answer.id)
        assert live.status().settled == 0

    def test_every_reason(self, scenario: Scenario) -> None:
        """Paused, draining, stopped, complete: no call raises an error, and calls are counted by reason."""
        live = scenario.start(options=options(open_replications=1))
        waiting = list(scenario.enrol_all(live))
        live.pause()
        assert live.assign(scenario.unit()).reason == records.NOT_RUNNING
        live.resume()
        live.stop()
        assert live.assign(scenario.unit()).reason == records.DRAINING
        scenario.finish(live, waiting=waiting)
        fallback = Assignment(None, "0", enrolled=False, reason=records.NOT_RUNNING)
        assert live.assign(scenario.unit()) == fallback
        live.status()  # counts are written once per second, and by `status`
        calls = scenario.reopen(live).status().answers
        assert calls[records.ASSIGNED] == simulated(live.experiment).interactions[0, 0]
        assert calls[records.DRAINING] >= 1
        assert calls[records.NOT_RUNNING] >= 2
