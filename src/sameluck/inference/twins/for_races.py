"""What `race` takes from a twin: rare failures of a leader, which could reverse a decision."""

from __future__ import annotations

import numpy as np

from sameluck.environments.base import Environment
from sameluck.experiment import Experiment
from sameluck.inference.twins.failures import failure_of
from sameluck.inference.twins.simulations import has_objects, twin_seed
from sameluck.simulation.simulate import simulate
from sameluck.wording import amount

REPLICATIONS = 4_000
STEPS = 20_000_000  # periods, at most
FEWEST = 400  # with fewer, rare failures would not be met


def reversing_failures(
    experiment: Experiment, environment: Environment, tolerance: float
) -> list[str]:
    """Rare failures of the control, the leader of a race, that put it behind another policy; as sentences.

    A race knows its environment, so no copy is needed: the policies are simulated on other luck, and a policy that
    is ahead of the leader there by more than the tolerance, because the leader fails rarely, is a reason.
    """
    policies, leader = list(experiment.policies), experiment.control
    many = min(REPLICATIONS, STEPS // (len(policies) * experiment.horizon))
    if has_objects(experiment) or environment.is_prior or many < FEWEST:
        return []
    whole = experiment.replace(seed=twin_seed(experiment), replications=many)
    rewards = simulate(whole, environment).rewards[:, :, 0]
    own, nothing = rewards[:, policies.index(leader)], np.zeros(0)
    sentences = []
    for column, other in enumerate(policies):
        ahead = float((rewards[:, column] - own).mean())
        failure = failure_of(
            (leader, other), experiment.horizon, own - rewards[:, column], nothing, 0.5
        )
        if failure is not None and failure.policy == leader and ahead > tolerance:
            sentences.append(
                f"{leader} ends {amount(failure.loss)} or more behind {other} in about 1 replication in "
                f"{failure.one_in:,.0f}, and earns {amount(ahead)} less on average of {many:,}"
            )
    return sentences
