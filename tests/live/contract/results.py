"""Rules of results: at any time and under every design they equal the simulation's."""

from __future__ import annotations

import random
import re
from collections import Counter

import numpy as np
import pytest

from contract.scenario import (
    ENVIRONMENT,
    FIVE,
    TWO,
    WINDOW,
    Scenario,
    assert_finished,
    assert_finishes,
    assert_same,
    conflict_code,
    explicit,
    options,
    simulated,
)
from sameluck.environments.discrete import Bernoulli
from sameluck.errors import Diverged, Unknown
from sameluck.live.databases.base import Values
from sameluck.live.databases.rows import HistoryRow
from sameluck.live.engine.protocol import AUDITED, Entry
from sameluck.live.experiment import LiveExperiment
from sameluck.live.options import Reward
from sameluck.simulation.trace import trace


class ResultRules:
    """Rules about runs and traces, and every way to run an experiment."""

    def test_only_the_complete_prefix_counts(self, scenario: Scenario) -> None:
        """A complete replication does not count while an earlier one is open: its duration depends on its rewards."""
        live = scenario.start(replications=2, options=options(open_replications=2))
        locked = []
        while live.status().complete < 1:
            for id, assignment in scenario.enrol_all(live).items():
                if assignment.replication == 0:
                    locked.append(id)
                else:
                    scenario.pay(live, id)
        assert (live.status().complete, live.status().prefix) == (1, 0)
        assert live.runs().replications == 0
        assert live.runs([1]).replications == 0
        scenario.finish(live, waiting=locked)
        assert_finished(live)

    def test_checkpoints_count_before_the_horizon(self, scenario: Scenario) -> None:
        """In lock-step a replication counts at a checkpoint once every policy has passed it."""
        live = scenario.start(FIVE, replications=2, options=options(open_replications=2))
        expected = simulated(live.experiment, checkpoints=[2, 5])
        seen = []
        while live.status().complete < 2:
            seen.append(live.runs([2, 5]).replications)
            assert_same(live.runs([2, 5]), expected, seen[-1])
            scenario.serve(live)
        assert seen == sorted(seen)
        assert {0, 1} <= set(seen)
        assert live.runs().replications > seen[0]
        assert_finished(live)

    def test_some_policies_need_not_wait_for_the_others(self, scenario: Scenario) -> None:
        """In phase order the first policy is complete long before the last."""
        live = scenario.start(replications=1, options=options(order="phase"))
        while live.runs(policies=["ucb"]).replications == 0:
            scenario.serve(live)
        assert live.status().complete == 0
        alone = live.experiment.replace(policies={"ucb": TWO["ucb"]})
        assert_same(live.runs(policies=["ucb"]), simulated(alone))

    def test_a_trace_has_every_period(self, scenario: Scenario) -> None:
        """Up to the current one; in the end it is the simulation's."""
        live = scenario.start()
        assert live.trace(0)["ucb"].arms.size == 0
        scenario.finish(live)
        expected = trace(live.experiment, ENVIRONMENT, 2)
        for name in TWO:
            one, other = live.trace(2)[name], expected[name]
            assert one.arms.tolist() == other.arms.tolist()
            assert one.positions.tolist() == other.positions.tolist()
            assert one.rewards.tolist() == other.rewards.tolist()
        assert live.trace(2).interactions == simulated(live.experiment).interactions[2, 0]

    def test_reopening_gives_the_same_state_at_any_time(self, scenario: Scenario) -> None:
        """After any rewards, assignments and voids."""
        live = scenario.start(FIVE, horizon=4, options=explicit(open_replications=2))
        generator, pending = random.Random(5), []
        while live.status().status != "complete":
            before, runs = live.status(), live.runs([1, 3])
            live = scenario.reopen(live)
            assert live.status() == before
            assert_same(live.runs([1, 3]), runs)
            answers = [live.assign(scenario.unit()) for _ in range(3)]
            pending += [answer.id for answer in answers if answer.id is not None]
            generator.shuffle(pending)
            for id in pending[: len(pending) // 2 + 1]:
                live.void(id) if generator.random() < 0.2 else scenario.pay(live, id)
            del pending[: len(pending) // 2 + 1]
        assert_finished(live, voided=live.status().voided)

    def test_counts_are_those_of_the_ledger(self, scenario: Scenario) -> None:
        """At any time; they are kept in counters, and the list of all experiments has the same."""
        live = scenario.start(FIVE, options=explicit(open_replications=2, audit_share=0.3))
        generator, ends = random.Random(9), ["paid", "paid", "void", "silence", "exposed"]
        while live.status().status == "running":
            for id in scenario.enrol_all(live):
                end = generator.choice(ends)
                if end == "paid":
                    scenario.pay(live, id)
                elif end == "void":
                    live.void(id)
                elif end == "exposed":
                    live.expose(id)
            assert _counted(scenario, live)
            scenario.clock.advance(WINDOW)
            live.tick()
        assert min(live.status().voided, live.status().defaulted) > 0
        live.add_policy("late", "uniform")
        assert _counted(scenario, live)
        other = scenario.start(name="other")
        other.disable_arm(2)
        listed = [status._replace(answers={}) for status in scenario.store.statuses()]
        assert listed == [experiment.status()._replace(answers={}) for experiment in (live, other)]

    @pytest.mark.parametrize("which", range(4))
    def test_an_edited_reward_is_named(self, scenario: Scenario, which: int) -> None:
        """Diagnostics notice it, a process that first uses the replication, and loading the experiment.

        It is noticed even if the policies would choose the same arms.
        """
        live = scenario.start({"fixed": "always(1)"}, options=options(open_replications=1))
        for _ in range(6):
            scenario.serve(live)
        scenario.reopen(live).verify()
        live = scenario.store.load(live.name)
        (row, *_) = [row for row in scenario.rows(live, HistoryRow, "history") if row[3] == which]
        key: Values = dict(
            zip(("replication", "stack_owner", "arm", "position"), row[:4], strict=True)
        )
        values: Values = {"value": 99.5, "source": "observed", "settled": which + 1, "now": 0}
        edit: Values = {"experiment": live.id, **key, **values, "assignment": row.id}
        scenario.store.database.write(lambda t: t.execute("settle", **edit))
        checks = {check.name: check for check in live.diagnostics()}
        named = rf"position {which} of arm '1' is 99.5 in the ledger and .* in the audit log \(assignment {row.id}"
        assert re.search(named, checks["audit log"].sentence)
        assert (checks["audit log"].verdict, checks["rebuild"].verdict) == ("alarm", "alarm")
        with pytest.raises(Diverged, match=named):
            scenario.serve(scenario.store.peek(live.name))
        with pytest.raises(Diverged, match=named):
            scenario.reopen(live)
        assert scenario.store.peek(live.name).status().status == "failed"

    def test_experiments_of_one_store_are_independent(self, scenario: Scenario) -> None:
        """A unit may be enrolled in both experiments; an assignment belongs to one."""
        one, other = scenario.start(name="one"), scenario.start(name="other", seed=12)
        first, second = one.assign("ann"), other.assign("ann")
        assert first.id != second.id
        with pytest.raises(Unknown, match="no assignment"):
            other.reward(first.id, 0.5)
        scenario.pay(one, str(first.id))
        scenario.pay(other, str(second.id))
        assert_finishes(scenario, one)
        assert_finishes(scenario, other)
        assert scenario.store.names() == ["one", "other"]
        assert conflict_code(lambda: scenario.start(name="one")) == "name_taken"

    @pytest.mark.parametrize("order", ["lockstep", "phase"])
    @pytest.mark.parametrize("design", ["replay", "naive", "replay(share_noise=true)"])
    def test_live_runs_are_the_simulations(
        self, scenario: Scenario, design: str, order: str
    ) -> None:
        """For five policies and rewards in any order."""
        live = scenario.start(
            FIVE, design=design, options=options(order=order, open_replications=2)
        )
        assert_finishes(scenario, live)

    @pytest.mark.parametrize("batch", [3, {"ucb": 4}, 100])
    @pytest.mark.parametrize("design", ["replay", "naive"])
    def test_batches(self, scenario: Scenario, design: str, batch: int | dict[str, int]) -> None:
        """A policy plays several arms, then sees their rewards."""
        live = scenario.start(design=design, options=options(batch=batch))
        assert_finishes(scenario, live)

    def test_policies_that_count_successes(self, scenario: Scenario) -> None:
        """With rewards of 0 and 1."""
        environment = Bernoulli((0.2, 0.5, 0.8))
        binary = options(reward=Reward(min=0, max=1, window_seconds=WINDOW))
        live = scenario.start({"beta": "thompson_bernoulli", "ucb": "ucb1"}, options=binary)
        assert_finishes(scenario, live, environment)

    def test_audits_change_no_result(self, scenario: Scenario) -> None:
        """Every entry drawn for the audit is requested once, and its reward is only compared."""
        live = scenario.start(FIVE, options=options(audit_share=0.3, open_replications=2))
        scenario.finish(live)
        rows = scenario.rows(live, HistoryRow, "history")
        audited = [(row[0], Entry(*row[1:4])) for row in rows if row[1] == AUDITED]
        assert {row[4] for row in rows} == {"settled"}
        assert len(audited) == len(set(audited)) > 0
        scheduler = live.open_replications.definition.engine
        counts = np.sort(simulated(live.experiment).pulls[:, :, -1], axis=1)[:, -2]
        drawn = {
            (replication, entry)
            for replication, arms in enumerate(counts.tolist())
            for arm, many in enumerate(arms)
            for entry in scheduler.audit_entries(replication, arm, range(many))
        }
        assert set(audited) == drawn
        assert_finished(live, audits=len(audited))

    def test_a_lost_response_holds_up_results_until_its_window_ends(
        self, scenario: Scenario
    ) -> None:
        """Notes name the replication that results wait for, and the time when its default reward counts."""
        live = scenario.start({"ucb": "ucb1"}, options=options(open_replications=2))
        lost = live.describe(scenario.enrol(live))
        scenario.finish(live)
        runs = live.runs()
        assert runs.replications == 0
        (note,) = runs.notes
        assert (
            f"although 2 later replications are complete: it awaits 1 reward, by {lost.due_at}"
            in note
        )
        scenario.clock.advance(WINDOW)
        assert (
            "whose time is over: `tick`, or the next call of `assign`, records"
            in live.runs().notes[0]
        )
        scenario.finish(live)
        assert (live.runs().replications, live.runs().notes) == (3, ())
        assert live.status().defaulted == 1

    def test_in_an_aa_rehearsal_all_policies_are_the_control(self, scenario: Scenario) -> None:
        """With a deterministic control every difference is zero."""
        live = scenario.start(options=options(aa=True))
        assert_finishes(scenario, live)
        rewards = live.runs().rewards
        assert (rewards[:, 0] == rewards[:, 1]).all()


def _counted(scenario: Scenario, live: LiveExperiment) -> bool:
    """Assert that the counts of the status equal the counts of the rows."""
    status = live.status()
    rows = scenario.rows(live, HistoryRow, "history")
    states = Counter(row.state for row in rows)
    sources = Counter(row.source for row in rows)
    counts = (status.settled, status.waiting, status.wanted, status.defaulted, status.voided)
    voided = len(scenario.rows(live, HistoryRow, "voided"))
    expected = (states["settled"], states["assigned"], states["wanted"], sources["default"], voided)
    return (*counts, status.users) == (*expected, sum(row.id is not None for row in rows))
