"""Rewards of a simulation: the one at an address, and blocks of those that a policy reads next."""

from __future__ import annotations

import numpy as np

from sameluck.arrays import Floats
from sameluck.compilation.decorators import compiled
from sameluck.compilation.functions import is_builtin
from sameluck.environments.base import (
    Environment,
    draw,
    draw_function_of,
    is_all_builtin,
    law_at,
    prepared_parameters,
)
from sameluck.errors import Invalid
from sameluck.experiment import Experiment
from sameluck.policies.baselines import Uniform
from sameluck.randomness.streams import REWARD, Bits, stream, subkey, word
from sameluck.simulation.policy_runner import PolicyRunner
from sameluck.text_forms import Parameters

_SMALLEST, _LARGEST = 32, 1024  # rewards in a block


def bits_at(
    experiment: Experiment, replication: int, policy: str | None, arm: int, position: int
) -> Bits:
    """The random bits of an entry; `policy` is its owner, None where all policies share it."""
    owner = experiment.design.reward_owner(policy or "")
    return word(subkey(stream(experiment.seed, REWARD, replication, owner), arm), position)


def reward_at(
    experiment: Experiment,
    environment: Environment,
    replication: int,
    policy: str | None,
    arm: int,
    position: int,
) -> float:
    """The reward of an entry, equal to the one in `simulate` bit for bit; of arms that move, the one in period 1."""
    only = range(replication, replication + 1)
    parameters = prepared_parameters(environment, experiment.seed, only, experiment.n_arms)
    return float(draw(parameters, 0, arm, bits_at(experiment, replication, policy, arm, position)))


@compiled
def _draw_block(
    parameters: Parameters,
    row: int,
    seed: Bits,
    replication: int,
    owner: Bits,
    arm: int,
    start: int,
    rewards: Floats,
) -> None:
    key = subkey(stream(seed, REWARD, replication, owner), arm)
    for place in range(rewards.size):
        rewards[place] = draw(parameters, row, arm, word(key, start + place))


class RewardSource:
    """The rewards of one policy in some replications, drawn by machine code."""

    def __init__(
        self, experiment: Experiment, environment: Environment, policy: str, replications: range
    ) -> None:
        self.experiment = experiment
        self.environment = environment
        self.policy = policy
        self.first = replications.start
        self.parameters = prepared_parameters(
            environment, experiment.seed, replications, experiment.n_arms
        )
        self._body = draw_function_of(self.parameters)
        owner = experiment.design.reward_owner(policy)
        self._seed, self._owner = np.uint64(experiment.seed), np.uint64(owner)

    def blocks(self, replication: int) -> RewardBlocks:
        """The rewards of one replication, from their start."""
        return RewardBlocks(self, replication)

    def draw(
        self, replication: int, arm: int, start: int, count: int, period: int = 1
    ) -> list[float]:
        """Some rewards of an arm, from a position on, all in a period if the environment moves.

        Raises `Invalid` if the body of a user's environment fails.
        """
        rewards, row = np.empty(count), replication - self.first
        address = (self._seed, replication, self._owner, arm, start)
        try:
            _draw_block(law_at(self.parameters, period), row, *address, rewards)
        except Exception as error:
            if is_builtin(self._body):
                raise
            # With any policy that has a body: it is the environment that is refused.
            other = self.experiment.replace(policies={self.policy: Uniform()})
            runner = PolicyRunner(other, self.environment, self.policy)
            raise Invalid(runner.refusal(self._body, error)) from error
        if not is_all_builtin(self.environment) and not np.isfinite(rewards).all():
            raise Invalid(
                f"environment {type(self.environment).__name__} gave a reward that is not a finite number; a draw "
                "body returns a finite number"
            )
        return rewards.tolist()


class RewardBlocks:
    """Per arm a block of the rewards of one replication that are read next.

    `values[arm]` holds the positions from `start[arm]` up to `end[arm]`.
    """

    def __init__(self, source: RewardSource, replication: int) -> None:
        arms = source.experiment.n_arms
        self.source = source
        self.replication = replication
        self.values: list[list[float]] = [[] for _ in range(arms)]
        self.start, self.end = [0] * arms, [0] * arms

    def refill(self, arm: int, position: int, period: int) -> None:
        """Draw the rewards of an arm from a position on, twice as many as the last time.

        Only the one that a period reads, if the next would be of another law.
        """
        size = min(max(2 * len(self.values[arm]), _SMALLEST), _LARGEST)
        size = 1 if self.source.environment.is_moving else size
        self.values[arm] = self.source.draw(self.replication, arm, position, size, period)
        self.start[arm], self.end[arm] = position, position + size

    def read(self, arm: int, position: int, period: int) -> float:
        """The reward at a position, which is not before an earlier one, in a period."""
        if position >= self.end[arm]:
            self.refill(arm, position, period)
        return self.values[arm][position - self.start[arm]]
