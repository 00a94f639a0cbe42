"""`CompiledRunner`: compiles and runs the loop of one policy."""

from __future__ import annotations

import numpy as np

from sameluck.arrays import Ints, padded
from sameluck.compilation.functions import is_builtin
from sameluck.environments.base import Environment
from sameluck.errors import Invalid
from sameluck.experiment import Experiment
from sameluck.policies.base import (
    as_compiled,
    memory_of,
    prepare,
    select_function_of,
)
from sameluck.policies.observations import Observations
from sameluck.simulation.refusals import Refusals, check_rewards
from sameluck.simulation.runners.loop import Results, WorkingArrays, run_all
from sameluck.simulation.runners.setting import Setting
from sameluck.trajectories import Trajectory, empty_trajectory


class CompiledRunner:
    """One policy of an experiment, prepared to run any of its replications."""

    def __init__(self, experiment: Experiment, environment: Environment, name: str) -> None:
        self.setting = Setting(experiment, environment, name)
        arms, context = experiment.n_arms, experiment.context
        prepared = prepare(experiment.policies[name], arms, experiment.horizon, context)
        self._memory = memory_of(prepared, arms, context)
        self.policy = as_compiled(prepared)
        self.refusals = Refusals(experiment, environment, name, self.policy)
        self._arrays, self._contexts = self.empty_arrays(), self.setting.empty_contexts()

    @property
    def is_builtin(self) -> bool:
        return is_builtin(select_function_of(self.policy))

    def run(
        self, replications: range, checkpoints: Ints, trajectory: Trajectory | None = None
    ) -> Results:
        """Return the results of replications; fill a trajectory if there is only one replication."""
        results = self._run(replications, checkpoints, trajectory)
        if not self.is_builtin and not bool((results.pulls.sum(axis=-1) == checkpoints).all()):
            raise Invalid(
                f"{self.refusals.label} changed its tally; a select function may write to tally.memory only"
            )
        check_rewards(self.setting.environment, results.rewards)
        return results

    def compile(self) -> None:
        """Compile the loop without a trajectory."""
        self._run(range(0), np.array([self.setting.experiment.horizon]), None)

    def _run(
        self, replications: range, checkpoints: Ints, trajectory: Trajectory | None
    ) -> Results:
        results = self.setting.empty_results(len(replications), checkpoints)
        # Without replications the loop is only compiled: the parameters of one replication have the same type.
        parameters = self.setting.parameters(replications or range(1))
        if trajectory is None and (results.indexed_by_period or self._contexts is not None):
            # Without a trajectory the loop is compiled for positions in the stack alone. With contexts the same loop
            # serves with and without: a branch costs little there, and compiling takes seconds.
            trajectory = empty_trajectory(0, self.setting.experiment)
        with self.refusals.explaining(parameters, replications):
            failure = run_all(
                self.policy,
                parameters,
                self.setting.stream_owners,
                replications.start,
                self._arrays,
                self._contexts,
                results,
                trajectory,
            )
        self.refusals.check_arm(*failure)
        return results

    def empty_arrays(self) -> WorkingArrays:
        arms, cells = self.setting.experiment.n_arms, self.setting.experiment.cells
        reads, pulls = padded(cells, np.int64), padded(arms, np.int64)
        totals, means = padded(arms, np.float64), padded(arms, np.float64)
        memory = padded(self._memory, np.float64)
        observations = Observations(reads, pulls, totals, means, memory)
        return WorkingArrays(padded(cells, np.uint64), padded(cells, np.uint64), observations)
