"""Rules for the versions of policies: which process runs them, policies without code, removal, repair."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from contract.scenario import ENVIRONMENT, FIVE, TWO, Scenario, assert_same, conflict_code, options
from sameluck.errors import Diverged, Invalid, OtherVersion
from sameluck.live import records
from sameluck.live.databases.base import SqlValue, Values
from sameluck.live.databases.rows import EntryRow
from sameluck.live.engine.protocol import Entry
from sameluck.live.experiment import LiveExperiment
from sameluck.live.options import Makers
from sameluck.policies.external import External, makers_for
from sameluck.simulation.simulate import simulate


class Cyclic:
    """Plays the arms in turn, but after a reward above `enough` the same again."""

    enough = 0.5

    def __init__(self, seed: int) -> None:
        self.arm = seed % 3

    def select(self) -> int:
        """The next arm."""
        return self.arm

    def update(self, arm: int, reward: float) -> None:
        """Keep the arm if it pays."""
        self.arm = arm if reward > self.enough else (arm + 1) % 3


class Edited(Cyclic):
    """`Cyclic` after an edit of its code."""

    enough = -1.0


class First(Cyclic):
    """A policy that declares its version."""

    version = "2024-05"


class Second(First):
    """`First` with another version and the same arms."""

    version = "2024-06"


WITH_OBJECT = {"ucb": "ucb1(alpha=2)", "own": External("own")}
OLD: Makers = {"own": Cyclic}
NEW: Makers = {"own": Edited}


def _is_simulated(live: LiveExperiment, makers: Makers | None = None) -> None:
    """An experiment is complete, and its runs are the simulation's."""
    assert live.status().status == "complete"
    used = makers_for(live.experiment.policies, makers)
    expected = simulate(live.experiment, ENVIRONMENT, makers=used, workers=1)
    assert_same(live.runs(), expected)
    assert live.verify() == live.experiment.replications


