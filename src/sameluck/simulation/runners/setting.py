"""`Setting`: what every loop of a policy needs, whatever runs the policy."""

from __future__ import annotations

import numpy as np

from sameluck.arrays import Ints
from sameluck.environments.base import Environment, prepared_parameters
from sameluck.experiment import Experiment
from sameluck.simulation.runners.contexts import ContextArrays, empty_contexts
from sameluck.simulation.runners.loop import Results, StreamOwners
from sameluck.text_forms import Parameters


class Setting:
    """Experiment and environment in which a policy runs, its random streams, and arrays for its results."""

    def __init__(self, experiment: Experiment, environment: Environment, name: str) -> None:
        self.experiment = experiment
        self.environment = environment
        self.name = name
        design = experiment.design
        self.stream_owners: StreamOwners = (
            np.uint64(experiment.seed),
            np.uint64(design.reward_owner(name)),
            np.uint64(design.noise_owner(name)),
        )

    def parameters(self, replications: range) -> Parameters:
        """Return the environment's parameters in replications, as the draw function takes them."""
        experiment = self.experiment
        return prepared_parameters(
            self.environment, experiment.seed, replications, experiment.n_arms
        )

    def empty_contexts(self) -> ContextArrays | None:
        experiment = self.experiment
        return empty_contexts(experiment.context, experiment.n_arms, self.environment.hidden)

    def empty_results(self, replications: int, checkpoints: Ints) -> Results:
        experiment, context = self.experiment, self.experiment.context
        shape = (replications, checkpoints.size)
        by_arm = (*shape, experiment.n_arms)
        with_contexts = (replications, 0 if context is None else checkpoints.size)
        has_cells = context is not None and not context.indexed_by_period
        periods = int(checkpoints[-1]) if experiment.counts_pairs else 0
        return Results(
            indexed_by_period=experiment.indexed_by_period,
            checkpoints=checkpoints,
            rewards=np.empty(shape),
            pulls=np.empty(by_arm, np.int64),
            totals=np.empty(by_arm),
            visits=np.empty((*shape, experiment.cells if has_cells else 0), np.int64),
            level_rewards=np.empty((*shape, 0 if context is None else context.segments)),
            regret=np.empty(with_contexts),
            best_pulls=np.empty(with_contexts, np.int64),
            cells=np.empty((replications, periods), np.int32),
        )
