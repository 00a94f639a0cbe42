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
from sameluck.environments.base import law_at
from sameluck.environments.contextual.base import gap_in_context
from sameluck.policies.base import PlayedArm, Policy, must_repeat, select
from sameluck.policies.observations import (
    Observations,
    cell_of,
    loaded,
    reset,
    store,
    tally_of,
    with_reward,
)
from sameluck.randomness.streams import (
    CONTEXT,
    DECISION,
    REWARD,
    Bits,
    Integer,
    Key,
    OnceKey,
    stream,
    subkey,
    word,
)
from sameluck.simulation.runners.contexts import (
    ContextArrays,
    arrive,
    draw_for_user,
    forget,
    seen_by_policy,
)
from sameluck.text_forms import Parameters
from sameluck.trajectories import Trajectory

StreamOwners: TypeAlias = tuple[Bits, Bits, Bits]  # the seed, the rewards' owner, the noise's owner


class WorkingArrays(NamedTuple):
    """Working arrays of one policy in one replication, reset for the next."""

    first: NDArray[np.uint64]  # the keys of the cells' reward stacks
    second: NDArray[np.uint64]
    observations: Observations


class Results(NamedTuple):
    """Results of one policy: a row per replication, a column per checkpoint.

    Arrays of contexts are empty where the experiment has none of the sort.
    """

    indexed_by_period: bool
    checkpoints: Ints
    rewards: Floats  # (replication, checkpoint)
    pulls: Ints  # (replication, checkpoint, arm)
    totals: Floats  # sum of rewards of each arm (replication, checkpoint, arm)
    visits: Ints  # reads of each cell (replication, checkpoint, cell), with levels and states
    level_rewards: Floats  # (replication, checkpoint, level), with levels
    regret: Floats  # (replication, checkpoint), with contexts
    best_pulls: (
        Ints  # plays of an arm that is best in its context (replication, checkpoint), with contexts
    )
    cells: NDArray[np.int32]  # (replication, period), where pairs of period and cell are counted


class Replication(NamedTuple):
    """Streams and arrays of one replication."""

    users: Key | OnceKey  # contexts
    noise: Key | OnceKey
    arrays: WorkingArrays
    row: int  # of the parameters and the results


@inlined
def run_one(
    policy: Policy,
    parameters: Parameters,
    replication: Replication,
    contexts: ContextArrays | None,
    results: Results,
    trajectory: Trajectory | None,
) -> int:
    """Run a replication; return 0, or the period in which the policy chose an arm that does not exist.

    The period is negative if the environment wrote an invalid context. The loop is compiled without contexts where
    `contexts` is None, and for positions in stacks alone where `trajectory` is; an empty trajectory is not filled.
    """
    users, noise, arrays, row = replication
    observations = arrays.observations
    arms = observations.pulls.size
    earned, regret, best_pulls = 0.0, 0.0, 0
    arm, reward, level = 0, 0.0, 0
    start = 1
    for checkpoint in range(results.checkpoints.size):
        stop = int(results.checkpoints[checkpoint]) + 1
        period = start
        while period < stop:
            if not arrive(contexts, law_at(parameters, period), row, period, users):
                return -period
            seen = seen_by_policy(contexts, level)
            arm = select(policy, tally_of(observations, arm, reward, seen), period, noise)
            if arm < 0 or arm >= arms:
                return period
            level = seen.level
            # Unsigned, because machine code checks signed indices for negative ones.
            cell = np.uint64(cell_of(arm, level, arms))
            key = Key(arrays.first[cell], arrays.second[cell])
            # While the policy must repeat the arm, its numbers stay in registers and are stored once, at the end.
            played, again = loaded(observations, arm), True
            # The position is derived from the pulls: a second counter would cost a tenth of the speed.
            offset = observations.reads[cell] - played.pulls
            while again:
                # Without a trajectory the loop is compiled for positions in the stack alone.
                by_period = trajectory is not None and results.indexed_by_period
                position = period - 1 if by_period else played.pulls + offset
                current = law_at(parameters, period)
                bits = word(key, np.uint64(position))
                reward = float(draw_for_user(contexts, current, row, arm, bits))
                if contexts is not None:
                    gap = gap_in_context(current, row, contexts.user, arm, arms)
                    regret, best_pulls = regret + gap, best_pulls + (gap <= 0.0)
                    _add(contexts.level_rewards, level, reward)
                # After all functions of users, so that a period that one of them ends is not observed.
                played = with_reward(played, reward)
                earned += reward
                if trajectory is not None:
                    _keep_cell(results.cells, row, period, cell)
                    _record(trajectory, period, arm, position, reward)
                    _record_context(contexts, trajectory, period)
                period += 1
                repeated = PlayedArm(played.pulls, played.mean, observations.memory)
                # With contexts the next user may differ.
                may_repeat = contexts is None and period < stop
                again = may_repeat and must_repeat(policy, repeated, period, noise)
            store(observations, cell, arm, played)
        _store(results, row, checkpoint, earned, observations)
        if contexts is not None:
            results.regret[row, checkpoint] = regret
            results.best_pulls[row, checkpoint] = best_pulls
            _store_levels(results, row, checkpoint, observations.reads, contexts.level_rewards)
        start = stop
    return 0


