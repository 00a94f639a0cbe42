"""The simulations of a plan: a pilot, which shows the spread of the differences, and the planned experiment."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from sameluck.design import Design, Naive, Replay, TimeCoupled
from sameluck.environments.base import EnvironmentLike
from sameluck.errors import Invalid
from sameluck.experiment import Experiment
from sameluck.inference.effects import differences, has_prior
from sameluck.inference.requests import first_pair
from sameluck.inference.twins.for_plans import copied_arms
from sameluck.inference.unseen import possible_loss
from sameluck.policies.external import Makers, makers_for, makers_of
from sameluck.runs import Runs
from sameluck.simulation.preconditions import fits, fitted
from sameluck.simulation.simulate import simulate


def pilots(
    experiment: Experiment,
    environment: EnvironmentLike | Runs,
    pilot: int,
    makers: Makers | None,
    *,
    copied: bool = False,
) -> dict[str, Runs]:
    """The runs of each design by its text form, the experiment's own first.

    With `copied`, those on a copy of the arms that some runs have measured.
    """
    if copied and isinstance(environment, Runs):
        environment = copied_arms(environment)
    if isinstance(environment, Runs):
        return _pilots_of_runs(experiment, environment)
    designs: list[Design] = [experiment.design, Naive(), TimeCoupled(), Replay()]
    horizons = sorted({max(1, experiment.horizon * k // 8) for k in (1, 2, 4, 8)})
    two = with_two_policies(experiment, pilot)
    two, environment = fitted(two, environment)
    by_label = {design.label: design for design in designs if fits(design, environment)}
    makers_of(experiment.policies, makers)
    run = partial(simulate, checkpoints=horizons, makers=makers_for(two.policies, makers))
    return {
        label: run(two.replace(design=design), environment) for label, design in by_label.items()
    }


def with_two_policies(experiment: Experiment, replications: int) -> Experiment:
    """The experiment with the control and the first other policy only."""
    policies = {name: experiment.policies[name] for name in reversed(first_pair(experiment))}
    return experiment.replace(policies=policies, replications=replications)


def _pilots_of_runs(experiment: Experiment, runs: Runs) -> dict[str, Runs]:
    if runs.replications < 10:
        raise Invalid(
            f"a pilot needs at least 10 replications to estimate a variance, got {runs.replications}; with "
            "horizon=... the plan is made on a copy of its arms, for which one is enough"
        )
    planned, piloted = (one.to_dict()["policies"] for one in (experiment, runs.experiment))
    for name in first_pair(experiment):
        if piloted.get(name) != planned[name]:
            raise Invalid(
                f"the pilot did not run {name!r} as {planned[name]}; use runs of this experiment"
            )
    if runs.checkpoints[-1] != experiment.horizon:
        raise Invalid(
            f"the pilot reports up to {runs.checkpoints[-1]:,} periods, the experiment has {experiment.horizon:,}; "
            "horizon=... plans another one, on a copy of the pilot's arms"
        )
    own = runs.experiment.design.label
    coupled = not isinstance(runs.experiment.design, Naive)
    # On a prior, the variance of independent runs on one instance cannot be estimated from coupled ones.
    return {own: runs} if coupled and has_prior(runs) else {own: runs, "naive": runs}


def check_pilot(runs: Runs, effect: float | None) -> float | None:
    """By how much the policies of a pilot can differ, if it is known.

    Raises `Invalid` if they never differ, or cannot differ by the effect.
    """
    if differences(runs, first_pair(runs.experiment), -1).std() == 0:
        raise Invalid(
            "the two policies never differ in the pilot, so there is nothing to plan; try another environment"
        )
    possible = possible_loss(runs)
    if effect is not None and possible is not None and abs(effect) > possible:
        raise Invalid(
            f"effect {effect:g} is more than two policies can differ by here: {possible:g}, the horizon times the "
            "range of the arms' means; plan a smaller effect or a longer horizon"
        )
    return possible


def spread(runs: Runs, index: int, *, paired: bool) -> tuple[float, float]:
    """The standard deviation of one replication's difference and its standard error, from the fourth moment."""
    other, control = (
        runs.rewards[:, runs.policies.index(name), index] for name in first_pair(runs.experiment)
    )
    # Differences between neighbouring replications have the variance that independent policies have.
    values = other - (control if paired else np.roll(control, 1))
    variance = float(values.var(ddof=1))
    if variance == 0:
        return 0.0, 0.0
    fourth = float(np.mean((values - values.mean()) ** 4))
    error = math.sqrt(max(fourth - variance**2, 0.0) / values.size)
    return math.sqrt(variance), error / (2 * math.sqrt(variance))
