"""`rewards_in_each`: the same replications in many environments, such as draws of the arms of a twin."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from sameluck.arrays import Floats, Ints
from sameluck.environments.base import Environment
from sameluck.experiment import Experiment
from sameluck.simulation.tasks import Work


def rewards_in_each(
    experiment: Experiment,
    environments: Sequence[Environment],
    checkpoints: Ints,
    replications: range,
    workers: int,
) -> Iterator[Floats]:
    """The rewards (replication, policy, checkpoint) that `simulate` gives in each environment, in their order.

    What `simulate` checks and prepares anew in every call would take longer than a few hundred replications: here
    nothing is checked. Policies have a select body, and the environments are of one class that was simulated before.
    """

    def rewards(environment: Environment) -> Floats:
        work = Work(experiment, environment, checkpoints, replications)
        runs = [work.runner(name).run(replications, checkpoints) for name in experiment.policies]
        return np.stack([one.rewards for one in runs], axis=1)

    if workers == 1:
        yield from map(rewards, environments)
        return
    with ThreadPoolExecutor(workers, thread_name_prefix="sameluck") as pool:
        yield from pool.map(rewards, environments)
