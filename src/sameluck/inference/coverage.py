"""`coverage`: how often an interval contains the true effect, by repeating a whole experiment."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import scipy

from sameluck.arrays import Floats
from sameluck.environments.base import EnvironmentLike
from sameluck.errors import Invalid
from sameluck.experiment import Experiment, require_experiment
from sameluck.inference.effects import differences, first_pair
from sameluck.intervals import anytime_half_widths, check_level, intervals
from sameluck.simulation.simulate import simulate
from sameluck.validation import require_one_of, require_whole

FIRST_LOOK = 5


class Coverage(NamedTuple):
    """The share of experiments whose interval contained the true effect, and the level it should have."""

    covered: float
    error: float  # binomial standard error of the share
    level: float
    experiments: int
    replications: int
    power: float  # share of experiments whose interval did not contain 0
    truth: float  # the effect, from all replications together


def coverage(
    experiment: Experiment,
    environment: EnvironmentLike,
    *,
    level: float = 0.95,
    interval: str = "t",
    experiments: int = 1_000,
    peek: bool = False,
    effect: float | None = None,
) -> Coverage:
    """Repeat a whole experiment many times and count how often its interval contains the true effect.

    Args:
        experiment: Two or more policies; the control and the first other one are compared at the horizon.
        environment: Where rewards come from, or its text form.
        level: Confidence of the intervals.
        interval: `"t"`, `"bootstrap"`, `"anytime"` or `"median"`; the true effect is then the median difference.
        experiments: How many times to repeat it.
        peek: Compute the interval after every replication from the fifth on, and count an experiment as covered
            only if all of them contain the true effect.
        effect: Shift the differences to this true effect first, to estimate the power against it.
    """
    require_experiment("coverage", experiment)
    check_level(level)
    require_one_of("interval", interval, list(intervals))
    require_whole("experiments", experiments, 10)
    require_whole("coverage: replications", experiment.replications, FIRST_LOOK if peek else 2)
    if peek and interval not in ("t", "anytime"):
        raise Invalid('peek=True takes interval="t" or "anytime"')
    whole = experiment.replace(replications=experiment.replications * experiments)
    values = simulated_differences(whole, environment)
    truth = float(np.median(values) if interval == "median" else values.mean())
    if effect is not None:
        values, truth = values - truth + effect, effect
    groups = values.reshape(experiments, experiment.replications)
    low, high = _bounds(groups, level, interval, peek=peek)
    share = float(np.mean(np.all((low <= truth) & (truth <= high), axis=1)))
    power = float(np.mean(np.any((low > 0) | (high < 0), axis=1)))
    error = math.sqrt(max(share * (1 - share), 1 / experiments**2) / experiments)
    return Coverage(share, error, level, experiments, experiment.replications, power, truth)


def simulated_differences(experiment: Experiment, environment: EnvironmentLike) -> Floats:
    """The first other policy's reward minus the control's at the horizon, in each replication."""
    pair = first_pair(experiment)
    return differences(simulate(experiment, environment), pair, 0)


def _bounds(groups: Floats, level: float, interval: str, *, peek: bool) -> tuple[Floats, Floats]:
    """Lower and upper ends (experiment, look)."""
    if peek:
        return _peeking_bounds(groups, level, interval)
    ends = np.array([intervals[interval](row, level)[:2] for row in groups])
    return ends[:, :1], ends[:, 1:]


def _peeking_bounds(groups: Floats, level: float, interval: str) -> tuple[Floats, Floats]:
    counts = np.arange(1, groups.shape[1] + 1)
    means = np.cumsum(groups, axis=1) / counts
    if interval == "anytime":
        half = np.array([anytime_half_widths(row, level) for row in groups])
    else:
        squares = np.cumsum(groups**2, axis=1) - counts * means**2
        with np.errstate(divide="ignore", invalid="ignore"):
            errors = np.sqrt(squares / (counts - 1) / counts)
            half = scipy.special.stdtrit(counts - 1, 0.5 + level / 2) * errors
        half[np.cumsum(groups != groups[:, :1], axis=1) == 0] = math.inf
    looks = slice(FIRST_LOOK - 1, None)
    return (means - half)[:, looks], (means + half)[:, looks]
