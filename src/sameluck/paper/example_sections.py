"""The sections of the report that show the examples; their numbers come from the parts' results alone."""

from __future__ import annotations

from collections.abc import Sequence

from sameluck.paper import published
from sameluck.paper.parts import Part, Record, ReportFigure, Section, Table, columns, line_figure
from sameluck.reporting import plots


def example_1(part: Part, result: Record) -> list[Section]:
    """Table 1, the intervals and the designs."""
    return [_interactions(part, result, 1), _intervals(part, result), _designs(part, result)]


def example_2(part: Part, result: Record) -> list[Section]:
    """Table 2, the intervals, the pulls of Thompson sampling and the designs."""
    assumption = "It decreases, so Thompson sampling satisfies the theorem's assumption here."
    return [
        _interactions(part, result, 2),
        _intervals(part, result),
        _pull_variance(part, result, 1, assumption),
        _designs(part, result),
    ]


def example_3(part: Part, result: Record) -> list[Section]:
    """The curves, the slope, the axes and the designs."""
    curve = result["curves"]["replay"]
    end = curve[-1]
    peak = max(curve, key=lambda one: float(one["pull_variance"][0]))
    about = (
        "The paper concludes from this figure that the variance is not o(T). In our runs it peaks at T = "
        f"{peak['horizon']:,} ({peak['pull_variance'][0]:.3g}) and is {end['pull_variance'][0]:.3g}, with a "
        f"standard error of {end['pull_variance_error'][0]:.2g}, at T = {end['horizon']:,}; the band "
        "extends two standard errors to either side."
    )
    variances = "Variance of the estimators", "variance of the estimated effect"
    return [
        _curve(part, result, "interactions", "Real interactions", "mean real interactions"),
        _slopes(part, result),
        _curve(part, result, "variance", *variances),
        _axes(part, result),
        _pull_variance(part, result, 0, about),
        _designs(part, result),
    ]


def families(part: Part, result: Record) -> list[Section]:
    """The designs for each pair of policies of one family."""
    return [
        Section(
            f"Beyond the paper: {family['title']}",
            "Between policies of one family, sharing their random numbers as well as the rewards lowers the "
            "variance further.",
            _design_table(f"beyond-{place}", family["designs"]),
        )
        for place, family in enumerate(result["families"], start=1)
    ]


