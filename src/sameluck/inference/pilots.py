"""The pilot of a plan: replications that show the spread of the differences under each design."""

from __future__ import annotations

import math

import numpy as np

from sameluck import text_forms
from sameluck.arrays import Floats
from sameluck.design import Design, Naive, Replay, TimeCoupled
from sameluck.environments.base import EnvironmentLike
from sameluck.errors import Invalid
from sameluck.experiment import Experiment
from sameluck.inference.effects import Pair, differences, first_pair, has_prior
from sameluck.runs import Runs
from sameluck.simulation.simulate import simulate


def pilots(
    experiment: Experiment, environment: EnvironmentLike | Runs, pilot: int
) -> dict[str, Runs]:
    """The runs of each design by its text form, the experiment's own first."""
    if isinstance(environment, Runs):
        return _pilots_of_runs(experiment, environment)
    designs: list[Design] = [experiment.design, Naive(), TimeCoupled(), Replay()]
    horizons = sorted({max(1, experiment.horizon * k // 8) for k in (1, 2, 4, 8)})
    by_name = {text_forms.write(design, brief=True): design for design in designs}
    two = with_two_policies(experiment, pilot)
    return {
        name: simulate(two.replace(design=design), environment, checkpoints=horizons)
        for name, design in by_name.items()
    }


def with_two_policies(experiment: Experiment, replications: int) -> Experiment:
    """The experiment with the control and the first other policy only."""
    policies = {name: experiment.policies[name] for name in reversed(first_pair(experiment))}
    return experiment.replace(policies=policies, replications=replications)


def _pilots_of_runs(experiment: Experiment, runs: Runs) -> dict[str, Runs]:
    if runs.replications < 10:
        raise Invalid(
            f"a pilot needs at least 10 replications to estimate a variance, got {runs.replications}"
        )
    for name in first_pair(experiment):
        policy, of_pilot = experiment.policies[name], runs.experiment.policies.get(name)
        if of_pilot is None or text_forms.write(of_pilot) != text_forms.write(policy):
            raise Invalid(
                f"the pilot did not run {name!r} as {text_forms.write(policy)}; use runs of this experiment"
            )
    if runs.checkpoints[-1] != experiment.horizon:
        raise Invalid(
            f"the pilot reports up to {runs.checkpoints[-1]:,} periods, the experiment has {experiment.horizon:,}"
        )
    own = text_forms.write(runs.experiment.design, brief=True)
    coupled = not isinstance(runs.experiment.design, Naive)
    # On a prior, the variance of independent runs on one instance cannot be estimated from coupled ones.
    return {own: runs} if coupled and has_prior(runs) else {own: runs, "naive": runs}


def _independent_differences(runs: Runs, pair: Pair, index: int) -> Floats:
    """Differences between replications next to each other, with the variance that independent policies have."""
    other, control = (runs.rewards[:, runs.policies.index(name), index] for name in pair)
    return (other - other.mean()) - np.roll(control - control.mean(), 1)


def spread(runs: Runs, index: int, *, paired: bool) -> tuple[float, float]:
    """The standard deviation of one replication's difference and its standard error, from the fourth moment."""
    of_pair = differences if paired else _independent_differences
    values = of_pair(runs, first_pair(runs.experiment), index)
    variance = float(values.var(ddof=1))
    if variance == 0:
        return 0.0, 0.0
    fourth = float(np.mean((values - values.mean()) ** 4))
    error = math.sqrt(max(fourth - variance**2, 0.0) / values.size)
    return math.sqrt(variance), error / (2 * math.sqrt(variance))
