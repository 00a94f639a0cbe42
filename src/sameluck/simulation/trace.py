"""`trace`: every period of one replication."""

from __future__ import annotations

import numpy as np

from sameluck.environments.base import EnvironmentLike
from sameluck.experiment import MAX_COUNT, Experiment
from sameluck.policies.external import Makers, makers_of
from sameluck.simulation.function_checks import COMPILED, check_equal, probe_functions
from sameluck.simulation.plain_runner import PlainRunner
from sameluck.simulation.preconditions import check_memory, fitted
from sameluck.simulation.runners.compiled_runner import CompiledRunner
from sameluck.simulation.runners.object_runner import ObjectRunner, check_object, check_repeated
from sameluck.simulation.simulate import with_select_functions
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
    """Run one replication and record every period: arm, position, reward, replayed or real.

    Args:
        experiment: What to run.
        environment: Where rewards come from, or its text form.
        replication: The replication's number, from 0; the same bits as in `simulate`.
        guard: Run every period in plain Python as well, with bounds checks; raise `AddressReused` if a policy reads
            the same random number twice and `Invalid` if compiled code and plain Python give different results, or
            if two objects of an `External` policy do.
        check: As in `simulate`: the same for some periods, before your own functions are first run.
        makers: As in `simulate`.
    """
    experiment, environment = fitted(experiment, environment)
    require_flag("guard", guard)
    require_flag("check", check)
    last = (experiment.replications or MAX_COUNT) - 1
    replication = require_whole("replication", replication, 0, last)
    if not experiment.replications:
        experiment = experiment.replace(replications=replication + 1)
    check_memory(experiment, 1, np.arange(1))
    makers_by_policy = makers_of(experiment.policies, makers)
    if check:
        compiled = with_select_functions(experiment, makers_by_policy)
        for probe in probe_functions(compiled, environment):
            probe.compare(recorded=True)
    trajectories: dict[str, Trajectory] = {}
    for name in experiment.policies:
        if name in makers_by_policy:
            runner = ObjectRunner(experiment, environment, name, makers_by_policy[name])
            if check:
                check_object(runner)
            trajectory = _trace_object(runner, replication, guard=guard)
        else:
            compiled_runner = CompiledRunner(experiment, environment, name)
            trajectory = _trace_compiled(compiled_runner, replication, guard=guard)
        earlier = list(trajectories.values())
        replayed = replayed_by(experiment, trajectory, earlier)
        trajectories[name] = trajectory._replace(replayed=replayed)
    return Trace(experiment, environment, replication, trajectories)


def _trace_compiled(runner: CompiledRunner, replication: int, *, guard: bool) -> Trajectory:
    experiment = runner.setting.experiment
    end, horizon = np.array([experiment.horizon]), experiment.horizon
    trajectory, plain = (empty_trajectory(horizon, experiment) for _ in range(2))
    if guard:  # plain Python first: it names the line of a wrong index
        PlainRunner(runner).run(replication, end, plain)
    runner.run(range(replication, replication + 1), end, trajectory)
    if guard:
        sums = [np.cumsum(trajectory.rewards), np.cumsum(plain.rewards)]
        check_equal(runner, [trajectory.arms, plain.arms], sums, COMPILED)
    return trajectory


def _trace_object(runner: ObjectRunner, replication: int, *, guard: bool) -> Trajectory:
    experiment = runner.setting.experiment
    horizon, trajectory = experiment.horizon, empty_trajectory(experiment.horizon, experiment)
    runner.run(range(replication, replication + 1), np.array([horizon]), trajectory)
    if guard:
        check_repeated(
            runner.setting.name, runner.run_pair(replication, horizon), trajectory.arms.tolist()
        )
    return trajectory
