"""How often an interval is right: the check behind every promise about intervals, as a function anybody can call."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.special import stdtrit

from sameluck.arrays import Floats
from sameluck.errors import Invalid, did_you_mean
from sameluck.experiment import Experiment
from sameluck.inference.effects import differences
from sameluck.intervals import anytime_half_widths, check_level, intervals
from sameluck.simulation.simulate import simulate

FIRST_PEEK = 5


class Coverage(NamedTuple):
    """The share of experiments whose interval held the true effect, and what it should be."""

    covered: float
    error: float  # binomial standard error of the share
    level: float
    experiments: int
    replications: int
    power: float  # share of experiments whose interval left out zero
    truth: float  # the effect, from all replications together


def coverage(
    experiment: Experiment,
    environment: Any,
    *,
    level: float = 0.95,
    interval: str = "t",
    experiments: int = 1_000,
    peek: bool = False,
    effect: float | None = None,
) -> Coverage:
    """Repeat a whole experiment many times and count how often its interval is right.

    Args:
        experiment: Two or more policies; the control and the first other one are compared at the horizon.
        environment: Where rewards come from, or its text form.
        level: The intervals' promise.
        interval: `"t"`, `"bootstrap"` or `"anytime"`.
        experiments: How many times to repeat it.
        peek: Look after every replication from the fifth on and count an experiment as covered only if no look
            ever missed: what happens to those who watch.
        effect: Shift the differences to this true effect first, to learn the power against it.
    """
    check_level(level)
    if interval not in intervals:
        raise Invalid(
            f"interval {interval!r} is not known; {did_you_mean(str(interval), intervals)}"
        )
    whole = isinstance(experiments, int) and not isinstance(experiments, bool)
    if not (whole and experiments >= 10):
        raise Invalid(f"experiments must be at least 10, got {experiments!r}")
    many = experiment.replications
    fewest = FIRST_PEEK if peek else 2
    if not (many >= fewest):
        raise Invalid(f"coverage needs {fewest} replications or more here, got {many}")
    values = simulated_differences(experiment.replace(replications=many * experiments), environment)
    truth = float(values.mean())
    if effect is not None:
        values, truth = values - truth + effect, effect
    groups = values.reshape(experiments, many)
    low, high = _bounds(groups, level, interval, peek=peek)
    share = float(np.mean(np.all((low <= truth) & (truth <= high), axis=1)))
    decided = float(np.mean(np.any((low > 0) | (high < 0), axis=1)))
    error = math.sqrt(max(share * (1 - share), 1 / experiments**2) / experiments)
    return Coverage(share, error, level, experiments, many, decided, truth)


def simulated_differences(experiment: Experiment, environment: Any) -> Floats:
    """What the first other policy earned more than the control at the horizon, in each replication."""
    others = [name for name in experiment.policies if name != experiment.control]
    if len(others) <= 0:
        raise Invalid("an experiment with one policy has no effect to cover; give it two")
    runs = simulate(experiment, environment)
    return differences(runs, (others[0], experiment.control), 0)


def _bounds(groups: Floats, level: float, interval: str, *, peek: bool) -> tuple[Floats, Floats]:
    """Lower and upper ends (experiment, look)."""
    if peek:
        return _peeking_bounds(groups, level, interval)
    ends = np.array([intervals[interval](row, level)[:2] for row in groups])
    return ends[:, :1], ends[:, 1:]


def _peeking_bounds(groups: Floats, level: float, interval: str) -> tuple[Floats, Floats]:
    looks = np.arange(FIRST_PEEK, groups.shape[1] + 1)
    means = np.cumsum(groups, axis=1) / np.arange(1, groups.shape[1] + 1)
    if interval == "anytime":
        half = np.array([anytime_half_widths(row, level) for row in groups])
    elif interval == "t":
        many = np.arange(1, groups.shape[1] + 1)
        squares = np.cumsum(groups**2, axis=1) - many * means**2
        with np.errstate(divide="ignore", invalid="ignore"):
            half = stdtrit(many - 1, 0.5 + level / 2) * np.sqrt(squares / (many - 1) / many)
    else:
        raise Invalid('peek=True takes interval="t" or "anytime"')
    middle, half = means[:, looks - 1], half[:, looks - 1]
    return middle - half, middle + half
