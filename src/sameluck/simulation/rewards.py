"""Rewards of a simulation read at their addresses: a single reward, the next of a policy, all that runs have read."""

from __future__ import annotations

import numpy as np

from sameluck.arrays import Floats, Ints
from sameluck.compilation.decorators import compiled
from sameluck.environments.base import (
    Environment,
    draw,
    law_at,
    prepared_parameters,
)
from sameluck.experiment import Experiment
from sameluck.randomness.streams import REWARD, Bits, stream, subkey, word
from sameluck.runs import Runs
from sameluck.simulation.refusals import blame_environment, check_rewards
from sameluck.text_forms import Parameters


def bits_at(
    experiment: Experiment, replication: int, policy: str | None, arm: int, position: int
) -> Bits:
    """Return the random bits of an entry; `policy` owns its stack, None where all policies share it."""
    stream_owner = experiment.design.reward_owner(policy or "")
    return word(subkey(stream(experiment.seed, REWARD, replication, stream_owner), arm), position)


def reward_at(
    experiment: Experiment,
    environment: Environment,
    replication: int,
    policy: str | None,
    arm: int,
    position: int,
) -> float:
    """Return the reward of an entry, as in `simulate` bit for bit; of a moving environment, as of period 1."""
    only = range(replication, replication + 1)
    parameters = prepared_parameters(environment, experiment.seed, only, experiment.n_arms)
    return float(
        draw(parameters, 0, None, arm, bits_at(experiment, replication, policy, arm, position))
    )


@compiled
def _draw_block(
    parameters: Parameters,
    row: int,
    seed: Bits,
    replication: int,
    stream_owner: Bits,
    arm: int,
    start: int,
    rewards: Floats,
) -> None:
    key = subkey(stream(seed, REWARD, replication, stream_owner), arm)
    for index in range(rewards.size):
        rewards[index] = draw(parameters, row, None, arm, word(key, start + index))


class RewardSource:
    """Rewards of one policy in some replications, drawn by machine code."""

    def __init__(
        self, experiment: Experiment, environment: Environment, policy: str, replications: range
    ) -> None:
        self.experiment = experiment
        self.environment = environment
        self.first = replications.start
        self.parameters = prepared_parameters(
            environment, experiment.seed, replications, experiment.n_arms
        )
        stream_owner = experiment.design.reward_owner(policy)
        self._seed, self._stream_owner = np.uint64(experiment.seed), np.uint64(stream_owner)

    def draw(
        self, replication: int, arm: int, start: int, count: int, period: int = 1
    ) -> list[float]:
        """Return rewards of an arm from a position on, all as of one period if the environment moves.

        Raises `Invalid` if a user's draw function fails.
        """
        rewards, row = np.empty(count), replication - self.first
        address = (self._seed, replication, self._stream_owner, arm, start)
        try:
            _draw_block(law_at(self.parameters, period), row, *address, rewards)
        except Exception as error:
            blame_environment(self.environment, self.parameters, error)
        check_rewards(self.environment, rewards)
        return rewards.tolist()


def observed_rewards(runs: Runs) -> Floats:
    """Return every reward that simulated runs have read, once, in the order of `Runs.observed`.

    The design must have stacks: it does not index rewards by period.
    """
    environment, experiment = runs.environment, runs.experiment
    assert environment is not None
    depths = np.ascontiguousarray(runs.depths)
    replications = range(runs.first, runs.first + runs.replications)
    parameters = prepared_parameters(environment, experiment.seed, replications, experiment.n_arms)
    names = list(experiment.policies)[: depths.shape[1]]
    stream_owners = np.array([experiment.design.reward_owner(name) for name in names], np.uint64)
    values = np.empty(int(depths.sum()))
    _read_stacks(parameters, np.uint64(experiment.seed), runs.first, stream_owners, depths, values)
    return values


@compiled
def _read_stacks(
    parameters: Parameters,
    seed: Bits,
    first: int,
    stream_owners: Ints,
    depths: Ints,
    values: Floats,
) -> None:
    index = 0
    for row in range(depths.shape[0]):
        for owner in range(depths.shape[1]):
            key = stream(seed, REWARD, first + row, stream_owners[owner])
            for arm in range(depths.shape[2]):
                stack = subkey(key, arm)
                for position in range(depths[row, owner, arm]):
                    values[index] = float(draw(parameters, row, None, arm, word(stack, position)))
                    index += 1
