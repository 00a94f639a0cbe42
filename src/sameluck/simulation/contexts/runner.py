"""`ContextRunner`: compiles and runs the loop of one policy whose users have contexts."""

from __future__ import annotations

import math

import numpy as np

from sameluck.arrays import Ints
from sameluck.context import Levels
from sameluck.environments.base import Environment
from sameluck.experiment import Experiment
from sameluck.policies.base import Policy
from sameluck.randomness.streams import CONTEXT, OnceKey, stream
from sameluck.simulation.contexts.loop import (
    ContextResults,
    FeatureArrays,
    LevelArrays,
    Replication,
    forget,
    run_all,
    run_one,
)
from sameluck.simulation.loop import Results, WorkingArrays
from sameluck.simulation.policy_runner import PolicyRunner, padded
from sameluck.text_forms import Parameters
from sameluck.trajectories import Trajectory


class ContextRunner(PolicyRunner):
    """One policy of an experiment whose users have contexts, prepared to run any of its replications."""

    def __init__(self, experiment: Experiment, environment: Environment, name: str) -> None:
        super().__init__(experiment, environment, name)
        self._contexts = self.empty_contexts()

    def _run_loop(
        self, parameters: Parameters, first: int, results: Results, trajectory: Trajectory | None
    ) -> tuple[int, int]:
        return run_all(
            self.policy,
            parameters,
            self.stream_owners,
            first,
            self._arrays,
            self._contexts,
            results,
            trajectory,
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
        seed, reward_owner, _ = self.stream_owners
        key = stream(seed, CONTEXT, replication, reward_owner)
        users = OnceKey(key, f"environment {type(self.environment).__name__}")
        contexts = self.empty_contexts()
        forget(contexts)
        current = Replication(users, noise, arrays, contexts, 0)
        return run_one(policy, parameters, current, results, trajectory)  # type: ignore[arg-type]

    def recording(self, trajectory: Trajectory | None, checkpoints: Ints) -> Trajectory | None:
        return trajectory  # arms are recorded in the results

    def empty_contexts(self) -> FeatureArrays | LevelArrays:
        context, arms = self.experiment.context, self.experiment.n_arms
        assert context is not None
        shape, hidden = context.shape(arms), self.environment.hidden
        size = math.prod(shape)
        whole, last_flat = padded(size + hidden, np.float64), padded(size, np.float64)
        flat = whole[:size]
        now = flat.reshape(shape)
        levels = context.number if isinstance(context, Levels) else 0
        arrays_class = FeatureArrays if context.indexed_by_period else LevelArrays
        return arrays_class(
            now,
            last_flat.reshape(shape),
            flat,
            last_flat,
            np.zeros(levels),
            whole if hidden else now,
        )

    def empty_results(self, replications: int, checkpoints: Ints) -> ContextResults:  # type: ignore[override]
        experiment, context = self.experiment, self.experiment.context
        assert context is not None
        shape = (replications, checkpoints.size)
        has_cells, by_period = not context.indexed_by_period, experiment.indexed_by_period
        periods = int(checkpoints[-1]) if experiment.counts_pairs else 0
        levels = context.number if isinstance(context, Levels) else 0
        return ContextResults(
            by_period,
            checkpoints,
            np.empty(shape),
            np.empty((*shape, experiment.n_arms), np.int64),
            np.empty((*shape, experiment.cells if has_cells else 0), np.int64),
            np.empty((*shape, levels)),
            np.empty(shape),
            np.empty(shape, np.int64),
            np.empty((replications, periods), np.int32),
        )


def runner_of(experiment: Experiment, environment: Environment, name: str) -> PolicyRunner:
    """Return the runner of a compiled policy, with contexts if the experiment has them."""
    runner_class = PolicyRunner if experiment.context is None else ContextRunner
    return runner_class(experiment, environment, name)
