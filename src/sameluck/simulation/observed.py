"""`observed_rewards`: what a simulation has read of its reward stacks, read again from the addresses."""

from __future__ import annotations

import numpy as np

from sameluck.arrays import Floats, Ints
from sameluck.compilation.decorators import compiled
from sameluck.environments.base import draw, prepared_parameters
from sameluck.randomness.streams import REWARD, Bits, stream, subkey, word
from sameluck.runs import Runs
from sameluck.text_forms import Parameters


def observed_rewards(runs: Runs) -> Floats:
    """Every reward that simulated runs have read, once, in the order of `Runs.observed`; not of a timed design."""
    environment, experiment = runs.environment, runs.experiment
    assert environment is not None
    depths = np.ascontiguousarray(runs.stack_depths)
    replications = range(runs.first, runs.first + runs.replications)
    parameters = prepared_parameters(environment, experiment.seed, replications, experiment.n_arms)
    names = list(experiment.policies)[: depths.shape[1]]
    owners = np.array([experiment.design.reward_owner(name) for name in names], np.uint64)
    values = np.empty(int(depths.sum()))
    _read_stacks(parameters, np.uint64(experiment.seed), runs.first, owners, depths, values)
    return values


@compiled
def _read_stacks(
    parameters: Parameters, seed: Bits, first: int, owners: Ints, depths: Ints, values: Floats
) -> None:
    place = 0
    for row in range(depths.shape[0]):
        for owner in range(depths.shape[1]):
            key = stream(seed, REWARD, first + row, owners[owner])
            for arm in range(depths.shape[2]):
                stack = subkey(key, arm)
                for position in range(depths[row, owner, arm]):
                    values[place] = float(draw(parameters, row, arm, word(stack, position)))
                    place += 1
