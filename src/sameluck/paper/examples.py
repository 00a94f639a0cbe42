"""Three examples of the paper under each design, and two pairs of policies of one family beyond the paper."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri, stdtrit

import sameluck as sl
from sameluck.arrays import Floats
from sameluck.design import Design
from sameluck.intervals import t_interval
from sameluck.paper import example_sections, published
from sameluck.paper.chapters import (
    Chapter,
    Estimate,
    PlannedSimulation,
    Record,
    Settings,
    Simulations,
    effect_estimates,
    mean,
    variance,
    with_naive,
)
from sameluck.paper.published import Match, match, printed_mean

HORIZON = 10_000
TABLE_HORIZONS = (10, 100, 1_000, 10_000)
GRID = tuple(range(500, HORIZON + 1, 500))
CHECKPOINTS = tuple(sorted({*TABLE_HORIZONS, *GRID}))

BOTH: dict[str, Design] = {"naive": sl.Naive(), "replay": sl.Replay()}
DESIGNS = {**BOTH, "time-coupled": sl.TimeCoupled()}
FAMILY_DESIGNS = {**BOTH, "replay, shared noise": sl.Replay(share_noise=True)}


class Example(NamedTuple):
    """Two policies in one environment; the first policy is the control."""

    name: str
    title: str
    policies: Mapping[str, sl.Policy]
    environment: sl.Environment

    @property
    def means(self) -> Floats:
        return np.array(self.environment.means)

    @property
    def variances(self) -> Floats:
        """Return the variances of the arms' rewards, sigma^2 in the paper."""
        means = self.means
        return means * (1 - means) if self.environment.binary else np.ones_like(means)


EXAMPLE_1 = Example(
    "example1",
    "Example 1: UCB1 with alpha 2.5 and 3, five Bernoulli arms",
    {"ucb1(alpha=2.5)": sl.UCB1(2.5), "ucb1(alpha=3)": sl.UCB1(3.0)},
    sl.Bernoulli((0.9, 0.7, 0.5, 0.3, 0.1)),
)
EXAMPLE_2 = Example(
    "example2",
    "Example 2: UCB1 and Thompson sampling, two Bernoulli arms",
    {"ucb1(alpha=2)": sl.UCB1(2.0), "thompson": sl.ThompsonBernoulli(first_plays=1)},
    sl.Bernoulli((0.7, 0.3)),
)
EXAMPLE_3 = Example(
    "example3",
    "Example 3: Thompson sampling and epsilon-greedy, five Gaussian arms",
    {"thompson": sl.ThompsonGaussian(first_plays=1), "epsilon_greedy": sl.EpsilonGreedy(0.1)},
    sl.Gaussian((1.0, 0.8, -2.0, -3.0, -4.0)),
)
EXAMPLES = (EXAMPLE_1, EXAMPLE_2, EXAMPLE_3)

FAMILIES = (
    Example(
        "thompson",
        "Thompson sampling with Beta(1, 1) and Beta(2, 2) priors on example 2's arms",
        {f"thompson({n}, {n})": sl.ThompsonBernoulli(float(n), float(n), 1) for n in (1, 2)},
        EXAMPLE_2.environment,
    ),
    Example(
        "epsilon_greedy",
        "Epsilon-greedy with epsilon 0.1 and 0.05 on example 3's arms",
        {f"epsilon_greedy({share})": sl.EpsilonGreedy(share) for share in (0.1, 0.05)},
        EXAMPLE_3.environment,
    ),
)


def experiment(example: Example, settings: Settings, horizon: int = HORIZON) -> sl.Experiment:
    return sl.Experiment(
        policies=example.policies,
        arms=example.environment.arms or 5,
        horizon=horizon,
        replications=settings.replications,
        seed=settings.seed,
    )


def simulation(
    example: Example,
    settings: Settings,
    checkpoints: tuple[int, ...],
    design: Design = DESIGNS["replay"],
) -> PlannedSimulation:
    """Return the example under a design; the last checkpoint is its horizon."""
    designed = experiment(example, settings, checkpoints[-1]).replace(design=design)
    return PlannedSimulation(designed, example.environment, checkpoints)


def simulation_pairs(
    examples: Sequence[Example], checkpoints: tuple[int, ...], settings: Settings
) -> Simulations:
    """Return each example under replay and, independently, under the naive design."""
    return {
        f"{example.name} {label}": pair
        for example in examples
        for label, pair in with_naive(simulation(example, settings, checkpoints)).items()
    }


def _simulations(example: Example, settings: Settings) -> Simulations:
    return {
        label: simulation(example, settings, CHECKPOINTS, design)
        for label, design in DESIGNS.items()
    }


