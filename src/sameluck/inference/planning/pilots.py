"""Pilots of a plan: simulations or runs that show the spread of the differences."""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import numpy as np

from sameluck.arrays import Floats, Ints
from sameluck.design import Design, Naive, Replay, TimeCoupled
from sameluck.environments.base import EnvironmentLike
from sameluck.errors import Invalid
from sameluck.experiment import Experiment
from sameluck.inference.effects import differences, has_prior
from sameluck.inference.requests import Pair
from sameluck.inference.twins.copies import ArmCopy
from sameluck.inference.twins.failures import rare_failures
from sameluck.inference.twins.intervals import admits_equality
from sameluck.inference.twins.simulations import CopySimulator, has_objects, run_long, twin_seed
from sameluck.inference.twins.stability import check_stability, reasons_to_withhold
from sameluck.inference.unseen import possible_loss
from sameluck.policies.external import Makers
from sameluck.runs import Runs
from sameluck.simulation.preconditions import fits, fitted
from sameluck.simulation.simulate import available_workers, simulate
from sameluck.simulation.workers import runs_in_each

COPY_REPLICATIONS = 4_000  # on a copy of the arms, to look for rare failures
MAX_COPY_PERIODS = 100_000_000
DRAWS = 100  # of the arms, for the range of the power
DRAWN_REPLICATIONS, MIN_DRAWN_REPLICATIONS = 100, 20  # on each draw
MAX_DRAWN_PERIODS = 40_000_000
EQUALITY_LEVEL = 0.95  # at which equal arms are ruled out
NORMAL_99 = 2.5758293035489004  # standard normal quantile of a 99% interval


def pilots(
    experiment: Experiment,
    environment: EnvironmentLike | Runs,
    replications: int,
    makers: Makers | None,
) -> dict[str, Runs]:
    """Return the runs of each design by its text form, the experiment's design first."""
    if isinstance(environment, Runs):
        return _pilots_of_runs(experiment, environment)
    designs: list[Design] = [experiment.design, Naive(), TimeCoupled(), Replay()]
    horizons = sorted({max(1, experiment.horizon * eighths // 8) for eighths in (1, 2, 4, 8)})
    pilot, environment = fitted(experiment.replace(replications=replications), environment)
    by_label = {design.label: design for design in designs if fits(design, environment)}
    run = partial(simulate, checkpoints=horizons, makers=makers)
    return {
        label: run(pilot.replace(design=design), environment) for label, design in by_label.items()
    }


def with_two_policies(experiment: Experiment, pair: Pair, replications: int) -> Experiment:
    """Return the experiment with only a policy and the control."""
    policies = {name: experiment.policies[name] for name in reversed(pair)}
    return experiment.replace(policies=policies, replications=replications)


def copied_arms(runs: Runs) -> ArmCopy:
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
    return long_run.copy


class DrawnPilots(NamedTuple):
    """Short pilots on draws of the arms, which are other arms that the measured rewards do not exclude."""

    on_copy: Runs
    on_draws: list[Runs]
    admits_equal_arms: bool

    def bias_and_error(self, pair: Pair, index: int) -> tuple[float, float]:
        """Return the bias of a pair's effect on the copy, and the error that it has from the arms' error.

        Draws differ from the copy as the copy differs from the true arms, so they show both. All pilots read the
        same random numbers, and most of the simulation's error cancels.
        """
        on_copy = float(differences(self.on_copy, pair, index).mean())
        effects = np.array([differences(runs, pair, index).mean() for runs in self.on_draws])
        return float(effects.mean()) - on_copy, float(effects.std(ddof=1))


def drawn_pilots(experiment: Experiment, copy: ArmCopy, checkpoints: Ints) -> DrawnPilots:
    affordable = MAX_DRAWN_PERIODS // (len(experiment.policies) * DRAWS * experiment.horizon)
    count = max(MIN_DRAWN_REPLICATIONS, min(DRAWN_REPLICATIONS, affordable))
    pilot = experiment.replace(replications=count, seed=twin_seed(experiment))
    generator = np.random.Generator(np.random.PCG64([pilot.seed, 3]))
    environments = [copy.environment, *copy.draws(DRAWS, generator)]
    instances = [(environment, range(count)) for environment in environments]
    on_copy, *on_draws = runs_in_each(pilot, instances, checkpoints, available_workers())
    equal = admits_equality(copy.tied_arms.equality, EQUALITY_LEVEL)
    return DrawnPilots(on_copy, on_draws, equal)


def _pilots_of_runs(experiment: Experiment, runs: Runs) -> dict[str, Runs]:
    if runs.replications < 10:
        raise Invalid(
            f"a pilot needs at least 10 replications to estimate a variance, got {runs.replications}; with "
            "horizon=... the plan is made on a copy of its arms, and one replication is enough"
        )
    planned, piloted = (
        definition.to_dict()["policies"] for definition in (experiment, runs.experiment)
    )
    for name in experiment.policies:
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
    max_effect = possible_loss(runs)
    if effect is not None and max_effect is not None and abs(effect) > max_effect:
        raise Invalid(
            f"effect {effect:g} is more than two policies can differ by here: {max_effect:g}, the horizon times the "
            "range of the arms' means; plan a smaller effect or a longer horizon"
        )
    return max_effect


def spread(runs: Runs, pair: Pair, index: int, *, paired: bool) -> tuple[float, float]:
    """Return the standard deviation of a replication's difference and its standard error, from the fourth moment."""
    values = _differences(runs, pair, index, paired=paired)
    variance = float(values.var(ddof=1))
    if variance == 0:
        return 0.0, 0.0
    fourth = float(np.mean((values - values.mean()) ** 4))
    error = math.sqrt(max(fourth - variance**2, 0.0) / values.size)
    return math.sqrt(variance), error / (2 * math.sqrt(variance))


def sd_range(runs: Runs, pair: Pair, *, paired: bool) -> tuple[float, float]:
    """Return the 99% interval of the standard deviation of a replication's difference (Bonett, 2006).

    It is symmetric for the logarithm, and estimates the kurtosis about a trimmed mean. Two standard errors to either
    side cover 64 to 74% instead, if 10 replications have the moderate tails of ordinary policies.
    """
    values = _differences(runs, pair, -1, paired=paired)
    count, middle = values.size, values - values.mean()
    trimmed = int(count / (2 * math.sqrt(count - 4)))
    about_trimmed = values - np.sort(values)[trimmed : count - trimmed].mean()
    kurtosis = count * float(np.sum(about_trimmed**4)) / float(np.sum(middle**2)) ** 2
    factor = count / (count - NORMAL_99)
    error = factor * math.sqrt(max(kurtosis - (count - 3) / count, 0.0) / (count - 1))
    sd = math.sqrt(factor * float(values.var(ddof=1)))
    return sd * math.exp(-NORMAL_99 * error / 2), sd * math.exp(NORMAL_99 * error / 2)


def _differences(runs: Runs, pair: Pair, index: int, *, paired: bool) -> Floats:
    policy, control = (runs.rewards[:, runs.policies.index(name), index] for name in pair)
    # Neighbouring replications are independent, and so are their differences' two terms.
    difference: Floats = policy - (control if paired else np.roll(control, 1))
    return difference
