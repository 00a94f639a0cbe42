"""`StoreContract`: the rules of live experiments as tests, for everybody who writes another store.

A store passes if its tests hold a class such as

    class TestMyStore(StoreContract):
        @pytest.fixture
        def open_store(self, tmp_path):
            return lambda clock: Store(MyDatabase(tmp_path / "ledger"), clock=clock)

`open_store(clock)` opens a database that is empty at the beginning of a test; called again after that store was
closed, it opens the same one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import pytest

from sameluck.environments import Bernoulli
from sameluck.errors import Conflict, Invalid, Unknown
from sameluck.live import answers as say
from sameluck.live.answers import Assignment
from sameluck.live.casting import AUDITED, Entry
from sameluck.live.options import Live, Reward
from sameluck.live.running import LiveExperiment
from sameluck.live.scene import (
    FIVE,
    TWO,
    WINDOW,
    WORLD,
    OpenStore,
    Scene,
    assert_finished,
    assert_same,
    options,
    simulated,
)
from sameluck.playing import Player, empty_diary

LEASE = 60.0
THREADS = 8


def refused(call: Callable[[], object]) -> str:
    """The code of the conflict that a call must raise."""
    with pytest.raises(Conflict) as caught:
        call()
    return caught.value.code


def explicit(**changes: Any) -> Live:
    """Options under which the application says who has seen an arm."""
    usual = {"exposure": "explicit", "lease_seconds": LEASE, "open_replications": 1}
    return options(**{**usual, **changes})


def together(calls: Sequence[Callable[[], Any]]) -> list[Any]:
    """Calls from as many threads at once; what each returned, or raised."""

    def outcome(call: Callable[[], Any]) -> Any:
        try:
            return call()
        except Exception as error:  # the caller looks at it
            return error

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(outcome, calls))


class Units:
    """Rules about the users."""

    def test_a_unit_keeps_its_arm(self, scene: Scene) -> None:
        """Before and after its reward, and after a restart; to serve it again costs nothing."""
        live = scene.start()
        first = live.assign("ann")
        assert (first.enrolled, first.reason) == (True, say.ASSIGNED)
        again = first._replace(reason=say.STICKY)
        assert live.assign("ann") == again
        scene.pay(live, str(first.id))
        assert live.assign("ann") == again
        live = scene.reopen(live)
        assert live.assign("ann") == again
        assert live.status().users == 1

    def test_a_number_is_the_unit_of_that_text(self, scene: Scene) -> None:
        """`assign(7)` and `assign("7")` are about the same user."""
        live = scene.start()
        assert live.assign(7).id == live.assign("7").id

    def test_units_are_not_kept_in_clear(self, scene: Scene) -> None:
        """The database knows a unit again and cannot name it."""
        live = scene.start()
        live.assign("ann@example.org")
        rows = scene.store._database.read(lambda t: t.all("history", experiment=live._id))
        assert not any("ann" in str(value) for row in rows for value in row)

    def test_traffic_share_is_a_fixed_function_of_the_unit(self, scene: Scene) -> None:
        """Whoever is outside stays outside; of 400 units 58 to 144 are inside but for a chance of 1e-6."""
        live = scene.start(live=options(traffic_share=0.25))
        units = [scene.unit() for _ in range(400)]
        outside = [live.assign(unit).reason == say.NOT_IN_TRAFFIC_SHARE for unit in units]
        assert 58 <= 400 - sum(outside) <= 144
        live = scene.reopen(live)
        assert [live.assign(unit).reason == say.NOT_IN_TRAFFIC_SHARE for unit in units] == outside


class Entries:
    """Rules about the places of the ledger that users are asked for."""

    def test_policies_that_wait_for_the_same_entry_share_one_user(self, scene: Scene) -> None:
        """Three policies of one rule need one user a period, not three."""
        rules = dict.fromkeys(["a", "b", "c"], "ucb1(alpha=2)")
        live = scene.start(rules, live=options(open_replications=1))
        assert len(scene.enrol_all(live)) == 1
        live.stop(drain=False)
        live = scene.start(rules, name="whole")
        scene.finish(live)
        assert_finished(live)
        assert live.status().users == 8 * 3

    def test_position_is_fixed_at_assignment(self, scene: Scene) -> None:
        """Rewards that come in reverse order stand where their users were asked, not where they arrived."""
        live = scene.start({"fixed": "always(1)"}, horizon=6, replications=1, live=options(batch=6))
        asked = scene.enrol_all(live)
        assert [told.position for told in asked.values()] == list(range(6))
        values = {id: scene.worth(live, id) for id in asked}
        for id in reversed(asked):
            scene.pay(live, id)
            assert live.describe(id).position == asked[id].position
        assert live.trace(0)["fixed"].rewards.tolist() == list(values.values())
        assert_finished(live)

    def test_the_lowest_open_replication_comes_first(self, scene: Scene) -> None:
        """A user goes to the first replication that wants one."""
        live = scene.start({"ucb": "ucb1"}, live=options(open_replications=3))
        asked = scene.enrol_all(live)
        assert [told.replication for told in asked.values()] == [0, 1, 2]
        for id in reversed(asked):
            scene.pay(live, id)
        assert [told.replication for told in scene.enrol_all(live).values()] == [0, 1, 2]

    def test_in_lock_step_policies_advance_together(self, scene: Scene) -> None:
        """Whoever is ahead waits: nobody is asked for its next arm until the others have come as far."""
        live = scene.start(design="naive", live=options(open_replications=1))
        for _ in range(8):
            first, second = scene.enrol_all(live).values()
            assert (first.policy, second.policy) == tuple(TWO)
            scene.pay(live, second.id)
            assert scene.enrol_all(live) == {}
            scene.pay(live, first.id)
        assert live.status().complete == 1

    def test_in_phase_order_one_policy_follows_the_other(self, scene: Scene) -> None:
        """The second asks nobody before the first has reached the horizon."""
        live = scene.start(design="naive", replications=1, live=options(order="phase"))
        for policy in TWO:
            for _ in range(8):
                (told,) = scene.enrol_all(live).values()
                assert told.policy == policy
                scene.pay(live, told.id)
        assert_finished(live)

    def test_replications_open_one_after_the_other(self, scene: Scene) -> None:
        """As soon as one is complete, and never more at once than was said."""
        live = scene.start({"ucb": "ucb1"}, horizon=2, live=options(open_replications=2))
        for opened, complete in [(2, 0), (2, 0), (3, 1), (3, 1), (3, 2), (3, 2)]:
            told = live.status()
            assert (told.opened, told.complete) == (opened, complete)
            scene.serve(live)
        assert live.status().status == "complete"

    def test_the_database_forbids_a_second_live_assignment_of_an_entry(self, scene: Scene) -> None:
        """Even if the code were wrong."""
        self._insert_refused(scene, same_entry=True, unit="somebody else")

    def test_the_database_forbids_a_second_enrolment_of_a_unit(self, scene: Scene) -> None:
        """Even if the code were wrong."""
        self._insert_refused(scene, same_entry=False, unit=None)

    def _insert_refused(self, scene: Scene, *, same_entry: bool, unit: str | None) -> None:
        live = scene.start()
        told = live.describe(scene.enrol(live))
        place = {"owner": 0, "arm": told.arm_index, "position": told.position}
        other = place if same_entry else {**place, "position": 5}
        key = {"experiment": live._id, "replication": 0}
        code = unit or live._serving.code("unit 0")
        database = scene.store._database

        def insert(transaction: Any) -> None:
            if not same_entry:
                transaction.run("want", **key, **other)
            transaction.run("enrol", assignment="asg_raw", **key, **other, unit=code, now=0)

        with pytest.raises(Exception, match=r"(?i)unique"):
            database.write(insert)
        assert live.status().users == 1
        scene.finish(live, waiting=[told.id])
        assert_finished(live)


class Rewards:
    """Rules about what users bring."""

    def test_the_first_value_counts(self, scene: Scene) -> None:
        """The same value again is a retry, another one a conflict; all of them are kept in the audit log."""
        live = scene.start()
        id = scene.enrol(live)
        assert live.reward(id, 0.25) == (True, False, 0.25)
        assert live.reward(id, 0.25) == (False, True, 0.25)
        assert refused(lambda: live.reward(id, 0.5)) == "reward_conflict"
        live = scene.reopen(live)
        assert live.reward(id, 0.25).duplicate
        assert live.describe(id).value == 0.25
        outcomes = ["applied", "duplicate", "conflict", "duplicate"]
        assert scene.events(live, id) == list(zip([0.25, 0.25, 0.5, 0.25], outcomes, strict=True))

    def test_a_conflict_changes_nothing_else(self, scene: Scene) -> None:
        """The experiment goes on with the first value."""
        live = scene.start()
        id = scene.enrol(live)
        scene.pay(live, id)
        for value in (1e6, -1e6):
            assert refused(partial(live.reward, id, value)) == "reward_conflict"
        scene.finish(live)
        assert_finished(live)

    def test_the_database_forbids_a_second_applied_reward(self, scene: Scene) -> None:
        """Even if the code were wrong."""
        live = scene.start()
        id = scene.enrol(live)
        scene.pay(live, id)
        event = {"assignment": id, "value": 3.0, "now": 0, "outcome": "applied"}
        with pytest.raises(Exception, match=r"(?i)unique"):
            scene.store._database.write(lambda t: t.run("note_reward", **event))
        assert len(scene.events(live, id)) == 1

    @pytest.mark.parametrize("microseconds", [-1, 0, 1])
    @pytest.mark.parametrize("ticks", [0, 1])
    def test_a_reward_is_late_when_the_window_is_over(
        self, scene: Scene, microseconds: int, ticks: int
    ) -> None:
        """To the microsecond, whether or not anybody has ticked."""
        late = microseconds >= 0
        live = scene.start(live=options(reward=Reward(default=-2.0, window_seconds=10)))
        id = scene.enrol(live)
        scene.clock.forward(10, microseconds)
        for _ in range(ticks):
            assert live.tick() == late
        if not late:
            assert live.reward(id, 0.5).applied
            return
        assert refused(lambda: live.reward(id, 0.5)) == "reward_late"
        told = live.describe(id)
        assert (told.value, told.source, told.status) == (-2.0, "default", "settled")
        assert scene.events(live, id) == [(0.5, "late")]

    def test_no_reward_in_the_window_is_the_default_reward(self, scene: Scene) -> None:
        """The policies see it like any other, and the next call for an arm is enough to make it count."""
        live = scene.start({"fixed": "always(2)"}, horizon=2, replications=1, live=options())
        scene.enrol(live)
        scene.clock.forward(WINDOW)
        second = scene.enrol(live)
        assert live.describe(second).position == 1
        live.reward(second, 0.5)
        assert live.runs().rewards.tolist() == [[[0.5]]]
        assert (live.status().defaulted, live.status().status) == (1, "complete")

    def test_tick_says_how_many_were_due(self, scene: Scene) -> None:
        """And does nothing the second time."""
        live = scene.start(live=options(open_replications=3))
        asked = scene.enrol_all(live)
        assert live.tick() == 0
        scene.clock.forward(WINDOW)
        assert live.tick() == len(asked)
        assert live.tick() == 0
        assert live.status().defaulted == len(asked)


class Exposure:
    """Rules about users who may not have seen their arm."""

    def test_a_voided_entry_is_offered_again(self, scene: Scene) -> None:
        """The same entry, to somebody else; what the first one brings no longer counts."""
        live = scene.start(live=explicit())
        id = scene.enrol(live)
        before = live.describe(id)
        live.void(id)
        live.void(id)
        assert live.describe(id).status == "voided"
        other = live.describe(scene.enrol(live))
        assert _entry(other) == _entry(before)
        assert other.id != id
        assert refused(lambda: live.reward(id, 0.5)) == "assignment_voided"
        assert refused(lambda: live.expose(id)) == "assignment_voided"
        assert scene.events(live, id) == [(0.5, "voided")]
        scene.finish(live, waiting=[other.id])
        assert_finished(live, voided=1)

    def test_a_unit_that_was_voided_may_take_part_again(self, scene: Scene) -> None:
        """It never saw an arm."""
        live = scene.start(live=explicit())
        first = live.assign("ann")
        live.void(first.id)
        second = live.assign("ann")
        assert (second.reason, second.arm) == (say.ASSIGNED, first.arm)
        assert second.id != first.id

    @pytest.mark.parametrize("microseconds", [-1, 0, 1])
    def test_a_lease_that_is_over_voids(self, scene: Scene, microseconds: int) -> None:
        """To the microsecond: not exposed in time, so the entry is offered again."""
        live = scene.start(live=explicit())
        id = scene.enrol(live)
        scene.clock.forward(LEASE, microseconds)
        if microseconds < 0:
            live.expose(id)
            assert live.describe(id).status == "exposed"
            return
        assert refused(lambda: live.expose(id)) == "assignment_voided"
        assert _entry(live.describe(scene.enrol(live))) == _entry(live.describe(id))

    def test_who_comes_next_gets_an_entry_whose_lease_is_over(self, scene: Scene) -> None:
        """Nobody has to tick."""
        live = scene.start(live=explicit())
        first = live.describe(scene.enrol(live))
        assert live.assign(scene.unit()).reason == say.NO_OPEN_SLOT
        scene.clock.forward(LEASE)
        assert _entry(live.describe(scene.enrol(live))) == _entry(first)

    def test_an_exposed_entry_is_never_offered_again(self, scene: Scene) -> None:
        """Neither by void nor when the lease is over: it waits for its window, then gets the default reward."""
        live = scene.start(live=explicit())
        id = scene.enrol(live)
        scene.clock.forward(LEASE - 1)
        live.expose(id)
        assert refused(lambda: live.void(id)) == "already_exposed"
        scene.clock.forward(WINDOW - 1)
        assert live.assign(scene.unit()).reason == say.NO_OPEN_SLOT
        scene.clock.forward(1)
        other = live.describe(scene.enrol(live))
        assert _entry(other) != _entry(live.describe(id))
        assert live.describe(id).source == "default"

    def test_the_window_begins_with_exposure(self, scene: Scene) -> None:
        """With the first one: telling it twice gains no time."""
        live = scene.start(live=explicit())
        id = scene.enrol(live)
        scene.clock.forward(LEASE / 2)
        live.expose(id)
        due = live.describe(id).due_at
        scene.clock.forward(WINDOW / 2)
        live.expose(id)
        assert live.describe(id).due_at == due
        scene.clock.forward(WINDOW / 2, microseconds=-1)
        assert live.reward(id, 0.5).applied
        live.expose(id)
        assert refused(lambda: live.void(id)) == "already_settled"

    def test_a_reward_is_proof_of_exposure(self, scene: Scene) -> None:
        """It counts although nobody said that the arm was seen."""
        live = scene.start(live=explicit())
        id = scene.enrol(live)
        assert live.reward(id, 0.5).applied
        scene.clock.forward(10 * LEASE)
        assert live.tick() == 0
        assert live.describe(id).value == 0.5

    def test_losing_users_costs_users_and_nothing_else(self, scene: Scene) -> None:
        """Some never see their arm; the runs are those of a simulation all the same."""
        coins = random.Random(3)
        live = scene.start(FIVE, live=explicit(open_replications=2))
        lost = 0
        while asked := scene.enrol_all(live):
            for id in asked:
                fate = coins.choice(["seen", "seen", "void", "silence"])
                if fate == "seen":
                    live.expose(id)
                    scene.pay(live, id)
                elif fate == "void":
                    live.void(id)
                lost += fate != "seen"
            scene.clock.forward(LEASE)
        assert_finished(live, voided=lost)


class Fallback:
    """An application always gets an arm."""

    def test_who_is_not_needed_gets_the_fallback_arm(self, scene: Scene) -> None:
        """Nothing is expected of them, and reporting something all the same does nothing."""
        live = scene.start(
            arms=("old", "new", "odd"), live=options(open_replications=1, fallback="odd")
        )
        scene.enrol_all(live)
        answer = live.assign(scene.unit())
        assert answer == Assignment(None, "odd", enrolled=False, reason=say.NO_OPEN_SLOT)
        live.expose(answer.id)
        assert live.reward(answer.id, 0.5) == (False, False, 0.5)
        live.void(answer.id)
        assert live.status().settled == 0

    def test_every_reason(self, scene: Scene) -> None:
        """Paused, draining, stopped, complete: no call raises, and calls are counted by reason."""
        live = scene.start(live=options(open_replications=1))
        waiting = list(scene.enrol_all(live))
        live.pause()
        assert live.assign(scene.unit()).reason == say.NOT_RUNNING
        live.resume()
        live.stop()
        assert live.assign(scene.unit()).reason == say.DRAINING
        scene.finish(live, waiting=waiting)
        nobody = Assignment(None, "0", enrolled=False, reason=say.NOT_RUNNING)
        assert live.assign(scene.unit()) == nobody
        live.status()  # counts are written once a second, and when somebody asks
        counted = scene.reopen(live).status().answers
        assert counted[say.ASSIGNED] == simulated(live.experiment).interactions[0, 0]
        assert counted[say.DRAINING] >= 1
        assert counted[say.NOT_RUNNING] >= 2


class Steering:
    """Rules about pausing and stopping."""

    def test_a_pause_enrols_nobody_and_takes_rewards(self, scene: Scene) -> None:
        """Who takes part already is still served; afterwards it goes on where it was."""
        live = scene.start()
        first = live.assign("ann")
        live.pause("checking something")
        told = live.status()
        assert (told.status, told.reason) == ("paused", "checking something")
        assert live.assign("ann").id == first.id
        assert not live.assign("bob").enrolled
        assert scene.pay(live, str(first.id)).applied
        assert not live.assign("bob").enrolled
        live = scene.reopen(live)
        live.resume()
        scene.finish(live)
        assert_finished(live)

    def test_stopping_finishes_what_was_begun(self, scene: Scene) -> None:
        """And opens nothing more: dropping replications that take long would bias the result."""
        live = scene.start(replications=6, live=options(open_replications=2))
        for _ in range(12):
            scene.serve(live)
        opened = live.status().opened
        live.stop(reason="enough")
        assert live.status().status == "draining"
        scene.finish(live)
        told = live.status()
        assert (told.status, told.reason, told.opened) == ("stopped", "enough", opened)
        assert 0 < told.prefix == told.complete == opened < 6
        assert_same(live.runs(), simulated(live.experiment), opened)

    def test_a_pause_does_not_undo_a_stop(self, scene: Scene) -> None:
        """Resumed, it finishes what was begun and no more."""
        live = scene.start(replications=6, live=options(open_replications=2))
        live.stop()
        live.pause()
        assert not live.assign(scene.unit()).enrolled
        live.resume()
        scene.finish(live)
        assert (live.status().status, live.status().opened) == ("stopped", 2)

    def test_stopping_at_once_leaves_the_prefix(self, scene: Scene) -> None:
        """Nobody is enrolled any more, and what users bring later is kept."""
        live = scene.start(replications=6, live=options(open_replications=2))
        while live.status().complete < 2:
            scene.serve(live)
        pending = scene.enrol(live)
        live.stop(drain=False)
        assert live.status().status == "stopped"
        assert not live.assign(scene.unit()).enrolled
        assert scene.pay(live, pending).applied
        told = live.status()
        assert told.status == "stopped"
        assert_same(live.runs(), simulated(live.experiment), told.prefix)

    def test_what_is_over_stays_over(self, scene: Scene) -> None:
        """A complete experiment cannot be paused, resumed or stopped; doing a thing twice does no harm."""
        live = scene.start()
        live.resume()
        for _ in range(2):
            live.pause()
        live.resume()
        scene.finish(live)
        for call in (live.pause, live.resume, live.stop):
            assert refused(call) == "invalid_transition"
        assert_finished(live)


class Results:
    """Rules about what an experiment has shown so far."""

    def test_only_the_complete_prefix_counts(self, scene: Scene) -> None:
        """A complete one does not count while an earlier one is open: how long one takes depends on how it goes."""
        live = scene.start(replications=2, live=options(open_replications=2))
        held = []
        while live.status().complete < 1:
            for id, told in scene.enrol_all(live).items():
                if told.replication == 0:
                    held.append(id)
                else:
                    scene.pay(live, id)
        assert (live.status().complete, live.status().prefix) == (1, 0)
        assert live.runs().replications == 0
        assert live.runs([1]).replications == 0
        scene.finish(live, waiting=held)
        assert_finished(live)

    def test_checkpoints_come_in_on_the_way(self, scene: Scene) -> None:
        """In lock-step a replication counts at a horizon once every policy has passed it."""
        live = scene.start(FIVE, replications=2, live=options(open_replications=2))
        expected = simulated(live.experiment, checkpoints=[2, 5])
        seen = []
        while live.status().complete < 2:
            seen.append(live.runs([2, 5]).replications)
            assert_same(live.runs([2, 5]), expected, seen[-1])
            scene.serve(live)
        assert seen == sorted(seen)
        assert {0, 1} <= set(seen)
        assert live.runs().replications > seen[0]
        assert_finished(live)

    def test_some_policies_need_not_wait_for_the_others(self, scene: Scene) -> None:
        """In phase order the first one is there long before the last."""
        live = scene.start(replications=1, live=options(order="phase"))
        while live.runs(policies=["ucb"]).replications == 0:
            scene.serve(live)
        assert live.status().complete == 0
        alone = live.experiment.replace(policies={"ucb": TWO["ucb"]})
        assert_same(live.runs(policies=["ucb"]), simulated(alone))

    def test_a_trace_tells_every_period(self, scene: Scene) -> None:
        """As far as it has come; in the end it is the simulation's."""
        live = scene.start()
        assert live.trace(0)["ucb"].arms.size == 0
        scene.finish(live)
        diary = empty_diary(8)
        for name in TWO:
            Player(live.experiment, WORLD, name).play(range(2, 3), np.array([8]), diary)
            found = live.trace(2)[name]
            assert found.arms.tolist() == diary.arms.tolist()
            assert found.positions.tolist() == diary.positions.tolist()
            assert found.rewards.tolist() == diary.rewards.tolist()
        assert live.trace(2).interactions == simulated(live.experiment).interactions[2, 0]

    def test_opening_again_gives_the_same_state_at_any_moment(self, scene: Scene) -> None:
        """Whatever was acknowledged, assigned or voided before."""
        live = scene.start(FIVE, horizon=4, live=explicit(open_replications=2))
        coins, pending = random.Random(5), []
        while live.status().status != "complete":
            before, runs = live.status(), live.runs([1, 3])
            live = scene.reopen(live)
            assert live.status() == before
            assert_same(live.runs([1, 3]), runs)
            answers = [live.assign(scene.unit()) for _ in range(3)]
            pending += [answer.id for answer in answers if answer.id is not None]
            coins.shuffle(pending)
            for id in pending[: len(pending) // 2 + 1]:
                live.void(id) if coins.random() < 0.2 else scene.pay(live, id)
            del pending[: len(pending) // 2 + 1]
        assert_finished(live, voided=live.status().voided)

    def test_experiments_of_one_store_do_not_mind_each_other(self, scene: Scene) -> None:
        """The same unit may take part in both; an assignment belongs to one of them."""
        one, other = scene.start(name="one"), scene.start(name="other", seed=12)
        first, second = one.assign("ann"), other.assign("ann")
        assert first.id != second.id
        with pytest.raises(Unknown, match="no assignment"):
            other.reward(first.id, 0.5)
        scene.pay(one, str(first.id))
        scene.pay(other, str(second.id))
        scene.finish(one)
        scene.finish(other)
        assert_finished(one)
        assert_finished(other)
        assert scene.store.names() == ["one", "other"]
        assert refused(lambda: scene.start(name="one")) == "name_taken"


class Concurrency:
    """Rules that must hold for many callers at once."""

    def test_one_unit_asked_for_by_many_is_enrolled_once(self, scene: Scene) -> None:
        """All callers get the same assignment."""
        live = scene.start(live=options(open_replications=3))
        for number in range(5):
            unit = f"ann {number}"
            found = together([partial(live.assign, unit)] * THREADS)
            assert len({answer.id for answer in found}) == 1
        assert live.status().users == live.status().waiting <= 5

    def test_of_many_values_one_is_applied(self, scene: Scene) -> None:
        """The others are told so, and all of them are in the audit log."""
        live = scene.start()
        for _ in range(5):
            id = scene.enrol(live)
            found = together([partial(live.reward, id, value) for value in range(THREADS)])
            receipts = [one for one in found if not isinstance(one, Conflict)]
            assert [receipt.applied for receipt in receipts] == [True]
            assert live.describe(id).value == receipts[0].value
            logged = sorted(outcome for _, outcome in scene.events(live, id))
            assert logged == ["applied"] + ["conflict"] * (THREADS - 1)

    @pytest.mark.parametrize("design", ["replay", "naive"])
    def test_many_callers_run_an_experiment_to_its_end(self, scene: Scene, design: str) -> None:
        """And it is the simulation's."""
        live = scene.start(FIVE, design=design, live=options(open_replications=3))
        self._serve_together(scene, live)
        assert_finished(live)

    def test_a_challenger_joins_while_many_callers_are_served(self, scene: Scene) -> None:
        """Nobody is turned away for it, and nothing is lost."""
        live = scene.start(replications=6, live=options(open_replications=3))

        serving = [partial(self._serve_until, scene, live, 25)] * THREADS
        *served, joining = together([*serving, partial(live.add_policy, "late", "uniform")])
        assert served == [None] * THREADS
        assert joining.policy == "late"
        live = scene.reopen(live)
        self._serve_together(scene, live)
        assert_finished(live)

    def _serve_together(self, scene: Scene, live: LiveExperiment) -> None:
        served = together([partial(self._serve_until, scene, live, 10_000)] * THREADS)
        assert served == [None] * THREADS

    def _serve_until(self, scene: Scene, live: LiveExperiment, users: int) -> None:
        for _ in range(users):
            if scene.serve(live).reason == say.NOT_RUNNING:
                return


class Challengers:
    """Rules about policies that join late."""

    late = "epsilon_greedy(epsilon=0.5)"

    @pytest.mark.parametrize("design", ["replay", "naive"])
    @pytest.mark.parametrize("served", [0, 20, 10_000])
    def test_joining_late_is_as_good_as_from_the_start(
        self, scene: Scene, design: str, served: int
    ) -> None:
        """Runs and users are those of a simulation in which all policies play from the first period."""
        live = scene.start(design=design)
        for _ in range(served):
            if scene.serve(live).reason == say.NOT_RUNNING:
                break
        users = live.status().users
        joining = live.add_policy("late", self.late)
        assert (joining.users_so_far, joining.replications) == (users, 3)
        assert live.status().status == "running"
        live = scene.reopen(live)
        scene.finish(live)
        assert_finished(live)
        assert tuple(live.experiment.policies) == ("ucb", "thompson", "late")
        assert live.status().users >= users + joining.users_at_least

    def test_a_challenger_that_does_what_was_done_needs_nobody(self, scene: Scene) -> None:
        """It walks through the ledger to the end."""
        live = scene.start()
        scene.finish(live)
        before = live.status()
        joining = live.add_policy("twin", TWO["ucb"])
        assert (joining.finished, joining.replayed, joining.users_at_least) == (3, 24, 0)
        assert live.status()._replace(answers={}) == before._replace(answers={})
        assert_finished(live)

    def test_a_drained_experiment_drains_again_for_a_challenger(self, scene: Scene) -> None:
        """It opens no further replication."""
        live = scene.start(replications=6, live=options(open_replications=2))
        live.stop()
        scene.finish(live)
        live.add_policy("late", self.late)
        assert live.status().status == "draining"
        scene.finish(live)
        assert (live.status().status, live.status().opened) == ("stopped", 2)
        assert_same(live.runs(), simulated(live.experiment), 2)

    def test_a_name_that_is_taken_is_refused(self, scene: Scene) -> None:
        """And so is anybody who would join a rehearsal."""
        live = scene.start()
        with pytest.raises(Invalid, match="has a policy 'ucb' already"):
            live.add_policy("ucb", self.late)
        rehearsal = scene.start(name="rehearsal", live=options(aa=True))
        with pytest.raises(Invalid, match="A/A rehearsal"):
            rehearsal.add_policy("late", self.late)
        scene.finish(live)
        assert_finished(live)


class Designs:
    """Every way to run an experiment gives the simulation's runs."""

    @pytest.mark.parametrize("order", ["lockstep", "phase"])
    @pytest.mark.parametrize("design", ["replay", "naive", "replay(share_noise=true)"])
    def test_live_runs_are_the_simulations(self, scene: Scene, design: str, order: str) -> None:
        """For five policies and rewards that come in any order."""
        live = scene.start(FIVE, design=design, live=options(order=order, open_replications=2))
        scene.finish(live)
        assert_finished(live)

    @pytest.mark.parametrize("batch", [3, {"ucb": 4}, 100])
    @pytest.mark.parametrize("design", ["replay", "naive"])
    def test_batches(self, scene: Scene, design: str, batch: Any) -> None:
        """A policy acts some times, then sees the rewards."""
        live = scene.start(design=design, live=options(batch=batch))
        scene.finish(live)
        assert_finished(live)

    def test_policies_that_count_successes(self, scene: Scene) -> None:
        """Take 0 and 1 only."""
        coins = Bernoulli((0.2, 0.5, 0.8))
        binary = options(reward=Reward(min=0, max=1, window_seconds=WINDOW))
        live = scene.start({"beta": "thompson_bernoulli", "ucb": "ucb1"}, live=binary)
        scene.finish(live, coins)
        assert_finished(live, coins)

    def test_audits_change_no_result(self, scene: Scene) -> None:
        """Every entry drawn for the audit is asked for once, and what its user brings is only compared."""
        live = scene.start(FIVE, live=options(audit_share=0.3, open_replications=2))
        scene.finish(live)
        rows = scene.store._database.read(lambda t: t.all("history", experiment=live._id))
        asked = [(row[0], Entry(*row[1:4])) for row in rows if row[1] == AUDITED]
        assert {row[4] for row in rows} == {"settled"}
        assert len(asked) == len(set(asked)) > 0
        cast = live._stage.cast
        counts = np.sort(simulated(live.experiment).pulls[:, :, -1], axis=1)[:, -2]
        drawn = {
            (replication, entry)
            for replication, arms in enumerate(counts.tolist())
            for arm, many in enumerate(arms)
            for entry in cast.audits(replication, arm, range(many))
        }
        assert set(asked) == drawn
        assert_finished(live, audits=len(asked))

    def test_a_rehearsal_lets_all_play_by_the_controls_rule(self, scene: Scene) -> None:
        """With a rule that tosses no coin every difference is zero."""
        live = scene.start(live=options(aa=True))
        scene.finish(live)
        assert_finished(live)
        rewards = live.runs().rewards
        assert (rewards[:, 0] == rewards[:, 1]).all()


def _entry(told: Any) -> tuple[int, int, int]:
    return told.replication, told.arm_index, told.position


class StoreContract(
    Units,
    Entries,
    Rewards,
    Exposure,
    Fallback,
    Steering,
    Results,
    Concurrency,
    Challengers,
    Designs,
):
    """All of them; give it a fixture `open_store`."""

    @pytest.fixture
    def open_store(self) -> OpenStore:
        """A function of a clock that opens the test's own database, the same one each time."""
        raise NotImplementedError("a class that tests a store needs a fixture open_store")

    @pytest.fixture
    def scene(self, open_store: OpenStore) -> Iterator[Scene]:
        """The store with its clock and its users."""
        opened = Scene(open_store)
        yield opened
        opened.close()
