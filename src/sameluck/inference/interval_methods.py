"""Interval methods: all that depends on the choice of an interval for a comparison.

| name        | covers at its level                                | when to use it                        |
|-------------|----------------------------------------------------|---------------------------------------|
| `t`         | at a number of replications planned beforehand     | simulation; the paper's interval      |
| `anytime`   | at all numbers of replications at once             | interim looks at a live experiment    |
| `median`    | the median instead of the mean, exactly            | where rare replications rule the mean |
| `bootstrap` | as `t`, but measured worse with few replications   | a second opinion at 100 or more       |
| `twin`      | as `t`, with the spread seen on a copy of the arms | one replication, or very few          |

To add a method, write a subclass of `IntervalMethod` and list it in `INTERVALS`. Every other module asks the
method's attributes and never compares its name.
"""

from __future__ import annotations

import math

import numpy as np
import scipy

from sameluck.arrays import Floats
from sameluck.inference.simultaneous import (
    max_t_intervals,
    one_sided_level,
    one_sided_max_t,
    t_p_values,
)
from sameluck.intervals import (
    Interval,
    anytime_half_width,
    anytime_half_widths,
    anytime_interval,
    bootstrap_interval,
    bootstrap_intervals,
    median_interval,
    standard_error,
    t_interval,
    welch_interval,
)


class IntervalMethod:
    """Interval of an effect, computed from one difference per replication."""

    name: str  # as an argument, on the command line and over HTTP
    needs: int = 2  # replications
    is_default: bool = False
    is_of_the_mean: bool = True
    valid_at_every_look: bool = False
    is_fast: bool = True  # enough for a web request
    copies_arms: bool = False  # simulates the policies on a copy of the arms
    has_joint_intervals: bool = False  # sharper than Bonferroni's method
    has_two_sample_interval: bool = False  # other methods take differences of independent policies
    has_half_widths_at_looks: bool = False

    @property
    def adjective(self) -> str:
        """Word before "interval" in tables; empty for the default method."""
        return "" if self.is_default else f"{self.name} "

    def centre(self, values: Floats) -> float:
        return float(values.mean() if self.is_of_the_mean else np.median(values))

    def interval(self, values: Floats, level: float) -> Interval:
        """Return the interval of one column of differences.

        It contains `centre(values)` and grows with the level. Its p-value is at most 1 - level exactly if it excludes
        zero. Values that are all equal say nothing about their spread and give `UNKNOWN`.
        """
        raise NotImplementedError

    def intervals(self, columns: Floats, level: float) -> list[Interval]:
        """Return the interval of each column alone; axes (replication, comparison)."""
        # Contiguous columns sum in the order of a single column, so the bits are the same.
        return [self.interval(column, level) for column in np.ascontiguousarray(columns.T)]

    def two_sample_interval(self, values: Floats, control_values: Floats, level: float) -> Interval:
        """Return the interval of the difference between the means of two independent samples."""
        raise NotImplementedError

    def joint_intervals(self, columns: Floats, level: float) -> list[Interval]:
        """Return intervals that hold together, with adjusted p-values."""
        raise NotImplementedError

    def p_values(self, columns: Floats) -> list[float]:
        raise NotImplementedError

    def policy_interval(self, values: Floats, level: float) -> Interval:
        return t_interval(values, level)

    def one_sided_half_widths(self, columns: Floats, level: float) -> Floats:
        """Return half-widths for one-sided bounds of the columns' means that hold together."""
        return one_sided_max_t(columns, level) * standard_error(columns)

    def half_widths_at_looks(self, groups: Floats, level: float) -> Floats:
        """Return the half-width after each replication; axes (experiment, replication)."""
        raise NotImplementedError


class Student(IntervalMethod):
    """Student's t, as in the paper; Welch's for independent samples, max-t for several together."""

    name = "t"
    is_default = True
    has_joint_intervals = True
    has_two_sample_interval = True
    has_half_widths_at_looks = True
    interval = staticmethod(t_interval)
    two_sample_interval = staticmethod(welch_interval)
    joint_intervals = staticmethod(max_t_intervals)
    p_values = staticmethod(t_p_values)

    def half_widths_at_looks(self, groups: Floats, level: float) -> Floats:
        counts = np.arange(1, groups.shape[1] + 1)
        means = np.cumsum(groups, axis=1) / counts
        squares = np.cumsum(groups**2, axis=1) - counts * means**2
        with np.errstate(divide="ignore", invalid="ignore"):
            errors = np.sqrt(squares / (counts - 1) / counts)
            half: Floats = scipy.special.stdtrit(counts - 1, 0.5 + level / 2) * errors
        # Equal differences say nothing about their spread; rounding would leave a tiny one.
        half[np.cumsum(groups != groups[:, :1], axis=1) == 0] = math.inf
        return half


class Bootstrap(IntervalMethod):
    """Bias-corrected and accelerated bootstrap (Efron, 1987), on the same resamples for all columns."""

    name = "bootstrap"
    is_fast = False
    interval = staticmethod(bootstrap_interval)
    intervals = staticmethod(bootstrap_intervals)


class Anytime(IntervalMethod):
    """Confidence sequence: valid at every look while replications complete."""

    name = "anytime"
    valid_at_every_look = True
    has_half_widths_at_looks = True
    interval = staticmethod(anytime_interval)
    policy_interval = staticmethod(anytime_interval)

    def one_sided_half_widths(self, columns: Floats, level: float) -> Floats:
        column_level = one_sided_level(level, columns.shape[1])
        return np.array([anytime_half_width(column, column_level) for column in columns.T])

    def half_widths_at_looks(self, groups: Floats, level: float) -> Floats:
        return np.array([anytime_half_widths(row, level) for row in groups])


class Median(IntervalMethod):
    """Median difference between two order statistics, whatever the distribution."""

    name = "median"
    is_of_the_mean = False
    interval = staticmethod(median_interval)


class TwinSpread(IntervalMethod):
    """Observed mean with the spread of the policies on a copy of the arms (`sameluck.inference.twins`)."""

    name = "twin"
    needs = 1
    is_fast = False
    copies_arms = True


STUDENT, ANYTIME, MEDIAN, TWIN = Student(), Anytime(), Median(), TwinSpread()

INTERVALS: dict[str, IntervalMethod] = {
    method.name: method for method in (STUDENT, ANYTIME, MEDIAN, Bootstrap(), TWIN)
}


def default_interval(*, interim: bool) -> str:
    """Return the interval of a comparison that names none; `interim`: more replications are planned."""
    return ANYTIME.name if interim else STUDENT.name
