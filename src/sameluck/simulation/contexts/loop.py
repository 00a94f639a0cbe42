"""Compiled loop of one policy through one replication whose users have contexts.

It is the loop of `sameluck.simulation.loop` with a context in every period. The context decides the cell whose stack
is read. Contexts belong to the owner of the rewards: policies that share rewards meet the same users.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sameluck.arrays import Floats, Ints
from sameluck.compilation.decorators import compiled, dispatched, inlined
from sameluck.environments.base import law_at
from sameluck.environments.contextual.base import (
    draw_in_context,
    gap_in_context,
    is_valid_context,
    write_context,
)
from sameluck.policies.base import Policy, Tally, select
from sameluck.policies.observations import Observations, observe
from sameluck.randomness.streams import CONTEXT, DECISION, Key, OnceKey, stream, word
from sameluck.simulation.loop import StreamOwners, WorkingArrays, begin
from sameluck.text_forms import Parameters
from sameluck.trajectories import Trajectory


class FeatureArrays(NamedTuple):
    """Features of the present user and of the user before; `flat` and `last_flat` are views of them."""

    now: Floats
    last: Floats
    flat: Floats
    last_flat: Floats
    rewards: Floats  # by level; empty
    user: Floats  # as the environment sees it: the present features, with its hidden numbers if it has them


class LevelArrays(NamedTuple):
    """Level or state of the present user and of the user before; see `Context.shape`."""

    now: Floats
    last: Floats
    flat: Floats
    last_flat: Floats
    rewards: Floats  # by level; empty for states
    user: Floats  # as the environment sees it


CONTEXT_ARRAYS = (
    "visits",
    "level_rewards",
    "regret",
    "best_pulls",
)  # of results, beside those without contexts


class ContextResults(NamedTuple):
    """Results of one policy: a row per replication, a column per checkpoint."""

    indexed_by_period: bool
    checkpoints: Ints
    rewards: Floats  # (replication, checkpoint)
    pulls: Ints  # (replication, checkpoint, arm)
    visits: Ints  # reads of each cell (replication, checkpoint, cell); no cells with features
    level_rewards: Floats  # (replication, checkpoint, level); no levels with features
    regret: Floats  # (replication, checkpoint)
    best_pulls: Ints  # plays of an arm that is best in its context (replication, checkpoint)
    cells: NDArray[np.int32]  # (replication, period); no periods where they are not needed


def _no_level(contexts: FeatureArrays) -> tuple[int, int, int]:  # noqa: ARG001 chosen by its type
    return 0, 0, 0


def _discrete_level(contexts: LevelArrays) -> tuple[int, int, int]:
    step = int(contexts.now[1]) if contexts.now.size > 1 else 0
    return int(contexts.now[0]), int(contexts.last[0]), step


def _levels(contexts: FeatureArrays | LevelArrays) -> tuple[int, int, int]:
    """Return the present level, the level before and the step in the episode."""
    raise NotImplementedError


levels_of = dispatched(_levels, {FeatureArrays: _no_level, LevelArrays: _discrete_level})


class Replication(NamedTuple):
    """Streams and arrays of one replication."""

    users: Key | OnceKey  # contexts
    noise: Key | OnceKey
    arrays: WorkingArrays
    contexts: FeatureArrays | LevelArrays
    row: int  # of the parameters and the results


class Sums(NamedTuple):
    """Sums over the periods so far."""

    rewards: float
    regret: float
    best_pulls: int


@inlined
def run_one(
    policy: Policy,
    parameters: Parameters,
    replication: Replication,
    results: ContextResults,
    trajectory: Trajectory | None,
) -> int:
    """Run a replication; return 0, or the period in which the policy chose an arm that does not exist.

    The period is negative if the environment wrote an invalid context.
    """
    users, noise, arrays, contexts, row = replication
    observations = arrays.observations
    pulls, totals, means = observations.pulls, observations.totals, observations.means
    arms = pulls.size
    earned, regret, best = 0.0, 0.0, 0
    arm, reward = 0, 0.0
    start = 1
    for checkpoint in range(results.checkpoints.size):
        stop = int(results.checkpoints[checkpoint]) + 1
        for period in range(start, stop):
            for index in range(contexts.flat.size):
                contexts.last_flat[index] = contexts.flat[index]
            current = law_at(parameters, period)
            write_context(current, row, period, users, contexts.user)
            if not is_valid_context(parameters, contexts.flat, results.visits.shape[2] // arms):
                return -period
            level, last_level, step = levels_of(contexts)
            tally = Tally(
                pulls, totals, means, observations.memory, arm, reward,
                contexts.now, contexts.last, level, last_level, step,
            )  # fmt: skip
            arm = select(policy, tally, period, noise)
            if arm < 0 or arm >= arms:
                return period
            cell = level * arms + arm
            position = period - 1 if results.indexed_by_period else observations.reads[cell]
            bits = word(Key(arrays.first[cell], arrays.second[cell]), np.uint64(position))
            reward = float(draw_in_context(current, row, contexts.user, arm, bits))
            gap = gap_in_context(current, row, contexts.user, arm, arms)
            # After all functions of users, so that a period that one of them ends is not observed.
            observe(observations, cell, arm, reward)
            earned += reward
            regret += gap
            best += gap <= 0.0
            if contexts.rewards.size > 0:
                contexts.rewards[level] += reward
            if results.cells.shape[1] > 0:
                results.cells[row, period - 1] = cell
            if trajectory is not None:
                trajectory.arms[period - 1] = arm
                trajectory.positions[period - 1] = position
                trajectory.rewards[period - 1] = reward
                _record(trajectory.contexts, period, contexts.flat)
        _store(results, row, checkpoint, Sums(earned, regret, best), observations, contexts.rewards)
        start = stop
    return 0


@inlined
def _record(rows: Floats | None, period: int, context: Floats) -> None:
    if rows is not None:
        for index in range(context.size):
            rows[period - 1, index] = context[index]


@inlined
def _store(
    results: ContextResults,
    row: int,
    checkpoint: int,
    sums: Sums,
    observations: Observations,
    level_rewards: Floats,
) -> None:
    """Write the sums up to a checkpoint into the results."""
    results.rewards[row, checkpoint] = sums.rewards
    results.regret[row, checkpoint] = sums.regret
    results.best_pulls[row, checkpoint] = sums.best_pulls
    for arm in range(observations.pulls.size):
        results.pulls[row, checkpoint, arm] = observations.pulls[arm]
    for cell in range(results.visits.shape[2]):
        results.visits[row, checkpoint, cell] = observations.reads[cell]
    for level in range(level_rewards.size):
        results.level_rewards[row, checkpoint, level] = level_rewards[level]


@inlined
def forget(contexts: FeatureArrays | LevelArrays) -> None:
    """Begin a replication: no user has come."""
    for index in range(contexts.flat.size):
        contexts.flat[index] = 0.0
    for index in range(contexts.rewards.size):
        contexts.rewards[index] = 0.0


@compiled
def run_all(
    policy: Policy,
    parameters: Parameters,
    stream_owners: StreamOwners,
    first: int,
    arrays: WorkingArrays,
    contexts: FeatureArrays | LevelArrays,
    results: ContextResults,
    trajectory: Trajectory | None,
) -> tuple[int, int]:
    """Run replications one after another; return a replication that failed and its period, or (-1, 0)."""
    seed, reward_owner, noise_owner = stream_owners
    for row in range(results.rewards.shape[0]):
        replication = first + row
        begin(arrays, seed, reward_owner, replication)
        forget(contexts)
        users = stream(seed, CONTEXT, replication, reward_owner)
        noise = stream(seed, DECISION, replication, noise_owner)
        current = Replication(users, noise, arrays, contexts, row)
        failed = run_one(policy, parameters, current, results, trajectory)
        if failed:
            return replication, failed
    return -1, 0
