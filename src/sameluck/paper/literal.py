"""Algorithm 2 as it is printed: phases, histories, a set of used entries, the earliest match. Slow and obvious.

It is what the paper calls the canonical model; `trace` plays the shared-reward-stack model. Both read the same
luck, so the theorem that they agree in law becomes equality, to the bit.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sameluck.design import Replay
from sameluck.environments.base import draw
from sameluck.experiment import Experiment
from sameluck.policies.base import Tally, memory_of, prepare, select
from sameluck.randomness.streams import DECISION, EVERYBODY, REWARD, stream, within, word


class History(NamedTuple):
    """One policy's arms and rewards, period by period, and which rewards were replayed."""

    arms: list[int]
    rewards: list[float]
    replayed: list[bool]


class World:
    """The real users of one replication: the k-th one shown an arm pays what stands at address (arm, k)."""

    def __init__(self, experiment: Experiment, environment: Any, replication: int) -> None:
        once = range(replication, replication + 1)
        self.law = environment.laws(experiment.seed, once, experiment.n_arms)
        self.key = stream(np.uint64(experiment.seed), REWARD, replication, np.uint64(EVERYBODY))
        self.pulls = [0] * experiment.n_arms

    def pull(self, arm: int) -> float:
        """Ask the next user."""
        self.pulls[arm] += 1
        return self.reward(arm, self.pulls[arm] - 1)

    def reward(self, arm: int, position: int) -> float:
        """What the user at a position of the arm's stack pays."""
        return float(draw(self.law, 0, arm, word(within(self.key, arm), position)))


class Altered(World):
    """The same users, but from a position of one arm's stack on they pay something else."""

    def __init__(
        self, experiment: Experiment, environment: Any, replication: int, arm: int, position: int
    ) -> None:
        super().__init__(experiment, environment, replication)
        self.altered = arm, position

    def reward(self, arm: int, position: int) -> float:
        """The old reward before the altered entries, one less the old reward from there on."""
        old = super().reward(arm, position)
        return 1.0 - old if arm == self.altered[0] and position >= self.altered[1] else old


class _Learner:
    """A policy with its own history and its own coin."""

    def __init__(self, experiment: Experiment, replication: int, name: str) -> None:
        arms = experiment.n_arms
        self.policy = prepare(experiment.policies[name], arms, experiment.horizon)
        owner = Replay().noise_owner(name)
        self.luck = stream(np.uint64(experiment.seed), DECISION, replication, np.uint64(owner))
        self.pulls, self.totals = np.zeros(arms, np.int64), np.zeros(arms)
        self.means, self.memory = np.zeros(arms), np.zeros(memory_of(self.policy, arms))
        self.last, self.reward = 0, 0.0

    def choose(self, period: int) -> int:
        tally = Tally(self.pulls, self.totals, self.means, self.memory, self.last, self.reward)
        return int(select(self.policy, tally, period, self.luck))

    def learn(self, arm: int, reward: float) -> None:
        self.pulls[arm] += 1
        self.totals[arm] += reward
        self.means[arm] = self.totals[arm] / self.pulls[arm]
        self.last, self.reward = arm, reward


def algorithm_2(
    experiment: Experiment, replication: int, world: World, order: tuple[str, str]
) -> dict[str, History]:
    """Both phases for two policies, in the given order."""
    first, second = order
    learner, record = _Learner(experiment, replication, first), History([], [], [])
    for period in range(1, experiment.horizon + 1):
        arm = learner.choose(period)
        _note(learner, record, arm, world.pull(arm), replayed=False)
    learner, history = _Learner(experiment, replication, second), History([], [], [])
    used: set[int] = set()
    for period in range(1, experiment.horizon + 1):
        arm = learner.choose(period)
        match = _earliest_unused(record, used, arm)
        if match is None:
            _note(learner, history, arm, world.pull(arm), replayed=False)
        else:
            used.add(match)
            _note(learner, history, arm, record.rewards[match], replayed=True)
    return {first: record, second: history}


def _note(learner: _Learner, history: History, arm: int, reward: float, *, replayed: bool) -> None:
    learner.learn(arm, reward)
    history.arms.append(arm)
    history.rewards.append(reward)
    history.replayed.append(replayed)


def _earliest_unused(record: History, used: set[int], arm: int) -> int | None:
    return next((s for s, old in enumerate(record.arms) if old == arm and s not in used), None)
