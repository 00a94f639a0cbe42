"""The compiled loop: one policy through one replication.

It knows nothing of other policies: what the design couples is in the addresses it reads. So the trajectory of a
policy depends neither on tasks, workers or order nor on the other policies of the experiment.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sameluck.arrays import Floats, Ints
from sameluck.compilation.decorators import compiled, inlined
from sameluck.environments.base import draw, law_at
from sameluck.policies.base import (
    PlayedArm,
    Policy,
    Tally,
    are_probabilities,
    fill_probabilities,
    must_repeat,
    select,
)
from sameluck.randomness.streams import DECISION, REWARD, Bits, Key, OnceKey, stream, subkey, word
from sameluck.text_forms import Parameters
from sameluck.trajectories import Trajectory

StreamOwners: TypeAlias = tuple[
    Bits, Bits, Bits
]  # the seed, the rewards' owner, the decision noise's owner


class WorkingArrays(NamedTuple):
    """The working arrays of one policy in one replication, reset for the next."""

    first: NDArray[np.uint64]  # the keys of the arms' reward stacks
    second: NDArray[np.uint64]
    pulls: Ints
    totals: Floats
    means: Floats
    memory: Floats


class Results(NamedTuple):
    """The results of one policy: a row per replication, a column per checkpoint."""

    indexed_by_period: (
        bool | None
    )  # None without a trajectory: by its type the loop is compiled without this case
    checkpoints: Ints
    rewards: Floats  # (replication, checkpoint)
    pulls: Ints  # (replication, checkpoint, arm)


@inlined
def _reset(arrays: WorkingArrays, seed: Bits, stream_owner: Bits, replication: int) -> None:
    """Begin a replication: nothing is pulled, and each arm has the key of its reward stack."""
    key = stream(seed, REWARD, replication, stream_owner)
    for arm in range(arrays.pulls.size):
        stack = subkey(key, np.uint64(arm))
        arrays.first[arm], arrays.second[arm] = stack.first, stack.second
        arrays.pulls[arm] = 0
        arrays.totals[arm] = 0.0
        arrays.means[arm] = 0.0
    for place in range(arrays.memory.size):
        arrays.memory[place] = 0.0


@inlined
def run_one(
    policy: Policy,
    parameters: Parameters,
    noise: Key | OnceKey,
    arrays: WorkingArrays,
    row: int,
    results: Results,
    trajectory: Trajectory | None,
) -> int:
    """Run a replication. Returns 0, or the period in which the policy chose an arm that does not exist."""
    arms = arrays.pulls.size
    earned = 0.0
    arm = 0
    reward = 0.0
    start = 1
    for checkpoint in range(results.checkpoints.size):
        stop = int(results.checkpoints[checkpoint]) + 1
        period = start
        while period < stop:
            tally = Tally(arrays.pulls, arrays.totals, arrays.means, arrays.memory, arm, reward)
            arm = select(policy, tally, period, noise)
            if arm < 0 or arm >= arms:
                return period
            key = Key(arrays.first[arm], arrays.second[arm])
            pulled, total, mean, again = arrays.pulls[arm], arrays.totals[arm], 0.0, True
            while again:
                position = (
                    period - 1 if trajectory is not None and results.indexed_by_period else pulled
                )
                now = law_at(parameters, period)
                reward = float(draw(now, row, arm, word(key, np.uint64(position))))
                pulled += 1
                total += reward
                mean = total / pulled
                earned += reward
                if trajectory is not None:
                    trajectory.arms[period - 1] = arm
                    trajectory.positions[period - 1] = position
                    trajectory.rewards[period - 1] = reward
                period += 1
                played = PlayedArm(pulled, mean, arrays.memory)
                again = period < stop and must_repeat(policy, played, period, noise)
            arrays.pulls[arm], arrays.totals[arm], arrays.means[arm] = pulled, total, mean
        results.rewards[row, checkpoint] = earned
        for each in range(arms):
            results.pulls[row, checkpoint, each] = arrays.pulls[each]
        start = stop
    return 0


@compiled
def run_all(
    policy: Policy,
    parameters: Parameters,
    stream_owners: StreamOwners,
    first: int,
    arrays: WorkingArrays,
    results: Results,
    trajectory: Trajectory | None,
) -> tuple[int, int]:
    """Run replications one after another. Returns one that failed and its period, or (-1, 0)."""
    seed, reward_owner, noise_owner = stream_owners
    for row in range(results.rewards.shape[0]):
        replication = first + row
        _reset(arrays, seed, reward_owner, replication)
        noise = stream(seed, DECISION, replication, noise_owner)
        failed = run_one(policy, parameters, noise, arrays, row, results, trajectory)
        if failed:
            return replication, failed
    return -1, 0


@compiled
def sum_exploration_excess(
    policy: Policy,
    arrays: WorkingArrays,
    checkpoints: Ints,
    trajectory: Trajectory,
    probabilities: Floats,
    sums: Floats,
) -> int:
    """By how much the random choices exceeded their expectation, each arm valued at its mean so far.

    Returns 0, or the period in which `probabilities` are no probabilities, or that of the chosen arm is 0.
    """
    excess = 0.0
    start = 0
    arm = 0
    reward = 0.0
    for checkpoint in range(checkpoints.size):
        for period in range(start, checkpoints[checkpoint]):
            tally = Tally(arrays.pulls, arrays.totals, arrays.means, arrays.memory, arm, reward)
            fill_probabilities(policy, tally, period + 1, probabilities)
            if not are_probabilities(probabilities):
                return period + 1
            arm, reward = trajectory.arms[period], trajectory.rewards[period]
            if probabilities[arm] <= 0.0:
                return period + 1
            excess += arrays.means[arm]
            for each in range(probabilities.size):
                excess -= probabilities[each] * arrays.means[each]
            arrays.pulls[arm] += 1
            arrays.totals[arm] += reward
            arrays.means[arm] = arrays.totals[arm] / arrays.pulls[arm]
        sums[checkpoint] = excess
        start = checkpoints[checkpoint]
    return 0
