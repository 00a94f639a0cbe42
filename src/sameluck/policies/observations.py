"""`Observations`: what a policy has observed in one replication, its only update and the tally made from it.

Every loop uses these functions: simulation, live experiments, the sums of exploration. A cell is the unit whose
rewards form one stack: an arm (`cell_of`), or with levels a pair of level and arm. Positions in stacks (`reads`, by
cell) are counted apart from what a policy observes (`pulls`, by arm).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sameluck.arrays import Floats, Ints
from sameluck.compilation.decorators import inlined
from sameluck.policies.base import Tally


class Observations(NamedTuple):
    """Arrays of one policy in one replication."""

    reads: Ints  # rewards read from the stack of each cell
    pulls: Ints  # of each arm
    totals: Floats  # sum of rewards of each arm
    means: Floats  # totals / pulls; 0 for an arm that is not yet pulled
    memory: Floats  # the policy's numbers, 0 at the start


class ArmObservations(NamedTuple):
    """Observations of one arm, as numbers that a loop can keep in registers."""

    pulls: int
    total: float
    mean: float


def empty_observations(arms: int, memory: int) -> Observations:
    reads, pulls = np.zeros(arms, np.int64), np.zeros(arms, np.int64)
    return Observations(reads, pulls, np.zeros(arms), np.zeros(arms), np.zeros(memory))


class SeenContext(NamedTuple):
    """What a policy sees of the present user and of the user before: the last fields of a `Tally`."""

    context: Floats
    last_context: Floats
    level: int
    last_level: int
    step: int


@inlined
def no_context() -> SeenContext:
    return SeenContext(None, None, 0, 0, 0)  # type: ignore[arg-type]  # as in `Tally`


@inlined
def cell_of(arm: int, level: int = 0, arms: int = 0) -> int:
    """Return the cell whose stack is read when an arm is played in a level; without levels it is the arm."""
    return level * arms + arm


@inlined
def tally_of(
    observations: Observations, last_arm: int, last_reward: float, seen: SeenContext
) -> Tally:
    """Return the tally that a select function takes."""
    pulls, totals, means = observations.pulls, observations.totals, observations.means
    memory, context, last_context = observations.memory, seen.context, seen.last_context
    return Tally(
        pulls, totals, means, memory, last_arm, last_reward,
        context, last_context, seen.level, seen.last_level, seen.step,
    )  # fmt: skip


@inlined
def loaded(observations: Observations, arm: int) -> ArmObservations:
    pulls, total = observations.pulls[arm], observations.totals[arm]
    return ArmObservations(pulls, total, observations.means[arm])


@inlined
def with_reward(played: ArmObservations, reward: float) -> ArmObservations:
    """Return an arm's observations after one more reward."""
    pulls, total = played.pulls + 1, played.total + reward
    return ArmObservations(pulls, total, total / pulls)


@inlined
def store(observations: Observations, cell: int, arm: int, played: ArmObservations) -> None:
    """Write an arm's observations back: each new pull has read a reward from the cell's stack."""
    observations.reads[cell] += played.pulls - observations.pulls[arm]
    observations.pulls[arm] = played.pulls
    observations.totals[arm] = played.total
    observations.means[arm] = played.mean


@inlined
def observe(observations: Observations, cell: int, arm: int, reward: float) -> None:
    """Add a reward of an arm, read from the stack of a cell."""
    store(observations, cell, arm, with_reward(loaded(observations, arm), reward))


@inlined
def reset(observations: Observations) -> None:
    """Begin a replication: nothing is observed."""
    for cell in range(observations.reads.size):
        observations.reads[cell] = 0
    for arm in range(observations.pulls.size):
        observations.pulls[arm] = 0
        observations.totals[arm] = 0.0
        observations.means[arm] = 0.0
    for index in range(observations.memory.size):
        observations.memory[index] = 0.0


def stored_tally_size(arms: int) -> int:
    """Return how many floats of memory a stored tally takes: three per arm, the last arm and its reward."""
    return 3 * arms + 2


@inlined
def store_tally(tally: Tally) -> None:
    """Copy a tally, but for its memory, into its memory."""
    arms, memory = tally.pulls.size, tally.memory
    pulls = memory[:arms].view(np.int64)
    for arm in range(arms):
        pulls[arm] = tally.pulls[arm]
        memory[arms + arm] = tally.totals[arm]
        memory[2 * arms + arm] = tally.means[arm]
    memory[3 * arms] = tally.last_arm
    memory[3 * arms + 1] = tally.last_reward


@inlined
def stored_tally(tally: Tally) -> Tally:
    """Return the tally that `store_tally` copied into the memory of this one; its memory is the rest."""
    arms, memory = tally.pulls.size, tally.memory
    return Tally(
        memory[:arms].view(np.int64),
        memory[arms : 2 * arms],
        memory[2 * arms : 3 * arms],
        memory[3 * arms + 2 :],
        np.int64(memory[3 * arms]),  # type: ignore[arg-type]
        memory[3 * arms + 1],
        tally.context,
        tally.last_context,
        tally.level,
        tally.last_level,
        tally.step,
    )
