"""`coverage`: how often intervals contain the true effects, by repeating a whole experiment."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sameluck.arrays import Bools, Floats
from sameluck.environments.base import EnvironmentLike
from sameluck.errors import Invalid
from sameluck.experiment import Experiment, require_experiment
from sameluck.inference.effects import differences, effects
from sameluck.inference.interval_methods import INTERVALS, IntervalMethod
from sameluck.inference.requests import Request, first_pair
from sameluck.intervals import check_level
from sameluck.policies.external import Makers, makers_for
from sameluck.runs import Runs
from sameluck.simulation.simulate import simulate
from sameluck.validation import require_number, require_one_of, require_whole
from sameluck.wording import listed_with_or

FIRST_LOOK = 5  # replications
VERIFICATIONS = 500  # simulations of a planned experiment
MAX_VERIFIED_REPLICATIONS = 5_000_000


class Coverage(NamedTuple):
    """Share of experiments whose intervals all contained the true effects, and the level it should have."""

    covered: float
    error: float  # binomial standard error of the share
    level: float
    experiments: int
    replications: int
    power: float  # share of experiments with an interval that left out 0
    truth: float  # the first effect, from all replications together


def coverage(  # noqa: PLR0913
    experiment: Experiment,
    environment: EnvironmentLike,
    *,
    level: float = 0.95,
    interval: str = "t",
    experiments: int = 1_000,
    peek: bool = False,
    effect: float | None = None,
    pairs: str | None = None,
    simultaneous: str | None = None,
    adjust: str | None = None,
    checkpoints: Sequence[int] | None = None,
    makers: Makers | None = None,
) -> Coverage:
    """Repeat a whole experiment many times and count how often its intervals contain the true effects.

    Args:
        experiment: Two or more policies. The control and the first other policy are compared at the horizon. With
            any of `pairs`, `simultaneous`, `adjust` and `checkpoints`, every interval of `compare` must cover.
        environment: Where rewards come from, or its text form.
        level: Confidence of the intervals.
        interval: `"t"`, `"anytime"`, `"median"` (of the median difference) or `"bootstrap"`.
        experiments: Number of repetitions.
        peek: Compute the interval after every replication from the fifth on. An experiment is covered only if all
            its intervals contain the true effect.
        effect: Shift the differences to this true effect first, to estimate the power against it.
        pairs: As for `compare`.
        simultaneous: As for `compare`.
        adjust: As for `compare`.
        checkpoints: As for `simulate`.
        makers: As for `simulate`.
    """
    require_experiment("coverage", experiment)
    check_level(level)
    offered = [name for name, method in INTERVALS.items() if not method.copies_arms]
    require_one_of("interval", interval, offered)
    require_whole("experiments", experiments, 10)
    if effect is not None:
        require_number("effect", effect)
    experiment.require_replications("coverage")
    require_whole("coverage: replications", experiment.replications, FIRST_LOOK if peek else 2)
    method = INTERVALS[interval]
    if peek and not method.has_half_widths_at_looks:
        names = [f'"{name}"' for name in offered if INTERVALS[name].has_half_widths_at_looks]
        raise Invalid(f"peek=True takes interval={listed_with_or(names)}")
    whole = experiment.replace(replications=experiment.replications * experiments)
    options = (pairs, simultaneous, adjust, checkpoints)
    if any(option is not None for option in options):
        if peek or effect is not None:
            raise Invalid("coverage: peek and effect are for one pair at the horizon")
        request = Request(level, None, pairs or "control", interval, simultaneous, adjust)
        runs = simulate(whole, environment, checkpoints=checkpoints, makers=makers)
        return _joint_coverage(runs, request, experiments)
    values = differences(simulate(whole, environment, makers=makers), first_pair(whole), 0)
    groups = values.reshape(experiments, experiment.replications)
    return _pair_coverage(groups, level, method, effect, peek=peek)


def _coverage(
    covered: Bools, detected: Bools, level: float, replications: int, truth: float
) -> Coverage:
    share, count = float(np.mean(covered)), covered.size
    # The error is never 0: a share of 0 or 1 is an estimate too.
    error = math.sqrt(max(share * (1 - share), 1 / count**2) / count)
    return Coverage(share, error, level, count, replications, float(np.mean(detected)), truth)


def _pair_coverage(
    groups: Floats, level: float, method: IntervalMethod, effect: float | None, *, peek: bool
) -> Coverage:
    """Return the coverage of a pair's effect at the horizon, from differences (experiment, replication)."""
    # All experiments are one simulation; the mean of all its differences is the true effect, up to a small error.
    truth = method.centre(groups.ravel())
    if effect is not None:
        groups, truth = groups - truth + effect, effect
    low, high = _bounds(groups, level, method, peek=peek)
    covered = np.all((low <= truth) & (truth <= high), axis=1)
    detected = np.any((low > 0) | (high < 0), axis=1)
    return _coverage(covered, detected, level, groups.shape[1], truth)


def _joint_coverage(runs: Runs, request: Request, experiments: int) -> Coverage:
    """Return the coverage of all effects that `compare` shows; `runs` holds experiment after experiment."""
    truth: dict[tuple[str, str, int], float] = {}
    for first, second in itertools.permutations(runs.policies, 2):
        for index, checkpoint in enumerate(runs.checkpoints.tolist()):
            values = differences(runs, (first, second), index)
            truth[first, second, checkpoint] = request.interval_method.centre(values)
    count = runs.replications // experiments
    covered, detected = np.ones(experiments, bool), np.zeros(experiments, bool)
    for number in range(experiments):
        for effect in effects(runs.part(number * count, count), request):
            true = truth[effect.policy, effect.control, effect.checkpoint]
            covered[number] &= effect.low <= true <= effect.high
            detected[number] |= not effect.low <= 0 <= effect.high
    first_truth = truth[(*first_pair(runs.experiment), int(runs.checkpoints[-1]))]
    return _coverage(covered, detected, request.level, count, first_truth)


def _bounds(
    groups: Floats, level: float, method: IntervalMethod, *, peek: bool
) -> tuple[Floats, Floats]:
    """Return the lower and upper ends (experiment, look)."""
    if not peek:
        ends = np.array([method.interval(row, level)[:2] for row in groups])
        return ends[:, :1], ends[:, 1:]
    means = np.cumsum(groups, axis=1) / np.arange(1, groups.shape[1] + 1)
    half, looks = method.half_widths_at_looks(groups, level), slice(FIRST_LOOK - 1, None)
    return (means - half)[:, looks], (means + half)[:, looks]


def verify_plan(
    planned: Experiment,
    environment: EnvironmentLike | Runs,
    effect: float,
    level: float,
    makers: Makers | None,
) -> Coverage:
    """Simulate the planned experiment `VERIFICATIONS` times and return its power and coverage."""
    if isinstance(environment, Runs):
        raise Invalid("verify=True needs an environment to simulate, not runs")
    if planned.replications * VERIFICATIONS > MAX_VERIFIED_REPLICATIONS:
        raise Invalid(
            f"verify=True would simulate {VERIFICATIONS} x {planned.replications:,} replications; plan without it"
        )
    return coverage(
        planned,
        environment,
        level=level,
        experiments=VERIFICATIONS,
        effect=effect,
        makers=makers_for(planned.policies, makers),
    )