class VersionRules:
    """Rules about the code of policies."""

    def _serve_some(self, scenario: Scenario, live: LiveExperiment, users: int = 9) -> None:
        for _ in range(users):
            assert scenario.serve(live).enrolled

    @pytest.mark.parametrize(
        ("old", "new", "shown"),
        [(Cyclic, Edited, "[0-9a-f]{24}"), (First, Second, "version 2024-06")],
    )
    def test_a_process_with_another_version_does_not_play(
        self,
        scenario: Scenario,
        old: Callable[[int], object],
        new: Callable[[int], object],
        shown: str,
    ) -> None:
        """Its users get the fallback arm or keep theirs, its rewards count, and the others carry on."""
        live = scenario.start(WITH_OBJECT, makers={"own": old}, options=options(fallback=2))
        self._serve_some(scenario, live)
        enrolled = live.assign("ann")
        message = rf"process .*:\d+ has another version of policy 'own' \({shown}\)"
        with pytest.raises(OtherVersion, match=message):
            scenario.store.load(live.name, makers={"own": new})
        other = scenario.store.peek(live.name, makers={"own": new})
        assert other.assign("bob") == (None, "2", False, records.DIVERGED)
        with pytest.raises(Diverged, match=message):
            other.assign("bob", strict=True)
        assert other.assign("ann") == enrolled._replace(reason=records.STICKY)
        assert scenario.pay(other, str(enrolled.id)).applied
        for call in (other.runs, other.verify, other.resume, other.repair):
            with pytest.raises(OtherVersion):
                call()
        assert live.status().status == "running"
        scenario.finish(live)
        _is_simulated(live, {"own": old})

    def test_rewards_of_a_process_that_does_not_play_are_taken_up_by_others(
        self, scenario: Scenario
    ) -> None:
        """Every reward is reported to it; the ledger is advanced by the version of the experiment alone."""
        live = scenario.start(WITH_OBJECT, makers=OLD, options=options(open_replications=1))
        other = scenario.store.peek(live.name, makers=NEW)
        while (answer := live.assign(scenario.unit())).reason != records.NOT_RUNNING:
            waiting = [id for id in (answer.id, *scenario.enrol_all(live)) if id is not None]
            for id in waiting:
                scenario.pay(other, id)
            assert live.status().behind == 1
            assert "1 replication waits for a process that has the code" in str(live.status())
        assert live.status().behind == 0
        _is_simulated(live, OLD)

    def test_what_was_reported_without_the_code_is_taken_up_after_a_restart(
        self, scenario: Scenario
    ) -> None:
        """With the code of the experiment, when it is loaded."""
        live = scenario.start(WITH_OBJECT, makers=OLD)
        other = scenario.store.peek(live.name, makers=NEW)
        for id in scenario.enrol_all(live):
            scenario.pay(other, id)
        assert live.status().wanted == 0
        live = scenario.reopen(live, makers=OLD)
        assert (live.status().behind, live.status().wanted > 0) == (0, True)
        scenario.finish(live)
        _is_simulated(live, OLD)

    @pytest.mark.parametrize("design", ["replay", "naive"])
    def test_a_challenger_does_not_disturb_who_has_no_code_for_it(
        self, scenario: Scenario, design: str
    ) -> None:
        """It serves all the same, also after a restart, and has the results of the other policies."""
        live = scenario.start(TWO, design=design)
        other = scenario.store.load(live.name)
        self._serve_some(scenario, live)
        live.add_policy("late", External("own"), make=Cyclic)
        self._serve_some(scenario, other, 2)
        with pytest.raises(Invalid, match=r"policy 'late' is external\('own'\); pass makers"):
            other.runs()
        other = scenario.store.load(live.name)
        live.tick()  # takes up what the other has left
        self._serve_some(scenario, other, 2)
        early = other.runs([1], policies=list(TWO))
        assert_same(early, live.runs([1], policies=list(TWO)))
        while live.status().status == "running":
            scenario.finish(live, waiting=list(scenario.enrol_all(other)))
        _is_simulated(live, OLD)
        assert_same(other.runs(policies=list(TWO)), live.runs(policies=list(TWO)))

    @pytest.mark.parametrize(
        ("name", "changes"),
        [
            ("thompson", {"design": "naive", "options": options(batch=3)}),
            ("fixed", {"options": options(batch=3, order="phase")}),
            ("thompson", {"options": options(audit_share=0.3, open_replications=2)}),
        ],
    )
    def test_a_policy_is_removed(
        self, scenario: Scenario, name: str, changes: dict[str, Any]
    ) -> None:
        """While its entries wait: what is known stays known, and the others play as if it had never been there."""
        live = scenario.start(FIVE, **changes)
        other = scenario.store.load(live.name)
        self._serve_some(scenario, live, 20)
        waiting = list(scenario.enrol_all(live))[:6]
        removed = live.remove_policy(name, reason="it is broken")
        assert (removed.replications, removed.applied) == (live.status().opened, True)
        assert name not in live.experiment.policies
        change = live.history()[-1]
        assert (change.what, change.subject, change.reason) == (
            "policy removed",
            name,
            "it is broken",
        )
        for id in waiting[:3]:
            assert scenario.pay(other, id).applied
        live.verify()
        live = scenario.reopen(live)
        assert name not in {live.describe(id).policy for id in scenario.enrol_all(live)}
        scenario.clock.advance(86_400)
        live.tick()
        scenario.finish(live)
        assert live.status().status == "complete"
        assert live.status().wanted == live.status().waiting == 0
        assert live.verify() == live.experiment.replications

    def test_the_others_play_as_if_a_removed_policy_had_never_been_there(
        self, scenario: Scenario
    ) -> None:
        """Their runs are the simulation's; a challenger that holds up a finished experiment is removed."""
        live = scenario.start(FIVE)
        self._serve_some(scenario, live, 12)
        live.remove_policy("uniform")
        scenario.finish(live)
        _is_simulated(live)
        before = live.runs()
        live.add_policy("late", "always(0)")
        assert live.status().status == "running"
        live.remove_policy("late")
        assert live.status().status == "complete"
        assert_same(live.runs(), before)
        with pytest.raises(Invalid, match="the experiment had a policy 'late' already"):
            live.add_policy("late", "always(1)")

    def test_what_cannot_be_removed(self, scenario: Scenario) -> None:
        """The control, and what is not there; a challenger without code can be."""
        live = scenario.start(TWO)
        with pytest.raises(Invalid, match="policy 'ucb' is the control"):
            live.remove_policy("ucb")
        with pytest.raises(Invalid, match=r"no policy 'thomson' .*did you mean 'thompson'"):
            live.remove_policy("thomson")
        live.add_policy("late", External("own"), make=Cyclic)
        other = scenario.reopen(live)
        other.remove_policy("late", reason="nobody has its code")
        with pytest.raises(Invalid, match="no policy 'late'"):
            other.remove_policy("late")
        scenario.finish(other)
        _is_simulated(other)

    def test_code_is_replaced_deliberately(self, scenario: Scenario) -> None:
        """A preview shows the period from which the ledger differs; then only the new version plays."""
        live = scenario.start(WITH_OBJECT, makers=OLD)
        self._serve_some(scenario, live, 12)
        other = scenario.store.peek(live.name, makers=NEW)
        with pytest.raises(Invalid, match="no policy 'owm'"):
            other.replace_policy_code("owm")
        assert conflict_code(lambda: live.replace_policy_code("own")) == "invalid_transition"
        shown = other.replace_policy_code("own")
        assert (shown.applied, shown.replications) == (False, live.status().opened)
        (first, *_) = [
            difference.period for difference in shown.differences if difference.period is not None
        ]
        assert 1 < first <= 8
        assert "derived from the ledger again: " in str(shown)
        assert [change.what for change in live.history()] == ["started"]
        self._serve_some(scenario, live, 2)
        done = other.replace_policy_code("own", confirm=True, reason="a bug")
        assert done.applied
        change = live.history()[-1]
        assert (change.what, change.subject, change.reason) == (
            "policy code replaced",
            "own",
            "a bug",
        )
        other.verify()
        scenario.clock.advance(1.5)
        live.assign("ann")
        assert live.assign("bob").reason == records.DIVERGED
        scenario.finish(other)
        _is_simulated(other, NEW)

    def test_an_experiment_that_was_complete_needs_users_for_new_code(
        self, scenario: Scenario
    ) -> None:
        """In the same process, with other makers."""
        live = scenario.start(WITH_OBJECT, makers=OLD)
        scenario.finish(live)
        _is_simulated(live, OLD)
        live.replace_policy_code(["own"], makers=NEW, confirm=True)
        scenario.finish(live)
        _is_simulated(live, NEW)

    def test_a_ledger_is_repaired(self, scenario: Scenario) -> None:
        """A missing and a superfluous entry fail the experiment; `repair` shows and mends them."""
        live = scenario.start(TWO)
        self._serve_some(scenario, live, 6)
        waiting = scenario.enrol(live)
        rows = scenario.rows(live, EntryRow, "all_outstanding")
        wanted: dict[str, SqlValue] = {"experiment": live.id, **rows[0]._asdict()}
        scenario.store.database.write(lambda t: t.execute("release", **wanted))
        scenario.store.database.write(lambda t: t.execute("want", **wanted | {"position": 7}))
        with pytest.raises(Diverged, match="repair"):
            scenario.reopen(live)
        live = scenario.store.peek(live.name)
        assert live.assign("ann").reason == records.NOT_RUNNING
        shown = live.repair()
        assert [difference[0] for difference in shown.differences] == [wanted["replication"]]
        assert not shown.applied
        assert (shown.differences[0].released, shown.differences[0].wanted) == (1, 1)
        with pytest.raises(Diverged):
            live.resume()
        assert live.repair(confirm=True, reason="edited by hand").applied
        assert not live.repair().differences
        live.resume()
        assert [change.what for change in live.history()][-2:] == ["ledger repaired", "resumed"]
        scenario.finish(live, waiting=[waiting])
        _is_simulated(live)

    def test_a_ledger_that_is_edited_while_it_serves(self, scenario: Scenario) -> None:
        """A process that has the state in memory finds out when it wants an entry that is there already."""
        live = scenario.start({"fixed": "always(1)"}, options=options(open_replications=1))
        self._serve_some(scenario, live, 2)
        next_but_one: Values = {"experiment": live.id, "replication": 0, **Entry(0, 1, 3).columns()}
        scenario.store.database.write(lambda t: t.execute("want", **next_but_one))
        waiting = scenario.enrol(live)
        with pytest.raises(Diverged, match="contradicts its rows"):
            scenario.pay(live, waiting)
        assert live.status().status == "failed"
        assert live.repair(confirm=True).applied
        live.resume()
        scenario.finish(live, waiting=[waiting])
        _is_simulated(live)

    def test_an_experiment_without_versions_gets_them_when_it_is_loaded(
        self, scenario: Scenario
    ) -> None:
        """An earlier version of sameluck started it; from now on another policy version is refused."""
        live = scenario.start(WITH_OBJECT, makers=OLD)
        text = live.experiment.to_json()
        values: Values = {"definition": text, "fingerprints": "{}", "revision": 0}
        scenario.store.database.write(
            lambda t: t.execute("set_definition", experiment=live.id, **values)
        )
        live = scenario.reopen(live, makers=OLD)
        assert [change.what for change in live.history()] == ["started", "policy versions recorded"]
        with pytest.raises(OtherVersion):
            scenario.reopen(live, makers=NEW)
        live = scenario.reopen(live, makers=OLD)
        assert len(live.history()) == 2
        scenario.finish(live)
        _is_simulated(live, OLD)
