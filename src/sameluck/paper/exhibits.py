"""Findings as exhibits: a title, a sentence, a table, a figure. Numbers come from the findings alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sameluck.paper import illustration, published
from sameluck.paper.examples import TABLE_HORIZONS
from sameluck.paper.exhibit import TITLES, Exhibit, Figure, line_figure
from sameluck.paper.parts import Findings
from sameluck.paper.running import THEOREMS
from sameluck.paper.tables import Cell, Table
from sameluck.paper.verdicts import theorem_exhibits
from sameluck.reporting import plots


def arrange(found: Mapping[str, Findings]) -> list[Exhibit]:
    """Everything the findings have to show, in the paper's order."""
    shown: list[Exhibit] = []
    if "illustration" in found:
        shown += _illustration()
    for name in ("example1", "example2", "example3"):
        if name in found:
            shown += _EXAMPLES[name](name, found[name])
    checked = {part.name: found[part.name] for part in THEOREMS if part.name in found}
    if checked:
        shown += theorem_exhibits(checked)
    if "beyond" in found:
        shown += _beyond(found["beyond"])
    return shown


def _illustration() -> list[Exhibit]:
    played, arms = illustration.trajectories(), ("1", "2", "3")
    visits = plots.visits(played)
    real = sum(v.source is None for v in visits)
    title = f"Three arms, ten periods, two policies: {real} real users instead of {len(visits)}"
    return [
        Exhibit(
            "The illustration",
            "The paper's two trajectories, drawn from its printed sequences. "
            f"Of {len(visits)} rewards {real} were asked of real users (published: {published.INTERACTIONS}) and "
            f"{len(visits) - real} replayed.",
            figure=Figure(
                "illustration-trajectories",
                "Arms and rewards of two policies in ten periods, with arrows from the first policy's rewards to "
                "where the second one replays them",
                _visit_table(visits),
                lambda: plots.draw_trajectories(played, arms=arms, title=title),
            ),
        ),
        Exhibit(
            "The illustration as shared reward stacks",
            "The same replication: each arm has one stack, and both policies take from it in order. What both used "
            "cost one user, not two.",
            figure=Figure(
                "illustration-stacks",
                "Three rows of ten rewards, shaded by how many policies used each and marked with the period",
                _stack_table(visits),
                lambda: plots.draw_stacks(
                    played, arms=arms, unused=published.STACKS, title="Shared reward stacks"
                ),
            ),
        ),
    ]


def _visit_table(visits: Sequence[plots.Visit]) -> Table:
    header = ("policy", "period", "arm", "position", "reward", "replayed")
    rows = [
        (v.policy, v.period, v.arm + 1, v.position + 1, v.reward, v.source is not None)
        for v in visits
    ]
    return Table("illustration-trajectories", header, rows)


def _stack_table(visits: Sequence[plots.Visit]) -> Table:
    used = {(v.arm, v.position, v.policy): v.period for v in visits}
    rows = [
        (
            arm + 1,
            position + 1,
            reward,
            *(used.get((arm, position, name)) for name in illustration.POLICIES),
        )
        for arm, stack in enumerate(published.STACKS)
        for position, reward in enumerate(stack)
    ]
    header = ("arm", "position", "reward", *(f"period of {name}" for name in illustration.POLICIES))
    return Table("illustration-stacks", header, rows)


def _example_1(name: str, found: Findings) -> list[Exhibit]:
    return [_interactions(name, found, 1), _intervals(name, found), _designs(name, found)]


def _example_2(name: str, found: Findings) -> list[Exhibit]:
    return [
        _interactions(name, found, 2),
        _intervals(name, found),
        _pull_variance(
            name, found, 1, "It falls, so Thompson sampling meets the theorem's assumption here."
        ),
        _designs(name, found),
    ]


def _example_3(name: str, found: Findings) -> list[Exhibit]:
    curve = found["curves"]["replay"]
    end = curve[-1]
    peak = max(curve, key=lambda one: float(one["pull_variance"][0]))
    about = (
        "The paper takes this figure to show that the variance is not o(T). In our runs it peaks at T = "
        f"{peak['horizon']:,} ({peak['pull_variance'][0]:.3g}) and is {end['pull_variance'][0]:.3g}, with a "
        f"standard error of {end['pull_variance_error'][0]:.2g}, at T = {end['horizon']:,}; the band reaches two "
        "errors to either side."
    )
    return [
        _curve(name, found, "interactions", "Real interactions", "mean real interactions"),
        _slopes(name, found),
        _curve(
            name,
            found,
            "variance",
            "Variance of the estimators",
            "variance of the estimated effect",
        ),
        _axes(name, found),
        _pull_variance(name, found, 0, about),
        _designs(name, found),
    ]


_EXAMPLES = {"example1": _example_1, "example2": _example_2, "example3": _example_3}


def _interactions(name: str, found: Findings, number: int) -> Exhibit:
    cells = {label: [one["value"] for one in many] for label, many in found["interactions"].items()}
    replay = [one for one in found["published"] if one["name"] == "interactions, replay"]
    naive = [one for one in found["published"] if one["name"] == "interactions, naive"]
    rows = [
        ("naive", *cells["naive"]),
        ("naive, published", *(one["published"] for one in naive)),
        ("replay", *cells["replay"]),
        ("replay, published", *(one["published"] for one in replay)),
        ("replay, error", *(one["error"] for one in replay)),
        ("z of the difference", *(one["z"] for one in replay)),
        ("time-coupled", *cells["time-coupled"]),
    ]
    header = ("design", *(f"T = {horizon:,}" for horizon in TABLE_HORIZONS))
    return Exhibit(
        f"{TITLES[name]}: Table {number}",
        "Mean real interactions a replication. Error is our Monte Carlo standard error; z also counts that of "
        "the published 10,000 runs.",
        Table(f"{name}-interactions", header, rows),
    )


