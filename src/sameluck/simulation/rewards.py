"""`reward_at`: the reward that a simulation reads at one address."""

from __future__ import annotations

from sameluck.environments.base import Environment, compiled_law, draw
from sameluck.experiment import Experiment
from sameluck.randomness.streams import REWARD, Bits, stream, within, word


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
