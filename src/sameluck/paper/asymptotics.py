"""The statements about long horizons, checked at T = 10^2 .. 10^5: variance reduction, and UCB's pull counts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sameluck.design import Naive
from sameluck.experiment import Experiment
from sameluck.paper.checks import Pending, at_most, difference, verdict
from sameluck.paper.examples import EXAMPLE_1, experiment
from sameluck.paper.parts import (
    Estimate,
    Findings,
    Part,
    Plan,
    Settings,
    Simulation,
    effects,
    mean,
    scaled,
    variance,
)
from sameluck.policies.ucb import UCB1, UCBDelta
from sameluck.runs import Runs

HORIZONS = (100, 1_000, 10_000, 100_000)
COINS = EXAMPLE_1.environment
BEST_VARIANCE = COINS.means[0] * (1 - COINS.means[0])


def _plan_variance(settings: Settings) -> Plan:
    replay = experiment(EXAMPLE_1, settings, HORIZONS[-1])
    naive = replay.replace(design=Naive(), seed=settings.seed + 1)
    return {
        "naive": Simulation(naive, COINS, HORIZONS),
        "replay": Simulation(replay, COINS, HORIZONS),
    }


def _find_variance(settings: Settings, runs: Mapping[str, Runs]) -> Findings:
    rates = {label: _rates(one) for label, one in runs.items()}
    limit = 2 * BEST_VARIANCE
    pending: list[Pending] = []
    for place in range(1, len(HORIZONS)):
        step = f"to T = {HORIZONS[place]:,}"
        earlier, later = (rates["replay"][p] for p in (place - 1, place))
        pending.append(at_most("Var(replay)/T, change", difference(later, earlier), 0.0, step))
        earlier, later = (_distance(rates["naive"][p], limit) for p in (place - 1, place))
        quantity = f"|Var(naive)/T - {limit:g}|, change"
        pending.append(at_most(quantity, difference(later, earlier), 0.0, step))
    growth = _growth(*rates["replay"][-2:])
    pending.append(at_most("Var(replay) grows as T to the power of", growth, 1.0))
    return verdict(
        f"As T grows, Var(naive)/T tends to 2 sigma^2 of the best arm (here {limit:g}) and Var(replay)/T to 0.",
        f"{settings.replications:,} replications of example 1 under each design, independent",
        pending,
        limit=limit,
        curves={label: _records(many) for label, many in rates.items()},
    )


def _rates(runs: Runs) -> list[Estimate]:
    found = effects(runs)
    return [scaled(variance(found[:, place]), 1 / t) for place, t in enumerate(HORIZONS)]


def _distance(one: Estimate, limit: float) -> Estimate:
    return Estimate(abs(one.value - limit), one.error)


def _growth(earlier: Estimate, later: Estimate) -> Estimate:
    """The power of T that a variance follows over the last decade, from Var/T at both ends."""
    value = 1 + math.log10(later.value / earlier.value)
    error = math.hypot(later.error / later.value, earlier.error / earlier.value) / math.log(10)
    return Estimate(value, error)


def _records(rates: list[Estimate]) -> list[Findings]:
    return [{"horizon": t, **one._asdict()} for t, one in zip(HORIZONS, rates, strict=True)]


def _plan_ucb(settings: Settings) -> Plan:
    ucb1 = Experiment(
        policies={"ucb1": UCB1(2.0)},
        arms=5,
        horizon=HORIZONS[-1],
        replications=settings.replications,
        seed=settings.seed,
    )
    plan = {"ucb1": Simulation(ucb1, COINS, HORIZONS)}
    for horizon in HORIZONS:  # its confidence depends on the horizon
        delta = ucb1.replace(policies={"ucb_delta": UCBDelta(d=2.0)}, horizon=horizon)
        plan[f"ucb_delta {horizon}"] = Simulation(delta, COINS, (horizon,))
    return plan


def _find_ucb(settings: Settings, runs: Mapping[str, Runs]) -> Findings:
    pulls = {
        "ucb1(alpha=2)": [runs["ucb1"].pulls[:, 0, place] for place in range(len(HORIZONS))],
        "ucb_delta(d=2)": [runs[f"ucb_delta {horizon}"].pulls[:, 0, 0] for horizon in HORIZONS],
    }
    bounds = {"ucb1(alpha=2)": ucb1_bound, "ucb_delta(d=2)": ucb_delta_bound}
    pending: list[Pending] = []
    curves = {}
    for name, samples in pulls.items():
        pending += _below(name, samples, bounds[name])
        ratios = [
            scaled(variance(sample[:, 1]), math.log(t) ** -2)
            for sample, t in zip(samples, HORIZONS, strict=True)
        ]
        pending += _flattening(name, ratios)
        curves[name] = _records(ratios)
    return verdict(
        "For UCB1 (alpha >= 2) and UCB-delta (delta = T^-d, d >= 2) the variance of a suboptimal arm's number of "
        "pulls is of the order (log T)^2: its second moment stays below the proof's explicit bound, and "
        "Var(N_2)/(log T)^2 flattens.",
        f"{settings.replications:,} replications of each on example 1's coins, T = 10^2 .. 10^5",
        pending,
        curves=curves,
    )


def _below(
    name: str, samples: Sequence[NDArray[Any]], bound: Callable[[float, int], float]
) -> list[Pending]:
    return [
        at_most(
            f"{name}: E N^2", mean(sample[:, arm] ** 2), bound(gap, t), f"T = {t:,}, arm {arm + 1}"
        )
        for sample, t in zip(samples, HORIZONS, strict=True)
        for arm, gap in enumerate(COINS.gaps)
        if gap > 0
    ]


def _flattening(name: str, ratios: list[Estimate]) -> list[Pending]:
    """The last decade adds a smaller factor than the one before, and Var(N_2)/T falls."""
    factors = [_log_ratio(ratios[place - 1], ratios[place]) for place in (-2, -1)]
    steeper = difference(factors[1], factors[0])
    rate = [scaled(one, math.log(t) ** 2 / t) for one, t in zip(ratios, HORIZONS, strict=True)]
    return [
        at_most(f"{name}: log Var(N_2)/(log T)^2, growth", steeper, 0.0, "last decade"),
        at_most(f"{name}: Var(N_2)/T, change", difference(rate[-1], rate[-2]), 0.0, "last decade"),
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


PARTS = (
    Part("variance", "Theorem: asymptotic variance reduction", _plan_variance, _find_variance),
    Part("ucb", "Proposition: pull counts of UCB1 and UCB-delta", _plan_ucb, _find_ucb),
)