def _intervals(name: str, found: Findings) -> Exhibit:
    control, policy = found["policies"]
    curves = [
        plots.Curve(label, *(tuple(one[field] for one in many) for field in _INTERVAL))
        for label, many in found["intervals"].items()
    ]
    rows = [
        (label, *(one[field] for field in _INTERVAL))
        for label, many in found["intervals"].items()
        for one in many
    ]
    title = f"{policy} minus {control}, {published.INTERVAL_RUNS} runs"
    share = {label: f"{value:.0%}" for label, value in found["decided"].items()}
    return Exhibit(
        f"{TITLES[name]}: 99% intervals from ten runs",
        f"{_sides(found)} Whatever ten runs one takes: at T = 10,000 the naive interval leaves out 0 in "
        f"{share['naive']} of all blocks of ten runs, the replay interval in {share['replay']}.",
        figure=Figure(
            f"{name}-intervals",
            "The estimated effect over the horizon with its interval: a wide band for naive, a narrow one for replay",
            Table(f"{name}-intervals", ("design", *_INTERVAL), rows),
            lambda: plots.draw_effects(curves, level=published.LEVEL, title=title),
        ),
    )


_INTERVAL = ("checkpoint", "effect", "low", "high")


def _sides(found: Findings) -> str:
    naive, replay = found["intervals"]["naive"], found["intervals"]["replay"]
    around = sum(one["low"] <= 0 <= one["high"] for one in naive)
    below, above = sum(one["high"] < 0 for one in replay), sum(one["low"] > 0 for one in replay)
    return (
        f"Of {len(naive)} horizons, the naive interval contains 0 at {around}; the replay interval lies below 0 at "
        f"{below} and above it at {above}."
    )


def _pull_variance(name: str, found: Findings, policy: int, about: str) -> Exhibit:
    curve = found["curves"]["replay"]
    horizons = tuple(one["horizon"] for one in curve)
    values, errors = (
        tuple(one[field][policy] for one in curve)
        for field in ("pull_variance", "pull_variance_error")
    )
    line = plots.Line(found["policies"][policy], horizons, values, errors)
    quantity = "Var(pulls of arm 2) / T"
    return Exhibit(
        f"{TITLES[name]}: {quantity} of Thompson sampling",
        about,
        figure=line_figure(
            f"{name}-pull-variance", [line], f"{quantity}, Thompson sampling", quantity
        ),
    )


def _curve(name: str, found: Findings, field: str, title: str, quantity: str) -> Exhibit:
    lines = [
        plots.Line(
            label,
            tuple(one["horizon"] for one in many),
            tuple(one[field] for one in many),
            tuple(one[f"{field}_error"] for one in many),
        )
        for label, many in found["curves"].items()
    ]
    return Exhibit(
        f"{TITLES[name]}: {title[0].lower()}{title[1:]}",
        figure=line_figure(f"{name}-{field}", lines, title, quantity),
    )


def _slopes(name: str, found: Findings) -> Exhibit:
    (said,) = [one for one in found["published"] if one["name"] == "slope"]
    rows = [(one["explore"], one["reading"], one["value"], one["error"]) for one in found["slopes"]]
    rows.append(("published", "about", said["published"], None))
    return Exhibit(
        f"{TITLES[name]}: the slope of the interactions",
        "The paper says the slope is about 1.09 and leaves open how it was read off and whether epsilon-greedy "
        "explores among all arms or among the others. With exploration among all arms, our rule, the reading "
        f"that meets it is interactions / T at T = 10,000 (z = {said['z']:.2f}).",
        Table(f"{name}-slopes", ("explore", "reading", "slope", "error"), rows, 4),
    )


def _axes(name: str, found: Findings) -> Exhibit:
    rows = [
        (one["name"], one["horizon"], one["ours"], one["error"], one["published"], one["z"])
        for one in found["published"]
        if one["relation"] == "<="
    ]
    return Exhibit(
        f"{TITLES[name]}: within the published axes",
        "The paper prints no numbers with these figures; the highest point of each curve must lie on its axis.",
        Table(f"{name}-axes", ("curve", "T", "highest", "error", "axis ends at", "z"), rows),
    )


_DESIGN_HEADER = (
    "design",
    "effect",
    "error",
    "variance",
    "users",
    "naive replications for 10",
    "naive users for 1",
)


def _design_rows(records: Sequence[Findings]) -> list[tuple[Cell, ...]]:
    fields = (
        "design",
        "effect",
        "error",
        "variance",
        "interactions",
        "naive_replications",
        "naive_users",
    )
    return [tuple(one[field] for field in fields) for one in records]


def _designs(name: str, found: Findings) -> Exhibit:
    return Exhibit(
        f"{TITLES[name]}: designs side by side",
        "At T = 10,000, beyond the paper: users a replication, how many naive replications are as precise as ten "
        "of the design's, and how many naive users are worth one of its users. Time-coupled is what other "
        "libraries do: the same reward for an arm in the same period.",
        Table(f"{name}-designs", _DESIGN_HEADER, _design_rows(found["designs"])),
    )


def _beyond(found: Findings) -> list[Exhibit]:
    return [
        Exhibit(
            f"Beyond the paper: {family['title']}",
            "Between policies of one family, sharing their coins as well as their rewards lowers the variance "
            "further.",
            Table(f"beyond-{place}", _DESIGN_HEADER, _design_rows(family["designs"])),
        )
        for place, family in enumerate(found["families"], start=1)
    ]
