"""Rules of control: pausing, stopping, and adding policies to a running experiment."""

from __future__ import annotations

import pytest

from sameluck.errors import Invalid
from sameluck.live import records
from sameluck.testing.scenario import (
    TWO,
    Scenario,
    assert_finished,
    assert_same,
    conflict_code,
    options,
    simulated,
)


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
        scenario.finish(live)
        assert_finished(live)

    def test_stopping_finishes_what_was_begun(self, scenario: Scenario) -> None:
        """And opens no other replication: dropping those that take long would bias the result."""
        live = scenario.start(replications=6, live=options(open_replications=2))
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
        live = scenario.start(replications=6, live=options(open_replications=2))
        live.stop()
        live.pause()
        assert not live.assign(scenario.unit()).enrolled
        live.resume()
        scenario.finish(live)
        assert (live.status().status, live.status().opened) == ("stopped", 2)

    def test_stopping_at_once_leaves_the_prefix(self, scenario: Scenario) -> None:
        """No unit is enrolled any more, and rewards reported later are kept."""
        live = scenario.start(replications=6, live=options(open_replications=2))
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
        """Runs and users are those of a simulation in which all policies run from the first period."""
        live = scenario.start(design=design)
        for _ in range(served):
            if scenario.serve(live).reason == records.NOT_RUNNING:
                break
        users = live.status().users
        joining = live.add_policy("late", self.challenger)
        assert (joining.users_so_far, joining.replications) == (users, 3)
        assert live.status().status == "running"
        live = scenario.reopen(live)
        scenario.finish(live)
        assert_finished(live)
        assert tuple(live.experiment.policies) == ("ucb", "thompson", "late")
        assert live.status().users >= users + joining.users_at_least

    def test_a_challenger_equal_to_a_policy_needs_no_user(self, scenario: Scenario) -> None:
        """Every reward it needs is in the ledger."""
        live = scenario.start()
        scenario.finish(live)
        before = live.status()
        joining = live.add_policy("twin", TWO["ucb"])
        assert (joining.finished, joining.replayed, joining.users_at_least) == (3, 24, 0)
        assert live.status()._replace(answers={}) == before._replace(answers={})
        assert_finished(live)

    def test_a_drained_experiment_drains_again_for_a_challenger(self, scenario: Scenario) -> None:
        """It opens no further replication."""
        live = scenario.start(replications=6, live=options(open_replications=2))
        live.stop()
        scenario.finish(live)
        live.add_policy("late", self.challenger)
        assert live.status().status == "draining"
        scenario.finish(live)
        assert (live.status().status, live.status().opened) == ("stopped", 2)
        assert_same(live.runs(), simulated(live.experiment), 2)

    def test_a_name_that_is_taken_is_refused(self, scenario: Scenario) -> None:
        """And so is every policy that would be added to an A/A rehearsal."""
        live = scenario.start()
        with pytest.raises(Invalid, match="has a policy 'ucb' already"):
            live.add_policy("ucb", self.challenger)
        rehearsal = scenario.start(name="rehearsal", live=options(aa=True))
        with pytest.raises(Invalid, match="A/A rehearsal"):
            rehearsal.add_policy("late", self.challenger)
        scenario.finish(live)
        assert_finished(live)
