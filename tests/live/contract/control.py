"""Rules of control (pausing, stopping, adding policies to a running experiment) and for many callers at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from contract.scenario import (
    FIVE,
    TWO,
    Scenario,
    assert_finished,
    assert_finishes,
    assert_same,
    conflict_code,
    options,
    simulated,
)
from sameluck.errors import Conflict, Invalid
from sameluck.live import records
from sameluck.live.experiment import LiveExperiment


class ControlRules:
    """Rules about pausing, stopping and adding policies."""

    challenger = "epsilon_greedy(epsilon=0.5)"

    def test_a_pause_enrols_no_unit_and_accepts_rewards(self, scenario: Scenario) -> None:
        """Enrolled units still get their arm; after `resume` the experiment continues where it was."""
        live = scenario.start()
        first = live.assign("ann")
        live.pause("checking something")
        status = live.status()
        assert (status.status, status.reason) == ("paused", "checking something")
        assert live.assign("ann").id == first.id
        assert not live.assign("bob").enrolled
        assert scenario.pay(live, str(first.id)).applied
        assert not live.assign("bob").enrolled
        live = scenario.reopen(live)
        live.resume()
        assert_finishes(scenario, live)

    def test_stopping_finishes_what_was_begun(self, scenario: Scenario) -> None:
        """It opens no other replication; dropping slow replications would bias the result."""
        live = scenario.start(replications=6, options=options(open_replications=2))
        for _ in range(12):
            scenario.serve(live)
        opened = live.status().opened
        live.stop(reason="enough")
        assert live.status().status == "draining"
        scenario.finish(live)
        status = live.status()
        assert (status.status, status.reason, status.opened) == ("stopped", "enough", opened)
        assert 0 < status.prefix == status.complete == opened < 6
        assert_same(live.runs(), simulated(live.experiment), opened)

    def test_a_pause_does_not_undo_a_stop(self, scenario: Scenario) -> None:
        """After `resume` it finishes what was begun and no more."""
        live = scenario.start(replications=6, options=options(open_replications=2))
        live.stop()
        live.pause()
        assert not live.assign(scenario.unit()).enrolled
        live.resume()
        scenario.finish(live)
        assert (live.status().status, live.status().opened) == ("stopped", 2)

    def test_stopping_at_once_leaves_the_prefix(self, scenario: Scenario) -> None:
        """No further unit is enrolled, and later rewards are kept."""
        live = scenario.start(replications=6, options=options(open_replications=2))
        while live.status().complete < 2:
            scenario.serve(live)
        pending = scenario.enrol(live)
        live.stop(drain=False)
        assert live.status().status == "stopped"
        assert not live.assign(scenario.unit()).enrolled
        assert scenario.pay(live, pending).applied
        status = live.status()
        assert status.status == "stopped"
        assert_same(live.runs(), simulated(live.experiment), status.prefix)

    def test_stopping_after_replications_completes_exactly_those(self, scenario: Scenario) -> None:
        """They are the first replications, also if the experiment is restarted or paused in between."""
        live = scenario.start(replications=9, options=options(open_replications=2))
        live.stop(after_replications=5, reason="the month is over")
        assert (live.status().status, live.status().opened, live.status().stop_after) == (
            "draining",
            2,
            5,
        )
        while live.status().opened < 4:
            scenario.serve(live)
        live.pause()
        live = scenario.reopen(live)
        live.resume()
        scenario.finish(live)
        status = live.status()
        assert (status.status, status.reason) == ("stopped", "")
        assert status.opened == status.complete == status.prefix == status.stop_after == 5
        assert_same(live.runs(), simulated(live.experiment), 5)

    def test_stopping_after_replications_again_changes_nothing(self, scenario: Scenario) -> None:
        """Not even when they are complete; another number of them is refused then."""
        live = scenario.start(replications=6, options=options(open_replications=2))
        for reason in ("enough", "again"):
            live.stop(after_replications=3, reason=reason)
        scenario.finish(live)
        live.stop(after_replications=3, reason="and again")
        assert (live.status().status, live.status().reason) == ("stopped", "enough")
        for call in (live.stop, partial(live.stop, after_replications=4)):
            assert conflict_code(call) == "invalid_transition"

    def test_the_last_stop_counts(self, scenario: Scenario) -> None:
        """A number replaces another or a plain stop, and a plain stop replaces a number."""
        live = scenario.start(replications=6, options=options(open_replications=2))
        live.stop()
        live.stop(after_replications=6)
        live.stop(after_replications=3)
        scenario.finish(live)
        assert (live.status().status, live.status().opened) == ("stopped", 3)
        other = scenario.start(name="other", replications=6, options=options(open_replications=2))
        other.stop(after_replications=4)
        other.stop(reason="now")
        scenario.finish(other)
        status = other.status()
        assert (status.status, status.opened, status.stop_after) == ("stopped", 2, None)
        assert status.reason == "now"

    def test_stopping_after_fewer_than_have_begun_is_refused(self, scenario: Scenario) -> None:
        """Open replications are completed. The limit is at least the open and at most the planned replications."""
        live = scenario.start(replications=6, options=options(open_replications=2))
        while live.status().opened < 3:
            scenario.serve(live)
        before = live.status()
        for number in (2, 7):
            refused = rf"3 have begun and are completed\) .* from 3 to 6, got {number}"
            with pytest.raises(Invalid, match=refused):
                live.stop(after_replications=number)
        with pytest.raises(Invalid, match="drain=False"):
            live.stop(drain=False, after_replications=3)
        assert live.status() == before
        live.stop(after_replications=6)
        assert_finishes(scenario, live)

    def test_stopping_after_replications_at_once_leaves_no_number(self, scenario: Scenario) -> None:
        """Stopped at once, it has the complete prefix."""
        live = scenario.start(replications=6, options=options(open_replications=2))
        live.stop(after_replications=4)
        for _ in range(2):
            live.stop(drain=False)
        status = live.status()
        assert (status.status, status.opened, status.stop_after) == ("stopped", 2, None)
        assert conflict_code(partial(live.stop, after_replications=4)) == "invalid_transition"

    def test_a_complete_experiment_stays_complete(self, scenario: Scenario) -> None:
        """It cannot be paused, resumed or stopped; before, pausing or resuming twice has no effect."""
        live = scenario.start()
        live.resume()
        for _ in range(2):
            live.pause()
        live.resume()
        scenario.finish(live)
        for call in (live.pause, live.resume, live.stop):
            assert conflict_code(call) == "invalid_transition"
        assert_finished(live)

    @pytest.mark.parametrize("design", ["replay", "naive"])
    @pytest.mark.parametrize("served", [0, 20, 10_000])
    def test_a_policy_added_late_is_as_good_as_from_the_start(
        self, scenario: Scenario, design: str, served: int
    ) -> None:
        """Runs and users equal a simulation in which all policies run from the first period."""
        live = scenario.start(design=design)
        for _ in range(served):
            if scenario.serve(live).reason == records.NOT_RUNNING:
                break
        users = live.status().users
        joining = live.add_policy("late", self.challenger)
        assert (joining.users_so_far, joining.replications) == (users, 3)
        assert "and will request more later" in str(joining)
        assert live.status().status == "running"
        live = scenario.reopen(live)
        assert_finishes(scenario, live)
        assert tuple(live.experiment.policies) == ("ucb", "thompson", "late")
        assert live.status().users >= users + joining.users_at_least

    def test_a_challenger_equal_to_a_policy_needs_no_user(self, scenario: Scenario) -> None:
        """Every reward it needs is in the ledger."""
        live = scenario.start()
        scenario.finish(live)
        before = live.status()
        joining = live.add_policy("twin", TWO["ucb"])
        assert (joining.finished, joining.replayed, joining.users_at_least) == (3, 24, 0)
        assert "requests 0 new users, and none in these replications later" in str(joining)
        assert live.status()._replace(answers={}) == before._replace(answers={})
        assert_finished(live)

    def test_a_drained_experiment_drains_again_for_a_challenger(self, scenario: Scenario) -> None:
        """It opens no further replication."""
        live = scenario.start(replications=6, options=options(open_replications=2))
        live.stop()
        scenario.finish(live)
        live.add_policy("late", self.challenger)
        assert live.status().status == "draining"
        scenario.finish(live)
        assert (live.status().status, live.status().opened) == ("stopped", 2)
        assert_same(live.runs(), simulated(live.experiment), 2)

    def test_a_challenger_reads_the_replications_after_which_it_stops(
        self, scenario: Scenario
    ) -> None:
        """A policy is added while the experiment runs, and another when it is complete."""
        live = scenario.start(replications=6, options=options(open_replications=2))
        live.stop(after_replications=4)
        live.add_policy("late", self.challenger)
        scenario.finish(live)
        assert (live.status().status, live.status().opened) == ("stopped", 4)
        live.add_policy("later", "uniform")
        scenario.finish(live)
        assert (live.status().status, live.status().opened) == ("stopped", 4)
        assert_same(live.runs(), simulated(live.experiment), 4)

    def test_policies_change_with_a_thousand_open_replications(self, scenario: Scenario) -> None:
        """The changes of all replications wait to be written at once."""
        live = scenario.start(
            {"fixed": "always(0)"}, replications=1_000, options=options(open_replications=1_000)
        )
        joining = live.add_policy("late", "always(1)")
        assert (joining.replications, live.status().wanted) == (1_000, 2_000)
        assert len(live.remove_policy("late").differences) == 1_000
        assert live.status().wanted == 1_000
        scenario.serve(live)
        assert live.verify() == 1_000

    def test_a_name_that_is_taken_is_refused(self, scenario: Scenario) -> None:
        """And so is every policy that would be added to an A/A rehearsal."""
        live = scenario.start()
        with pytest.raises(Invalid, match="has a policy 'ucb' already"):
            live.add_policy("ucb", self.challenger)
        rehearsal = scenario.start(name="rehearsal", options=options(aa=True))
        with pytest.raises(Invalid, match="A/A rehearsal"):
            rehearsal.add_policy("late", self.challenger)
        assert_finishes(scenario, live)


THREADS = 8


def together(calls: Sequence[Callable[[], object]]) -> list[Any]:
    """Make the calls at once, one thread each; what each returned or raised."""

    def outcome(call: Callable[[], object]) -> object:
        try:
            return call()
        except Exception as error:  # the caller checks it
            return error

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(outcome, calls))


class ConcurrencyRules:
    """Rules for many callers at once."""

    def test_a_unit_that_many_callers_assign_is_enrolled_once(self, scenario: Scenario) -> None:
        """All callers get the same assignment."""
        live = scenario.start(options=options(open_replications=3))
        for number in range(5):
            unit = f"ann {number}"
            answers = together([partial(live.assign, unit)] * THREADS)
            assert len({answer.id for answer in answers}) == 1
        assert live.status().users == live.status().waiting <= 5

    def test_of_many_values_one_is_applied(self, scenario: Scenario) -> None:
        """All other calls raise `Conflict`; the reward log has every call."""
        live = scenario.start()
        for _ in range(5):
            id = scenario.enrol(live)
            answers = together([partial(live.reward, id, value) for value in range(THREADS)])
            receipts = [answer for answer in answers if not isinstance(answer, Conflict)]
            assert [receipt.applied for receipt in receipts] == [True]
            assert live.describe(id).value == receipts[0].value
            logged = sorted(outcome for _, outcome in scenario.events(live, id))
            assert logged == ["applied"] + ["conflict"] * (THREADS - 1)

    @pytest.mark.parametrize("design", ["replay", "naive"])
    def test_many_callers_run_an_experiment_to_its_end(
        self, scenario: Scenario, design: str
    ) -> None:
        """With the runs of the simulation."""
        live = scenario.start(FIVE, design=design, options=options(open_replications=3))
        self._serve_together(scenario, live)
        assert_finished(live)

    def test_an_experiment_stops_after_replications_while_many_callers_are_served(
        self, scenario: Scenario
    ) -> None:
        """With exactly those replications, whichever caller completes the last of them."""
        live = scenario.start(replications=9, options=options(open_replications=3))
        serving = [partial(self._serve_until, scenario, live, 10)] * THREADS
        stopping = partial(live.stop, after_replications=7)
        assert together([*serving, stopping, stopping]) == [None] * (THREADS + 2)
        self._serve_together(scenario, live)
        assert (live.status().status, live.status().opened) == ("stopped", 7)
        assert_same(live.runs(), simulated(live.experiment), 7)

    def test_a_challenger_joins_while_many_callers_are_served(self, scenario: Scenario) -> None:
        """No call fails because of it, and nothing is lost."""
        live = scenario.start(replications=6, options=options(open_replications=3))

        serving = [partial(self._serve_until, scenario, live, 25)] * THREADS
        *served, joining = together([*serving, partial(live.add_policy, "late", "uniform")])
        assert served == [None] * THREADS
        assert joining.policy == "late"
        live = scenario.reopen(live)
        self._serve_together(scenario, live)
        assert_finished(live)

    def _serve_together(self, scenario: Scenario, live: LiveExperiment) -> None:
        served = together([partial(self._serve_until, scenario, live, 10_000)] * THREADS)
        assert served == [None] * THREADS

    def _serve_until(self, scenario: Scenario, live: LiveExperiment, users: int) -> None:
        for _ in range(users):
            if scenario.serve(live).reason == records.NOT_RUNNING:
                return
