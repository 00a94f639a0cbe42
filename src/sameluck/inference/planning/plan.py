"""`plan`: how many replications and users a comparison needs, under each design.

Two of effect, power and replications give the third. The standard deviation of a replication's difference comes from
a pilot: a simulation of a guessed environment or of a prior, or existing `Runs`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from sameluck.arrays import Floats
from sameluck.environments.base import EnvironmentLike
from sameluck.errors import renamed_attributes
from sameluck.experiment import Experiment, require_experiment
from sameluck.frames import Frames
from sameluck.inference.assumptions import (
    ScaleMismatch,
    moving_environment,
    replications_for_skewness,
    scale_mismatch,
)
from sameluck.inference.display import Displayed
from sameluck.inference.effects import differences, has_prior, is_paired
from sameluck.inference.planning.coverage import Coverage, verify_plan
from sameluck.inference.planning.pilots import check_pilot, pilots, spread, with_two_policies
from sameluck.inference.planning.power import PowerAnalysis, power_of
from sameluck.inference.requests import first_pair
from sameluck.runs import Runs
from sameluck.validation import require_number, require_whole

PILOT_REPLICATIONS = 400
_DEFAULT_POWER = 0.8


class DesignPlan(NamedTuple):
    """Replications and users that a design needs at a horizon."""

    design: str
    horizon: int
    sd: float  # of one replication's difference, from the pilot
    sd_error: float  # its Monte Carlo standard error
    effect: float  # to detect
    power: float
    replications: int
    interactions: float  # mean real users per replication
    users: float  # real users in total
    days: float | None  # None without arrivals_per_day


class PowerCurve(NamedTuple):
    label: str
    users: tuple[float, ...]
    power: tuple[float, ...]


@renamed_attributes(
    own="experiment_row",
    asked_power="requested_power",
    possible_effect="max_effect",
    prior="has_prior",
    about_pilot="pilot_notes",
)
@dataclass(frozen=True, eq=False, repr=False)
class Plan(Displayed, Frames):
    """Result of `plan`: `print` it, or read the designs' rows."""

    experiment: Experiment
    level: float
    pilot_effect: float  # the effect in the pilot, for orientation
    pilot_effect_error: float  # its standard error
    pilot_replications: int
    rows: tuple[DesignPlan, ...]  # at the horizon, the experiment's design first
    by_horizon: tuple[DesignPlan, ...]  # the experiment's design at shorter horizons
    # If the true sd is two standard errors above or below the pilot's.
    power_range: tuple[float, float]
    check: Coverage | None  # simulated power and coverage, with verify=True
    requested_power: float | None  # the argument; None if the plan computes the power
    replications_for_skewness: int = 0  # needed by a t interval of the pilot's differences
    has_prior: bool = False  # then replications share an instance, also under the naive design
    max_effect: float | None = None  # largest possible difference of two policies, if known
    scale: ScaleMismatch | None = None  # policies that assume another scale of rewards
    pilot_notes: tuple[str, ...] = ()  # of a live pilot
    moving_environment: str | None = None  # name of a simulated environment whose arms move

    _index = ("design",)
    _presentation = "plans"

    @property
    def experiment_row(self) -> DesignPlan:
        """Row of the experiment's design."""
        return self.rows[0]

    @property
    def replications(self) -> int:
        """Replications under the experiment's design."""
        return self.experiment_row.replications

    @property
    def power(self) -> float:
        """Probability to detect the effect."""
        return self.experiment_row.power

    @property
    def effect(self) -> float:
        """Effect that is detected with this power."""
        return self.experiment_row.effect

    @property
    def interactions(self) -> float:
        """Real users in total, under the experiment's design."""
        return self.experiment_row.users

    @property
    def naive_interactions(self) -> float | None:
        """Real users in total, under the naive design; None if the pilot cannot tell."""
        return next((row.users for row in self.rows if row.design == "naive"), None)

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return the designs' rows as plain records."""
        return [row._asdict() for row in self.rows]

    def power_curves(self, points: int = 60) -> list[PowerCurve]:
        """Return the power over the number of users, for each design at the planned effect."""
        largest = max(row.users for row in self.rows)
        smallest = min(2 * row.interactions for row in self.rows)
        users = np.geomspace(smallest, max(2 * largest, 10 * smallest), points)
        return [self._power_curve(row, users) for row in self.rows]

    def _power_curve(self, row: DesignPlan, users: Floats) -> PowerCurve:
        counts = np.maximum(2, users // row.interactions).astype(int).tolist()
        paired = row.design != "naive" or self.has_prior
        power = partial(power_of, self.effect, row.sd, level=self.level, paired=paired)
        return PowerCurve(row.design, tuple(users.tolist()), tuple(map(power, counts)))


def plan(  # noqa: PLR0913
    experiment: Experiment,
    environment: EnvironmentLike | Runs,
    *,
    effect: float | None = None,
    power: float | None = None,
    replications: int | None = None,
    level: float = 0.95,
    pilot: int = PILOT_REPLICATIONS,
    arrivals_per_day: float | None = None,
    reward_delay_seconds: float = 0.0,
    verify: bool = False,
    horizon: int | None = None,
    makers: Mapping[str, Callable[[int], object]] | None = None,
) -> Plan:
    """Plan a comparison of the control with the first other policy, over the experiment's horizon.

    Args:
        experiment: Policies, arms, horizon and design; its number of replications is not used.
        environment: A guess, a prior, or `Runs` of a pilot.
        effect: The difference in cumulative reward to detect.
        power: The probability to detect it; 0.8 if only an effect, or only a number of replications, is given.
        replications: The affordable number. Of effect, power and replications the missing quantity is computed.
        level: Confidence of the interval, which detects the effect if it does not contain 0.
        pilot: Replications to simulate for the standard deviation.
        arrivals_per_day: Users per day, for the duration.
        reward_delay_seconds: Time from showing an arm to its reward. A policy's next decision waits for it, so a
            replication takes at least horizon x delay; replications run in parallel.
        verify: Simulate the planned experiment 500 times and report its power and coverage.
        horizon: Plan for this horizon instead of the experiment's. With `Runs`, the pilot is then simulated on a copy
            of the measured arms (see `twin`): one replication is enough, for any horizon.
        makers: As for `simulate`.
    """
    require_experiment("plan", experiment)
    if power is None and (effect is None) != (replications is None):
        power = _DEFAULT_POWER
    analysis = PowerAnalysis(effect, power, replications, level)
    analysis.check()
    require_whole("pilot", pilot, 10)
    if arrivals_per_day is not None:
        require_number("arrivals_per_day", arrivals_per_day, above=0)
    require_number("reward_delay_seconds", reward_delay_seconds, at_least=0)
    timing = _Timing(arrivals_per_day, reward_delay_seconds)
    if horizon is not None:
        experiment = experiment.replace(horizon=horizon)
    by_design = pilots(experiment, environment, pilot, makers, copied=horizon is not None)
    design, runs = next(iter(by_design.items()))
    values = differences(runs, first_pair(experiment), -1)
    max_effect = check_pilot(runs, effect)
    planned = partial(_design_plan, analysis=analysis, timing=timing)
    rows = tuple(planned(of_design, label, -1) for label, of_design in by_design.items())
    shorter = range(runs.checkpoints.size - 1)
    by_horizon = tuple(planned(runs, design, index) for index in shorter)
    first, paired = rows[0], is_paired(runs)
    sds = (first.sd + 2 * first.sd_error, max(0.0, first.sd - 2 * first.sd_error))
    low, high = (power_of(first.effect, sd, first.replications, level, paired=paired) for sd in sds)
    check = None
    if verify:
        pair = with_two_policies(experiment, first.replications)
        check = verify_plan(pair, environment, first.effect, level, makers)
    return Plan(
        experiment,
        level,
        float(values.mean()),
        float(values.std(ddof=1)) / math.sqrt(values.size),
        values.size,
        rows,
        by_horizon,
        (low, high),
        check,
        power,
        replications_for_skewness(values),
        has_prior(runs),
        max_effect,
        scale_mismatch(runs),
        runs.notes,
        moving_environment(runs.environment),
    )


class _Timing(NamedTuple):
    arrivals_per_day: float | None
    delay_seconds: float

    def days(self, users: float, horizon: int) -> float | None:
        """Return the days until all users have arrived, at least a replication's decisions in sequence."""
        if self.arrivals_per_day is None:
            return None
        return max(users / self.arrivals_per_day, horizon * self.delay_seconds / 86_400)


def _design_plan(
    runs: Runs, design: str, index: int, analysis: PowerAnalysis, timing: _Timing
) -> DesignPlan:
    is_naive = design == "naive"
    paired = not is_naive or has_prior(runs)
    sd, error = spread(runs, index, paired=paired)
    effect, power, replications = analysis.solve(sd, paired=paired)
    horizon = int(runs.checkpoints[index])
    interactions = 2.0 * horizon if is_naive else float(runs.interactions[:, index].mean())
    users = replications * interactions
    numbers = (sd, error, effect, power, replications, interactions, users)
    return DesignPlan(design, horizon, *numbers, timing.days(users, horizon))
