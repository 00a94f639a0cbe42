"""The rewards of synthetic users: those of the simulation, changed by drift."""

from __future__ import annotations

from functools import lru_cache
from random import Random

import numpy as np

from sameluck.environments.base import EnvironmentLike, compiled_law, draw
from sameluck.environments.registry import as_environment
from sameluck.errors import Invalid, did_you_mean
from sameluck.experiment import Experiment
from sameluck.live.experiment import LiveExperiment
from sameluck.live.records import Description
from sameluck.live.rehearsal.traffic import Drift
from sameluck.policies.base import needs_binary
from sameluck.simulation.rewards import bits_at
from sameluck.text_forms import Parameters

CACHED = 10_000  # instances of a prior


class UserRewards:
    """The rewards of an environment at the simulation's addresses; `drift` changes them with the number of users."""

    def __init__(self, live: LiveExperiment, environment: EnvironmentLike, drift: Drift) -> None:
        self.experiment = live.experiment
        self.environment = as_environment(environment)
        self.environment.check(self.experiment.n_arms)
        for name, policy in self.experiment.policies.items():
            if not self.environment.binary and needs_binary(policy):
                raise Invalid(
                    f"policy {name!r} needs rewards 0 and 1, but the environment has others"
                )
        self.bounds = live.live.reward.bounds
        self.drift = drift
        self.drifting_arm = _arm_index(self.experiment, drift.arm)
        self._law = lru_cache(CACHED)(self._law_of)

    def _law_of(self, replication: int) -> Parameters:
        replications = range(replication, replication + 1)
        experiment = self.experiment
        return compiled_law(self.environment, experiment.seed, replications, experiment.n_arms)

    def reward(self, assignment: Description, user: int, generator: Random) -> float:
        """The reward of one assignment; that of an audit is a new draw."""
        arm, replication = assignment.arm_index, assignment.replication
        if assignment.audit:
            bits = np.uint64(generator.getrandbits(64))
        else:
            address = replication, assignment.policy, arm, assignment.position
            bits = bits_at(self.experiment, *address)
        law = self._law(replication if self.environment.is_prior else 0)
        value, shift = float(draw(law, 0, arm, bits)), self.drift.shift(user)
        if shift == 0 or self.drifting_arm not in (None, arm):
            return value
        if self.environment.binary:
            return self._shifted_binary(value, shift, assignment, generator)
        low, high = self.bounds
        return min(max(value + shift, low), high)

    def _shifted_binary(
        self, value: float, shift: float, assignment: Description, generator: Random
    ) -> float:
        """A reward of 0 or 1, flipped with the probability that moves the arm's mean by the shift."""
        replications = range(assignment.replication, assignment.replication + 1)
        means = self.environment.instance_means(
            self.experiment.seed, replications, self.experiment.n_arms
        )
        before = float(means[0, assignment.arm_index])
        after = min(max(before + shift, 0.0), 1.0)
        may_flip = value == 0 if after > before else value == 1
        share = 1 - before if after > before else before
        flips = may_flip and generator.random() * share < abs(after - before)
        return 1 - value if flips else value


def _arm_index(experiment: Experiment, arm: str | int | None) -> int | None:
    names = experiment.arm_names
    if arm is None or (isinstance(arm, int) and 0 <= arm < len(names)):
        return arm
    if str(arm) in names:
        return names.index(str(arm))
    raise Invalid(f"drift: no arm {arm!r}; {did_you_mean(str(arm), names[:50])}")
