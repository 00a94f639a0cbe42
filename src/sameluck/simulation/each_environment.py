"""`runs_in_each`: short simulations in many environments, such as draws of the arms of a twin."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeAlias

import numpy as np

from sameluck.arrays import Ints
from sameluck.environments.base import Environment
from sameluck.experiment import Experiment
from sameluck.runs import Runs
from sameluck.simulation.tasks import Work

Places: TypeAlias = Sequence[tuple[Environment, range]]  # replications, each in its environment


def runs_in_each(
    experiment: Experiment, places: Places, checkpoints: Ints, workers: int
) -> Iterator[Runs]:
    """The runs that `simulate` gives of some replications in each environment, in their order.

    What `simulate` checks and prepares anew in every call would take longer than a few hundred replications: here
    nothing is checked. Every policy has a select function, and the environments' class was simulated before.
    """

    def run(place: tuple[Environment, range]) -> Runs:
        environment, replications = place
        work = Work(experiment, environment, checkpoints, replications)
        each = [work.runner(name).run(replications, checkpoints) for name in experiment.policies]
        pulls = np.stack([one.pulls for one in each], axis=1)
        return Runs(
            experiment,
            checkpoints,
            np.stack([one.rewards for one in each], axis=1),
            pulls,
            experiment.design.interactions(pulls),
            environment,
            replications.start,
        )

    if workers == 1:
        yield from map(run, places)
        return
    begun: deque[Future[Runs]] = (
        deque()
    )  # a few, or results would pile up where the caller is slower
    with ThreadPoolExecutor(workers, thread_name_prefix="sameluck") as pool:
        for place in places:
            begun.append(pool.submit(run, place))
            if len(begun) > 2 * workers:
                yield begun.popleft().result()
        while begun:
            yield begun.popleft().result()
