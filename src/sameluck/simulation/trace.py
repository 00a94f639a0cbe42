"""`trace`: every period of one replication."""

from __future__ import annotations

import numpy as np

from sameluck.environments.base import EnvironmentLike
from sameluck.experiment import MOST, Experiment
from sameluck.policies.external import Makers, makers_of
from sameluck.simulation.function_checks import COMPILED, check_equal, probe_bodies
from sameluck.simulation.object_checks import check_object, check_repeated, run_pair, with_bodies
from sameluck.simulation.object_runner import ObjectRunner
from sameluck.simulation.policy_runner import PolicyRunner
from sameluck.simulation.preconditions import check_memory, fitted
from sameluck.trajectories import Trace, Trajectory, empty_trajectory, replayed_by
from sameluck.validation import require_flag, require_whole


def trace(
    experiment: Experiment,
    environment: EnvironmentLike,
    replication: int = 0,
    *,
    guard: bool = False,
    check: bool = True,
    makers: Makers | None = None,
) -> Trace:
    """Every period of one replication: arm, position, reward, replayed or real.

    Args:
        experiment: What to run.
        environment: Where rewards come from, or its text form.
        replication: Which one, from 0; the same bits as in `simulate`.
        guard: Run every period in plain Python as well, with bounds checks; raise `AddressReused` if a policy reads
            the same random number twice and `Invalid` if compiled code and plain Python give different results, or
            if two objects of an `External` policy do.
        check: As in `simulate`: the same for some periods, before your own bodies are first run.
        makers: As in `simulate`.
    """
    experiment, environment = fitted(experiment, environment)
    require_flag("guard", guard)
    require_flag("check", check)
    last = (experiment.replications or MOST) - 1
    replication = require_whole("replication", replication, 0, last)
    if not experiment.replications:
        experiment = experiment.replace(replications=replication + 1)
    check_memory(experiment, 1, np.arange(1))
    for probe in probe_bodies(with_bodies(experiment), environment) if check else []:
        probe.compare(recorded=True)
    own_makers = makers_of(experiment.policies, makers)
    trajectories: dict[str, Trajectory] = {}
    for name in experiment.policies:
        if name in own_makers:
            of_object = ObjectRunner(experiment, environment, name, own_makers[name])
            if check:
                check_object(of_object)
            one = _of_object(of_object, replication, guard=guard)
        else:
            one = _of_body(PolicyRunner(experiment, environment, name), replication, guard=guard)
        earlier = list(trajectories.values())
        replayed = replayed_by(experiment, one.arms, one.positions, earlier)
        trajectories[name] = one._replace(replayed=replayed)
    return Trace(experiment, environment, replication, trajectories)


def _of_body(runner: PolicyRunner, replication: int, *, guard: bool) -> Trajectory:
    horizon = runner.experiment.horizon
    end, one, in_python = np.array([horizon]), empty_trajectory(horizon), empty_trajectory(horizon)
    if guard:  # first: machine code does not check indices, and a wrong one may end the process
        runner.run_in_python(replication, end, in_python)
    runner.run(range(replication, replication + 1), end, one)
    if guard:
        earned = [np.cumsum(one.rewards), np.cumsum(in_python.rewards)]
        check_equal(runner, [one.arms, in_python.arms], earned, COMPILED)
    return one


def _of_object(runner: ObjectRunner, replication: int, *, guard: bool) -> Trajectory:
    horizon = runner.experiment.horizon
    one = empty_trajectory(horizon)
    runner.run(range(replication, replication + 1), np.array([horizon]), one)
    if guard:
        check_repeated(runner.name, run_pair(runner, replication, horizon), one.arms.tolist())
    return one
