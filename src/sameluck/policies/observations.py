"""`Observations`: what a policy has observed in one replication, its only update and the tally made from it.

Every loop of compiled policies uses these functions, in simulations and live experiments. A cell is the unit whose
rewards form one stack: an arm (`cell_of`), or with levels a pair of level and arm. Positions in stacks (`reads`, by
cell) are counted apart from what a policy observes (`pulls`, by arm).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sameluck.arrays import Floats, Ints
from sameluck.compilation.decorators import inlined
from sameluck.compilation.windows import whole_numbers, window
from sameluck.policies.base import Tally
from sameluck.randomness.streams import Integer


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
def seen_in(tally: Tally) -> SeenContext:
    context, last_context = tally.context, tally.last_context
    return SeenContext(context, last_context, tally.level, tally.last_level, tally.step)


@inlined
def tally_of(
    observed: Observations | StoredTally, last_arm: int, last_reward: float, seen: SeenContext
) -> Tally:
    """Return the tally that a select function takes."""
    pulls, totals, means = observed.pulls, observed.totals, observed.means
    memory, context, last_context = observed.memory, seen.context, seen.last_context
    return Tally(
        pulls, totals, means, memory, last_arm, last_reward,
        context, last_context, seen.level, seen.last_level, seen.step,
    )  # fmt: skip


@inlined
def loaded(observed: Observations | StoredTally, arm: Integer) -> ArmObservations:
    return ArmObservations(observed.pulls[arm], observed.totals[arm], observed.means[arm])


@inlined
def with_reward(played: ArmObservations, reward: float) -> ArmObservations:
    """Return an arm's observations after one more reward."""
    pulls, total = played.pulls + 1, played.total + reward
    return ArmObservations(pulls, total, total / pulls)


@inlined
def store(observations: Observations, cell: Integer, arm: int, played: ArmObservations) -> None:
    """Write an arm's observations back: each new pull has read a reward from the cell's stack."""
    observations.reads[cell] += played.pulls - observations.pulls[arm]
    keep(observations, arm, played)


@inlined
def keep(observed: Observations | StoredTally, arm: Integer, played: ArmObservations) -> None:
    """Write an arm's pulls, total and mean back."""
    observed.pulls[arm] = played.pulls
    observed.totals[arm] = played.total
    observed.means[arm] = played.mean


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


class StoredTally(NamedTuple):
    """Parts of a memory that hold a tally."""

    pulls: Ints
    totals: Floats
    means: Floats
    last_arm: Ints  # a single number
    last_reward: Floats  # a single number
    memory: Floats  # what follows


@inlined
def stored_tally_size(arms: int) -> int:
    """Return how many numbers of a memory a stored tally takes."""
    return 3 * arms + 2


@inlined
def stored_tally(memory: Floats, first: int, arms: int, rest: int) -> StoredTally:
    """Return the tally that a memory holds from an index on, and as its memory the `rest` numbers behind it."""
    totals = first + arms
    means = totals + arms
    last = means + arms
    return StoredTally(
        whole_numbers(memory, first, arms),
        window(memory, totals, arms),
        window(memory, means, arms),
        whole_numbers(memory, last, 1),
        window(memory, last + 1, 1),
        window(memory, last + 2, rest),
    )


@inlined
def shown_tally(stored: StoredTally, seen: SeenContext) -> Tally:
    """Return a stored tally as a select function takes it."""
    return tally_of(stored, stored.last_arm[0], stored.last_reward[0], seen)


@inlined
def keep_tally(stored: StoredTally, tally: Tally) -> None:
    """Write a tally, but for its memory."""
    for arm in range(tally.pulls.size):
        keep(stored, arm, ArmObservations(tally.pulls[arm], tally.totals[arm], tally.means[arm]))
    keep_last(stored, tally.last_arm, tally.last_reward)


@inlined
def keep_last(stored: StoredTally, arm: int, reward: float) -> None:
    """Write the last arm and its reward."""
    stored.last_arm[0], stored.last_reward[0] = arm, reward
