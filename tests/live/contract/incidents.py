"""Rules for incidents: disabled arms, stopping at once, and the history of both."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pytest

from contract.scenario import (
    FIVE,
    WINDOW,
    Scenario,
    assert_finished,
    assert_same,
    conflict_code,
    explicit,
    options,
    simulated,
)
from sameluck.errors import Invalid, Unavailable
from sameluck.live import records
from sameluck.live.calls.settings import acting_as
from sameluck.live.databases.base import Work
from sameluck.live.experiment import LiveExperiment
from sameluck.live.users import enrolment
from sameluck.live.users.enrolment import NewAssignment

T = TypeVar("T")


class IncidentRules:
    """Rules about disabled arms, stickiness and the history."""

    def _enrolled_on(self, live: LiveExperiment, arm: str) -> tuple[str, str]:
        """A unit that is shown an arm, and the id of its assignment."""
        for number in range(100):
            answer = live.assign(f"guest {number}")
            if answer.arm == arm and answer.id is not None:
                return f"guest {number}", answer.id
        raise AssertionError(f"nobody is shown arm {arm}")

    def _serve_all(self, scenario: Scenario, live: LiveExperiment) -> set[str]:
        """Serve units until none is needed; the arms that they were shown."""
        shown = set()
        while (answer := scenario.serve(live)).enrolled:
            shown.add(answer.arm)
        return shown

    def test_a_disabled_arm_is_shown_to_nobody(self, scenario: Scenario) -> None:
        """Neither new nor returning units see it, also after a restart; rewards still count."""
        live = scenario.start(FIVE, arms=["red", "green", "blue"], options=options(fallback="red"))
        unit, id = self._enrolled_on(live, "green")
        live.disable_arm("green", reason="broken page")
        again = live.assign(unit)
        assert again == (None, "red", False, records.ARM_DISABLED)
        assert scenario.pay(live, id).applied
        live = scenario.reopen(live)
        assert live.assign(unit) == again
        assert "green" not in self._serve_all(scenario, live)
        status = live.status()
        assert (status.status, status.disabled) == ("running", ("green",))
        assert 0 < status.held == status.wanted
        assert "green" in str(status)

    def test_an_experiment_continues_when_its_arm_is_enabled(self, scenario: Scenario) -> None:
        """The arm's entries have waited; the runs equal the simulation's, and returning units get their arm."""
        live = scenario.start(FIVE, options=options(open_replications=2))
        unit, id = self._enrolled_on(live, "1")
        live.disable_arm(1)
        self._serve_all(scenario, live)
        prefix = live.status().prefix
        runs = live.runs()
        assert_same(runs, simulated(live.experiment), prefix)
        assert any("Disabled: 1" in note for note in runs.notes)
        live.enable_arm("1")
        assert live.assign(unit).id == id
        assert live.status().disabled == ()
        pending = list(scenario.enrol_all(live))
        waiting = [each for each in [id, *pending] if live.describe(each).status == "assigned"]
        guests = [live.assign(f"guest {number}").id for number in range(100)]
        waiting += [
            guest for guest in guests if guest and live.describe(guest).status == "assigned"
        ]
        scenario.finish(live, waiting=list(dict.fromkeys(waiting)))
        assert_finished(live)

    def test_the_fallback_arm_is_disabled_with_another_in_its_place(
        self, scenario: Scenario
    ) -> None:
        """Also for units outside the traffic share, at the latest after a second."""
        live = scenario.start(arms=["red", "green", "blue"], options=options(traffic_share=0.25))
        outside = next(
            unit
            for unit in map(str, range(1_000))
            if live.assign(unit).reason == records.NOT_IN_TRAFFIC_SHARE
        )
        with pytest.raises(Invalid, match=r"'red' is the fallback arm, .* name another"):
            live.disable_arm("red")
        live.disable_arm("green")
        with pytest.raises(Invalid, match="'green' is disabled and cannot be the fallback"):
            live.disable_arm("red", fallback="green")
        live.disable_arm("red", fallback="blue")
        scenario.clock.advance(1.0)
        assert live.assign(outside).arm == "blue"
        live = scenario.reopen(live)
        assert live.assign(outside).arm == "blue"
        live.enable_arm("red")
        assert live.assign(outside).arm == "blue"
        with pytest.raises(Invalid, match="'blue' is the fallback arm"):
            live.disable_arm("blue")

    def test_disabling_twice_or_an_arm_that_is_not_there(self, scenario: Scenario) -> None:
        """Disabling twice has no effect and no row in the history; an unknown arm is refused."""
        live = scenario.start()
        for _ in range(2):
            live.disable_arm("2", reason="once")
        for _ in range(2):
            live.enable_arm("2")
        assert [change.what for change in live.history()] == [
            "started",
            "arm disabled",
            "arm enabled",
        ]
        for arm in ("blue", 3, -1, None, 1.0):
            with pytest.raises(Invalid, match="is not an arm"):
                live.disable_arm(arm)  # type: ignore[arg-type]

    def test_an_unexposed_unit_of_a_disabled_arm_is_voided_as_usual(
        self, scenario: Scenario
    ) -> None:
        """Its entry waits; a unit that is exposed all the same counts."""
        live = scenario.start(options=explicit(sticky_exclusion=0))
        unit = scenario.unit()
        first = live.assign(unit)
        other = next(arm for arm in ("0", "1", "2") if arm != first.arm)
        live.disable_arm(first.arm, fallback=other)
        scenario.clock.advance(3_600)
        assert live.tick() == 1
        assert live.assign(unit) == (None, other, False, records.NO_OPEN_SLOT)
        live.enable_arm(first.arm)
        assert live.assign(unit)[1:] == (first.arm, True, records.ASSIGNED)

    def test_stopping_at_once_ends_stickiness(self, scenario: Scenario) -> None:
        """Units that return get the fallback arm; rewards are still accepted."""
        live = scenario.start(arms=["red", "green", "blue"], options=options(fallback="blue"))
        answer = live.assign("ann")
        live.stop(drain=False, reason="broken")
        live = scenario.reopen(live)
        assert live.assign("ann") == (None, "blue", False, records.NOT_RUNNING)
        assert scenario.pay(live, str(answer.id)).applied

    def test_stopping_an_ended_experiment_at_once_ends_stickiness_alone(
        self, scenario: Scenario
    ) -> None:
        """Its status and its results stay; a challenger that needs users makes it sticky again."""
        live = scenario.start()
        answer = live.assign("ann")
        scenario.finish(live, waiting=[str(answer.id)])
        assert live.assign("ann").id == answer.id
        for _ in range(2):
            live.stop(drain=False, reason="the page is gone")
        assert live.assign("ann").reason == records.NOT_RUNNING
        assert live.history()[-1][2:] == (
            "stickiness ended",
            "",
            live.history()[0].actor,
            "the page is gone",
        )
        assert_finished(live)
        assert conflict_code(live.stop) == "invalid_transition"
        live.add_policy("late", "uniform")
        assert live.assign("ann").id == answer.id

    def test_a_unit_that_is_not_answered_gets_the_fallback_arm(
        self, scenario: Scenario, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The unit never saw its arm, so its assignment is voided if it was committed, and the unit may return."""
        live = scenario.start(options=options(fallback=2))
        write = live.open_replications.write

        def lost(work: Work[T]) -> T:
            write(work)
            raise Unavailable("the connection was lost after the commit")

        monkeypatch.setattr(live.open_replications, "write", lost)
        assert live.assign("ann") == (None, "2", False, records.UNAVAILABLE)
        with pytest.raises(Unavailable):
            live.assign("ann", strict=True)
        answers = live.assign_many(["bob", "", "carl"])
        assert [getattr(answer, "reason", "") for answer in answers] == [
            "UNAVAILABLE",
            "",
            "UNAVAILABLE",
        ]
        assert [len(made) for made in live.enrolment._undelivered] == [2]  # of one call, once
        monkeypatch.undo()
        live.settings.after_fork()  # the circuit breaker lets the next call pass
        assert (live.status().waiting, live.status().voided) == (3, 1)
        again = live.assign("ann")  # enrolled by the strict call, which may be repeated
        assert again.reason == records.STICKY
        assert (live.status().waiting, live.status().voided) == (1, 3)
        scenario.finish(live, waiting=[str(again.id)])
        assert_finished(live, voided=3)

    def test_after_an_outage_no_call_waits_for_all_that_it_has_left(
        self, scenario: Scenario, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Each call voids some of the assignments whose units were not told; closing voids all of them."""
        live, not_told = scenario.start(options=options(batch=8)), []
        monkeypatch.setattr(enrolment, "MAX_BATCH", 3)
        for size in (1, 1, 2, 4, 1, 1):  # assignments of one call
            units = [scenario.unit() for _ in range(size)]
            made = [
                NewAssignment(str(live.assign(unit).id), live.enrolment.unit_hash(unit))
                for unit in units
            ]
            not_told.append(made)
        for made in not_told:
            live.enrolment.mark_undelivered(made)
        waiting, voided = [], []
        for _ in range(2):
            waiting.append(scenario.enrol(live))
            voided.append(live.status().voided)
        assert voided == [4, 8]
        live = scenario.reopen(live)
        assert live.status().voided == 10
        scenario.finish(live, waiting=waiting)
        assert_finished(live, voided=10)

    def test_a_unit_that_another_process_has_told_keeps_its_assignment(
        self, scenario: Scenario
    ) -> None:
        """Its first call had no answer in time; it returned elsewhere before the first process could void it."""
        live = scenario.start()
        other = scenario.store.peek(live.name)
        made = [
            NewAssignment(str(live.assign(unit).id), live.enrolment.unit_hash(unit))
            for unit in ("ann", "bob")
        ]
        live.enrolment.mark_undelivered(made)
        answer = other.assign("ann")
        assert (answer.id, answer.reason) == (made[0].id, records.STICKY)
        waiting = [made[0].id, scenario.enrol(live)]
        assert conflict_code(lambda: live.reward(made[1].id, 1.0)) == "assignment_voided"
        scenario.finish(live, waiting=waiting)
        assert_finished(live, voided=1)

    @pytest.mark.parametrize("late", [0, 50, 200])
    def test_windows_that_are_extended_end_later(self, scenario: Scenario, late: int) -> None:
        """A window that has ended is extended unless its default reward was recorded; leases are not extended."""
        live, id = scenario.start_and_enrol(options=explicit(open_replications=3))
        live.expose(id)
        leased = scenario.enrol(live)
        scenario.clock.advance(WINDOW + late)
        live.extend_windows(100, reason="outage")
        assert live.tick() == (1 if late < 100 else 2)
        if late < 100:
            assert live.reward(id, 0.25).applied
        else:
            assert conflict_code(lambda: live.reward(id, 0.25)) == "reward_late"
        assert live.describe(leased).status == "voided"
        assert live.history()[-1][2:4] == ("windows extended", "by 100 seconds")
        for seconds in (0, -1, float("nan"), "1", 1e12):
            with pytest.raises(Invalid, match="seconds must be"):
                live.extend_windows(seconds)  # type: ignore[arg-type]

    def test_the_history_has_every_change_with_its_reason(self, scenario: Scenario) -> None:
        """When, what, by whom and why; it survives restarts."""
        live = scenario.start(replications=6, options=options(open_replications=2))
        live.pause("maintenance")
        live.pause("again")
        scenario.clock.advance(60)
        live.resume("done")
        live.add_policy("late", "uniform")
        live.stop(after_replications=4, reason="budget")
        live = scenario.reopen(live)
        scenario.finish(live)
        live.stop(drain=False)
        changes = live.history()
        assert [(change.what, change.subject, change.reason) for change in changes] == [
            ("started", "", ""),
            ("paused", "", "maintenance"),
            ("resumed", "", "done"),
            ("policy added", "late", ""),
            ("draining", "after replication 4", "budget"),
            ("stopped", "", "budget"),
            ("stickiness ended", "", ""),
        ]
        assert [change.at for change in changes] == sorted(change.at for change in changes)
        assert changes[1].at[:19] == "2023-11-14T22:13:20"
        assert changes[2].at[:19] == "2023-11-14T22:14:20"
        assert {change.experiment for change in changes} == {"trial"}
        assert all("@" in change.actor for change in changes)
        assert scenario.store.history() == changes

    def test_a_change_is_recorded_in_the_name_of_who_made_it(self, scenario: Scenario) -> None:
        """A thread of another caller may run the transaction."""
        live, people = scenario.start(), [f"person {number}" for number in range(6)]

        def extend(actor: str) -> None:
            with acting_as(actor):
                live.extend_windows(1.0, reason=actor)

        with ThreadPoolExecutor(len(people)) as threads:
            list(threads.map(extend, people))
        live.pause()
        recorded = [(change.actor, change.reason) for change in live.history()[1:-1]]
        assert sorted(recorded) == [(actor, actor) for actor in people]
        assert live.history()[-1].actor == live.history()[0].actor

    def test_an_experiment_may_start_paused(self, scenario: Scenario) -> None:
        """Its first unit is enrolled once it is resumed."""
        assert (scenario.store.statuses(), scenario.store.experiments_of([])) == ([], [])
        experiment = scenario.start().experiment
        live = scenario.store.start("later", experiment, paused=True)
        assert live.assign("ann").reason == records.NOT_RUNNING
        assert [change.what for change in live.history()] == ["started", "paused"]
        live.resume()
        answer = live.assign("ann")
        assert answer.enrolled
        ids = [str(answer.id), "asg_1", "\x00"]
        assert scenario.store.experiments_of(ids) == ["later", None, None]
        assert [replication.state for replication in live.replications()] == [
            "open"
        ] * live.status().opened
