"""The types of the reproduction: a part, its simulations, its estimates, the sections that show its result.

The simulations of a part are data: the number of decisions is known in advance, and a cached result can be compared
with the simulations that it came from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from sameluck import text_forms
from sameluck.arrays import Floats, Ints
from sameluck.environments.base import Environment
from sameluck.experiment import Experiment
from sameluck.reporting import plots
from sameluck.runs import Runs

Record: TypeAlias = dict[str, Any]  # values that JSON can hold
Cell: TypeAlias = str | float | int | bool | None


class Settings(NamedTuple):
    """The options of a run."""

    replications: int = 10_000
    seed: int = 7


class Simulation(NamedTuple):
    """The arguments of one call of `simulate`."""

    experiment: Experiment
    environment: Environment
    checkpoints: tuple[int, ...]

    @property
    def decisions(self) -> int:
        """How many arms the policies choose in all."""
        experiment = self.experiment
        return experiment.replications * len(experiment.policies) * max(self.checkpoints)

    def describe(self) -> list[object]:
        """Everything that its runs depend on."""
        return [self.experiment.digest, text_forms.write(self.environment), list(self.checkpoints)]


Simulations: TypeAlias = dict[str, Simulation]


def no_simulations(settings: Settings) -> Simulations:  # noqa: ARG001
    """For a part that needs none."""
    return {}


class Part(NamedTuple):
    """One example, one theorem or one figure of the paper."""

    name: str
    title: str
    simulations: Callable[[Settings], Simulations]
    analyse: Callable[[Settings, Mapping[str, Runs]], Record]
    sections: Callable[[Part, Record], list[Section]]


class Table(NamedTuple):
    """A table of values; each form formats them in its own way."""

    name: str  # of its files
    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    decimals: int = 2


class ReportFigure(NamedTuple):
    """A figure, its data and its text alternative."""

    name: str  # of its files
    alt: str
    data: Table
    draw: Callable[[], plots.Figure]


class Section(NamedTuple):
    """A section of the report: a title, a sentence, a table, a figure."""

    title: str
    text: str = ""
    table: Table | None = None
    figure: ReportFigure | None = None
    brief: bool = True  # whether the terminal prints its table too


def line_figure(
    name: str,
    lines: Sequence[plots.Line],
    title: str,
    quantity: str,
    *,
    logarithmic: bool = False,
    limit: float | None = None,
) -> ReportFigure:
    """Lines over the horizon."""
    rows = [
        (line.label, horizon, value, error)
        for line in lines
        for horizon, value, error in zip(line.horizons, line.values, line.errors, strict=True)
    ]
    labels = ", ".join(line.label for line in lines)
    return ReportFigure(
        name,
        f"{title} over the horizon: {labels}",
        Table(name, ("line", "horizon", "value", "standard_error"), rows),
        lambda: plots.draw_lines(
            lines, title=title, quantity=quantity, logarithmic=logarithmic, limit=limit
        ),
    )


class Estimate(NamedTuple):
    """A number and its Monte Carlo standard error."""

    value: float
    error: float

    def scaled(self, factor: float) -> Estimate:
        """The same estimate in another unit."""
        return Estimate(self.value * factor, self.error * abs(factor))


def mean(sample: Floats | Ints) -> Estimate:
    """The mean over replications (the first axis)."""
    return Estimate(float(sample.mean()), float(sample.std(ddof=1)) / float(np.sqrt(len(sample))))


def variance(sample: Floats | Ints) -> Estimate:
    """The variance over replications; its error comes from the fourth moment, so heavy tails count."""
    centred = np.asarray(sample, float) - sample.mean()
    value = float(sample.var(ddof=1))
    spread = max(float((centred**4).mean()) - value**2, 0.0)
    return Estimate(value, float(np.sqrt(spread / len(sample))))


def effect_estimates(runs: Runs) -> Floats:
    """The reward of the second policy minus that of the first (replication, checkpoint): the paper's estimator."""
    return np.asarray(runs.rewards[:, 1] - runs.rewards[:, 0])


def checkpoint_index(runs: Runs, horizon: int) -> int:
    """The index of a horizon among the checkpoints."""
    return int(np.searchsorted(runs.checkpoints, horizon))
