"""`trace`: every period of one replication."""

from __future__ import annotations

import numpy as np

from sameluck.environments.base import EnvironmentLike
from sameluck.errors import Invalid
from sameluck.experiment import Experiment
from sameluck.simulation.loop import PolicyRunner
from sameluck.simulation.preconditions import check_memory, checked_environment
from sameluck.trajectories import Trace, Trajectory, empty_trajectory, replayed_by
from sameluck.validation import require_flag, require_whole


def trace(
    experiment: Experiment,
    environment: EnvironmentLike,
    replication: int = 0,
    *,
    guard: bool = False,
) -> Trace:
    """Every period of one replication: arm, position, reward, replayed or real.

    Args:
        experiment: What to run.
        environment: Where rewards come from, or its text form.
        replication: Which one, from 0; the same bits as in `simulate`.
        guard: Run in plain Python as well; raise `AddressReused` if a policy reads the same random number twice and
            `Invalid` if it gives different results compiled and in plain Python. The check to run on a policy of your
            own.
    """
    environment = checked_environment(experiment, environment)
    require_flag("guard", guard)
    replication = require_whole("replication", replication, 0, experiment.replications - 1)
    check_memory(experiment, 1, np.arange(1))
    end = np.array([experiment.horizon])
    trajectories: dict[str, Trajectory] = {}
    for name in experiment.policies:
        runner = PolicyRunner(experiment, environment, name)
        one, in_python = empty_trajectory(experiment.horizon), empty_trajectory(experiment.horizon)
        if guard:  # first: machine code does not check indices, and a wrong one may end the process
            runner.run_in_python(replication, end, in_python)
        runner.run(range(replication, replication + 1), end, one)
        if guard:
            _check_equal(name, one, in_python)
        earlier = list(trajectories.values())
        replayed = replayed_by(experiment, one.arms, one.positions, earlier)
        trajectories[name] = one._replace(replayed=replayed)
    return Trace(experiment, environment, replication, trajectories)


def _check_equal(name: str, compiled: Trajectory, in_python: Trajectory) -> None:
    for what in ("arms", "rewards"):
        differing = np.flatnonzero(getattr(compiled, what) != getattr(in_python, what))
        if differing.size:
            raise Invalid(
                f"policy {name!r} gives different {what} compiled and in plain Python, first in period "
                f"{differing[0] + 1}: a body must use nothing but its arguments and constants, and write to nothing "
                "but tally.memory"
            )
