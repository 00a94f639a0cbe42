"""`PolicyRunner`: compiles and runs the loop of one policy."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from sameluck.arrays import Ints
from sameluck.compilation.functions import is_builtin
from sameluck.environments.base import Environment, prepared_parameters
from sameluck.errors import Invalid
from sameluck.experiment import Experiment
from sameluck.policies.base import (
    Policy,
    as_compiled,
    memory_of,
    prepare,
    select_function_of,
)
from sameluck.policies.observations import Observations
from sameluck.randomness.streams import OnceKey
from sameluck.simulation.loop import (
    Results,
    StreamOwners,
    WorkingArrays,
    run_all,
    run_one,
)
from sameluck.simulation.refusals import Refusals, check_rewards
from sameluck.text_forms import Parameters
from sameluck.trajectories import Trajectory, empty_trajectory

Number = TypeVar("Number", np.float64, np.int64, np.uint64)


class PolicyRunner:
    """One policy of an experiment, prepared to run any of its replications."""

    def __init__(self, experiment: Experiment, environment: Environment, name: str) -> None:
        self.experiment = experiment
        self.environment = environment
        self.name = name
        design = experiment.design
        arms, context = experiment.n_arms, experiment.context
        prepared = prepare(experiment.policies[name], arms, experiment.horizon, context)
        self.memory = memory_of(prepared, arms, context)
        self.policy = as_compiled(prepared)
        self.refusals = Refusals(experiment, environment, name, self.policy)
        self.stream_owners: StreamOwners = (
            np.uint64(experiment.seed),
            np.uint64(design.reward_owner(name)),
            np.uint64(design.noise_owner(name)),
        )
        self._arrays = self.empty_arrays()

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
        check_rewards(self.environment, results.rewards)
        return results

    def compile(self, *, recorded: bool) -> None:
        """Compile the loop, with or without a trajectory."""
        end = np.array([self.experiment.horizon])
        self._run(range(0), end, empty_trajectory(0, self.experiment) if recorded else None)

    def _run(
        self, replications: range, checkpoints: Ints, trajectory: Trajectory | None
    ) -> Results:
        results = self.empty_results(len(replications), checkpoints)
        # Without replications the loop is only compiled: the parameters of one replication have the same type.
        parameters = self.parameters(replications or range(1))
        recording = self.recording(trajectory, checkpoints)
        with self.refusals.explaining(parameters):
            failure = self._run_loop(parameters, replications.start, results, recording)
        self.refusals.check_arm(*failure)
        return results

    def _run_loop(
        self, parameters: Parameters, first: int, results: Results, trajectory: Trajectory | None
    ) -> tuple[int, int]:
        """Run the compiled loop; return a replication that failed and its period, or (-1, 0)."""
        return run_all(
            self.policy, parameters, self.stream_owners, first, self._arrays, results, trajectory
        )

    def run_plainly(
        self,
        policy: Policy,
        parameters: Parameters,
        noise: OnceKey,
        arrays: WorkingArrays,
        replication: int,
        results: Results,
        trajectory: Trajectory | None,
    ) -> int:
        """Run a replication in plain Python; return 0, or the period in which the policy chose a wrong arm."""
        return run_one(policy, parameters, noise, arrays, 0, results, trajectory)

    def parameters(self, replications: range) -> Parameters:
        """Return the environment's parameters in replications, as the draw function takes them."""
        experiment = self.experiment
        return prepared_parameters(
            self.environment, experiment.seed, replications, experiment.n_arms
        )

    def recording(self, trajectory: Trajectory | None, checkpoints: Ints) -> Trajectory | None:
        """Return the trajectory to fill, which a design that indexes rewards by period always needs."""
        # Without a trajectory the loop is compiled for positions in the stack alone.
        if trajectory is None and self.experiment.indexed_by_period:
            return empty_trajectory(int(checkpoints[-1]))
        return trajectory

    def empty_arrays(self) -> WorkingArrays:
        cells = self.experiment.cells
        keys = padded(cells, np.uint64), padded(cells, np.uint64)
        return WorkingArrays(*keys, self.empty_observations())

    def empty_observations(self) -> Observations:
        arms = self.experiment.n_arms
        reads, pulls = padded(self.experiment.cells, np.int64), padded(arms, np.int64)
        totals, means = padded(arms, np.float64), padded(arms, np.float64)
        return Observations(reads, pulls, totals, means, padded(self.memory, np.float64))

    def empty_results(self, replications: int, checkpoints: Ints) -> Results:
        shape = (replications, checkpoints.size)
        pulls = np.empty((*shape, self.experiment.n_arms), np.int64)
        indexed_by_period = self.experiment.indexed_by_period
        return Results(indexed_by_period, checkpoints, np.empty(shape), pulls)


def padded(size: int, dtype: type[Number]) -> NDArray[Number]:
    # Two threads' small arrays in one cache line would make each write stall the other thread (false sharing).
    # Lanes that straddle cache lines would make regressions a quarter slower.
    space = np.zeros(size + 32, dtype)
    first = 16 - space.ctypes.data // space.itemsize % 8
    return space[first : first + size]
