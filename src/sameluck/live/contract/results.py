"""Rules about results: at any moment and under every design they are those of the simulation."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from sameluck.environments import Bernoulli
from sameluck.errors import Unknown
from sameluck.live.casting import AUDITED, Entry
from sameluck.live.options import Reward
from sameluck.live.scene import (
    FIVE,
    TWO,
    WINDOW,
    WORLD,
    Scene,
    assert_finished,
    assert_same,
    explicit,
    options,
    refused,
    simulated,
)
from sameluck.playing import Player, empty_diary


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
