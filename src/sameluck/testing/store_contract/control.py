"""Rules about a running experiment that somebody changes: pausing, stopping, and policies that join late."""

from __future__ import annotations

import pytest

from sameluck.errors import Invalid
from sameluck.live import records as say
from sameluck.testing.scenario import (
    TWO,
    Scenario,
    assert_finished,
    assert_same,
    options,
    refused,
    simulated,
)


class Steering:
    """Rules about pausing and stopping."""

    def test_a_pause_enrols_nobody_and_takes_rewards(self, scenario: Scenario) -> None:
        """Who takes part already is still served; afterwards it goes on where it was."""
        live = scenario.start()
        first = live.assign("ann")
        live.pause("checking something")
        told = live.status()
        assert (told.status, told.reason) == ("paused", "checking something")
        assert live.assign("ann").id == first.id
        assert not live.assign("bob").enrolled
        assert scenario.pay(live, str(first.id)).applied
        assert not live.assign("bob").enrolled
        live = scenario.reopen(live)
        live.resume()
        scenario.finish(live)
        assert_finished(live)

    def test_stopping_finishes_what_was_begun(self, scenario: Scenario) -> None:
        """And opens nothing more: dropping replications that take long would bias the result."""
        live = scenario.start(replications=6, live=options(open_replications=2))
        for _ in range(12):
            scenario.serve(live)
        opened = live.status().opened
        live.stop(reason="enough")
        assert live.status().status == "draining"
        scenario.finish(live)
        told = live.status()
        assert (told.status, told.reason, told.opened) == ("stopped", "enough", opened)
        assert 0 < told.prefix == told.complete == opened < 6
        assert_same(live.runs(), simulated(live.experiment), opened)

    def test_a_pause_does_not_undo_a_stop(self, scenario: Scenario) -> None:
        """Resumed, it finishes what was begun and no more."""
        live = scenario.start(replications=6, live=options(open_replications=2))
        live.stop()
        live.pause()
        assert not live.assign(scenario.unit()).enrolled
        live.resume()
        scenario.finish(live)
        assert (live.status().status, live.status().opened) == ("stopped", 2)

    def test_stopping_at_once_leaves_the_prefix(self, scenario: Scenario) -> None:
        """Nobody is enrolled any more, and what users bring later is kept."""
        live = scenario.start(replications=6, live=options(open_replications=2))
        while live.status().complete < 2:
            scenario.serve(live)
        pending = scenario.enrol(live)
        live.stop(drain=False)
        assert live.status().status == "stopped"
        assert not live.assign(scenario.unit()).enrolled
        assert scenario.pay(live, pending).applied
        told = live.status()
        assert told.status == "stopped"
        assert_same(live.runs(), simulated(live.experiment), told.prefix)

    def test_what_is_over_stays_over(self, scenario: Scenario) -> None:
        """A complete experiment cannot be paused, resumed or stopped; doing a thing twice does no harm."""
        live = scenario.start()
        live.resume()
        for _ in range(2):
            live.pause()
        live.resume()
        scenario.finish(live)
        for call in (live.pause, live.resume, live.stop):
            assert refused(call) == "invalid_transition"
        assert_finished(live)


class Challengers:
    """Rules about policies that join late."""

    late = "epsilon_greedy(epsilon=0.5)"

    @pytest.mark.parametrize("design", ["replay", "naive"])
    @pytest.mark.parametrize("served", [0, 20, 10_000])
    def test_joining_late_is_as_good_as_from_the_start(
        self, scenario: Scenario, design: str, served: int
    ) -> None:
        """Runs and users are those of a simulation in which all policies play from the first period."""
        live = scenario.start(design=design)
        for _ in range(served):
            if scenario.serve(live).reason == say.NOT_RUNNING:
                break
        users = live.status().users
        joining = live.add_policy("late", self.late)
        assert (joining.users_so_far, joining.replications) == (users, 3)
        assert live.status().status == "running"
        live = scenario.reopen(live)
        scenario.finish(live)
        assert_finished(live)
        assert tuple(live.experiment.policies) == ("ucb", "thompson", "late")
        assert live.status().users >= users + joining.users_at_least

    def test_a_challenger_that_does_what_was_done_needs_nobody(self, scenario: Scenario) -> None:
        """It walks through the ledger to the end."""
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
        live.add_policy("late", self.late)
        assert live.status().status == "draining"
        scenario.finish(live)
        assert (live.status().status, live.status().opened) == ("stopped", 2)
        assert_same(live.runs(), simulated(live.experiment), 2)

    def test_a_name_that_is_taken_is_refused(self, scenario: Scenario) -> None:
        """And so is anybody who would join a rehearsal."""
        live = scenario.start()
        with pytest.raises(Invalid, match="has a policy 'ucb' already"):
            live.add_policy("ucb", self.late)
        rehearsal = scenario.start(name="rehearsal", live=options(aa=True))
        with pytest.raises(Invalid, match="A/A rehearsal"):
            rehearsal.add_policy("late", self.late)
        scenario.finish(live)
        assert_finished(live)
