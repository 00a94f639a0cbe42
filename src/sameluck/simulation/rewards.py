"""The rewards that a simulation reads, by address: `reward_at` one of them, `observed_rewards` all of a run."""

from __future__ import annotations

import numpy as np

from sameluck.arrays import Floats, Ints
from sameluck.bodies import is_ours
from sameluck.compiled import compiled, uncached
from sameluck.environments.base import Environment, Law, compiled_law, draw, draw_body_of
from sameluck.experiment import Experiment
from sameluck.randomness.streams import REWARD, Bits, stream, within, word
from sameluck.runs import Runs


def bits_at(
    experiment: Experiment, replication: int, policy: str | None, arm: int, position: int
) -> Bits:
    """The random bits of an entry; `policy` is its owner, None where all policies share it."""
    owner = experiment.design.reward_owner(policy or "")
    return word(within(stream(experiment.seed, REWARD, replication, owner), arm), position)


def reward_at(
    experiment: Experiment,
    environment: Environment,
    replication: int,
    policy: str | None,
    arm: int,
    position: int,
) -> float:
    """The reward of an entry, equal to the one in `simulate` bit for bit."""
    only = range(replication, replication + 1)
    law = compiled_law(environment, experiment.seed, only, experiment.n_arms)
    return float(draw(law, 0, arm, bits_at(experiment, replication, policy, arm, position)))


def observed_rewards(runs: Runs) -> Floats:
    """Every reward that simulated runs have read, once, in the order of `Runs.observed`; not of a timed design."""
    environment, experiment = runs.environment, runs.experiment
    assert environment is not None
    depths = np.ascontiguousarray(runs.stack_depths)
    replications = range(runs.first, runs.first + runs.replications)
    law = compiled_law(environment, experiment.seed, replications, experiment.n_arms)
    names = list(experiment.policies)[: depths.shape[1]]
    owners = np.array([experiment.design.reward_owner(name) for name in names], np.uint64)
    values = np.empty(int(depths.sum()))
    read = _read_stacks if is_ours(draw_body_of(law)) else _read_stacks_uncached
    read(law, np.uint64(experiment.seed), runs.first, owners, depths, values)
    return values


@compiled
def _read_stacks(
    law: Law, seed: Bits, first: int, owners: Ints, depths: Ints, values: Floats
) -> None:
    place = 0
    for row in range(depths.shape[0]):
        for owner in range(depths.shape[1]):
            key = stream(seed, REWARD, first + row, owners[owner])
            for arm in range(depths.shape[2]):
                stack = within(key, arm)
                for position in range(depths[row, owner, arm]):
                    values[place] = float(draw(law, row, arm, word(stack, position)))
                    place += 1


_read_stacks_uncached = uncached(_read_stacks)
