"""Rules about reward windows that are extended after their default reward was recorded."""

from __future__ import annotations

import random
from functools import partial

from contract.scenario import (
    FIVE,
    WINDOW,
    Scenario,
    assert_finished,
    conflict_code,
    explicit,
    options,
)
from sameluck.live.databases.rows import ReplicationRow, SettledRow
from sameluck.live.experiment import LiveExperiment


class ExtensionRules:
    """Rules about late rewards that are accepted."""

    def _outage(self, scenario: Scenario, live: LiveExperiment, ids: list[str]) -> None:
        """Let the windows end, so that defaults are recorded and the rewards come too late."""
        scenario.clock.advance(WINDOW + 50)
        for id in ids:
            assert conflict_code(partial(scenario.pay, live, id)) == "reward_late"

    def test_late_rewards_are_accepted_if_no_policy_has_played(self, scenario: Scenario) -> None:
        """The runs equal the simulation's, and the audit log has both rewards."""
        live = scenario.start(FIVE, options=options(open_replications=3))
        for _ in range(6):
            scenario.serve(live)
        ids = list(scenario.enrol_all(live))
        live.pause("rewards are down")
        self._outage(scenario, live, ids)
        wrong = live.status()
        assert wrong.defaulted == len(ids)
        extension = live.extend_windows(100, reason="rewards were down")
        assert extension == (0, 0, len(ids), 0)
        status = live.status()
        assert (status.defaulted, status.settled, status.waiting) == (0, wrong.settled, 0)
        for id in ids:
            value = scenario.reward_of(live, id)
            assert scenario.events(live, id) == [(value, "late"), (value, "applied")]
            assert live.reward(id, value).duplicate
        assert f"{len(ids)} late rewards accepted" in live.history()[-1].subject
        live.resume()
        scenario.finish(live)
        assert_finished(live)
        assert {check.verdict for check in live.diagnostics()} <= {"fine", "unknown"}

    def test_a_default_on_which_a_policy_has_played_stays(self, scenario: Scenario) -> None:
        """A unit was assigned an entry that the policies requested because of it."""
        live, id = scenario.start_and_enrol(
            policies={"ucb": "ucb1"}, options=options(open_replications=1)
        )
        self._outage(scenario, live, [id])
        following = scenario.enrol(live)
        before = live.describe(id)
        assert live.extend_windows(10_000) == (1, 0, 0, 1)
        assert live.describe(id) == before
        assert conflict_code(lambda: live.reward(id, 0.5)) == "reward_late"
        assert scenario.pay(live, following).applied
        assert live.verify() == 1

    def test_nor_after_that_unit_was_voided(self, scenario: Scenario) -> None:
        """It may have seen its arm."""
        live, id = scenario.start_and_enrol(policies={"ucb": "ucb1"}, options=explicit())
        live.expose(id)
        self._outage(scenario, live, [id])
        live.void(scenario.enrol(live))
        assert live.extend_windows(10_000) == (0, 0, 0, 1)
        assert live.verify() == 1

    def test_of_a_complete_replication_it_stays(self, scenario: Scenario) -> None:
        """Results that were reported do not change."""
        live, id = scenario.start_and_enrol(horizon=1, policies={"ucb": "ucb1"})
        self._outage(scenario, live, [id])
        assert live.status().complete == 1
        rewards = live.runs().rewards.tolist()
        assert live.extend_windows(10_000).accepted == 0
        assert live.runs().rewards.tolist() == rewards

    def test_without_a_late_reward_the_entry_waits_again(self, scenario: Scenario) -> None:
        """Until the extended window ends: then the default counts, or a second extension."""
        live, id = scenario.start_and_enrol(
            policies={"ucb": "ucb1"}, options=options(open_replications=1)
        )
        scenario.clock.advance(WINDOW + 50)
        assert live.tick() == 1
        assert live.extend_windows(40) == (0, 0, 0, 0)
        assert live.extend_windows(100) == (1, 1, 0, 0)
        assert live.status().wanted == 0
        scenario.clock.advance(50)
        assert live.tick() == 1
        assert live.extend_windows(100) == (1, 1, 0, 0)
        assert scenario.pay(live, id).applied
        scenario.finish(live)
        assert_finished(live)

    def test_a_reward_after_the_extended_window_stays_late(self, scenario: Scenario) -> None:
        """And of two that came in time, the first counts."""
        live = scenario.start(FIVE, options=options(open_replications=3))
        first, second, *_ = scenario.enrol_all(live)
        live.pause()
        self._outage(scenario, live, [first])
        assert conflict_code(lambda: live.reward(first, 7.0)) == "reward_late"
        scenario.clock.advance(100)
        assert conflict_code(lambda: live.reward(second, 7.0)) == "reward_late"
        assert live.extend_windows(60).accepted == 1
        assert live.describe(first).value == scenario.reward_of(live, first)
        assert live.describe(second).source == "default"

    def test_in_a_batch_nobody_plays_until_the_last(self, scenario: Scenario) -> None:
        """Rewards of the same batch that came later stay as they are, in their order."""
        live = scenario.start({"ucb": "ucb1"}, options=options(batch=4, open_replications=1))
        ids = list(scenario.enrol_all(live))
        scenario.clock.advance(WINDOW)
        assert live.tick() == len(ids) == 4
        live.extend_windows(100)
        for id in ids[1:3]:
            scenario.pay(live, id)
        scenario.clock.advance(120)
        assert live.tick() == 2
        assert live.status().wanted == 4
        for id in ids[::3]:
            assert conflict_code(partial(scenario.pay, live, id)) == "reward_late"
        assert live.extend_windows(100) == (0, 0, 2, 0)
        rows = scenario.store.database.read(
            lambda t: t.fetch_all(
                SettledRow, "settled_since", experiment=live.id, replication=0, version=0
            )
        )
        assert sorted(row.position for row in rows) == sorted(
            live.describe(id).position for id in ids
        )
        scenario.finish(live)
        assert_finished(live)

    def test_another_process_forgets_what_it_remembers(self, scenario: Scenario) -> None:
        """Its policies have read the default; its results may have too."""
        live = scenario.start(FIVE, options=options(open_replications=2))
        other = scenario.store.load("trial")
        for _ in range(3):
            scenario.serve(other)
        ids = list(scenario.enrol_all(other))
        scenario.clock.advance(WINDOW)
        assert other.tick() == len(ids)
        early = other.runs(checkpoints=[1])
        live.extend_windows(100)
        for id in ids:
            scenario.pay(live, id)
        late = other.runs(checkpoints=[1])
        assert early.rewards.tolist() == [] or early.rewards.tolist() != late.rewards.tolist()
        scenario.finish(other)
        assert_finished(other)

    def test_whatever_happens_the_ledger_is_what_the_policies_derive(
        self, scenario: Scenario
    ) -> None:
        """Units, rewards, late ones, voids and extensions in random order; audits too."""
        generator = random.Random(5)
        live = scenario.start(
            FIVE,
            replications=2,
            horizon=12,
            options=explicit(open_replications=2, batch=2, audit_share=0.3),
        )
        waiting: list[str] = []
        accepted = reopened = 0
        for _ in range(150):
            action = generator.random()
            if action < 0.5 and (answer := live.assign(scenario.unit())).id:
                waiting.append(answer.id)
                if generator.random() < 0.9:
                    live.expose(answer.id)
            elif action < 0.7 and waiting:
                id = waiting.pop(generator.randrange(len(waiting)))
                live.reward_many([(id, scenario.reward_of(live, id))])
            elif action < 0.85:
                scenario.clock.advance(generator.choice([10, 100, WINDOW]))
                live.tick()
            else:
                extension = live.extend_windows(generator.choice([50, 500, 5_000]))
                accepted, reopened = accepted + extension.accepted, reopened + extension.reopened
                live.verify()
        assert accepted > 0
        assert reopened > 0
        live = scenario.reopen(live)
        assert live.status().settled == sum(row.version for row in _replications(scenario, live))


def _replications(scenario: Scenario, live: LiveExperiment) -> list[ReplicationRow]:
    return scenario.rows(live, ReplicationRow, "replications")
