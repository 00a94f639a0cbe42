"""How many replications, and so how many users, a comparison needs, under each design.

Two of effect, power and replications give the third. The spread of a replication's difference comes from a pilot:
a simulation of a guessed environment or of a prior, or `Runs` that are already there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaincinv, nctdtr, ndtr, stdtrit

from sameluck import text_forms
from sameluck.arrays import Floats
from sameluck.design import Design, Naive, Replay, TimeCoupled
from sameluck.errors import Invalid
from sameluck.experiment import Experiment
from sameluck.inference.coverage import Coverage, coverage
from sameluck.inference.effects import differences, has_prior
from sameluck.reporting import plots, tables
from sameluck.runs import Runs
from sameluck.simulation.simulate import simulate
from sameluck.validation import require_number

_HEADER = (
    "design",
    "horizon",
    "sd",
    "effect",
    "power",
    "replications",
    "users each",
    "users",
    "days",
)

PILOT = 400
LARGE = 25.0  # noncentrality beyond which the law is integrated
MOST = 10**9


class DesignPlan(NamedTuple):
    """What one design needs at one horizon."""

    design: str
    horizon: int
    sd: float  # of one replication's difference, from the pilot
    sd_error: float  # its Monte Carlo standard error
    effect: float  # that is detected
    power: float
    replications: int
    interactions: float  # real users a replication
    users: float  # in all
    days: float | None  # wall-clock, where arrivals are known


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """What `plan` returns: `print` it, or read the designs' rows."""

    experiment: Experiment
    level: float
    pilot_effect: float  # what the pilot itself showed, for orientation
    pilot_effect_error: float
    pilot_replications: int
    rows: tuple[DesignPlan, ...]  # at the horizon, the experiment's own design first
    by_horizon: tuple[DesignPlan, ...]  # the experiment's own design at shorter horizons
    check: Coverage | None  # realised power and coverage, if verified
    asked_power: float | None  # None if power was what was asked for

    @property
    def own(self) -> DesignPlan:
        """The row of the experiment's own design."""
        return self.rows[0]

    @property
    def replications(self) -> int:
        """What the experiment's own design needs."""
        return self.own.replications

    @property
    def power(self) -> float:
        """The chance to find the effect."""
        return self.own.power

    @property
    def effect(self) -> float:
        """The effect that is found with that power."""
        return self.own.effect

    @property
    def interactions(self) -> float:
        """Real users in all, under the experiment's own design."""
        return self.own.users

    @property
    def naive_interactions(self) -> float | None:
        """Real users in all, under the naive design; None where the pilot cannot tell."""
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

    def plot(self, path: str | Path | None = None) -> Any:
        """Power curves as a matplotlib figure, written to `path` if given."""
        figure = plots.draw_power(self.power_curves(), effect=self.effect, power=self.asked_power)
        if path is not None:
            plots.save(figure, path)
        return figure

    def __str__(self) -> str:
        parts = [self.title, tables.text_table(_HEADER, [_cells(row) for row in self.rows])]
        if self.by_horizon:
            moves = tables.text_table(_HEADER, [_cells(row) for row in self.by_horizon])
            parts.append(f"The same at shorter horizons:\n{moves}")
        return "\n\n".join([*parts, tables.wrapped(self.verdict)])

    __repr__ = __str__

    @property
    def title(self) -> str:
        """What is planned, on one line."""
        control, other = _two(self.experiment)
        return (
            f"{other} against {control} over {self.experiment.horizon:,} periods, {100 * self.level:g}% intervals; "
            f"spread from {self.pilot_replications:,} pilot replications"
        )

    def _about_naive(self, row: DesignPlan) -> str:
        if row.replications != self.own.replications:
            return f"The naive design needs {row.users:,.0f}."
        return (
            f"As many replications of the naive design take {row.users:,.0f} users and find an effect of "
            f"{row.effect:.4g} with power {row.power:.2f}."
        )

    @property
    def verdict(self) -> str:
        """The answer in words."""
        own = self.own
        said = [
            f"An effect of {own.effect:.4g} is found with power {own.power:.2f} by {own.replications:,} "
            f"replications of the {own.design} design: {own.users:,.0f} users"
            + (f", {own.days:,.1f} days." if own.days is not None else "."),
        ]
        said += [self._about_naive(row) for row in self.rows[1:] if row.design == "naive"]
        said.append(
            f"The pilot's own effect is {self.pilot_effect:.4g} (standard error {self.pilot_effect_error:.2g})."
        )
        if self.check is not None:
            said.append(
                f"Simulated {self.check.experiments} times: power {self.check.power:.2f}, "
                f"coverage {self.check.covered:.3f} (standard error {self.check.error:.3f})."
            )
        return " ".join(said)


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
    many = np.maximum(2, users // row.interactions).astype(int)
    paired = row.design != "naive"
    powers = [power_of(effect, row.sd, int(m), level, paired=paired) for m in many]
    return plots.PowerCurve(row.design, tuple(float(u) for u in users), tuple(powers))


def plan(  # noqa: PLR0913
    experiment: Experiment,
    environment: Any,
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
        environment: A guess, a prior over guesses, or `Runs` of a pilot.
        effect: The difference in cumulative reward to detect.
        power: The chance to detect it.
        replications: How many are affordable. Give two of these three.
        level: Confidence of the interval that must leave out zero.
        pilot: Replications to simulate for the spread.
        arrivals_per_day: Users a day, for the wall-clock time.
        reward_delay_seconds: From showing an arm to knowing its reward. A policy's next decision waits for it, so a
            replication takes at least horizon x delay; replications run side by side.
        verify: Simulate the planned experiment 500 times and report realised power and coverage.
    """
    _check_request(effect, power, replications, level, pilot)
    if arrivals_per_day is not None:
        require_number("arrivals_per_day", arrivals_per_day, above=0)
    require_number("reward_delay_seconds", reward_delay_seconds, at_least=0)
    question = _Question(effect, power, replications, level)
    pace = _Pace(arrivals_per_day, reward_delay_seconds)
    pilots = _pilots(experiment, environment, pilot)
    own = next(iter(pilots.values()))
    if not (_values(own, -1).std() > 0):
        raise Invalid(
            "the two policies never differ in the pilot, so there is nothing to plan; try another environment"
        )
    rows = tuple(_row(one, name, -1, question, pace) for name, one in pilots.items())
    places = range(own.checkpoints.size - 1)
    shorter = tuple(_row(own, rows[0].design, place, question, pace) for place in places)
    shown = _values(own, -1)
    check = _verified(experiment, environment, rows[0], level) if verify else None
    error = float(shown.std(ddof=1)) / math.sqrt(shown.size)
    return Plan(
        experiment, level, float(shown.mean()), error, shown.size, rows, shorter, check, power
    )


class _Question(NamedTuple):
    effect: float | None
    power: float | None
    replications: int | None
    level: float


class _Pace(NamedTuple):
    arrivals_per_day: float | None
    delay_seconds: float

    def days(self, users: float, horizon: int) -> float | None:
        """Users must arrive, and the decisions of a replication must wait for one another."""
        if self.arrivals_per_day is None:
            return None
        return max(users / self.arrivals_per_day, horizon * self.delay_seconds / 86_400)


def _check_request(
    effect: float | None, power: float | None, replications: int | None, level: float, pilot: int
) -> None:
    given = [value is not None for value in (effect, power, replications)]
    if sum(given) != 2:
        raise Invalid("plan needs two of effect, power and replications; it finds the third")
    require_number("level", level, above=0, at_most=1)
    if not (level < 1):
        raise Invalid(f"level must be below 1, got {level!r}: no interval is certain")
    if effect is not None:
        require_number("effect", effect)
        if effect == 0:
            raise Invalid(
                "effect must not be 0: no number of replications shows that nothing differs"
            )
    if power is not None:
        require_number("power", power, above=0, at_most=1)
        if not (power < 1):
            raise Invalid("power must be below 1: no number of replications makes it certain")
        if not (power > 1 - level):
            raise Invalid(
                f"power must be above 1 - level = {1 - level:g}, which chance alone gives"
            )
    if replications is not None:
        require_number("replications", replications, at_least=2, at_most=MOST)
        if not isinstance(replications, int):
            raise Invalid(f"replications must be a whole number, got {replications!r}")
    require_number("pilot", pilot, at_least=10)
    if not isinstance(pilot, int):
        raise Invalid(f"pilot must be a whole number, got {pilot!r}")


def _pilots(experiment: Experiment, environment: Any, pilot: int) -> dict[str, Runs]:
    if isinstance(environment, Runs):
        if not (environment.replications >= 10):
            raise Invalid(
                f"a pilot needs at least 10 replications to show a spread, got {environment.replications}"
            )
        return _pilots_of_runs(experiment, environment)
    designs: list[Design] = [experiment.design, Naive(), TimeCoupled(), Replay()]
    horizons = sorted({max(1, experiment.horizon * k // 8) for k in (1, 2, 4, 8)})
    two = {name: experiment.policies[name] for name in _two(experiment)}
    # By name: two designs without parameters are equal as tuples.
    by_name = {text_forms.write(design, brief=True): design for design in designs}
    return {
        name: simulate(
            experiment.replace(policies=two, replications=pilot, design=design),
            environment,
            checkpoints=horizons,
        )
        for name, design in by_name.items()
    }


def _pilots_of_runs(experiment: Experiment, runs: Runs) -> dict[str, Runs]:
    for name in _two(experiment):
        ours = experiment.policies[name]
        theirs = runs.experiment.policies.get(name)
        if theirs is None or text_forms.write(theirs) != text_forms.write(ours):
            raise Invalid(
                f"the pilot did not play {name!r} as {text_forms.write(ours)}; use runs of this experiment"
            )
    if runs.checkpoints[-1] != experiment.horizon:
        raise Invalid(
            f"the pilot reports up to {runs.checkpoints[-1]:,} periods, the experiment has {experiment.horizon:,}"
        )
    own = text_forms.write(runs.experiment.design, brief=True)
    prior = not isinstance(runs.experiment.design, Naive) and has_prior(runs)
    # On a prior, what independent runs on the same bandit would vary by cannot be told from coupled ones.
    return {own: runs} if prior else {own: runs, "naive": runs}


def _two(experiment: Experiment) -> tuple[str, str]:
    others = [name for name in experiment.policies if name != experiment.control]
    if len(others) <= 0:
        raise Invalid("plan compares two policies; the experiment has one")
    return experiment.control, others[0]


def _values(runs: Runs, place: int) -> Floats:
    control, other = _two(runs.experiment)
    return differences(runs, (other, control), place)


def _row(runs: Runs, design: str, place: int, question: _Question, pace: _Pace) -> DesignPlan:
    paired = design != "naive" or has_prior(runs)
    values = _values(runs, place) if paired else _independent(runs, place)
    sd, error = _spread(values)
    effect, power, replications = _solve(question, sd, paired=paired)
    horizon = int(runs.checkpoints[place])
    each = 2.0 * horizon if design == "naive" else float(runs.interactions[:, place].mean())
    users = replications * each
    days = pace.days(users, horizon)
    return DesignPlan(design, horizon, sd, error, effect, power, replications, each, users, days)


def _independent(runs: Runs, place: int) -> Floats:
    """Differences with the variance that independent policies have, whatever the pilot shared."""
    control, other = (
        runs.rewards[:, runs.policies.index(name), place] for name in _two(runs.experiment)
    )
    return (other - other.mean()) - np.roll(control - control.mean(), 1)


def _spread(values: Floats) -> tuple[float, float]:
    """The standard deviation and its Monte Carlo error, from the fourth moment."""
    deviations = values - values.mean()
    variance = float(values.var(ddof=1))
    if variance == 0:
        return 0.0, 0.0
    fourth = float(np.mean(deviations**4))
    error = math.sqrt(max(fourth - variance**2, 0.0) / values.size)
    return math.sqrt(variance), error / (2 * math.sqrt(variance))


def _solve(question: _Question, sd: float, *, paired: bool) -> tuple[float, float, int]:
    level = question.level
    if question.power is None:
        effect, many = float(question.effect or 0), int(question.replications or 0)
        return effect, power_of(effect, sd, many, level, paired=paired), many
    if question.replications is None:
        effect = float(question.effect or 0)
        many = _replications_for(effect, question.power, sd, level, paired=paired)
        return effect, power_of(effect, sd, many, level, paired=paired), many
    many = int(question.replications)
    return _effect_for(question.power, sd, many, level, paired=paired), question.power, many


def power_of(
    effect: float, sd: float, replications: int, level: float, *, paired: bool = True
) -> float:
    """The chance that the t interval leaves out zero on the effect's side or the other, for normal differences."""
    if sd == 0:
        return 1.0
    freedom = (replications - 1) * (1 if paired else 2)
    centre = abs(effect) * math.sqrt(replications) / sd
    critical = float(stdtrit(freedom, 0.5 + level / 2))
    both_tails = 1 - nctdtr(freedom, centre, critical) + nctdtr(freedom, centre, -critical)
    if math.isfinite(both_tails) and centre < LARGE:
        return float(both_tails)
    return _power_by_integration(freedom, centre, critical)


def _power_by_integration(freedom: float, centre: float, critical: float) -> float:
    # The series behind the noncentral law breaks down far out: average the normal law over the spread's quantiles.
    chances = (np.arange(20_000) + 0.5) / 20_000
    spreads = np.sqrt(2 * gammaincinv(freedom / 2, chances) / freedom)
    return float(np.mean(ndtr(centre - critical * spreads) + ndtr(-centre - critical * spreads)))


def _replications_for(effect: float, power: float, sd: float, level: float, *, paired: bool) -> int:
    low, high = 1, 2
    while power_of(effect, sd, high, level, paired=paired) < power:
        low, high = high, high * 2
        if high > MOST:
            raise Invalid(
                f"effect {effect:g} is too small for a spread of {sd:g}: more than {MOST:,} replications"
            )
    while high - low > 1:
        middle = (low + high) // 2
        enough = power_of(effect, sd, middle, level, paired=paired) >= power
        low, high = (low, middle) if enough else (middle, high)
    return high


def _effect_for(power: float, sd: float, replications: int, level: float, *, paired: bool) -> float:
    low, high = 0.0, sd if sd else 0.0
    while power_of(high, sd, replications, level, paired=paired) < power:
        low, high = high, high * 2
    for _ in range(60):
        middle = (low + high) / 2
        enough = power_of(middle, sd, replications, level, paired=paired) >= power
        low, high = (low, middle) if enough else (middle, high)
    return high


def _verified(experiment: Experiment, environment: Any, row: DesignPlan, level: float) -> Coverage:
    if isinstance(environment, Runs):
        raise Invalid("verify=True needs an environment to simulate, not runs")
    if not (row.replications * 500 <= 5_000_000):
        raise Invalid(
            f"verify=True would simulate 500 x {row.replications:,} replications; plan without it"
        )
    two: Mapping[str, Any] = {name: experiment.policies[name] for name in _two(experiment)}
    planned = experiment.replace(policies=two, replications=row.replications)
    return coverage(planned, environment, level=level, experiments=500, effect=row.effect)
