"""Users whom a Python object meets in one replication: `Users` without contexts, `ContextUsers` with them.

In every period a user arrives, the object chooses an arm, and the user pays a reward: of the same address as for a
compiled policy.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np

from sameluck.arrays import Floats
from sameluck.compilation.decorators import compiled
from sameluck.environments.base import draw, law_at
from sameluck.environments.contextual.base import gap_in_context
from sameluck.experiment import capabilities_of
from sameluck.randomness.streams import CONTEXT, REWARD, Bits, stream, subkey, word
from sameluck.simulation.refusals import blame_environment, invalid_context
from sameluck.simulation.rewards import RewardSource
from sameluck.simulation.runners.contexts import ContextArrays, FeatureArrays, arrive
from sameluck.simulation.runners.setting import Setting
from sameluck.text_forms import Parameters

_MIN_BLOCK, _MAX_BLOCK = 32, 1024  # rewards

# Cell, position in its stack, reward, and gap to the best arm in the context.
Payment: TypeAlias = tuple[int, int, float, float]


class Users:
    """Users without contexts. Their rewards are drawn in blocks: singly they would cost more than most objects do.

    `values[arm]` holds the rewards at the positions from `start[arm]` up to `end[arm]`.
    """

    contexts = None

    def __init__(self, source: RewardSource, replication: int) -> None:
        arms = source.experiment.n_arms
        self.source = source
        self.replication = replication
        self.by_period = source.experiment.indexed_by_period
        self.reads = [0] * arms
        self.values: list[list[float]] = [[] for _ in range(arms)]
        self.start, self.end = [0] * arms, [0] * arms

    def arrive(self, period: int) -> None:
        """Nothing is known of a user."""

    def pay(self, arm: int, period: int) -> Payment:
        """Return what the period's user pays for an arm."""
        position = period - 1 if self.by_period else self.reads[arm]
        if position >= self.end[arm]:
            self._refill(arm, position, period)
        self.reads[arm] += 1
        return arm, position, self.values[arm][position - self.start[arm]], 0.0

    def _refill(self, arm: int, position: int, period: int) -> None:
        """Draw the rewards of an arm from a position on, twice as many as the last time.

        In a moving environment only one is drawn: the next reward has the distribution of a later period.
        """
        size = min(max(2 * len(self.values[arm]), _MIN_BLOCK), _MAX_BLOCK)
        size = size if capabilities_of(self.source.environment).is_stationary else 1
        self.values[arm] = self.source.draw(self.replication, arm, position, size, period)
        self.start[arm], self.end[arm] = position, position + size


class _Address(NamedTuple):
    seed: Bits
    replication: int
    owner: Bits  # of the rewards
    row: int  # of the parameters


@compiled
def _arrive(
    parameters: Parameters, address: _Address, period: int, contexts: ContextArrays
) -> bool:
    """Write the context of a period's user; return whether it is valid."""
    users = stream(address.seed, CONTEXT, address.replication, address.owner)
    return arrive(contexts, law_at(parameters, period), address.row, period, users)


@compiled
def _pay(
    parameters: Parameters,
    address: _Address,
    period: int,
    contexts: ContextArrays,
    arms: int,
    arm: int,
    cell: int,
    position: int,
) -> tuple[float, float]:
    """Return the reward of an arm, and the arm's gap to the best arm in the context."""
    key = subkey(stream(address.seed, REWARD, address.replication, address.owner), cell)
    current = law_at(parameters, period)
    bits = word(key, np.uint64(position))
    reward = float(draw(current, address.row, contexts.user, arm, bits))
    return reward, gap_in_context(current, address.row, contexts.user, arm, arms)


class ContextUsers:
    """Users with contexts."""

    def __init__(
        self, setting: Setting, parameters: Parameters, replication: int, row: int
    ) -> None:
        contexts = setting.empty_contexts()
        assert contexts is not None
        self.contexts: ContextArrays = contexts
        self.setting = setting
        self.reads = [0] * setting.experiment.cells
        self._parameters = parameters
        seed, owner, _ = setting.stream_owners
        self._address = _Address(seed, replication, owner, row)

    def arrive(self, period: int) -> int | Floats:
        """Return what the object sees of the period's user: the index of a level or state, or features."""
        environment, contexts = self.setting.environment, self.contexts
        try:
            is_valid = _arrive(self._parameters, self._address, period, contexts)
        except Exception as error:
            blame_environment(environment, self._parameters, error)
        if not is_valid:
            raise invalid_context(environment, self._address.replication, period)
        if not isinstance(contexts, FeatureArrays):
            return int(contexts.now[0])
        features = contexts.now.copy()  # an object may keep it
        features.flags.writeable = False
        return features

    def pay(self, arm: int, period: int) -> Payment:
        """Return what the period's user pays for an arm."""
        experiment, contexts = self.setting.experiment, self.contexts
        arms, level = experiment.n_arms, 0
        if not isinstance(contexts, FeatureArrays):
            level = int(contexts.now[0])
        cell = level * arms + arm
        position = period - 1 if experiment.indexed_by_period else self.reads[cell]
        where = self._address, period, contexts, arms, arm, cell, position
        try:
            reward, gap = _pay(self._parameters, *where)
        except Exception as error:
            blame_environment(self.setting.environment, self._parameters, error)
        self.reads[cell] += 1
        return cell, position, reward, gap
