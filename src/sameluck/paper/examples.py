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
from sameluck.paper import published
from sameluck.paper.chapters import (
    Chapter,
    Estimate,
    PlannedSimulation,
    Record,
    ReportFigure,
    ReportTable,
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
from sameluck.paper.published import Match, match, printed_mean
from sameluck.reporting import plots

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


def example_1(chapter: Chapter, result: Record) -> list[Section]:
    table = _interactions_section(chapter, result, 1)
    return [table, _intervals_section(chapter, result), _designs(chapter, result)]


def example_2(chapter: Chapter, result: Record) -> list[Section]:
    assumption = "It decreases, so Thompson sampling satisfies the theorem's assumption here."
    return [
        _interactions_section(chapter, result, 2),
        _intervals_section(chapter, result),
        _pull_variance(chapter, result, 1, assumption),
        _designs(chapter, result),
    ]


def example_3(chapter: Chapter, result: Record) -> list[Section]:
    curve = result["curves"]["replay"]
    end = curve[-1]
    peak = max(curve, key=lambda point: float(point["pull_variance"][0]))
    about = (
        "The paper concludes from this figure that the variance is not o(T). In our runs it peaks at T = "
        f"{peak['horizon']:,} ({peak['pull_variance'][0]:.3g}) and is {end['pull_variance'][0]:.3g}, with a "
        f"standard error of {end['pull_variance_error'][0]:.2g}, at T = {end['horizon']:,}. The band "
        "extends two standard errors to either side."
    )
    variances = "Variance of the estimators", "variance of the estimated effect"
    return [
        _curve(chapter, result, "interactions", "Real interactions", "mean real interactions"),
        _slopes(chapter, result),
        _curve(chapter, result, "variance", *variances),
        _axes(chapter, result),
        _pull_variance(chapter, result, 0, about),
        _designs(chapter, result),
    ]


def families(chapter: Chapter, result: Record) -> list[Section]:
    return [
        Section(
            f"Beyond the paper: {family['title']}",
            "Between policies of one family, sharing their random numbers as well as the rewards lowers the "
            "variance further.",
            _design_table(f"beyond-{number}", family["designs"]),
        )
        for number, family in enumerate(result["families"], start=1)
    ]


def _interactions_section(chapter: Chapter, result: Record, number: int) -> Section:
    cells = {label: columns(means, "value")[0] for label, means in result["interactions"].items()}
    naive, replay = (
        [match for match in result["published"] if match["name"] == f"interactions, {label}"]
        for label in ("naive", "replay")
    )
    rows = [
        ("naive", *cells["naive"]),
        ("naive, published", *columns(naive, "published")[0]),
        ("replay", *cells["replay"]),
        ("replay, published", *columns(replay, "published")[0]),
        ("replay, error", *columns(replay, "error")[0]),
        ("z of the difference", *columns(replay, "z")[0]),
        ("time-coupled", *cells["time-coupled"]),
    ]
    header = ("design", *(f"T = {match['horizon']:,}" for match in replay))
    return Section(
        f"{chapter.title}: Table {number}",
        "Mean number of real interactions per replication. Error is our Monte Carlo standard error; z also includes "
        "the error of the published 10,000 runs.",
        ReportTable(f"{chapter.name}-interactions", header, rows),
    )


def _intervals_section(chapter: Chapter, result: Record) -> Section:
    control, policy = result["policies"]
    intervals, fields = result["intervals"], ("checkpoint", "effect", "low", "high")
    curves = [plots.Curve(label, *columns(points, *fields)) for label, points in intervals.items()]
    rows = [(curve.label, *point) for curve in curves for point in zip(*curve[1:], strict=True)]
    around = sum(point["low"] <= 0 <= point["high"] for point in intervals["naive"])
    below = sum(point["high"] < 0 for point in intervals["replay"])
    above = sum(point["low"] > 0 for point in intervals["replay"])
    title = f"{policy} minus {control}, {published.INTERVAL_RUNS} runs"
    share = {label: f"{value:.0%}" for label, value in result["decided"].items()}
    return Section(
        f"{chapter.title}: 99% intervals from ten runs",
        f"Of {len(intervals['naive'])} horizons, the naive interval contains 0 at {around}; the replay interval lies "
        f"below 0 at {below} and above it at {above}. Over all blocks of ten runs, the interval at T = 10,000 "
        f"excludes 0 in {share['naive']} of the naive blocks and in {share['replay']} of the replay blocks.",
        figure=ReportFigure(
            f"{chapter.name}-intervals",
            "The estimated effect over the horizon with its interval: a wide band for naive, a narrow band for "
            "replay",
            ReportTable(f"{chapter.name}-intervals", ("design", *fields), rows),
            lambda: plots.draw_effects(curves, level=published.LEVEL, title=title),
        ),
    )


def _pull_variance(chapter: Chapter, result: Record, policy: int, text: str) -> Section:
    fields = ("horizon", "pull_variance", "pull_variance_error")
    horizons, *pairs = columns(result["curves"]["replay"], *fields)
    values, errors = (tuple(pair[policy] for pair in column) for column in pairs)
    line = plots.Line(result["policies"][policy], horizons, values, errors)
    quantity = "Var(pulls of arm 2) / T"
    name, title = f"{chapter.name}-pull-variance", f"{quantity}, Thompson sampling"
    figure = line_figure(name, [line], title, quantity)
    return Section(f"{chapter.title}: {quantity} of Thompson sampling", text, figure=figure)


def _curve(chapter: Chapter, result: Record, field: str, title: str, quantity: str) -> Section:
    lines = [
        plots.Line(label, *columns(points, "horizon", field, f"{field}_error"))
        for label, points in result["curves"].items()
    ]
    figure = line_figure(f"{chapter.name}-{field}", lines, title, quantity)
    return Section(f"{chapter.title}: {title[0].lower()}{title[1:]}", figure=figure)


def _slopes(chapter: Chapter, result: Record) -> Section:
    (slope,) = [match for match in result["published"] if match["name"] == "slope"]
    rise = result["slopes"][-1]
    readings = columns(result["slopes"], "explore", "reading", "value", "error")
    rows = [*zip(*readings, strict=True), ("published", "about", slope["published"], None)]
    return Section(
        f"{chapter.title}: the slope of the interactions",
        'The paper gives "an asymptotic slope of about 1.09". It does not state how the slope was computed, nor '
        "whether epsilon-greedy explores among all arms or among the other arms. Two of the six readings fit. With "
        "exploration among all arms, our rule, interactions / T at T = 10,000 fits "
        f"({slope['ours']:.4f}, z = {slope['z']:.2f}); this reading is counted above. With exploration among the "
        f"other arms, the rise from T = 5,000 to 10,000 fits ({rise['value']:.4f}), which is nearer to an asymptotic "
        "slope. The data do not decide between them. The reading was chosen among six, so this is a weak test.",
        ReportTable(f"{chapter.name}-slopes", ("explore", "reading", "slope", "error"), rows, 4),
    )


def _axes(chapter: Chapter, result: Record) -> Section:
    matches = [match for match in result["published"] if match["relation"] == "<="]
    cells = columns(matches, "name", "horizon", "ours", "error", "published", "z")
    header = ("curve", "T", "highest", "error", "axis ends at", "z")
    return Section(
        f"{chapter.title}: within the published axes",
        "The paper prints no numbers with these figures; the highest point of each curve must lie within its axis.",
        ReportTable(f"{chapter.name}-axes", header, [*zip(*cells, strict=True)]),
    )


def _design_table(name: str, designs: Sequence[Record]) -> ReportTable:
    common = ("design", "effect", "error", "variance")
    ratio = ("naive_replications", "naive_replications_low", "naive_replications_high")
    header = (*common, "users", "naive replications for 10", "low", "high", "naive users for 1")
    cells = columns(designs, *common, "interactions", *ratio, "naive_users")
    return ReportTable(name, header, [*zip(*cells, strict=True)])


def _designs(chapter: Chapter, result: Record) -> Section:
    return Section(
        f"{chapter.title}: designs side by side",
        "This table at T = 10,000 is not in the paper. Columns 6 to 8 have the number of naive replications as "
        "precise as ten replications of the design, with its 95% interval. The last column has the number of naive "
        "users that one user of the design replaces; its interval has the same relative width. "
        "Time-coupled is the coupling of other libraries: the same reward for an arm in the same period.",
        _design_table(f"{chapter.name}-designs", result["designs"]),
    )


_simulations_1, _simulations_2 = (partial(_simulations, example) for example in EXAMPLES[:2])
CHAPTERS = (
    Chapter(*EXAMPLE_1[:2], _simulations_1, _analyse_1, example_1),
    Chapter(*EXAMPLE_2[:2], _simulations_2, _analyse_2, example_2),
    Chapter(*EXAMPLE_3[:2], _simulations_3, _analyse_3, example_3),
)
_BEYOND = "Beyond the paper: two policies of one family"
BEYOND = Chapter("beyond", _BEYOND, _simulations_of_families, _analyse_families, families)
