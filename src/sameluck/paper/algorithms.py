"""Algorithm 2 as printed (slow and direct), and sums along the shared reward stacks.

Algorithm 2 (phases, histories, a set of used entries, the earliest match) is the paper's canonical model; `trace`
runs the shared-reward-stack model. Both read the same random bits, so two models that agree in distribution agree
here bit by bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sameluck.arrays import Floats, Ints
from sameluck.compilation.decorators import compiled
from sameluck.design import Replay
from sameluck.environments.base import Environment, draw
from sameluck.experiment import Experiment
from sameluck.policies.base import memory_of, prepare, select
from sameluck.policies.observations import (
    cell_of,
    empty_observations,
    no_context,
    observe,
    tally_of,
)
from sameluck.randomness.streams import ALL_POLICIES, DECISION, REWARD, stream, subkey, word


class PolicyHistory(NamedTuple):
    """Arms and rewards of one policy, period by period, with a flag for replayed rewards."""

    arms: list[int]
    rewards: list[float]
    replayed: list[bool]


class Users:
    """Real users of one replication; the k-th user of an arm returns the reward at address (arm, k).

    `altered` is an arm and a position, from which one minus the reward is returned.
    """

    def __init__(
        self,
        experiment: Experiment,
        environment: Environment,
        replication: int,
        altered: tuple[int, int] | None = None,
    ) -> None:
        self.altered_arm, self.first_altered = altered or (-1, 0)
        only = range(replication, replication + 1)
        self.parameters = environment.compiled_parameters(experiment.seed, only, experiment.n_arms)
        self.key = stream(np.uint64(experiment.seed), REWARD, replication, np.uint64(ALL_POLICIES))
        self.pulls = [0] * experiment.n_arms

    def pull(self, arm: int) -> float:
        self.pulls[arm] += 1
        return self.reward(arm, self.pulls[arm] - 1)

    def reward(self, arm: int, position: int) -> float:
        reward = float(draw(self.parameters, 0, None, arm, word(subkey(self.key, arm), position)))
        altered = arm == self.altered_arm and position >= self.first_altered
        return 1.0 - reward if altered else reward


class _Learner:
    """A policy with its own tally, history and random numbers."""

    def __init__(self, experiment: Experiment, replication: int, name: str) -> None:
        arms = experiment.n_arms
        self.policy = prepare(experiment.policies[name], arms, experiment.horizon)
        owner = Replay().noise_owner(name)
        self.noise = stream(np.uint64(experiment.seed), DECISION, replication, np.uint64(owner))
        self.observations = empty_observations(arms, memory_of(self.policy, arms))
        self.last_arm, self.last_reward = 0, 0.0
        self.history = PolicyHistory([], [], [])

    def choose(self, period: int) -> int:
        tally = tally_of(self.observations, self.last_arm, self.last_reward, no_context())
        return int(select(self.policy, tally, period, self.noise))

    def learn(self, arm: int, reward: float, *, replayed: bool) -> None:
        observe(self.observations, cell_of(arm), arm, reward)
        self.last_arm, self.last_reward = arm, reward
        self.history.arms.append(arm)
        self.history.rewards.append(reward)
        self.history.replayed.append(replayed)


def algorithm_2(
    experiment: Experiment, replication: int, users: Users, order: Sequence[str]
) -> dict[str, PolicyHistory]:
    """Run both phases for two policies, in this order."""
    first, second = (_Learner(experiment, replication, name) for name in order)
    for period in range(1, experiment.horizon + 1):
        arm = first.choose(period)
        first.learn(arm, users.pull(arm), replayed=False)
    history, used = first.history, set[int]()
    for period in range(1, experiment.horizon + 1):
        arm = second.choose(period)
        # The earliest unused entry, as the paper prints it: a set and a search, not a stack.
        unused = (s for s, old in enumerate(history.arms) if old == arm and s not in used)
        earliest = next(unused, None)
        if earliest is None:
            second.learn(arm, users.pull(arm), replayed=False)
        else:
            used.add(earliest)
            second.learn(arm, history.rewards[earliest], replayed=True)
    return {order[0]: history, order[1]: second.history}


def centred_sums(
    experiment: Experiment, environment: Environment, means: Floats, counts: Ints
) -> Floats:
    """Return the paper's S, centred sums of an arm's first n rewards, for n in `counts` (replication, stop, arm)."""
    parameters = environment.compiled_parameters(
        experiment.seed, range(counts.shape[0]), experiment.n_arms
    )
    sums = np.empty(counts.shape)
    _sum_stacks(parameters, np.uint64(experiment.seed), np.ascontiguousarray(counts), sums)
    return np.asarray(sums - counts * means)


def transformed_counts(
    experiment: Experiment,
    environment: Environment,
    event: tuple[Floats, Floats, Floats],
    begins: Ints,
    ends: Ints,
) -> Floats:
    """Sum the increments of I_t(B) over stack entries; the result has axes (replication, stop, weight, arm).

    `event` holds for each arm the smallest and the largest reward in B, and the probability of B. The entries run
    from `begins` to `ends` (replication, stop, arm). The weights are 1, and the sign of I_t(B) before the increment.
    """
    rows, stops, arms = ends.shape
    parameters = environment.compiled_parameters(experiment.seed, range(rows), arms)
    sums = np.zeros((rows, stops, 2, arms))
    _sum_increments(parameters, np.uint64(experiment.seed), *event, begins, ends, sums)
    return sums


@compiled
def _sum_increments(parameters, seed, low, high, chance, begins, ends, sums):  # type: ignore[no-untyped-def]
    for row in range(ends.shape[0]):
        key = stream(seed, REWARD, row, ALL_POLICIES)
        for arm in range(ends.shape[2]):
            stack = subkey(key, arm)
            for stop in range(ends.shape[1]):
                count = 0.0
                for position in range(ends[row, stop, arm]):
                    reward = draw(parameters, row, None, arm, word(stack, position))
                    increment = (low[arm] <= reward <= high[arm]) - chance[arm]
                    # The sign is taken before the increment is added: a weight may depend on the past only.
                    if position >= begins[row, stop, arm]:
                        sums[row, stop, 0, arm] += increment
                        sums[row, stop, 1, arm] += np.sign(count) * increment
                    count += increment


@compiled
def _sum_stacks(parameters, seed, counts, sums):  # type: ignore[no-untyped-def]
    for row in range(counts.shape[0]):
        key = stream(seed, REWARD, row, ALL_POLICIES)
        for arm in range(counts.shape[2]):
            stack = subkey(key, arm)
            for stop in range(counts.shape[1]):
                total = 0.0
                for position in range(counts[row, stop, arm]):
                    total += draw(parameters, row, None, arm, word(stack, position))
                sums[row, stop, arm] = total