def _interactions(part: Part, result: Record, number: int) -> Section:
    cells = {label: columns(many, "value")[0] for label, many in result["interactions"].items()}
    naive, replay = (
        [one for one in result["published"] if one["name"] == f"interactions, {label}"]
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
    header = ("design", *(f"T = {one['horizon']:,}" for one in replay))
    return Section(
        f"{part.title}: Table {number}",
        "Mean number of real interactions per replication. Error is our Monte Carlo standard error; z also includes "
        "that of the published 10,000 runs.",
        Table(f"{part.name}-interactions", header, rows),
    )


def _intervals(part: Part, result: Record) -> Section:
    control, policy = result["policies"]
    intervals, fields = result["intervals"], ("checkpoint", "effect", "low", "high")
    curves = [plots.Curve(label, *columns(many, *fields)) for label, many in intervals.items()]
    rows = [(curve.label, *point) for curve in curves for point in zip(*curve[1:], strict=True)]
    around = sum(one["low"] <= 0 <= one["high"] for one in intervals["naive"])
    below = sum(one["high"] < 0 for one in intervals["replay"])
    above = sum(one["low"] > 0 for one in intervals["replay"])
    title = f"{policy} minus {control}, {published.INTERVAL_RUNS} runs"
    share = {label: f"{value:.0%}" for label, value in result["decided"].items()}
    return Section(
        f"{part.title}: 99% intervals from ten runs",
        f"Of {len(intervals['naive'])} horizons, the naive interval contains 0 at {around}; the replay interval lies "
        f"below 0 at {below} and above it at {above}. Over all blocks of ten runs, the interval at T = 10,000 "
        f"excludes 0 in {share['naive']} of the naive blocks and in {share['replay']} of the replay blocks.",
        figure=ReportFigure(
            f"{part.name}-intervals",
            "The estimated effect over the horizon with its interval: a wide band for naive, a narrow one for replay",
            Table(f"{part.name}-intervals", ("design", *fields), rows),
            lambda: plots.draw_effects(curves, level=published.LEVEL, title=title),
        ),
    )


def _pull_variance(part: Part, result: Record, policy: int, text: str) -> Section:
    fields = ("horizon", "pull_variance", "pull_variance_error")
    horizons, *pairs = columns(result["curves"]["replay"], *fields)
    values, errors = (tuple(pair[policy] for pair in column) for column in pairs)
    line = plots.Line(result["policies"][policy], horizons, values, errors)
    quantity = "Var(pulls of arm 2) / T"
    name, title = f"{part.name}-pull-variance", f"{quantity}, Thompson sampling"
    return Section(
        f"{part.title}: {quantity} of Thompson sampling",
        text,
        figure=line_figure(name, [line], title, quantity),
    )


def _curve(part: Part, result: Record, field: str, title: str, quantity: str) -> Section:
    lines = [
        plots.Line(label, *columns(many, "horizon", field, f"{field}_error"))
        for label, many in result["curves"].items()
    ]
    return Section(
        f"{part.title}: {title[0].lower()}{title[1:]}",
        figure=line_figure(f"{part.name}-{field}", lines, title, quantity),
    )


def _slopes(part: Part, result: Record) -> Section:
    (slope,) = [one for one in result["published"] if one["name"] == "slope"]
    rise = result["slopes"][-1]
    readings = columns(result["slopes"], "explore", "reading", "value", "error")
    rows = [*zip(*readings, strict=True), ("published", "about", slope["published"], None)]
    return Section(
        f"{part.title}: the slope of the interactions",
        'The paper gives "an asymptotic slope of about 1.09". It does not state how the slope was computed, nor '
        "whether epsilon-greedy explores among all arms or among the others. Two of the six readings fit: with "
        "exploration among all arms, our rule, interactions / T at T = 10,000 "
        f"({slope['ours']:.4f}, z = {slope['z']:.2f}), which is the one counted above; with exploration among the "
        f"others, the rise from T = 5,000 to 10,000 ({rise['value']:.4f}), which is nearer to the word asymptotic. "
        "The data do not decide between them, and as the reading was chosen among six, this is a weak test.",
        Table(f"{part.name}-slopes", ("explore", "reading", "slope", "error"), rows, 4),
    )


def _axes(part: Part, result: Record) -> Section:
    matches = [one for one in result["published"] if one["relation"] == "<="]
    rows = [
        *zip(*columns(matches, "name", "horizon", "ours", "error", "published", "z"), strict=True)
    ]
    return Section(
        f"{part.title}: within the published axes",
        "The paper prints no numbers with these figures; the highest point of each curve must lie within its axis.",
        Table(f"{part.name}-axes", ("curve", "T", "highest", "error", "axis ends at", "z"), rows),
    )


def _design_table(name: str, designs: Sequence[Record]) -> Table:
    alike = ("design", "effect", "error", "variance")
    ratio = ("naive_replications", "naive_replications_low", "naive_replications_high")
    header = (*alike, "users", "naive replications for 10", "low", "high", "naive users for 1")
    cells = columns(designs, *alike, "interactions", *ratio, "naive_users")
    return Table(name, header, [*zip(*cells, strict=True)])


def _designs(part: Part, result: Record) -> Section:
    return Section(
        f"{part.title}: designs side by side",
        "At T = 10,000, not in the paper: users per replication, the number of naive replications as precise as "
        "ten of the design with its 95% interval, and the number of naive users equivalent to one user of the design "
        "(its interval is as wide in proportion). "
        "Time-coupled is what other libraries do: the same reward for an arm in the same period.",
        _design_table(f"{part.name}-designs", result["designs"]),
    )
