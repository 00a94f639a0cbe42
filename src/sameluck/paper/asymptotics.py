"""The statements about long horizons, checked at T = 10^2 .. 10^5: variance reduction, and UCB's pull counts."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

import sameluck as sl
from sameluck.paper.checks import PendingTest, at_most, check, sections
from sameluck.paper.examples import EXAMPLE_1, simulation
from sameluck.paper.parts import (
    Estimate,
    Part,
    Record,
    Section,
    Settings,
    Simulations,
    columns,
    effect_estimates,
    line_figure,
    mean,
    variance,
    with_naive,
)
from sameluck.reporting import plots

HORIZONS = (100, 1_000, 10_000, 100_000)
ENVIRONMENT = EXAMPLE_1.environment
BEST_VARIANCE = ENVIRONMENT.means[0] * (1 - ENVIRONMENT.means[0])


def _simulations_variance(settings: Settings) -> Simulations:
    return with_naive(simulation(EXAMPLE_1, settings, HORIZONS))


def _analyse_variance(settings: Settings, runs: Mapping[str, sl.Runs]) -> Record:
    rates = {label: _rates(one) for label, one in runs.items()}
    limit = 2 * BEST_VARIANCE
    pending: list[PendingTest] = []
    for place in range(1, len(HORIZONS)):
        step = f"to T = {HORIZONS[place]:,}"
        earlier, later = (rates["replay"][p] for p in (place - 1, place))
        pending.append(at_most("Var(replay)/T, change", later.minus(earlier), 0.0, step))
        earlier, later = (_distance(rates["naive"][p], limit) for p in (place - 1, place))
        quantity = f"|Var(naive)/T - {limit:g}|, change"
        pending.append(at_most(quantity, later.minus(earlier), 0.0, step))
    growth = _growth(*rates["replay"][-2:])
    pending.append(at_most("Var(replay) grows as T to the power of", growth, 1.0))
    return check(
        f"As T grows, Var(naive)/T tends to 2 sigma^2 of the best arm (here {limit:g}) and Var(replay)/T to 0.",
        f"{settings.replications:,} replications of example 1 under each design, independent",
        pending,
        limit=limit,
        curves={label: _records(many) for label, many in rates.items()},
    )


def _rates(runs: sl.Runs) -> list[Estimate]:
    samples = effect_estimates(runs)
    return [variance(samples[:, place]).scaled(1 / t) for place, t in enumerate(HORIZONS)]


def _distance(one: Estimate, limit: float) -> Estimate:
    return Estimate(abs(one.value - limit), one.error)


def _growth(earlier: Estimate, later: Estimate) -> Estimate:
    """The power of T that a variance follows over the last decade, from Var/T at both ends."""
    ratio = _log_ratio(earlier, later)
    return Estimate(1 + math.log10(later.value / earlier.value), ratio.error / math.log(10))


def _records(rates: list[Estimate]) -> list[Record]:
    return [{"horizon": t, **one._asdict()} for t, one in zip(HORIZONS, rates, strict=True)]


def _simulations_ucb(settings: Settings) -> Simulations:
    ucb1 = EXAMPLE_1._replace(policies={"ucb1": sl.UCB1(2.0)})
    delta = EXAMPLE_1._replace(policies={"ucb_delta": sl.UCBDelta(d=2.0)})
    simulations = {"ucb1": simulation(ucb1, settings, HORIZONS)}
    for horizon in HORIZONS:  # the confidence of ucb_delta depends on the horizon
        simulations[f"ucb_delta {horizon}"] = simulation(delta, settings, (horizon,))
    return simulations


def _analyse_ucb(settings: Settings, runs: Mapping[str, sl.Runs]) -> Record:
    ucb1 = [runs["ucb1"].pulls[:, 0, place] for place in range(len(HORIZONS))]
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
        curves[name] = _records(ratios)
    return check(
        "For UCB1 (alpha >= 2) and UCB-delta (delta = T^-d, d >= 2) the variance of a suboptimal arm's number of "
        "pulls is of the order (log T)^2: its second moment stays below the proof's explicit bound, and "
        "Var(N_2)/(log T)^2 grows ever more slowly.",
        f"{settings.replications:,} replications of each on example 1's arms, T = 10^2 .. 10^5",
        pending,
        curves=curves,
    )


def _flattening(name: str, ratios: list[Estimate]) -> list[PendingTest]:
    """The last decade adds a smaller factor than the one before, and Var(N_2)/T falls."""
    factors = [_log_ratio(ratios[place - 1], ratios[place]) for place in (-2, -1)]
    steeper = factors[1].minus(factors[0])
    rate = [one.scaled(math.log(t) ** 2 / t) for one, t in zip(ratios, HORIZONS, strict=True)]
    return [
        at_most(f"{name}: log Var(N_2)/(log T)^2, growth", steeper, 0.0, "last decade"),
        at_most(f"{name}: Var(N_2)/T, change", rate[-1].minus(rate[-2]), 0.0, "last decade"),
    ]


def _log_ratio(earlier: Estimate, later: Estimate) -> Estimate:
    error = math.hypot(later.error / later.value, earlier.error / earlier.value)
    return Estimate(math.log(later.value / earlier.value), error)


def ucb1_bound(gap: float, horizon: int, alpha: float = 2.0) -> float:
    """The proof's bound on E N^2 for UCB1."""
    enough = math.ceil(4 * alpha * math.log(horizon) / gap**2)
    return 2 * enough**2 + 4 / enough + 8 * math.log(horizon)


def ucb_delta_bound(gap: float, horizon: int, d: float = 2.0) -> float:
    """The proof's bound on E N^2 for UCB-delta with delta = T^-d."""
    enough = math.ceil(32 * d * math.log(horizon) / gap**2)
    fade = np.exp(-(gap**2) / 32)
    tails = horizon ** (2 - d) / (1 - math.exp(-(gap**2) / 8)) + 2 * fade / (1 - fade) ** 3
    return float(enough**2 + tails)


_FIGURES = {
    "variance": ("Variance over T", "variance / T"),
    "ucb": ("Var(pulls of arm 2) / (log T)^2", "Var(pulls of arm 2) / (log T)^2"),
}


def _sections(part: Part, result: Record) -> list[Section]:
    lines = [
        plots.Line(label, *columns(many, "horizon", "value", "error"))
        for label, many in result["curves"].items()
    ]
    title, quantity = _FIGURES[part.name]
    name, limit = f"theorem-{part.name}", result.get("limit")
    figure = line_figure(name, lines, title, quantity, logarithmic=True, limit=limit)
    return sections(part, result, figure)


PARTS = tuple(
    Part(name, title, simulations, analyse, _sections)
    for name, title, simulations, analyse in (
        (
            "variance",
            "Theorem: asymptotic variance reduction",
            _simulations_variance,
            _analyse_variance,
        ),
        ("ucb", "Proposition: pull counts of UCB1 and UCB-delta", _simulations_ucb, _analyse_ucb),
    )
)
