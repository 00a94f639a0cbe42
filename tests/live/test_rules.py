"""The rules that keep a live experiment unbiased: with each the estimate is right, without it clearly wrong.

Users' outcomes are drawn when they are assigned; how long they take, or whether they are reported, depends on the
outcome. Every "right" is a test with a false-alarm probability of 1e-6 (`budget.assert_mean`: 4.9 standard errors);
what it would see is stated beside it. Every "wrong" is the same estimate with the rule undone here, more than ten
standard errors off. The truth is the mean of 200,000 simulated replications.
"""

import heapq
import itertools
from functools import cache

import numpy as np
import pytest

import budget
import sameluck as sl
from sameluck.live.engine.replication import Scheduler
from sameluck.live.engine.walker import TOTAL_REWARD

pytestmark = pytest.mark.slow

FAR = 10.0  # standard errors


@cache
def true_effect(experiment, environment):
    """The second policy's mean total reward minus the first's, exact to 0.02 or so."""
    count = experiment.replace(replications=200_000)
    rewards = sl.simulate(count, environment).rewards[:, :, -1]
    return float(np.mean(rewards[:, 1] - rewards[:, 0]))


def assert_wrong(sample, truth):
    z = (np.mean(sample) - truth) / budget.standard_error(sample)

    assert abs(z) > FAR, (
        f"undoing the rule should show: {np.mean(sample)}, truth {truth}, z = {z:.1f}"
    )


def play(scheduler, number, user, *, by_arrival=False):
    """One replication on the bare engine, users at once where they are wanted: what each policy earned.

    `user(arm, users so far)` gives an outcome and its delay. `by_arrival` puts rewards into the stack in the order in
    which they come.
    """
    (replication, wanted), values = scheduler.start(number), {}
    coming, users, ties, waiting = [], itertools.count(), itertools.count(), set()
    now = 0.0

    def welcome(entries):
        for entry in entries:
            value, delay = user(entry.cell, next(users))
            waiting.add(entry)
            heapq.heappush(coming, (now + delay, next(ties), entry, value))

    def fetch(stack_owner, arm, first, stop):
        return [values[stack_owner, arm, position] for position in range(first, stop)]

    welcome(wanted)
    while coming:
        now, _, entry, value = heapq.heappop(coming)
        if by_arrival:
            entry = min(row for row in waiting if row[:2] == entry[:2])
        waiting.discard(entry)
        values[entry] = value
        welcome(replication.settle(entry, value, fetch))
    assert replication.complete
    return [float(walker.state.sums[TOTAL_REWARD]) for walker in replication.walkers]


def effects(scheduler, replications, user, **options):
    earned = np.array([play(scheduler, number, user, **options) for number in range(replications)])
    return earned[:, 1] - earned[:, 0]


class TestPositionIsFixedAtAssignment:
    """Rule 1. Successes are heard of at once, failures after a while; 40 users are on their way together.

    An error of 0.6 would be seen; stacking rewards as they come is off by 2.3.
    """

    means = (0.5, 0.5, 0.5, 0.5)
    experiment = sl.Experiment(
        policies={"crowd": sl.Batched(sl.Uniform(), 40), "one by one": sl.UCB1(alpha=0.5)},
        arms=4,
        horizon=40,
        replications=1,
        seed=budget.SEED,
    )

    def effects(self, **options):
        rng = np.random.default_rng(budget.SEED)

        def user(arm, _):
            success = rng.random() < self.means[arm]
            return float(success), rng.random() + 60 * (not success)

        return effects(Scheduler(self.experiment), 400, user, **options)

    def test_right(self):
        budget.assert_mean(self.effects(), true_effect(self.experiment, sl.Bernoulli(self.means)))

    def test_wrong_if_rewards_are_stacked_as_they_come(self):
        truth = true_effect(self.experiment, sl.Bernoulli(self.means))

        assert_wrong(self.effects(by_arrival=True), truth)


class Traffic:
    """A live experiment in a store in memory, with users as many as it wants: `user(arm)` gives outcome and delay.

    A delay of None: it is never reported, and the window runs out, unless the silent are `replaced` by others. An
    outcome of None: the user has left before seeing the arm.
    """

    def __init__(self, experiment, options, user, *, replaced=False):
        self.now, self.user, self.replaced = 0.0, user, replaced
        self.store = sl.open("sqlite://", clock=lambda: self.now)
        self.live = self.store.start("traffic", experiment, options=options)
        self.explicit = options.exposure == "explicit"
        self.coming, self.units, self.ties = [], itertools.count(), itertools.count()

    def welcome(self):
        """Two by two: an event seldom asks for more than one, and the second is told that no more are wanted."""
        wanted = True
        while wanted:
            for assignment in self.live.assign_many([next(self.units), next(self.units)]):
                wanted = assignment.id is not None
                if wanted:
                    self.await_reward(assignment)

    def await_reward(self, given):
        value, delay = self.user(int(given.arm))
        if value is None:
            delay = self.live.options.lease_seconds
        elif self.explicit:
            self.live.expose(given.id)
        if delay is None:
            value, delay = None, self.live.options.reward.window_seconds - self.replaced
        heapq.heappush(self.coming, (self.now + delay, next(self.ties), given.id, value))

    def go_on(self):
        """One event, then as many users as are wanted; false when no reward is outstanding."""
        self.welcome()
        if not self.coming:
            return False
        self.now, _, id, value = heapq.heappop(self.coming)
        if value is not None:
            self.live.reward(id, value)
        elif self.replaced:
            self.live.void(id)
        else:
            self.live.tick()
        return True

    def finish(self):
        while self.go_on():
            pass
        differences = effects_in(self.live)
        self.store.close()
        return differences