@inlined
def _add(level_rewards: Floats, level: int, reward: float) -> None:
    if level_rewards.size > 0:
        level_rewards[level] += reward


@inlined
def _keep_cell(cells: NDArray[np.int32], row: int, period: int, cell: Integer) -> None:
    if cells.shape[1] > 0:
        cells[row, period - 1] = cell


@inlined
def _record(trajectory: Trajectory, period: int, arm: int, position: int, reward: float) -> None:
    if trajectory.arms.size > 0:
        trajectory.arms[period - 1] = arm
        trajectory.positions[period - 1] = position
        trajectory.rewards[period - 1] = reward


@inlined
def _record_context(contexts: ContextArrays | None, trajectory: Trajectory, period: int) -> None:
    if contexts is not None:
        _copy(contexts.flat, trajectory.contexts, period - 1)


@inlined
def _copy(context: Floats, rows: Floats | None, row: int) -> None:
    if rows is not None and rows.shape[0] > 0:
        for index in range(context.size):
            rows[row, index] = context[index]


@inlined
def _store(
    results: Results, row: int, checkpoint: int, earned: float, observations: Observations
) -> None:
    results.rewards[row, checkpoint] = earned
    for arm in range(observations.pulls.size):
        results.pulls[row, checkpoint, arm] = observations.pulls[arm]
    # A loop of its own: in the loop above it would make UCB1 a tenth slower.
    for arm in range(observations.totals.size):
        results.totals[row, checkpoint, arm] = observations.totals[arm]


@inlined
def _store_levels(
    results: Results, row: int, checkpoint: int, reads: Ints, level_rewards: Floats
) -> None:
    for cell in range(results.visits.shape[2]):
        results.visits[row, checkpoint, cell] = reads[cell]
    for level in range(level_rewards.size):
        results.level_rewards[row, checkpoint, level] = level_rewards[level]


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
    contexts: ContextArrays | None,
    results: Results,
    trajectory: Trajectory | None,
) -> tuple[int, int]:
    """Run replications one after another; return a replication that failed and its period, or (-1, 0)."""
    seed, reward_owner, noise_owner = stream_owners
    for row in range(results.rewards.shape[0]):
        number = first + row
        begin(arrays, seed, reward_owner, number)
        if contexts is not None:
            forget(contexts)
        users = stream(seed, CONTEXT, number, reward_owner)
        noise = stream(seed, DECISION, number, noise_owner)
        replication = Replication(users, noise, arrays, row)
        failed = run_one(policy, parameters, replication, contexts, results, trajectory)
        if failed:
            return number, failed
    return -1, 0
