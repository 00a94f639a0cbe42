"""What `plan` returns: the needs of each design, as a table, sentences and power curves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sameluck.arrays import Floats
from sameluck.experiment import Experiment
from sameluck.frames import Frames
from sameluck.inference.display import reporting
from sameluck.inference.planning.coverage import Coverage
from sameluck.inference.planning.power import power_of
from sameluck.inference.requests import first_pair
from sameluck.inference.scale import ScaleMismatch
from sameluck.inference.unseen import unseen_share
from sameluck.reporting import plots, tables
from sameluck.wording import percent

_NUMBERS = ("sd", "effect", "power", "replications", "users each", "users", "days")
_HEADER = ("design", "horizon", *_NUMBERS)


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
class Plan(Frames):
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
    replications_for_skewness: int = (
        0  # that a t interval of the pilot's differences needs; 0 if they are not skewed
    )
    prior: bool = (
        False  # the policies of a replication share an instance, also under the naive design
    )
    possible_effect: float | None = None  # that two policies can have at most; None if not known
    scale: ScaleMismatch | None = None  # policies that assume another scale of rewards
    about_pilot: tuple[str, ...] = ()  # notes on a live pilot
    moving_environment: str | None = None

    _index = ("design",)

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
        return [self._power_curve(row, users) for row in self.rows]

    def _power_curve(self, row: DesignPlan, users: Floats) -> plots.PowerCurve:
        replications = np.maximum(2, users // row.interactions).astype(int)
        powers = [self._power(row, row.sd, int(count)) for count in replications]
        return plots.PowerCurve(row.design, tuple(users.tolist()), tuple(powers))

    def _power(self, row: DesignPlan, sd: float, replications: int) -> float:
        paired = row.design != "naive" or self.prior
        return power_of(self.effect, sd, replications, self.level, paired=paired)

    def plot(self, path: str | Path | None = None, *, ax: plots.Axes | None = None) -> plots.Figure:
        """Power curves as a matplotlib figure, written to `path` if given, or drawn on `ax`."""
        curves = self.power_curves()
        figure = plots.draw_power(curves, effect=self.effect, power=self.asked_power, ax=ax)
        return plots.saved(figure, path)

    def __str__(self) -> str:
        parts = [
            tables.wrapped(self.title),
            tables.text_table(_HEADER, [_cells(row) for row in self.rows], index=2),
        ]
        if self.by_horizon:
            shorter = tables.text_table(_HEADER, [_cells(row) for row in self.by_horizon], index=2)
            parts.append(f"The same at shorter horizons:\n{shorter}")
        return "\n\n".join([*parts, tables.wrapped(self.verdict)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = [_cells(row) for row in (*self.rows, *self.by_horizon)]
        return tables.notebook(self.title, _HEADER, rows, [self.verdict])

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
        low, high = self.power_range
        sentences = [
            f"An effect of {own.effect:.4g} is found with power {own.power:.2f} ({low:.2f} to {high:.2f}, given the "
            f"pilot's error) by {own.replications:,} replications of the {own.design} design: {own.users:,.0f} "
            f"users{days}."
        ]
        sentences += [self._about_naive(row) for row in self.rows[1:] if row.design == "naive"]
        sentences.append(
            f"The pilot's own effect is {self.pilot_effect:.4g} (standard error {self.pilot_effect_error:.2g}). "
            f"Up to {100 * unseen_share(self.pilot_replications, self.level):.2g}% of replications may be unlike any "
            f"of its {self.pilot_replications:,}, and add to the spread."
        )
        if self.check is not None:
            sentences.append(
                f"Simulated {self.check.experiments} times: power {self.check.power:.2f}, "
                f"coverage {self.check.covered:.3f} (standard error {self.check.error:.3f})."
            )
        return " ".join([*sentences, *(f"Caution: {caution}" for caution in self.cautions)])

    @property
    def power_range(self) -> tuple[float, float]:
        """The power if the true standard deviation is two standard errors above or below the pilot's."""
        own = self.own
        sds = (own.sd + 2 * own.sd_error, max(0.0, own.sd - 2 * own.sd_error))
        low, high = (self._power(own, sd, own.replications) for sd in sds)
        return low, high

    @property
    def cautions(self) -> tuple[str, ...]:
        """Sentences to read before relying on the plan."""
        wording = reporting("cautions")
        movement = wording.movement_caution(self.moving_environment)
        scale = wording.scale_caution(self.scale)
        return (*self.about_pilot, *movement, *self._impossible(), *self._skewed(), *scale)

    def _impossible(self) -> Iterator[str]:
        if self.possible_effect is not None and abs(self.effect) > self.possible_effect:
            yield (
                f"two policies can differ by at most {self.possible_effect:.4g} here, so {self.replications:,} "
                "replications do not have this power for any effect. Plan more."
            )

    def _skewed(self) -> Iterator[str]:
        if self.replications_for_skewness <= self.replications:
            return
        yield (
            f"the pilot's differences are skewed, so rare replications weigh heavily: power and interval of "
            f"{self.replications:,} replications are only approximate. Plan about "
            f"{self.replications_for_skewness:,}, or simulate the plan with verify=True."
        )

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
