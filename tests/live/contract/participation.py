"""Rules about who takes part: a unit has one chance, however often it calls, unless declared otherwise."""

from __future__ import annotations

import json

import pytest

from contract.scenario import (
    LEASE,
    MICROSECOND,
    WINDOW,
    Scenario,
    assert_finished,
    assert_finishes,
    explicit,
    options,
)
from sameluck.errors import Invalid
from sameluck.live import records
from sameluck.live.databases.rows import ArrivalRow
from sameluck.live.experiment import LiveExperiment


class ParticipationRules:
    """Rules about units that were not enrolled."""

    def _full(self, scenario: Scenario, **changes: object) -> tuple[LiveExperiment, str]:
        """An experiment without an open entry, and the id of the assignment that it waits for."""
        live = scenario.start({"ucb": "ucb1"}, options=options(open_replications=1, **changes))
        return live, scenario.enrol(live)

    def _arrivals(self, scenario: Scenario, live: LiveExperiment) -> list[ArrivalRow]:
        live.enrolment.flush()
        return scenario.rows(live, ArrivalRow, "arrivals", bound="g")

    def test_a_unit_that_was_turned_away_stays_so(self, scenario: Scenario) -> None:
        """Also when an entry is wanted, after a restart and after years; others are enrolled."""
        live, waiting = self._full(scenario)
        assert live.assign("ann") == (None, "0", False, records.NO_OPEN_SLOT)
        scenario.pay(live, waiting)
        assert live.assign("ann") == (None, "0", False, records.EXCLUDED)
        live = scenario.reopen(live)
        scenario.clock.advance(10 * 365 * 86_400)
        assert live.assign("ann").reason == records.EXCLUDED
        assert live.assign_many(["ann", "bob", "ann"])[::2] == [live.assign("ann")] * 2
        bob = live.assign("bob")
        assert bob.reason == records.STICKY
        scenario.finish(live, waiting=[str(bob.id)])
        assert_finished(live)
        assert live.assign("ann").reason == records.NOT_RUNNING

    def test_for_the_declared_time(self, scenario: Scenario) -> None:
        """The time is exact to the microsecond, and starts again when the unit is turned down again."""
        live, waiting = self._full(scenario, sticky_exclusion=100)
        assert live.assign("ann").reason == records.NO_OPEN_SLOT
        scenario.clock.advance(100)
        assert live.assign("ann").reason == records.NO_OPEN_SLOT
        scenario.pay(live, waiting)
        scenario.clock.advance(100 - MICROSECOND)
        assert live.assign("ann").reason == records.EXCLUDED
        scenario.clock.advance(MICROSECOND)
        assert live.assign("ann").reason == records.ASSIGNED

    def test_with_zero_every_visit_is_a_chance(self, scenario: Scenario) -> None:
        """The option is off: every visit has the same chance."""
        live, waiting = self._full(scenario, sticky_exclusion=0)
        for _ in range(3):
            assert live.assign("ann").reason == records.NO_OPEN_SLOT
        scenario.pay(live, waiting)
        assert live.assign("ann").reason == records.ASSIGNED
        assert self._arrivals(scenario, live) == [(1, 1, 1), (4, 1, 1)]

    def test_a_list_turns_away_as_single_calls_do(self, scenario: Scenario) -> None:
        """A unit that is twice in a list was turned down at its first place."""
        live, _ = self._full(scenario)
        answers = live.assign_many(["ann", "bob", "ann", "ann"])
        reasons = [getattr(answer, "reason", None) for answer in answers]
        again = records.EXCLUDED
        assert reasons == [records.NO_OPEN_SLOT, records.NO_OPEN_SLOT, again, again]
        assert self._arrivals(scenario, live) == [(1, 2, 1), (2, 1, 0)]

    def test_a_pause_turns_nobody_away(self, scenario: Scenario) -> None:
        """An experiment that does not run turns down no unit; an experiment that drains does."""
        live = scenario.start(options=options(open_replications=1))
        live.pause()
        assert live.assign("ann").reason == records.NOT_RUNNING
        live.resume()
        live.stop()
        ann = live.assign("ann")
        assert ann.reason == records.ASSIGNED
        while live.assign(scenario.unit()).enrolled:
            pass
        assert live.assign("bob").reason == records.DRAINING
        scenario.pay(live, str(ann.id))
        assert live.assign("bob").reason == records.EXCLUDED

    def test_an_entry_that_is_overdue_goes_to_the_unit_that_calls(self, scenario: Scenario) -> None:
        """A unit is turned down only after due assignments have expired, and counts once."""
        live = scenario.start({"ucb": "ucb1"}, options=explicit())
        late = scenario.enrol(live)
        scenario.clock.advance(0.5)
        assert live.assign("ann").reason == records.NO_OPEN_SLOT
        scenario.clock.advance(LEASE - 0.5 - MICROSECOND)
        assert live.assign("bob").reason == records.NO_OPEN_SLOT
        scenario.clock.advance(MICROSECOND)
        assert live.assign("carl").reason == records.ASSIGNED
        assert live.describe(late).status == "voided"
        assert live.assign("ann").reason == records.EXCLUDED
        assert self._arrivals(scenario, live) == [(1, 3, 1), (2, 1, 0)]

    def test_arrivals_are_counted_by_visits(self, scenario: Scenario) -> None:
        """Visits of enrolled units and of units turned down count while the experiment runs."""
        live, waiting = self._full(scenario)
        for _ in range(5):
            live.assign("ann")
        for _ in range(2):
            live.assign("unit 0")
        live.enrolment.flush()
        live.pause()
        live.assign("unit 0")
        live.assign("ann")
        assert self._arrivals(scenario, live) == [(2, 1, 1), (4, 1, 0)]
        live.resume()
        scenario.finish(live, waiting=[waiting])
        (check,) = [check for check in live.diagnostics() if check.name == "visits"]
        assert (check.verdict, check.details["enrolled"]) == ("unknown", live.status().users)

    def test_the_chance_of_a_unit_does_not_grow_with_its_visits(self, scenario: Scenario) -> None:
        """Every unit calls until it is enrolled or the experiment ends: each has its first call alone."""
        live = scenario.start(
            {"ucb": "ucb1"}, replications=20, options=options(open_replications=2)
        )
        first: dict[str, bool] = {}
        pending: list[str] = []
        turn = 0
        while live.status().status == "running":
            heavy, light = f"heavy {turn % 40}", f"light {turn}"
            for unit in (heavy, light):
                answer = live.assign(unit)
                first.setdefault(unit, answer.enrolled)
                assert answer.enrolled == first[unit]
                if answer.reason == records.ASSIGNED:
                    pending.append(str(answer.id))
            if turn % 3 == 0 and pending:
                scenario.pay(live, pending.pop(0))
            turn += 1
        assert 0 < sum(first.values()) < len(first)
        assert_finished(live)

    @pytest.mark.parametrize("seconds", [-1, float("nan"), 1e12, "1 day"])
    def test_a_time_that_is_none(self, seconds: float) -> None:
        """Is refused."""
        with pytest.raises(Invalid, match=r"LiveOptions\.sticky_exclusion must be"):
            options(sticky_exclusion=seconds)

    def test_an_experiment_from_before_the_option_is_as_it_was(self, scenario: Scenario) -> None:
        """Every visit is a chance, and starting it again with other settings there is no difference."""
        live, waiting = self._full(scenario)
        settings = live.experiment, live.options

        def forget(transaction: object) -> None:
            values = {"open_replications": 1, "reward": {"window_seconds": WINDOW}}
            text = json.dumps(values)
            transaction.execute("set_options", experiment=live.id, options=text)  # type: ignore[attr-defined]

        scenario.store.database.write(forget)
        live = scenario.store.start("trial", settings[0], options=settings[1], exist_ok=True)
        assert live.options.sticky_exclusion == 0
        assert live.assign("ann").reason == records.NO_OPEN_SLOT
        scenario.pay(live, waiting)
        ann = live.assign("ann")
        assert ann.reason == records.ASSIGNED
        scenario.pay(live, str(ann.id))
        assert_finishes(scenario, live)
