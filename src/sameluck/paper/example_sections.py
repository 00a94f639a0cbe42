"""Sections of the report that show the examples, made from the chapters' results alone."""

from __future__ import annotations

from collections.abc import Sequence

from sameluck.paper import published
from sameluck.paper.chapters import (
    Chapter,
    Record,
    ReportFigure,
    ReportTable,
    Section,
    columns,
    line_figure,
)
from sameluck.reporting import plots


def example_1(chapter: Chapter, result: Record) -> list[Section]:
    table = _interactions(chapter, result, 1)
    return [table, _intervals(chapter, result), _designs(chapter, result)]


def example_2(chapter: Chapter, result: Record) -> list[Section]:
    assumption = "It decreases, so Thompson sampling satisfies the theorem's assumption here."
    return [
        _interactions(chapter, result, 2),
        _intervals(chapter, result),
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


def _interactions(chapter: Chapter, result: Record, number: int) -> Section:
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


def _intervals(chapter: Chapter, result: Record) -> Section:
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
