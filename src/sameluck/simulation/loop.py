"""Compiled loop of one policy through one replication.

The loop knows nothing of other policies: what the design couples is in the addresses it reads. A policy's trajectory
therefore depends neither on tasks, workers or order nor on the other policies of the experiment.
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
    must_repeat,
    select,
)
from sameluck.policies.observations import (
    Observations,
    cell_of,
    loaded,
    reset,
    store,
    tally_of,
    with_reward,
)
from sameluck.randomness.streams import DECISION, REWARD, Bits, Key, OnceKey, stream, subkey, word
from sameluck.text_forms import Parameters
from sameluck.trajectories import Trajectory

StreamOwners: TypeAlias = tuple[Bits, Bits, Bits]  # the seed, the rewards' owner, the noise's owner


class WorkingArrays(NamedTuple):
    """Working arrays of one policy in one replication, reset for the next."""

    first: NDArray[np.uint64]  # the keys of the cells' reward stacks
    second: NDArray[np.uint64]
    observations: Observations


class Results(NamedTuple):
    """Results of one policy: a row per replication, a column per checkpoint."""

    indexed_by_period: bool | None
    checkpoints: Ints
    rewards: Floats  # (replication, checkpoint)
    pulls: Ints  # (replication, checkpoint, arm)


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
    """Run a replication; return 0, or the period in which the policy chose an arm that does not exist."""
    observations = arrays.observations
    arms = observations.pulls.size
    earned = 0.0
    arm = 0
    reward = 0.0
    start = 1
    for checkpoint in range(results.checkpoints.size):
        stop = int(results.checkpoints[checkpoint]) + 1
        period = start
        while period < stop:
            arm = select(policy, tally_of(observations, arm, reward), period, noise)
            if arm < 0 or arm >= arms:
                return period
            cell = cell_of(arm)
            key = Key(arrays.first[cell], arrays.second[cell])
            # While the policy must repeat the arm, its numbers stay in registers and are stored once, at the end.
            played, again = loaded(observations, arm), True
            # The position is derived from the pulls: a second counter would cost a tenth of the speed.
            offset = observations.reads[cell] - played.pulls
            while again:
                # A loop without a trajectory is compiled for positions alone: its type is None.
                by_period = trajectory is not None and results.indexed_by_period
                position = period - 1 if by_period else played.pulls + offset
                current = law_at(parameters, period)
                reward = float(draw(current, row, arm, word(key, np.uint64(position))))
                played = with_reward(played, reward)
                earned += reward
                if trajectory is not None:
                    trajectory.arms[period - 1] = arm
                    trajectory.positions[period - 1] = position
                    trajectory.rewards[period - 1] = reward
                period += 1
                repeated = PlayedArm(played.pulls, played.mean, observations.memory)
                again = period < stop and must_repeat(policy, repeated, period, noise)
            store(observations, cell, arm, played)
        results.rewards[row, checkpoint] = earned
        for index in range(arms):
            results.pulls[row, checkpoint, index] = observations.pulls[index]
        start = stop
    return 0


@inlined
def begin(arrays: WorkingArrays, seed: Bits, stream_owner: Bits, replication: int) -> None:
    """Begin a replication: nothing is observed, and each cell has the key of its reward stack."""
    key = stream(seed, REWARD, replication, stream_owner)
    for cell in range(arrays.first.size):
        stack = subkey(key, np.uint64(cell))
        arrays.first[cell], arrays.second[cell] = stack.first, stack.second
    reset(arrays.observations)


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
    """Run replications one after another; return a replication that failed and its period, or (-1, 0)."""
    seed, reward_owner, noise_owner = stream_owners
    for row in range(results.rewards.shape[0]):
        replication = first + row
        begin(arrays, seed, reward_owner, replication)
        noise = stream(seed, DECISION, replication, noise_owner)
        failed = run_one(policy, parameters, noise, arrays, row, results, trajectory)
        if failed:
            return replication, failed
    return -1, 0
