"""Pilots of a plan: simulations or runs that show the spread of the differences."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from sameluck.design import Design, Naive, Replay, TimeCoupled
from sameluck.environments.base import Environment, EnvironmentLike
from sameluck.errors import Invalid
from sameluck.experiment import Experiment
from sameluck.inference.effects import differences, has_prior
from sameluck.inference.requests import first_pair
from sameluck.inference.twins.failures import rare_failures
from sameluck.inference.twins.simulations import CopySimulator, has_objects, run_long
from sameluck.inference.twins.stability import check_stability, reasons_to_withhold
from sameluck.inference.unseen import possible_loss
from sameluck.policies.external import Makers, makers_for, makers_of
from sameluck.runs import Runs
from sameluck.simulation.preconditions import fits, fitted
from sameluck.simulation.simulate import simulate

COPY_REPLICATIONS = 4_000  # on a copy of the arms, to look for rare failures
MAX_COPY_PERIODS = 100_000_000


def pilots(
    experiment: Experiment,
    environment: EnvironmentLike | Runs,
    replications: int,
    makers: Makers | None,
    *,
    copied: bool = False,
) -> dict[str, Runs]:
    """Return the runs of each design by its text form, the experiment's design first.

    With `copied`, runs given as the environment are replaced by simulations on a copy of their arms.
    """
    if copied and isinstance(environment, Runs):
        environment = copied_arms(environment)
    if isinstance(environment, Runs):
        return _pilots_of_runs(experiment, environment)
    designs: list[Design] = [experiment.design, Naive(), TimeCoupled(), Replay()]
    horizons = sorted({max(1, experiment.horizon * eighths // 8) for eighths in (1, 2, 4, 8)})
    pilot = with_two_policies(experiment, replications)
    pilot, environment = fitted(pilot, environment)
    by_label = {design.label: design for design in designs if fits(design, environment)}
    # Makers are checked for all policies, though the pilot runs two: a missing maker is an error now, not later.
    makers_of(experiment.policies, makers)
    run = partial(simulate, checkpoints=horizons, makers=makers_for(pilot.policies, makers))
    return {
        label: run(pilot.replace(design=design), environment) for label, design in by_label.items()
    }


def with_two_policies(experiment: Experiment, replications: int) -> Experiment:
    """Return the experiment with only the control and the first other policy."""
    policies = {name: experiment.policies[name] for name in reversed(first_pair(experiment))}
    return experiment.replace(policies=policies, replications=replications)


def copied_arms(runs: Runs) -> Environment:
    """Return a copy of the measured arms; raise `Invalid` if they changed, or if a policy fails rarely.

    With a rare failure the spread of a difference depends on how rare and how bad it is. The copy estimates that
    spread badly: between a seventh and twice the true spread in trials, and within a third otherwise.
    """
    if has_objects(runs.experiment):
        raise Invalid(
            "a plan on a copy of the arms needs policies with a select function, not external ones; guess an "
            "environment"
        )
    last = runs.at([int(runs.checkpoints[-1])])
    simulator = CopySimulator(last)
    affordable = MAX_COPY_PERIODS // (len(runs.policies) * int(runs.checkpoints[-1]))
    long_run = run_long(last, None, simulator, max(200, min(COPY_REPLICATIONS, affordable)))
    stability = check_stability(long_run.stacks, long_run.runs, simulator.generator(0))
    for reason in reasons_to_withhold(long_run, stability):
        raise Invalid(f"no plan on a copy of the arms: {reason}")
    for failure in rare_failures(long_run):
        raise Invalid(
            f"no plan on a copy of the arms: {failure} The spread depends on how rare and how bad this failure is, "
            "which these replications cannot show; guess an environment and use verify=True"
        )
    return long_run.copy.environment


def _pilots_of_runs(experiment: Experiment, runs: Runs) -> dict[str, Runs]:
    if runs.replications < 10:
        raise Invalid(
            f"a pilot needs at least 10 replications to estimate a variance, got {runs.replications}; with "
            "horizon=... the plan is made on a copy of its arms, and one replication is enough"
        )
    planned, piloted = (
        definition.to_dict()["policies"] for definition in (experiment, runs.experiment)
    )
    for name in first_pair(experiment):
        if piloted.get(name) != planned[name]:
            raise Invalid(
                f"the pilot did not run {name!r} as {planned[name]}; use runs of this experiment"
            )
    if runs.checkpoints[-1] != experiment.horizon:
        raise Invalid(
            f"the pilot reports up to {runs.checkpoints[-1]:,} periods, the experiment has {experiment.horizon:,}; "
            "horizon=... plans another horizon, on a copy of the pilot's arms"
        )
    design = runs.experiment.design
    # On a prior, coupled runs cannot tell the variance of independent runs on one instance.
    if has_prior(runs) and not isinstance(design, Naive):
        return {design.label: runs}
    return {design.label: runs, "naive": runs}


def check_pilot(runs: Runs, effect: float | None) -> float | None:
    """Return the policies' largest possible difference, if known; raise `Invalid` if they cannot differ so much."""
    if differences(runs, first_pair(runs.experiment), -1).std() == 0:
        raise Invalid(
            "the two policies never differ in the pilot, so there is nothing to plan; try another environment"
        )
    max_effect = possible_loss(runs)
    if effect is not None and max_effect is not None and abs(effect) > max_effect:
        raise Invalid(
            f"effect {effect:g} is more than two policies can differ by here: {max_effect:g}, the horizon times the "
            "range of the arms' means; plan a smaller effect or a longer horizon"
        )
    return max_effect


def spread(runs: Runs, index: int, *, paired: bool) -> tuple[float, float]:
    """Return the standard deviation of a replication's difference and its standard error, from the fourth moment."""
    policy, control = (
        runs.rewards[:, runs.policies.index(name), index] for name in first_pair(runs.experiment)
    )
    # Neighbouring replications are independent, and so are their differences' two terms.
    values = policy - (control if paired else np.roll(control, 1))
    variance = float(values.var(ddof=1))
    if variance == 0:
        return 0.0, 0.0
    fourth = float(np.mean((values - values.mean()) ** 4))
    error = math.sqrt(max(fourth - variance**2, 0.0) / values.size)
    return math.sqrt(variance), error / (2 * math.sqrt(variance))
