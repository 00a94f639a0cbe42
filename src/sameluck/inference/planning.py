"""`plan`: how many replications and users a comparison needs, under each design.

Two of effect, power and replications give the third. The standard deviation of a replication's difference comes from
a pilot: a simulation of a guessed environment or of a prior, or `Runs` that exist already.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy

from sameluck import text_forms
from sameluck.arrays import Floats
from sameluck.design import Design, Naive, Replay, TimeCoupled
from sameluck.environments.base import EnvironmentLike
from sameluck.errors import Invalid
from sameluck.experiment import Experiment, require_experiment
from sameluck.inference.coverage import Coverage, coverage
from sameluck.inference.effects import Pair, differences, first_pair, has_prior
from sameluck.intervals import check_level, t_critical
from sameluck.reporting import plots, tables
from sameluck.reporting.wording import percent
from sameluck.runs import Runs
from sameluck.simulation.simulate import simulate
from sameluck.validation import require_number, require_whole

_NUMBERS = ("sd", "effect", "power", "replications", "users each", "users", "days")
_HEADER = ("design", "horizon", *_NUMBERS)

PILOT = 400
LARGE = 25.0  # noncentrality above which the power is integrated numerically
MOST = 10**9
VERIFICATIONS = 500


class DesignPlan(NamedTuple):
    """What one design needs at one horizon."""

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


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """What `plan` returns: `print` it, or read the designs' rows."""

    experiment: Experiment
    level: float
    pilot_effect: float  # the pilot's own effect, for orientation
    pilot_effect_error: float  # its standard error
    pilot_replications: int
    rows: tuple[DesignPlan, ...]  # at the horizon, the experiment's own design first
    by_horizon: tuple[DesignPlan, ...]  # the experiment's own design at shorter horizons
    check: Coverage | None  # simulated power and coverage, with verify=True
    asked_power: float | None  # the argument; None if the plan computes the power

    @property
    def own(self) -> DesignPlan:
        """The row of the experiment's own design."""
        return self.rows[0]

    @property
    def replications(self) -> int:
        """Replications under the experiment's own design."""
        return self.own.replications

    @property
    def power(self) -> float:
        """The probability to detect the effect."""
        return self.own.power

    @property
    def effect(self) -> float:
        """The effect that is detected with that power."""
        return self.own.effect

    @property
    def interactions(self) -> float:
        """Real users in total, under the experiment's own design."""
        return self.own.users

    @property
    def naive_interactions(self) -> float | None:
        """Real users in total, under the naive design; None where the pilot does not show it."""
        return next((row.users for row in self.rows if row.design == "naive"), None)

    def to_dicts(self) -> list[dict[str, Any]]:
        """The designs' rows as plain records."""
        return [row._asdict() for row in self.rows]

    def power_curves(self, points: int = 60) -> list[plots.PowerCurve]:
        """Power over the number of users, for each design at the planned effect."""
        most = max(row.users for row in self.rows)
        least = min(2 * row.interactions for row in self.rows)
        users = np.geomspace(least, max(2 * most, 10 * least), points)
        return [_power_curve(row, users, self.effect, self.level) for row in self.rows]

    def plot(self, path: str | Path | None = None) -> plots.Figure:
        """Power curves as a matplotlib figure, written to `path` if given."""
        figure = plots.draw_power(self.power_curves(), effect=self.effect, power=self.asked_power)
        if path is not None:
            plots.save(figure, path)
        return figure

    def __str__(self) -> str:
        parts = [self.title, tables.text_table(_HEADER, [_cells(row) for row in self.rows])]
        if self.by_horizon:
            shorter = tables.text_table(_HEADER, [_cells(row) for row in self.by_horizon])
            parts.append(f"The same at shorter horizons:\n{shorter}")
        return "\n\n".join([*parts, tables.wrapped(self.verdict)])

    __repr__ = __str__

    @property
    def title(self) -> str:
        """What is planned, on one line."""
        other, control = first_pair(self.experiment)
        return (
            f"{other} against {control} over {self.experiment.horizon:,} periods, {percent(self.level)} intervals; "
            f"sd from {self.pilot_replications:,} pilot replications"
        )

    @property
    def verdict(self) -> str:
        """The plan of the experiment's own design and of the naive design, as sentences."""
        own = self.own
        days = f", {own.days:,.1f} days" if own.days is not None else ""
        sentences = [
            f"An effect of {own.effect:.4g} is found with power {own.power:.2f} by {own.replications:,} "
            f"replications of the {own.design} design: {own.users:,.0f} users{days}."
        ]
        sentences += [self._about_naive(row) for row in self.rows[1:] if row.design == "naive"]
        sentences.append(
            f"The pilot's own effect is {self.pilot_effect:.4g} (standard error {self.pilot_effect_error:.2g})."
        )
        if self.check is not None:
            sentences.append(
                f"Simulated {self.check.experiments} times: power {self.check.power:.2f}, "
                f"coverage {self.check.covered:.3f} (standard error {self.check.error:.3f})."
            )
        return " ".join(sentences)

    def _about_naive(self, row: DesignPlan) -> str:
        if row.replications != self.own.replications:
            return f"The naive design needs {row.users:,.0f}."
        return (
            f"As many replications of the naive design take {row.users:,.0f} users and find an effect of "
            f"{row.effect:.4g} with power {row.power:.2f}."
        )