def _simulations_3(settings: Settings) -> Simulations:
    policies = {**EXAMPLE_3.policies, "epsilon_greedy": sl.EpsilonGreedy(0.1, explore="others")}
    explores_others = simulation(EXAMPLE_3._replace(policies=policies), settings, CHECKPOINTS)
    return {**_simulations(EXAMPLE_3, settings), "others": explores_others}


def _simulations_of_families(settings: Settings) -> Simulations:
    return {
        f"{family.name}: {label}": simulation(family, settings, (HORIZON,), design)
        for family in FAMILIES
        for label, design in FAMILY_DESIGNS.items()
    }


def _analyse_common(example: Example, runs: Mapping[str, sl.Runs]) -> Record:
    by_design = {label: runs[label] for label in DESIGNS}
    return {
        "policies": list(example.policies),
        "interactions": {label: _interactions(design) for label, design in by_design.items()},
        "intervals": {label: _intervals(runs[label]) for label in ("naive", "replay")},
        "decided": {label: _share_decided(design) for label, design in by_design.items()},
        "designs": [
            _design_record(label, design, runs["naive"]) for label, design in by_design.items()
        ],
        "curves": {label: _curves(design) for label, design in by_design.items()},
    }


def _interactions(runs: sl.Runs) -> list[Record]:
    samples = runs.at(TABLE_HORIZONS).interactions.T
    return [
        {"horizon": t, **mean(s)._asdict()} for t, s in zip(TABLE_HORIZONS, samples, strict=True)
    ]


def _intervals(runs: sl.Runs) -> list[Record]:
    records = []
    # The paper draws its intervals from ten runs, so the first ten replications are used.
    first = effect_estimates(runs.at(GRID))[: published.INTERVAL_RUNS]
    for horizon, sample in zip(GRID, first.T, strict=True):
        low, high, _ = t_interval(sample, published.LEVEL)
        effect = float(sample.mean())
        records.append({"checkpoint": horizon, "effect": effect, "low": low, "high": high})
    return records


