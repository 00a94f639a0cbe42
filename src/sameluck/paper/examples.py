"""The paper's three examples: the tables, the intervals, the curves, and how other designs do on them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import stdtrit

from sameluck.design import Design, Naive, Replay, TimeCoupled
from sameluck.environments.bernoulli import Bernoulli
from sameluck.environments.gaussian import Gaussian
from sameluck.experiment import Experiment
from sameluck.intervals import t_interval
from sameluck.paper import published
from sameluck.paper.parts import (
    Estimate,
    Findings,
    Part,
    Plan,
    Settings,
    Simulation,
    at,
    effects,
    mean,
    scaled,
    variance,
)
from sameluck.policies.base import Policy
from sameluck.policies.epsilon_greedy import EpsilonGreedy
from sameluck.policies.thompson import ThompsonBernoulli, ThompsonGaussian
from sameluck.policies.ucb import UCB1
from sameluck.runs import Runs

HORIZON = 10_000
TABLE_HORIZONS = (10, 100, 1_000, 10_000)
GRID = tuple(range(500, HORIZON + 1, 500))
FAR = 4.0  # combined standard errors a published number may be off

DESIGNS: dict[str, Design] = {
    "naive": Naive(),
    "replay": Replay(),
    "time-coupled": TimeCoupled(),
}


class Example(NamedTuple):
    """Two policies on one bandit; the first policy is the control."""

    name: str
    title: str
    policies: Mapping[str, Policy]
    environment: Any


EXAMPLE_1 = Example(
    "example1",
    "Example 1: UCB1 with alpha 2.5 and 3, five coins",
    {"ucb1(alpha=2.5)": UCB1(2.5), "ucb1(alpha=3)": UCB1(3.0)},
    Bernoulli((0.9, 0.7, 0.5, 0.3, 0.1)),
)
EXAMPLE_2 = Example(
    "example2",
    "Example 2: UCB1 and Thompson sampling, two coins",
    {"ucb1(alpha=2)": UCB1(2.0), "thompson": ThompsonBernoulli(first_plays=1)},
    Bernoulli((0.7, 0.3)),
)
EXAMPLE_3 = Example(
    "example3",
    "Example 3: Thompson sampling and epsilon-greedy, five Gaussian arms",
    {"thompson": ThompsonGaussian(first_plays=1), "epsilon_greedy": EpsilonGreedy(0.1)},
    Gaussian((1.0, 0.8, -2.0, -3.0, -4.0)),
)
EXAMPLES = (EXAMPLE_1, EXAMPLE_2, EXAMPLE_3)


class Match(NamedTuple):
    """A number held against the published one."""

    name: str
    horizon: int | None
    ours: float
    error: float
    relation: str  # "=", or "<=" where the paper gives only the end of an axis
    published: float
    published_error: float
    z: float
    meets: bool


def match(
    name: str, horizon: int | None, ours: Estimate, said: Estimate, relation: str = "="
) -> Match:
    """How many combined standard errors ours is from the published number, and whether that is too far."""
    combined = math.hypot(ours.error, said.error)
    gap = ours.value - said.value
    z = gap / combined if combined else math.copysign(math.inf, gap) if gap else 0.0
    meets = z <= FAR if relation == "<=" else abs(z) <= FAR
    return Match(name, horizon, *ours, relation, *said, z, meets)


def rounding(step: float) -> float:
    """The standard error that rounding to a step brings."""
    return step / math.sqrt(12)


def experiment(example: Example, settings: Settings, horizon: int = HORIZON) -> Experiment:
    """The example under replay, for a horizon."""
    return Experiment(
        policies=example.policies,
        arms=len(example.environment.means),
        horizon=horizon,
        replications=settings.replications,
        seed=settings.seed,
    )


def plan_designs(example: Example, settings: Settings) -> Plan:
    """The example under each design, all horizons in one pass."""
    checkpoints = tuple(sorted({*TABLE_HORIZONS, *GRID}))
    whole = experiment(example, settings)
    return {
        label: Simulation(whole.replace(design=design), example.environment, checkpoints)
        for label, design in DESIGNS.items()
    }


def find_common(example: Example, runs: Mapping[str, Runs]) -> Findings:
    """What all examples report."""
    paired = {label: runs[label] for label in DESIGNS}
    return {
        "policies": list(example.policies),
        "interactions": {
            label: _interactions(one, TABLE_HORIZONS) for label, one in paired.items()
        },
        "intervals": {label: _intervals(runs[label]) for label in ("naive", "replay")},
        "decided": {label: share_decided(one) for label, one in paired.items()},
        "designs": [design_record(label, one, runs["naive"]) for label, one in paired.items()],
        "curves": {label: _curves(one) for label, one in paired.items()},
    }


def _interactions(runs: Runs, horizons: tuple[int, ...]) -> list[Findings]:
    return [
        {"horizon": horizon, **mean(runs.interactions[:, at(runs, horizon)])._asdict()}
        for horizon in horizons
    ]


def _intervals(runs: Runs) -> list[Findings]:
    found = effects(runs)[: published.INTERVAL_RUNS]
    records = []
    for horizon in GRID:
        sample = found[:, at(runs, horizon)]
        low, high, _ = t_interval(sample, published.LEVEL)
        records.append(
            {"checkpoint": horizon, "effect": float(sample.mean()), "low": low, "high": high}
        )
    return records


def share_decided(runs: Runs) -> float:
    """How often ten runs decide: the share of blocks of ten whose interval at the last horizon leaves out 0."""
    size = published.INTERVAL_RUNS
    values = effects(runs)[:, -1]
    blocks = values[: len(values) // size * size].reshape(-1, size)
    reach = (
        stdtrit(size - 1, 0.5 + published.LEVEL / 2) * blocks.std(axis=1, ddof=1) / np.sqrt(size)
    )
    return float((np.abs(blocks.mean(axis=1)) > reach).mean())


def design_record(label: str, runs: Runs, naive: Runs) -> Findings:
    """One design at the last horizon: what it says, how surely, for how many users."""
    effect, spread = mean(effects(runs)[:, -1]), variance(effects(runs)[:, -1])
    less = variance(effects(naive)[:, -1]).value / spread.value
    users = float(runs.interactions[:, -1].mean())
    return {
        "design": label,
        "horizon": int(runs.checkpoints[-1]),
        "effect": effect.value,
        "error": effect.error,
        "variance": spread.value,
        "variance_error": spread.error,
        "interactions": users,
        "naive_replications": published.INTERVAL_RUNS * less,  # as precise as ten of this design
        "naive_users": less
        * float(naive.interactions[:, -1].mean())
        / users,  # for one of this design's
    }


def _curves(runs: Runs) -> list[Findings]:
    """Interactions, variance of the estimator and Var(N_2)/T of both policies, over the grid of horizons."""
    records = []
    for horizon in GRID:
        place = at(runs, horizon)
        users, spread = mean(runs.interactions[:, place]), variance(effects(runs)[:, place])
        pulls = [scaled(variance(runs.pulls[:, p, place, 1]), 1 / horizon) for p in (0, 1)]
        records.append(
            {
                "horizon": horizon,
                "interactions": users.value,
                "interactions_error": users.error,
                "variance": spread.value,
                "variance_error": spread.error,
                "pull_variance": [one.value for one in pulls],
                "pull_variance_error": [one.error for one in pulls],
            }
        )
    return records


def match_table(runs: Mapping[str, Runs], table: Mapping[int, float]) -> list[Match]:
    """Each cell of a published table of interactions."""
    matches = []
    for horizon, value in table.items():
        sample = runs["replay"].interactions[:, at(runs["replay"], horizon)]
        said = _said(value, float(sample.std(ddof=1)), published.TABLE_STEP)
        matches.append(match("interactions, replay", horizon, mean(sample), said))
    for horizon, value in published.NAIVE_INTERACTIONS.items():
        sample = runs["naive"].interactions[:, at(runs["naive"], horizon)]
        said = Estimate(value, rounding(published.TABLE_STEP))
        matches.append(match("interactions, naive", horizon, mean(sample), said))
    return matches


def _said(value: float, sd: float, step: float) -> Estimate:
    return Estimate(value, math.hypot(sd / math.sqrt(published.RUNS), rounding(step)))


def match_axis(
    name: str, curve: list[Findings], field: str, policy: int | None, top: float
) -> Match:
    """The highest point of a curve, which must not lie above the end of the published axis."""
    points = []
    for one in curve:
        value, error = one[field], one[f"{field}_error"]
        ours = Estimate(value, error) if policy is None else Estimate(value[policy], error[policy])
        said = Estimate(top, ours.error)  # their curve wavered as ours does
        points.append(match(name, one["horizon"], ours, said, "<="))
    return max(points, key=lambda one: one.ours)._replace(meets=all(one.meets for one in points))


def _find_1(settings: Settings, runs: Mapping[str, Runs]) -> Findings:  # noqa: ARG001
    found = find_common(EXAMPLE_1, runs)
    return {**found, "published": _dicts(match_table(runs, published.TABLE_1))}


def _find_2(settings: Settings, runs: Mapping[str, Runs]) -> Findings:  # noqa: ARG001
    found = find_common(EXAMPLE_2, runs)
    name, top = "Var(N_2)/T of thompson", published.HIGHEST_PULL_VARIANCE_2
    axis = match_axis(name, found["curves"]["replay"], "pull_variance", 1, top)
    return {**found, "published": _dicts([*match_table(runs, published.TABLE_2), axis])}


def _plan_3(settings: Settings) -> Plan:
    policies = {**EXAMPLE_3.policies, "epsilon_greedy": EpsilonGreedy(0.1, explore="others")}
    others = experiment(EXAMPLE_3._replace(policies=policies), settings)
    plan = plan_designs(EXAMPLE_3, settings)
    checkpoints = plan["replay"].checkpoints
    return {**plan, "others": Simulation(others, EXAMPLE_3.environment, checkpoints)}


def _find_3(settings: Settings, runs: Mapping[str, Runs]) -> Findings:  # noqa: ARG001
    found = find_common(EXAMPLE_3, runs)
    slopes = [
        {"explore": rule, "reading": reading, **slope._asdict()}
        for rule, label in (("all", "replay"), ("others", "others"))
        for reading, slope in slope_readings(runs[label]).items()
    ]
    end = Estimate(slopes[0]["value"], slopes[0]["error"])
    sd = end.error * math.sqrt(runs["replay"].replications)
    matches = [match("slope", HORIZON, end, _said(published.SLOPE, sd, published.SLOPE_STEP))]
    for label in ("naive", "replay"):
        name, curve = f"variance, {label}", found["curves"][label]
        matches.append(match_axis(name, curve, "variance", None, published.HIGHEST_VARIANCE))
    name, top = "Var(N_2)/T of thompson", published.HIGHEST_PULL_VARIANCE_3
    matches.append(match_axis(name, found["curves"]["replay"], "pull_variance", 0, top))
    return {**found, "slopes": slopes, "published": _dicts(matches)}


def slope_readings(runs: Runs) -> dict[str, Estimate]:
    """Three ways to read a slope off the curve of interactions over the horizon."""
    grid = np.array(GRID, float)
    curves = runs.interactions[:, [at(runs, horizon) for horizon in GRID]]
    weights = (grid - grid.mean()) / ((grid - grid.mean()) ** 2).sum()
    middle = GRID.index(HORIZON // 2)
    return {
        "interactions / T at T = 10,000": scaled(mean(curves[:, -1]), 1 / HORIZON),
        "line fitted to T = 500 .. 10,000": mean(curves @ weights),
        "rise from T = 5,000 to 10,000": scaled(
            mean(curves[:, -1] - curves[:, middle]), 1 / (HORIZON - HORIZON // 2)
        ),
    }


def _dicts(matches: list[Match]) -> list[Findings]:
    return [one._asdict() for one in matches]


_FINDERS: tuple[tuple[Example, Callable[..., Findings]], ...] = (
    (EXAMPLE_1, _find_1),
    (EXAMPLE_2, _find_2),
    (EXAMPLE_3, _find_3),
)
PARTS = tuple(
    Part(
        example.name,
        example.title,
        _plan_3 if example is EXAMPLE_3 else partial(plan_designs, example),
        find,
    )
    for example, find in _FINDERS
)
