"""Rules of rewards: which value counts, until when, and the entries of users who never saw their arm."""

from __future__ import annotations

import random
from functools import partial

import pytest

from contract.scenario import (
    FIVE,
    LEASE,
    MICROSECOND,
    WINDOW,
    Scenario,
    assert_finished,
    assert_finishes,
    conflict_code,
    explicit,
    options,
)
from sameluck.live import records
from sameluck.live.databases.base import Values
from sameluck.live.options import Reward
from sameluck.live.records import AssignmentDetails


class RewardRules:
    """Rules about rewards and exposure."""

    def test_the_first_value_counts(self, scenario: Scenario) -> None:
        """The same value again is a duplicate, another value a conflict; the reward log has all."""
        live, id = scenario.start_and_enrol()
        assert live.reward(id, 0.25) == (True, False, 0.25)
        assert live.reward(id, 0.25) == (False, True, 0.25)
        assert conflict_code(lambda: live.reward(id, 0.5)) == "reward_conflict"
        live = scenario.reopen(live)
        assert live.reward(id, 0.25).duplicate
        assert live.describe(id).value == 0.25
        first = [(0.25, "applied"), (0.25, "duplicate"), (0.5, "conflict")]
        assert scenario.events(live, id) == [*first, (0.25, "duplicate")]

    def test_a_conflict_changes_nothing_else(self, scenario: Scenario) -> None:
        """The experiment continues with the first value."""
        live, id = scenario.start_and_enrol()
        scenario.pay(live, id)
        for value in (1e6, -1e6):
            assert conflict_code(partial(live.reward, id, value)) == "reward_conflict"
        assert_finishes(scenario, live)

    def test_the_database_forbids_a_second_applied_reward(self, scenario: Scenario) -> None:
        """A unique index forbids it, whatever the code does."""
        live, id = scenario.start_and_enrol()
        scenario.pay(live, id)
        event: Values = {"assignment": id, "value": 3.0, "now": 0, "outcome": "applied"}
        with pytest.raises(Exception, match=r"(?i)unique"):
            scenario.store.database.write(lambda t: t.execute("note_reward", **event))
        assert len(scenario.events(live, id)) == 1

    @pytest.mark.parametrize("microseconds", [-1, 0, 1])
    @pytest.mark.parametrize("ticks", [0, 1])
    def test_a_reward_is_late_when_the_window_is_over(
        self, scenario: Scenario, microseconds: int, ticks: int
    ) -> None:
        """The limit is exact to the microsecond, whether or not `tick` was called."""
        late = microseconds >= 0
        live, id = scenario.start_and_enrol(
            options=options(reward=Reward(default=-2.0, window_seconds=10))
        )
        scenario.clock.advance(10 + microseconds * MICROSECOND)
        for _ in range(ticks):
            assert live.tick() == late
        if not late:
            assert live.reward(id, 0.5).applied
            return
        assert conflict_code(lambda: live.reward(id, 0.5)) == "reward_late"
        assignment = live.describe(id)
        outcome = assignment.value, assignment.source, assignment.status
        assert outcome == (-2.0, "default", "settled")
        assert scenario.events(live, id) == [(0.5, "late")]

    def test_no_reward_in_the_window_is_the_default_reward(self, scenario: Scenario) -> None:
        """Policies see it like any reward, and the next call of `assign` makes it count."""
        live = scenario.start({"fixed": "always(2)"}, horizon=2, replications=1, options=options())
        scenario.enrol(live)
        scenario.clock.advance(WINDOW)
        second = scenario.enrol(live)
        assert live.describe(second).position == 1
        live.reward(second, 0.5)
        assert live.runs().rewards.tolist() == [[[0.5]]]
        assert (live.status().defaulted, live.status().status) == (1, "complete")

    def test_tick_returns_how_many_were_due(self, scenario: Scenario) -> None:
        """And has no effect the second time."""
        live = scenario.start(options=options(open_replications=3))
        assignments = scenario.enrol_all(live)
        assert live.tick() == 0
        scenario.clock.advance(WINDOW)
        assert live.tick() == len(assignments)
        assert live.tick() == 0
        assert live.status().defaulted == len(assignments)

    def test_a_voided_entry_is_offered_again(self, scenario: Scenario) -> None:
        """Another unit gets the entry; the first unit's reward no longer counts."""
        live, id = scenario.start_and_enrol(options=explicit())
        before = live.describe(id)
        live.void(id)
        live.void(id)
        assert live.describe(id).status == "voided"
        other = live.describe(scenario.enrol(live))
        assert _entry(other) == _entry(before)
        assert other.id != id
        assert conflict_code(lambda: live.reward(id, 0.5)) == "assignment_voided"
        assert conflict_code(lambda: live.expose(id)) == "assignment_voided"
        assert scenario.events(live, id) == [(0.5, "voided")]
        scenario.finish(live, waiting=[other.id])
        assert_finished(live, voided=1)

    def test_a_unit_that_was_voided_may_take_part_again(self, scenario: Scenario) -> None:
        """It has not seen an arm."""
        live = scenario.start(options=explicit())
        first = live.assign("ann")
        live.void(first.id)
        second = live.assign("ann")
        assert (second.reason, second.arm) == (records.ASSIGNED, first.arm)
        assert second.id != first.id

    @pytest.mark.parametrize("microseconds", [-1, 0, 1])
    def test_a_lease_that_is_over_voids(self, scenario: Scenario, microseconds: int) -> None:
        """Without exposure in time, exact to the microsecond, the entry is offered again."""
        live, id = scenario.start_and_enrol(options=explicit())
        scenario.clock.advance(LEASE + microseconds * MICROSECOND)
        if microseconds < 0:
            live.expose(id)
            assert live.describe(id).status == "exposed"
            return
        assert conflict_code(lambda: live.expose(id)) == "assignment_voided"
        assert _entry(live.describe(scenario.enrol(live))) == _entry(live.describe(id))

    def test_the_next_unit_gets_an_entry_whose_lease_is_over(self, scenario: Scenario) -> None:
        """Without a call of `tick`."""
        live = scenario.start(options=explicit())
        first = live.describe(scenario.enrol(live))
        assert live.assign(scenario.unit()).reason == records.NO_OPEN_SLOT
        scenario.clock.advance(LEASE)
        assert _entry(live.describe(scenario.enrol(live))) == _entry(first)

    def test_an_exposed_entry_is_never_offered_again(self, scenario: Scenario) -> None:
        """Neither by `void` nor when the lease is over: at the end of its window it gets the default reward."""
        live, id = scenario.start_and_enrol(options=explicit())
        scenario.clock.advance(LEASE - 1)
        live.expose(id)
        assert conflict_code(lambda: live.void(id)) == "already_exposed"
        scenario.clock.advance(WINDOW - 1)
        assert live.assign(scenario.unit()).reason == records.NO_OPEN_SLOT
        scenario.clock.advance(1)
        other = live.describe(scenario.enrol(live))
        assert _entry(other) != _entry(live.describe(id))
        assert live.describe(id).source == "default"

    def test_the_window_begins_with_exposure(self, scenario: Scenario) -> None:
        """The first exposure starts it; exposing again does not extend it."""
        live, id = scenario.start_and_enrol(options=explicit())
        scenario.clock.advance(LEASE / 2)
        live.expose(id)
        due = live.describe(id).due_at
        scenario.clock.advance(WINDOW / 2)
        live.expose(id)
        assert live.describe(id).due_at == due
        scenario.clock.advance(WINDOW / 2 - MICROSECOND)
        assert live.reward(id, 0.5).applied
        live.expose(id)
        assert conflict_code(lambda: live.void(id)) == "already_settled"

    def test_a_reward_is_proof_of_exposure(self, scenario: Scenario) -> None:
        """It counts although `expose` was not called."""
        live, id = scenario.start_and_enrol(options=explicit())
        assert live.reward(id, 0.5).applied
        scenario.clock.advance(10 * LEASE)
        assert live.tick() == 0
        assert live.describe(id).value == 0.5

    def test_losing_users_costs_users_and_nothing_else(self, scenario: Scenario) -> None:
        """Units that never see their arm do not change the runs, which equal a simulation's."""
        generator = random.Random(3)
        live = scenario.start(FIVE, options=explicit(open_replications=2))
        lost = 0
        while assignments := scenario.enrol_all(live):
            for id in assignments:
                end = generator.choice(["seen", "seen", "void", "silence"])
                if end == "seen":
                    live.expose(id)
                    scenario.pay(live, id)
                elif end == "void":
                    live.void(id)
                lost += end != "seen"
            scenario.clock.advance(LEASE)
        assert_finished(live, voided=lost)


def _entry(assignment: AssignmentDetails) -> tuple[int, int, int]:
    return assignment.replication, assignment.arm_index, assignment.position