def _cells(row: DesignPlan) -> list[str]:
    return [
        row.design,
        f"{row.horizon:,}",
        f"{row.sd:.4g} +- {row.sd_error:.2g}",
        f"{row.effect:.4g}",
        f"{row.power:.3f}",
        f"{row.replications:,}",
        f"{row.interactions:,.0f}",
        f"{row.users:,.0f}",
        "-" if row.days is None else f"{row.days:,.1f}",
    ]


def _power_curve(row: DesignPlan, users: Floats, effect: float, level: float) -> plots.PowerCurve:
    replications = np.maximum(2, users // row.interactions).astype(int)
    paired = row.design != "naive"
    powers = [power_of(effect, row.sd, int(m), level, paired=paired) for m in replications]
    return plots.PowerCurve(row.design, tuple(users.tolist()), tuple(powers))


def plan(  # noqa: PLR0913
    experiment: Experiment,
    environment: EnvironmentLike | Runs,
    *,
    effect: float | None = None,
    power: float | None = None,
    replications: int | None = None,
    level: float = 0.95,
    pilot: int = PILOT,
    arrivals_per_day: float | None = None,
    reward_delay_seconds: float = 0.0,
    verify: bool = False,
) -> Plan:
    """Plan a comparison of the control with the first other policy, over the experiment's horizon.

    Args:
        experiment: Policies, arms, horizon and design; its own number of replications is not used.
        environment: A guess, a prior, or `Runs` of a pilot.
        effect: The difference in cumulative reward to detect.
        power: The probability to detect it.
        replications: How many are affordable. Give two of these three.
        level: Confidence of the interval, which detects the effect if it does not contain 0.
        pilot: Replications to simulate for the standard deviation.
        arrivals_per_day: Users per day, for the duration.
        reward_delay_seconds: From showing an arm to knowing its reward. A policy's next decision waits for it, so a
            replication takes at least horizon x delay; replications run in parallel.
        verify: Simulate the planned experiment 500 times and report its power and coverage.
    """
    require_experiment("plan", experiment)
    request = _Request(effect, power, replications, level)
    request.check()
    require_whole("pilot", pilot, 10)
    if arrivals_per_day is not None:
        require_number("arrivals_per_day", arrivals_per_day, above=0)
    require_number("reward_delay_seconds", reward_delay_seconds, at_least=0)
    timing = _Timing(arrivals_per_day, reward_delay_seconds)
    pilots = _pilots(experiment, environment, pilot)
    own_design, own = next(iter(pilots.items()))
    values = differences(own, first_pair(experiment), -1)
    if values.std() == 0:
        raise Invalid(
            "the two policies never differ in the pilot, so there is nothing to plan; try another environment"
        )
    rows = tuple(_row(runs, design, -1, request, timing) for design, runs in pilots.items())
    by_horizon = tuple(
        _row(own, own_design, index, request, timing) for index in range(own.checkpoints.size - 1)
    )
    error = float(values.std(ddof=1)) / math.sqrt(values.size)
    check = _simulated(experiment, environment, rows[0], level) if verify else None
    return Plan(
        experiment, level, float(values.mean()), error, values.size, rows, by_horizon, check, power
    )


class _Request(NamedTuple):
    """Two of effect, power and replications, and the level."""

    effect: float | None
    power: float | None
    replications: int | None
    level: float

    def check(self) -> None:
        if sum(one is None for one in self[:3]) != 1:
            raise Invalid("plan needs two of effect, power and replications; it finds the third")
        check_level(self.level)
        if self.effect is not None:
            require_number("effect", self.effect)
            if self.effect == 0:
                raise Invalid("effect must not be 0: no number of replications shows equality")
        if self.power is not None:
            require_number("power", self.power, below=1)
            if self.power <= 1 - self.level:
                raise Invalid(
                    f"power must be above 1 - level = {1 - self.level:g}, the power without an effect"
                )
        if self.replications is not None:
            require_whole("replications", self.replications, 2, MOST)


class _Timing(NamedTuple):
    arrivals_per_day: float | None
    delay_seconds: float

    def days(self, users: float, horizon: int) -> float | None:
        """The time that users take to arrive, and at least that of a replication's decisions in sequence."""
        if self.arrivals_per_day is None:
            return None
        return max(users / self.arrivals_per_day, horizon * self.delay_seconds / 86_400)


def _pilots(
    experiment: Experiment, environment: EnvironmentLike | Runs, pilot: int
) -> dict[str, Runs]:
    if isinstance(environment, Runs):
        return _pilots_of_runs(experiment, environment)
    designs: list[Design] = [experiment.design, Naive(), TimeCoupled(), Replay()]
    horizons = sorted({max(1, experiment.horizon * k // 8) for k in (1, 2, 4, 8)})
    by_name = {text_forms.write(design, brief=True): design for design in designs}
    two = _with_two_policies(experiment, pilot)
    return {
        name: simulate(two.replace(design=design), environment, checkpoints=horizons)
        for name, design in by_name.items()
    }


def _with_two_policies(experiment: Experiment, replications: int) -> Experiment:
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


def _row(runs: Runs, design: str, index: int, request: _Request, timing: _Timing) -> DesignPlan:
    paired = design != "naive" or has_prior(runs)
    pair = first_pair(runs.experiment)
    of_pair = differences if paired else _independent_differences
    sd, error = _standard_deviation(of_pair(runs, pair, index))
    effect, power, replications = _solve(request, sd, paired=paired)
    horizon = int(runs.checkpoints[index])
    naive = design == "naive"
    interactions = 2.0 * horizon if naive else float(runs.interactions[:, index].mean())
    users = replications * interactions
    days = timing.days(users, horizon)
    solution = (effect, power, replications)
    return DesignPlan(design, horizon, sd, error, *solution, interactions, users, days)


def _independent_differences(runs: Runs, pair: Pair, index: int) -> Floats:
    """Differences between replications next to each other, with the variance that independent policies have."""
    other, control = (runs.rewards[:, runs.policies.index(name), index] for name in pair)
    return (other - other.mean()) - np.roll(control - control.mean(), 1)


def _standard_deviation(values: Floats) -> tuple[float, float]:
    """The standard deviation and its standard error, from the fourth moment."""
    variance = float(values.var(ddof=1))
    if variance == 0:
        return 0.0, 0.0
    fourth = float(np.mean((values - values.mean()) ** 4))
    error = math.sqrt(max(fourth - variance**2, 0.0) / values.size)
    return math.sqrt(variance), error / (2 * math.sqrt(variance))


def _solve(request: _Request, sd: float, *, paired: bool) -> tuple[float, float, int]:
    power, replications, level = request.power or 0.0, request.replications or 0, request.level
    if request.effect is None:
        return _effect_for(power, sd, replications, level, paired=paired), power, replications
    if request.replications is None:
        replications = _replications_for(request.effect, power, sd, level, paired=paired)
    power = power_of(request.effect, sd, replications, level, paired=paired)
    return request.effect, power, replications


def power_of(
    effect: float, sd: float, replications: int, level: float, *, paired: bool = True
) -> float:
    """The probability that the t interval does not contain 0, for normal differences."""
    if sd == 0:
        return 1.0
    freedom = (replications - 1) * (1 if paired else 2)
    centre = abs(effect) * math.sqrt(replications) / sd
    critical = t_critical(freedom, level)
    both_tails = (
        1
        - scipy.special.nctdtr(freedom, centre, critical)
        + scipy.special.nctdtr(freedom, centre, -critical)
    )
    if math.isfinite(both_tails) and centre < LARGE:
        return float(both_tails)
    return _power_by_integration(freedom, centre, critical)


def _power_by_integration(freedom: float, centre: float, critical: float) -> float:
    # SciPy's noncentral t fails for a large noncentrality: average the normal law over quantiles of the estimated sd.
    probabilities = (np.arange(20_000) + 0.5) / 20_000
    sds = np.sqrt(2 * scipy.special.gammaincinv(freedom / 2, probabilities) / freedom)
    tails = (scipy.special.ndtr(sign * centre - critical * sds) for sign in (1, -1))
    return float(np.mean(sum(tails)))


def _replications_for(effect: float, power: float, sd: float, level: float, *, paired: bool) -> int:
    low, high = 1, 2
    while power_of(effect, sd, high, level, paired=paired) < power:
        low, high = high, high * 2
        if high > MOST:
            raise Invalid(
                f"effect {effect:g} is too small for an sd of {sd:g}: it needs more than {MOST:,} replications"
            )
    while high - low > 1:
        middle = (low + high) // 2
        enough = power_of(effect, sd, middle, level, paired=paired) >= power
        low, high = (low, middle) if enough else (middle, high)
    return high


def _effect_for(power: float, sd: float, replications: int, level: float, *, paired: bool) -> float:
    low, high = 0.0, sd
    while power_of(high, sd, replications, level, paired=paired) < power:
        low, high = high, high * 2
    for _ in range(60):
        middle = (low + high) / 2
        enough = power_of(middle, sd, replications, level, paired=paired) >= power
        low, high = (low, middle) if enough else (middle, high)
    return high


def _simulated(
    experiment: Experiment, environment: EnvironmentLike | Runs, row: DesignPlan, level: float
) -> Coverage:
    if isinstance(environment, Runs):
        raise Invalid("verify=True needs an environment to simulate, not runs")
    if row.replications * VERIFICATIONS > 5_000_000:
        raise Invalid(
            f"verify=True would simulate {VERIFICATIONS} x {row.replications:,} replications; plan without it"
        )
    planned = _with_two_policies(experiment, row.replications)
    return coverage(planned, environment, level=level, experiments=VERIFICATIONS, effect=row.effect)
