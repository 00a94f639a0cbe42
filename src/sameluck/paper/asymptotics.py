"""Check of the proposition about the pull counts of UCB at T = 10^2 .. 10^5."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

import sameluck as sl
from sameluck.paper.chapters import (
    Chapter,
    Estimate,
    Record,
    Section,
    Settings,
    Simulations,
    columns,
    line_figure,
    mean,
    variance,
)
from sameluck.paper.examples import EXAMPLE_1, simulation
from sameluck.paper.theorem_tests import PendingTest, at_most, check, sections
from sameluck.reporting import plots

HORIZONS = (100, 1_000, 10_000, 100_000)
ENVIRONMENT = EXAMPLE_1.environment


def records(rates: Sequence[Estimate]) -> list[Record]:
    """Return estimates at the first of `HORIZONS`, for results.json."""
    return [{"horizon": t, **rate._asdict()} for t, rate in zip(HORIZONS, rates, strict=False)]


def _simulations_ucb(settings: Settings) -> Simulations:
    ucb1 = EXAMPLE_1._replace(policies={"ucb1": sl.UCB1(2.0)})
    delta = EXAMPLE_1._replace(policies={"ucb_delta": sl.UCBDelta(d=2.0)})
    simulations = {"ucb1": simulation(ucb1, settings, HORIZONS)}
    for horizon in HORIZONS:  # the confidence of ucb_delta depends on the horizon
        simulations[f"ucb_delta {horizon}"] = simulation(delta, settings, (horizon,))
    return simulations


def _analyse_ucb(settings: Settings, runs: Mapping[str, sl.Runs]) -> Record:
    ucb1 = [runs["ucb1"].pulls[:, 0, column] for column in range(len(HORIZONS))]
    ucb_delta = [runs[f"ucb_delta {horizon}"].pulls[:, 0, 0] for horizon in HORIZONS]
    pending: list[PendingTest] = []
    curves = {}
    for name, samples, bound in (
        ("ucb1(alpha=2)", ucb1, ucb1_bound),
        ("ucb_delta(d=2)", ucb_delta, ucb_delta_bound),
    ):
        ratios = []
        for sample, t in zip(samples, HORIZONS, strict=True):
            for arm, gap in enumerate(ENVIRONMENT.gaps):
                if gap > 0:
                    second, case = mean(sample[:, arm] ** 2), f"T = {t:,}, arm {arm + 1}"
                    pending.append(at_most(f"{name}: E N^2", second, bound(gap, t), case))
            ratios.append(variance(sample[:, 1]).scaled(math.log(t) ** -2))
        pending += _flattening(name, ratios)
        curves[name] = records(ratios)
    return check(
        "For UCB1 (alpha >= 2) and UCB-delta (delta = T^-d, d >= 2) the variance of a suboptimal arm's number of "
        "pulls is of the order (log T)^2. Two tests: the second moment stays below the proof's explicit bound, and "
        "the growth of Var(N_2)/(log T)^2 slows down.",
        f"{settings.replications:,} replications of each on example 1's arms, T = 10^2 .. 10^5",
        pending,
        curves=curves,
    )


def _flattening(name: str, ratios: list[Estimate]) -> list[PendingTest]:
    """Test that the last decade adds a smaller factor than the decade before, and that Var(N_2)/T falls."""
    factors = [log_ratio(ratios[index - 1], ratios[index]) for index in (-2, -1)]
    steeper = factors[1].minus(factors[0])
    rates = [ratio.scaled(math.log(t) ** 2 / t) for ratio, t in zip(ratios, HORIZONS, strict=True)]
    return [
        at_most(f"{name}: log Var(N_2)/(log T)^2, growth", steeper, 0.0, "last decade"),
        at_most(f"{name}: Var(N_2)/T, change", rates[-1].minus(rates[-2]), 0.0, "last decade"),
    ]


def log_ratio(earlier: Estimate, later: Estimate) -> Estimate:
    """Return the logarithm of the factor by which an estimate grew."""
    error = math.hypot(later.error / later.value, earlier.error / earlier.value)
    return Estimate(math.log(later.value / earlier.value), error)


def ucb1_bound(gap: float, horizon: int, alpha: float = 2.0) -> float:
    """Return the proof's bound on E N^2 for UCB1."""
    threshold = math.ceil(4 * alpha * math.log(horizon) / gap**2)
    return 2 * threshold**2 + 4 / threshold + 8 * math.log(horizon)


def ucb_delta_bound(gap: float, horizon: int, d: float = 2.0) -> float:
    """Return the proof's bound on E N^2 for UCB-delta with delta = T^-d."""
    threshold = math.ceil(32 * d * math.log(horizon) / gap**2)
    fade = np.exp(-(gap**2) / 32)
    tails = horizon ** (2 - d) / (1 - math.exp(-(gap**2) / 8)) + 2 * fade / (1 - fade) ** 3
    return float(threshold**2 + tails)


def _sections(chapter: Chapter, result: Record) -> list[Section]:
    quantity = "Var(pulls of arm 2) / (log T)^2"
    lines = curve_lines(result["curves"])
    figure = line_figure("theorem-ucb", lines, quantity, quantity, logarithmic=True)
    return sections(chapter, result, figure)


def curve_lines(curves: Mapping[str, Sequence[Record]]) -> list[plots.Line]:
    fields = ("horizon", "value", "error")
    return [plots.Line(label, *columns(points, *fields)) for label, points in curves.items()]


_TITLE = "Proposition: pull counts of UCB1 and UCB-delta"
UCB = Chapter("ucb", _TITLE, _simulations_ucb, _analyse_ucb, _sections)