def effects_in(live):
    runs = live.runs()
    return runs.rewards[:, 1, -1] - runs.rewards[:, 0, -1]


class TestPrefixAndDrain:
    """Rule 3. A success is heard of at once, a failure when its window is over: who is stuck takes longer.

    Draining would be seen to be off by 0.7 a replication; those finished by a look are off by 1.8.
    """

    means = (0.2, 0.8)
    experiment = sl.Experiment(
        policies={"always 1": sl.Always(1), "greedy": sl.EpsilonGreedy(epsilon=0.05)},
        arms=2,
        horizon=20,
        replications=1_000,
        seed=budget.SEED,
    )

    def look(self, seed, user):
        """An experiment stopped when someone looks: who had finished, what `runs` returned then, and in the end."""
        options = sl.LiveOptions(open_replications=12, reward=sl.Reward(window_seconds=60))
        traffic = Traffic(self.experiment.replace(seed=seed), options, user)
        while traffic.live.status().complete < 6:
            for _ in range(15):
                traffic.go_on()
        finished, prefix = finished_by_now(traffic.live), effects_in(traffic.live)
        traffic.live.stop()
        return finished, prefix, traffic.finish()

    def test_right_if_drained_and_wrong_for_those_finished_by_now(self):
        """Sums rather than means, by Wald's identity: how many were begun depends on how they went."""
        truth = true_effect(self.experiment, sl.Bernoulli(self.means))
        rng = np.random.default_rng(budget.SEED)

        def user(arm):
            success = rng.random() < self.means[arm]
            return float(success), rng.random() if success else None

        looks = [self.look(budget.SEED + number, user) for number in range(40)]

        for finished, prefix, drained in looks:
            assert np.array_equal(prefix, drained[: len(prefix)])
            assert finished[: len(prefix)] == list(range(len(prefix)))
            assert len(prefix) not in finished
        budget.assert_mean([np.sum(drained - truth) for _, _, drained in looks], 0.0)
        assert_wrong([np.sum(drained[finished] - truth) for finished, _, drained in looks], 0.0)


def finished_by_now(live):
    """The numbers of the complete replications, whether or not earlier ones are."""
    traces = [live.trace(number).trajectories.values() for number in range(live.status().opened)]
    horizon = live.experiment.horizon
    return [n for n, trace in enumerate(traces) if all(len(row.arms) == horizon for row in trace)]


class TestDefaultReward:
    """Rule 4. Nine of ten failures of the worse arm are never heard of: by those who answer, it is the better one.

    An error of 1.7 would be seen; replacing the silent is off by 8.
    """

    means = (0.2, 0.5)
    experiment = sl.Experiment(
        policies={"always 1": sl.Always(1), "greedy": sl.EpsilonGreedy(epsilon=0.2)},
        arms=2,
        horizon=30,
        replications=100,
        seed=budget.SEED,
    )

    def effects(self, *, leave=0.0, replaced=False):
        rng = np.random.default_rng(budget.SEED)

        def user(arm):
            if rng.random() < leave:
                return None, None
            success = rng.random() < self.means[arm]
            lost = arm == 0 and not success and rng.random() < 0.9
            return float(success), None if lost else 1.0

        options = sl.LiveOptions(
            reward=sl.Reward(default=0.0, window_seconds=60),
            open_replications=20,
            exposure="explicit" if leave else "implicit",
            lease_seconds=5,
        )
        return Traffic(self.experiment, options, user, replaced=replaced).finish()

    def test_right(self):
        """One in five has left before seeing the arm, and is replaced."""
        truth = true_effect(self.experiment, sl.Bernoulli(self.means))

        budget.assert_mean(self.effects(leave=0.2), truth)

    def test_wrong_if_the_silent_are_replaced(self):
        truth = true_effect(self.experiment, sl.Bernoulli(self.means))

        assert_wrong(self.effects(replaced=True), truth)


class TestLockStep:
    """Rule 6. Every user brings a little more than the one before: 0.02 standard deviations."""

    means = (0.0, 0.3, 0.6)
    experiment = sl.Experiment(
        policies={"greedy": sl.EpsilonGreedy(epsilon=0.2), "ucb": sl.UCB1()},
        arms=3,
        horizon=60,
        replications=1,
        seed=budget.SEED,
    )

    def errors(self, order):
        rng = np.random.default_rng(budget.SEED)

        def user(arm, users):
            return rng.normal(self.means[arm] + 0.02 * users), 1.0

        differences = effects(Scheduler(self.experiment, sl.LiveOptions(order=order)), 400, user)
        return differences - true_effect(self.experiment, sl.Gaussian(self.means))

    def test_suffers_less_from_drift_than_phase_order(self):
        """Less than half the error; about 3 against 21 here, where a policy earns 40."""
        lockstep, phase = self.errors("lockstep"), self.errors("phase")
        gap = np.mean(phase) - 2 * abs(np.mean(lockstep))
        se = np.hypot(budget.standard_error(phase), 2 * budget.standard_error(lockstep))

        assert gap > budget.z_bound() * se

    def test_is_the_default(self):
        assert sl.LiveOptions().order == "lockstep"
