"""The types of the reproduction: a part, its simulations, its estimates, the sections that show its result.

The simulations of a part are data: the number of decisions is known in advance, and a cached result can be compared
with the simulations that it came from.
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


def with_naive(replay: Simulation) -> Simulations:
    """A simulation under replay, and an independent one of the naive design."""
    naive = replay.experiment.replace(design=Naive(), seed=replay.experiment.seed + 1)
    return {"naive": replay._replace(experiment=naive), "replay": replay}


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


def columns(records: Sequence[Record], *fields: str) -> list[tuple[Any, ...]]:
    """The values of some fields in all records."""
    return [tuple(one[field] for one in records) for field in fields]


def line_figure(
    name: str, lines: Sequence[plots.Line], title: str, quantity: str, **axes: Any
) -> ReportFigure:
    """Lines over the horizon; `axes` are options of `plots.draw_lines`."""
    rows = [(line.label, *point) for line in lines for point in zip(*line[1:], strict=True)]
    labels = ", ".join(line.label for line in lines)
    return ReportFigure(
        name,
        f"{title} over the horizon: {labels}",
        Table(name, ("line", "horizon", "value", "standard_error"), rows),
        lambda: plots.draw_lines(lines, title=title, quantity=quantity, **axes),
    )


class Estimate(NamedTuple):
    """A number and its Monte Carlo standard error."""

    value: float
    error: float

    def scaled(self, factor: float) -> Estimate:
        """The same estimate in another unit."""
        return Estimate(self.value * factor, self.error * abs(factor))

    def minus(self, other: Estimate) -> Estimate:
        """The difference of two independent estimates."""
        return Estimate(self.value - other.value, math.hypot(self.error, other.error))

    @property
    def z(self) -> float:
        """How many standard errors it is from 0."""
        if self.error:
            return self.value / self.error
        return math.copysign(math.inf, self.value) if self.value else 0.0


def mean(sample: Floats | Ints) -> Estimate:
    """The mean over replications (the first axis)."""
    return Estimate(float(sample.mean()), float(sample.std(ddof=1)) / float(np.sqrt(len(sample))))


def covariance(one: Floats | Ints, other: Floats | Ints) -> Estimate:
    """The covariance over replications; its error comes from the fourth moments, so heavy tails count."""
    products = (one - one.mean()) * (other - other.mean())
    size = len(products)
    return Estimate(float(products.sum()) / (size - 1), float(products.std() / np.sqrt(size)))


def variance(sample: Floats | Ints) -> Estimate:
    """The variance over replications."""
    return covariance(sample, sample)


def effect_estimates(runs: Runs) -> Floats:
    """The reward of the second policy minus that of the first (replication, checkpoint): the paper's estimator."""
    return np.asarray(runs.rewards[:, 1] - runs.rewards[:, 0])
