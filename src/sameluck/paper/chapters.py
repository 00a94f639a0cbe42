"""Types of the reproduction: a chapter, its simulations, its estimates, the sections that show its result.

The simulations of a chapter are data, so the number of decisions is known in advance, and a cached result can be
compared with its simulations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from sameluck import text_forms
from sameluck.arrays import Floats, Ints
from sameluck.design import Naive
from sameluck.environments.base import Environment
from sameluck.experiment import Experiment
from sameluck.reporting import plots
from sameluck.runs import Runs

Record: TypeAlias = dict[str, Any]  # values that JSON can hold
Cell: TypeAlias = str | float | int | bool | None


class Settings(NamedTuple):
    replications: int = 10_000
    seed: int = 7


class PlannedSimulation(NamedTuple):
    """Arguments of one call of `simulate`."""

    experiment: Experiment
    environment: Environment
    checkpoints: tuple[int, ...]

    @property
    def decisions(self) -> int:
        """Return the number of arms that all policies choose together."""
        experiment = self.experiment
        return experiment.replications * len(experiment.policies) * max(self.checkpoints)

    def describe(self) -> list[object]:
        """Return everything that the runs depend on."""
        return [self.experiment.digest, text_forms.write(self.environment), list(self.checkpoints)]


Simulations: TypeAlias = dict[str, PlannedSimulation]


def with_naive(replay: PlannedSimulation) -> Simulations:
    """Return the simulation under replay, and an independent simulation of the naive design."""
    naive = replay.experiment.replace(design=Naive(), seed=replay.experiment.seed + 1)
    return {"naive": replay._replace(experiment=naive), "replay": replay}


class Chapter(NamedTuple):
    """An example, a theorem or a figure of the paper; users select it by name (`--only`)."""

    name: str
    title: str
    simulations: Callable[[Settings], Simulations]
    analyse: Callable[[Settings, Mapping[str, Runs]], Record]
    sections: Callable[[Chapter, Record], list[Section]]


class ReportTable(NamedTuple):
    """Table of values, which each output format writes in its own way."""

    name: str  # of its files
    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    decimals: int = 2


class ReportFigure(NamedTuple):
    """Figure with its data and its text alternative."""

    name: str  # of its files
    alt: str
    data: ReportTable
    draw: Callable[[], plots.Figure]


class Section(NamedTuple):
    """Section of the report: a title, a text, a table, a figure."""

    title: str
    text: str = ""
    table: ReportTable | None = None
    figure: ReportFigure | None = None
    brief: bool = True  # the terminal prints its table too


def columns(records: Sequence[Record], *fields: str) -> list[tuple[Any, ...]]:
    return [tuple(record[field] for record in records) for field in fields]


def line_figure(
    name: str, lines: Sequence[plots.Line], title: str, quantity: str, **axes: Any
) -> ReportFigure:
    """Return a figure of lines over the horizon; `axes` are options of `plots.draw_lines`."""
    rows = [(line.label, *point) for line in lines for point in zip(*line[1:], strict=True)]
    labels = ", ".join(line.label for line in lines)
    return ReportFigure(
        name,
        f"{title} over the horizon: {labels}",
        ReportTable(name, ("line", "horizon", "value", "standard_error"), rows),
        lambda: plots.draw_lines(lines, title=title, quantity=quantity, **axes),
    )


class Estimate(NamedTuple):
    """Number with its Monte Carlo standard error."""

    value: float
    error: float

    def scaled(self, factor: float) -> Estimate:
        return Estimate(self.value * factor, self.error * abs(factor))

    def minus(self, other: Estimate) -> Estimate:
        """Return the difference of two independent estimates."""
        return Estimate(self.value - other.value, math.hypot(self.error, other.error))

    @property
    def z(self) -> float:
        """Return the distance from 0 in standard errors."""
        if self.error:
            return self.value / self.error
        return math.copysign(math.inf, self.value) if self.value else 0.0


def mean(sample: Floats | Ints) -> Estimate:
    """Return the mean over replications (the first axis)."""
    return Estimate(float(sample.mean()), float(sample.std(ddof=1)) / float(np.sqrt(len(sample))))


def covariance(first: Floats | Ints, second: Floats | Ints) -> Estimate:
    """Return the covariance over replications; its error comes from fourth moments, so heavy tails count."""
    products = (first - first.mean()) * (second - second.mean())
    size = len(products)
    return Estimate(float(products.sum()) / (size - 1), float(products.std() / np.sqrt(size)))


def variance(sample: Floats | Ints) -> Estimate:
    return covariance(sample, sample)


def effect_estimates(runs: Runs) -> Floats:
    """Return the second policy's reward minus the first policy's (replication, checkpoint), the paper's estimator."""
    return np.asarray(runs.rewards[:, 1] - runs.rewards[:, 0])
