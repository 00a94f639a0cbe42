"""`trace`: every period of one replication, for pictures and for the curious."""

from __future__ import annotations

from typing import Any

import numpy as np

from sameluck.arrays import Ints
from sameluck.errors import Invalid
from sameluck.experiment import Experiment
from sameluck.simulation.loop import PolicyRunner
from sameluck.simulation.simulate import checked_environment, refuse_too_large
from sameluck.trajectories import Trace, Trajectory, empty_trajectory, replayed_by


def trace(
    experiment: Experiment, environment: Any, replication: int = 0, *, guard: bool = False
) -> Trace:
    """Every period of one replication: arm, position, reward, replayed or real.

    Args:
        experiment: What to run.
        environment: Where rewards come from, or its text form.
        replication: Which one, from 0; the same bits `simulate` plays.
        guard: Play in plain Python as well; raise `AddressReused` if a policy reads the same luck twice and `Invalid`
            if it plays otherwise than compiled. The check to run on a policy of your own.
    """
    environment = checked_environment(experiment, environment)
    whole = isinstance(replication, int | np.integer) and not isinstance(replication, bool)
    if not (whole and 0 <= replication < experiment.replications):
        raise Invalid(
            f"replication must be from 0 to {experiment.replications - 1:,}, got {replication!r}"
        )
    refuse_too_large(experiment, 1, np.arange(1))
    trajectories: dict[str, Trajectory] = {}
    for name in experiment.policies:
        trajectory = empty_trajectory(experiment.horizon)
        runner = PolicyRunner(experiment, environment, name)
        end = np.array([experiment.horizon])
        runner.run(range(int(replication), int(replication) + 1), end, trajectory)
        if guard:
            plainly = empty_trajectory(experiment.horizon)
            runner.run_in_python(int(replication), end, plainly)
            _refuse_difference(name, trajectory, plainly)
        replayed = replayed_by(
            experiment, trajectory.arms, trajectory.positions, list(trajectories.values())
        )
        trajectories[name] = trajectory._replace(replayed=replayed)
    return Trace(experiment, environment, int(replication), trajectories)


def _first(periods: Ints) -> int:
    return int(periods[0]) + 1 if periods.size else 0


def _refuse_difference(name: str, compiled: Trajectory, plainly: Trajectory) -> None:
    differing = np.flatnonzero(compiled.arms != plainly.arms)
    if differing.size != 0:
        raise Invalid(
            f"policy {name!r} plays otherwise when compiled, first in period {_first(differing)}: its body must use "
            "nothing but its arguments and constants, and write to nothing but tally.memory"
        )