def _share_decided(runs: sl.Runs) -> float:
    """Return the share of blocks of ten runs whose interval at the last horizon excludes 0."""
    size = published.INTERVAL_RUNS
    values = effect_estimates(runs)[:, -1]
    blocks = values[: len(values) // size * size].reshape(-1, size)
    quantile = stdtrit(size - 1, 0.5 + published.LEVEL / 2)
    half_widths = quantile * blocks.std(axis=1, ddof=1) / np.sqrt(size)
    return float((np.abs(blocks.mean(axis=1)) > half_widths).mean())


def _design_record(label: str, runs: sl.Runs, naive: sl.Runs) -> Record:
    """Return one design at the last horizon: its effect, its precision, its users."""
    effect, spread = mean(effect_estimates(runs)[:, -1]), variance(effect_estimates(runs)[:, -1])
    naive_spread = variance(effect_estimates(naive)[:, -1])
    ratio = naive_spread.value / spread.value
    # The samples are independent, unless both are the naive design: then the ratio is 1.
    errors = (naive_spread.error / naive_spread.value, spread.error / spread.value)
    factor = 1.0 if naive is runs else math.exp(ndtri(0.975) * math.hypot(*errors))
    users = float(runs.interactions[:, -1].mean())
    naive_users = float(naive.interactions[:, -1].mean())
    return {
        "design": label,
        "horizon": int(runs.checkpoints[-1]),
        "effect": effect.value,
        "error": effect.error,
        "variance": spread.value,
        "variance_error": spread.error,
        "interactions": users,
        "naive_replications": published.INTERVAL_RUNS * ratio,  # as precise as ten of this design
        "naive_users": ratio * naive_users / users,  # equivalent to one user of this design
        "naive_replications_low": published.INTERVAL_RUNS * ratio / factor,
        "naive_replications_high": published.INTERVAL_RUNS * ratio * factor,
    }


def _curves(runs: sl.Runs) -> list[Record]:
    """Return interactions, variance of the estimator and Var(N_2)/T of both policies over the grid of horizons."""
    records, drawn = [], runs.at(GRID)
    for column, horizon in enumerate(GRID):
        users = mean(drawn.interactions[:, column])
        spread = variance(effect_estimates(drawn)[:, column])
        pulls = [variance(drawn.pulls[:, p, column, 1]).scaled(1 / horizon) for p in (0, 1)]
        records.append(
            {
                "horizon": horizon,
                "interactions": users.value,
                "interactions_error": users.error,
                "variance": spread.value,
                "variance_error": spread.error,
                "pull_variance": [estimate.value for estimate in pulls],
                "pull_variance_error": [estimate.error for estimate in pulls],
            }
        )
    return records


def _match_tables(runs: Mapping[str, sl.Runs], replay: Mapping[int, float]) -> list[Match]:
    matches, naive = [], published.NAIVE_INTERACTIONS
    tables = (("replay", replay, "test"), ("naive", naive, "construction"))
    for label, table, evidence in tables:
        samples = runs[label].at([*table]).interactions.T
        for (horizon, value), sample in zip(table.items(), samples, strict=True):
            printed = printed_mean(value, float(sample.std(ddof=1)), published.TABLE_STEP)
            name = f"interactions, {label}"
            matches.append(match(name, horizon, mean(sample), printed, evidence))
    return matches


def _match_axis(
    name: str, curve: Sequence[Record], field: str, policy: int | None, top: float
) -> Match:
    """Match the highest point of a curve, which must not lie above the end of the published axis."""
    points = []
    for point in curve:
        value, error = point[field], point[f"{field}_error"]
        ours = Estimate(value, error) if policy is None else Estimate(value[policy], error[policy])
        printed = Estimate(top, ours.error)  # the published curve has the same sampling error
        points.append(match(name, point["horizon"], ours, printed, "axis"))
    highest = max(points, key=lambda point: point.ours)
    return highest._replace(meets=all(point.meets for point in points))


def _analyse_1(settings: Settings, runs: Mapping[str, sl.Runs]) -> Record:
    matches = _match_tables(runs, published.TABLE_1)
    return {**_analyse_common(EXAMPLE_1, runs), "published": _records(matches)}


def _analyse_2(settings: Settings, runs: Mapping[str, sl.Runs]) -> Record:
    common = _analyse_common(EXAMPLE_2, runs)
    name, top = "Var(N_2)/T of thompson", published.HIGHEST_PULL_VARIANCE_2
    axis = _match_axis(name, common["curves"]["replay"], "pull_variance", 1, top)
    return {**common, "published": _records([*_match_tables(runs, published.TABLE_2), axis])}


def _analyse_3(settings: Settings, runs: Mapping[str, sl.Runs]) -> Record:
    common = _analyse_common(EXAMPLE_3, runs)
    slopes = [
        {"explore": rule, "reading": reading, **slope._asdict()}
        for rule, label in (("all", "replay"), ("others", "others"))
        for reading, slope in _slope_readings(runs[label]).items()
    ]
    end = Estimate(slopes[0]["value"], slopes[0]["error"])
    sd = end.error * math.sqrt(runs["replay"].replications)
    slope = printed_mean(published.SLOPE, sd, published.SLOPE_STEP)
    matches = [match("slope", HORIZON, end, slope)]
    for label in ("naive", "replay"):
        name, curve = f"variance, {label}", common["curves"][label]
        matches.append(_match_axis(name, curve, "variance", None, published.HIGHEST_VARIANCE))
    name, top = "Var(N_2)/T of thompson", published.HIGHEST_PULL_VARIANCE_3
    matches.append(_match_axis(name, common["curves"]["replay"], "pull_variance", 0, top))
    return {**common, "slopes": slopes, "published": _records(matches)}


def _slope_readings(runs: sl.Runs) -> dict[str, Estimate]:
    grid = np.array(GRID, float)
    curves = runs.at(GRID).interactions
    weights = (grid - grid.mean()) / ((grid - grid.mean()) ** 2).sum()
    middle = GRID.index(HORIZON // 2)
    rise = mean(curves[:, -1] - curves[:, middle])
    return {
        "interactions / T at T = 10,000": mean(curves[:, -1]).scaled(1 / HORIZON),
        "line fitted to T = 500 .. 10,000": mean(curves @ weights),
        "rise from T = 5,000 to 10,000": rise.scaled(1 / (HORIZON - HORIZON // 2)),
    }


def _analyse_families(settings: Settings, runs: Mapping[str, sl.Runs]) -> Record:
    families = []
    for family in FAMILIES:
        by_design = {label: runs[f"{family.name}: {label}"] for label in FAMILY_DESIGNS}
        designs = [
            _design_record(label, design, by_design["naive"]) for label, design in by_design.items()
        ]
        families.append({"title": family.title, "designs": designs})
    return {"families": families}


def _records(matches: Sequence[Match]) -> list[Record]:
    return [row._asdict() for row in matches]


_simulations_1, _simulations_2 = (partial(_simulations, example) for example in EXAMPLES[:2])
CHAPTERS = (
    Chapter(*EXAMPLE_1[:2], _simulations_1, _analyse_1, example_sections.example_1),
    Chapter(*EXAMPLE_2[:2], _simulations_2, _analyse_2, example_sections.example_2),
    Chapter(*EXAMPLE_3[:2], _simulations_3, _analyse_3, example_sections.example_3),
)
_BEYOND = "Beyond the paper: two policies of one family"
BEYOND = Chapter(
    "beyond", _BEYOND, _simulations_of_families, _analyse_families, example_sections.families
)
