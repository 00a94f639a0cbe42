"""Figures: numbers first (a NamedTuple that tests and pages can read), then drawing. Needs `sameluck[plots]`."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from sameluck.errors import Invalid, optional
from sameluck.trajectories import Trajectory

FORMATS = (".svg", ".pdf", ".png")

# Okabe and Ito's colours, told apart by colour-blind readers and in print; dashes tell them apart without colour.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "D")
ASKED, KNOWN = (
    "#A6CEE8",
    "#FFD9A0",
)  # light enough for print; dashed frames tell replayed ones apart without colour

_ARROW = {"arrowstyle": "-|>", "color": "#D55E00", "lw": 1.1, "shrinkA": 0, "shrinkB": 0}
_BELOW = {"loc": "upper center", "bbox_to_anchor": (0.5, 0.0), "ncols": 3, "frameon": False}

_STYLE = {
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "font.size": 10,
    "svg.fonttype": "none",
    "svg.hashsalt": "sameluck",
}


class Curve(NamedTuple):
    """An effect and its interval at each checkpoint."""

    label: str
    checkpoints: tuple[int, ...]
    effect: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


def draw_effects(curves: Sequence[Curve], *, level: float, title: str) -> Any:
    """The effect over the horizon with its interval as a band; as bars if there is one checkpoint."""
    matplotlib = optional("matplotlib", "plots")
    figure_of = optional("matplotlib.figure", "plots").Figure
    with matplotlib.rc_context(_STYLE):
        bars = all(len(curve.checkpoints) == 1 for curve in curves)
        height = (
            1.4 + 0.45 * len(curves) if bars else 4.2 + (0.22 * len(curves) if _many(curves) else 0)
        )
        figure = figure_of(figsize=(7.2, height), layout="constrained")
        axes = figure.subplots()
        draw = _draw_bars if bars else _draw_bands
        draw(axes, curves, level)
        axes.set_title(title)
    return figure


def _draw_bands(axes: Any, curves: Sequence[Curve], level: float) -> None:
    for place, curve in enumerate(curves):
        colour, dash = COLOURS[place % len(COLOURS)], DASHES[place % len(DASHES)]
        axes.fill_between(curve.checkpoints, curve.low, curve.high, color=colour, alpha=0.18, lw=0)
        axes.plot(curve.checkpoints, curve.low, color=colour, lw=0.8, alpha=0.7)
        axes.plot(curve.checkpoints, curve.high, color=colour, lw=0.8, alpha=0.7)
        axes.plot(
            curve.checkpoints, curve.effect, dash, color=colour, lw=1.8, label=_shown(curve.label)
        )
    axes.axhline(0, color="0.35", lw=0.8, zorder=0)
    axes.set_xlabel("horizon (periods)")
    axes.set_ylabel(f"effect on cumulative reward\nwith {_percent(level)} interval")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.margins(x=0.01)
    if _many(curves):
        axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)
    else:
        axes.legend(frameon=False, loc="best")


def _many(curves: Sequence[Curve]) -> bool:
    return len(curves) > 5


def _draw_bars(axes: Any, curves: Sequence[Curve], level: float) -> None:
    for place, curve in enumerate(curves):
        colour = COLOURS[place % len(COLOURS)]
        axes.plot([curve.low[0], curve.high[0]], [place, place], color=colour, lw=3, alpha=0.5)
        axes.plot(curve.effect[0], place, "o", color=colour)
    axes.axvline(0, color="0.35", lw=0.8, zorder=0)
    axes.set_yticks(range(len(curves)), [curve.label for curve in curves])
    axes.set_ylim(len(curves) - 0.5, -0.5)
    horizon = curves[0].checkpoints[0]
    axes.set_xlabel(
        f"effect on cumulative reward\nover {horizon:,} periods, with {_percent(level)} interval"
    )


class PowerCurve(NamedTuple):
    """The chance to find an effect over the number of users spent, for one design."""

    label: str
    users: tuple[float, ...]
    power: tuple[float, ...]


def draw_power(curves: Sequence[PowerCurve], *, effect: float, power: float | None) -> Any:
    """Power over users on a logarithmic axis, a line for each design."""
    matplotlib = optional("matplotlib", "plots")
    figure_of = optional("matplotlib.figure", "plots").Figure
    with matplotlib.rc_context(_STYLE):
        figure = figure_of(figsize=(7.2, 4.2), layout="constrained")
        axes = figure.subplots()
        for place, curve in enumerate(curves):
            colour, dash = COLOURS[place % len(COLOURS)], DASHES[place % len(DASHES)]
            axes.step(
                curve.users,
                curve.power,
                dash,
                where="post",
                color=colour,
                lw=1.8,
                label=_shown(curve.label),
            )
        if power is not None:
            axes.axhline(power, color="0.35", lw=0.8, zorder=0)
            axes.annotate(f"{power:g}", (0.01, power + 0.01), xycoords=("axes fraction", "data"))
        axes.set_xscale("log")
        axes.set_ylim(0, 1.02)
        axes.set_xlabel("real users in all")
        axes.set_ylabel(f"power to find an effect of {effect:.4g}")
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.legend(frameon=False, loc="best")
        axes.set_title("What the designs need")
    return figure


def _shown(label: str) -> str:
    # Matplotlib leaves names with a leading underscore out of a legend.
    return f"\u200b{label}" if label.startswith("_") else label


def _percent(level: float) -> str:
    return f"{float(f'{100 * level:.6g}'):g}%"


class Line(NamedTuple):
    """A quantity over the horizon."""

    label: str
    horizons: tuple[int, ...]
    values: tuple[float, ...]
    errors: tuple[float, ...] = ()  # Monte Carlo standard errors, drawn twice as wide


def draw_lines(
    lines: Sequence[Line],
    *,
    title: str,
    quantity: str,
    logarithmic: bool = False,
    limit: float | None = None,
) -> Any:
    """Quantities over the horizon on one axis, with a thin line at a limit they are held against."""
    matplotlib = optional("matplotlib", "plots")
    figure_of = optional("matplotlib.figure", "plots").Figure
    with matplotlib.rc_context(_STYLE):
        figure = figure_of(figsize=(7.2, 3.8), layout="constrained")
        axes = figure.subplots()
        for place, line in enumerate(lines):
            _draw_line(axes, line, place)
        if limit is not None:
            axes.axhline(limit, color="0.35", lw=0.8, zorder=0, label=f"limit {limit:g}")
        if logarithmic:
            axes.loglog()
        else:
            axes.set_ylim(bottom=0)
            axes.yaxis.set_major_formatter("{x:,.6g}")
            axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.set_xlabel("horizon (periods)")
        axes.set_ylabel(quantity)
        axes.margins(x=0.02)
        axes.legend(frameon=False, loc="best")
        axes.set_title(title)
    return figure


def _draw_line(axes: Any, line: Line, place: int) -> None:
    colour, dash = COLOURS[place % len(COLOURS)], DASHES[place % len(DASHES)]
    looks = {"lw": 1.8, "marker": MARKERS[place % len(MARKERS)], "markersize": 4}
    axes.plot(line.horizons, line.values, dash, color=colour, label=line.label, **looks)
    if line.errors:
        pairs = list(zip(line.values, line.errors, strict=True))
        low, high = [v - 2 * e for v, e in pairs], [v + 2 * e for v, e in pairs]
        axes.fill_between(line.horizons, low, high, color=colour, alpha=0.18, lw=0)


class Visit(NamedTuple):
    """One period of one policy in a small replication."""

    policy: str
    period: int  # from 1
    arm: int
    position: int
    reward: float
    source: (
        tuple[str, int] | None
    )  # the policy and period before that a replayed reward is known from


def visits(trajectories: Mapping[str, Trajectory]) -> list[Visit]:
    """Every period of a traced replication, each replayed reward with where it was seen last."""
    seen: dict[tuple[int, int], tuple[str, int]] = {}
    found = []
    for policy, one in trajectories.items():
        entries = zip(one.arms.tolist(), one.positions.tolist(), strict=True)
        for place, (arm, position) in enumerate(entries):
            source = seen[arm, position] if one.replayed[place] else None
            found.append(Visit(policy, place + 1, arm, position, float(one.rewards[place]), source))
        seen |= {(v.arm, v.position): (policy, v.period) for v in found if v.policy == policy}
    return found


def draw_trajectories(
    trajectories: Mapping[str, Trajectory], *, arms: Sequence[str] = (), title: str = ""
) -> Any:
    """A small replication as `trace` returns it: each policy's arms and rewards, and an arrow to each replay.

    `arms` are the arms' names; their numbers, from 0, if not given.
    """
    patches = optional("matplotlib.patches", "plots")
    names, found = list(trajectories), visits(trajectories)
    periods = max(one.period for one in found)
    with _sheet(periods, (1.7 + 0.55 * periods, 0.7 + 1.25 * len(names)), title) as (figure, axes):
        axes.set(xlim=(-0.3, periods + 0.6), ylim=(2.3 * len(names) - 1.2, -0.6))
        for one in found:
            row = 2.3 * names.index(one.policy)
            _draw_visit(axes, patches, one, row, arms[one.arm] if arms else str(one.arm))
            if one.source is not None:
                start = one.source[1], 2.3 * names.index(one.source[0]) + 1.03
                axes.annotate("", (one.period, row - 0.03), start, arrowprops=_ARROW, zorder=0)
        for place, name in enumerate(names):
            axes.text(0.3, 2.3 * place + 0.25, f"{name}  arm", ha="right", va="center")
            axes.text(0.3, 2.3 * place + 0.75, "reward", ha="right", va="center")
        for period in range(1, periods + 1):
            axes.text(period, -0.3, f"{period}", ha="center", va="center", color="0.35", fontsize=9)
        axes.text(0.3, -0.3, "period", ha="right", va="center", color="0.35", fontsize=9)
        axes.legend(*_legend(patches, {"asked of a real user": ASKED, "replayed": KNOWN}), **_BELOW)
    return figure


def _draw_visit(axes: Any, patches: Any, one: Visit, row: float, arm: str) -> None:
    looks = {"fc": ASKED, "ls": "-"} if one.source is None else {"fc": KNOWN, "ls": "--"}
    axes.add_patch(patches.Rectangle((one.period - 0.4, row), 0.8, 1, ec="0.2", lw=0.8, **looks))
    axes.plot([one.period - 0.4, one.period + 0.4], [row + 0.5, row + 0.5], color="0.2", lw=0.6)
    axes.text(one.period, row + 0.26, arm, ha="center", va="center", weight="bold")
    axes.text(one.period, row + 0.76, f"{one.reward:.3g}", ha="center", va="center")


def draw_stacks(
    trajectories: Mapping[str, Trajectory],
    *,
    arms: Sequence[str] = (),
    unused: Sequence[Sequence[float]] = (),
    title: str = "",
) -> Any:
    """The reward stacks behind a small replication: who used which entry, in which period.

    Args:
        trajectories: What `trace` returned.
        arms: The arms' names; their numbers, from 0, if not given.
        unused: The whole stack of each arm, where also the rewards that nobody used are known.
        title: Above the figure.
    """
    patches = optional("matplotlib.patches", "plots")
    names, found = list(trajectories), visits(trajectories)
    n_arms = max(len(arms), len(unused), 1 + max(one.arm for one in found))
    depth = max([1 + max(one.position for one in found), *map(len, unused)])
    with _sheet(depth, (1.7 + 0.62 * depth, 1.0 + 0.72 * n_arms), title) as (figure, axes):
        axes.set(xlim=(-0.3, depth + 0.1), ylim=(n_arms - 0.05, -0.4))
        for arm, position in itertools.product(range(n_arms), range(depth)):
            entry = [one for one in found if (one.arm, one.position) == (arm, position)]
            reward = entry[0].reward if entry else unused[arm][position] if unused else None
            _draw_entry(axes, patches, (position, arm), entry, reward)
            _draw_users(axes, (position, arm), entry, names)
        for arm in range(n_arms):
            axes.text(
                -0.15, arm + 0.42, f"arm {arms[arm] if arms else arm}", ha="right", va="center"
            )
        for place, name in enumerate(names):
            middle = depth * (place + 0.5) / len(names)
            axes.text(
                middle, -0.22, f"period of {name}", ha="center", color=_colour(place), fontsize=9
            )
        several = "used by both" if len(names) == 2 else "used by several"
        shades = {several: _shade(2), "used by one policy": _shade(1), "not used": _shade(0)}
        axes.legend(*_legend(patches, shades), **_BELOW)
    return figure


def _draw_entry(
    axes: Any, patches: Any, corner: tuple[int, int], entry: Sequence[Visit], reward: float | None
) -> None:
    shade = _shade(len(entry))
    axes.add_patch(patches.Rectangle(corner, 0.94, 0.84, fc=shade, ec="0.2", lw=0.8))
    if reward is not None:
        place, colour = (corner[0] + 0.56, corner[1] + 0.42), "0.1" if entry else "0.55"
        axes.text(*place, f"{reward:.3g}", fontsize=11, color=colour, ha="center", va="center")


def _draw_users(
    axes: Any, corner: tuple[int, int], entry: Sequence[Visit], names: Sequence[str]
) -> None:
    for one in entry:
        place = names.index(one.policy)
        height = corner[1] + 0.84 * (place + 0.6) / (len(names) + 0.2)
        looks = {"fontsize": 7.5, "va": "center", "weight": "bold", "color": _colour(place)}
        axes.text(corner[0] + 0.07, height, f"{one.period}", **looks)


def _colour(place: int) -> str:
    return COLOURS[place % len(COLOURS)]


def _shade(users: int) -> str:
    return ("white", "#ECECEC", "#C9C9C9")[min(users, 2)]


@contextmanager
def _sheet(columns: int, size: tuple[float, float], title: str) -> Iterator[tuple[Any, Any]]:
    """A figure without axes for a picture made of cells."""
    if not (columns <= 60):
        raise Invalid(
            f"a picture of single periods has room for 60 columns, got {columns:,}; trace a shorter horizon"
        )
    matplotlib = optional("matplotlib", "plots")
    with matplotlib.rc_context(_STYLE):
        figure = optional("matplotlib.figure", "plots").Figure(figsize=size, layout="constrained")
        axes = figure.subplots()
        axes.axis("off")
        axes.set_title(title)
        yield figure, axes


def _legend(patches: Any, colours: Mapping[str, str]) -> tuple[list[Any], list[str]]:
    return [patches.Patch(fc=colour, ec="0.2", lw=0.8) for colour in colours.values()], list(
        colours
    )


def checked_path(path: str | Path) -> Path:
    """A path a figure can be written to, or a message that says why not; nothing is written yet."""
    target = Path(path)
    kinds = ", ".join(FORMATS)
    if target.suffix not in FORMATS:
        raise Invalid(f"cannot plot to {str(path)!r}: its ending must be {kinds}")
    if not target.parent.is_dir():
        raise Invalid(f"cannot write {str(path)!r}: no folder {str(target.parent)!r}")
    return target


def save(figure: Any, path: str | Path) -> Path:
    """Write a figure as SVG, PDF or PNG, by the file's ending; the same figure gives the same bytes."""
    target = checked_path(path)
    matplotlib = optional("matplotlib", "plots")
    metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(target.suffix)
    try:
        with matplotlib.rc_context(_STYLE):
            figure.savefig(target, metadata=metadata, dpi=160)
    except OSError as error:
        raise Invalid(f"cannot write {str(path)!r}: {error.strerror or error}") from None
    return target


def to_bytes(figure: Any, ending: str) -> bytes:
    """The content of a file with a figure: `.svg`, `.pdf` or `.png`."""
    matplotlib = optional("matplotlib", "plots")
    metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(ending)
    content = io.BytesIO()
    with matplotlib.rc_context(_STYLE):
        figure.savefig(content, format=ending[1:], metadata=metadata, dpi=160)
    return content.getvalue()


def to_svg(figure: Any) -> str:
    """A figure as SVG text for a page."""
    return svg_element(to_bytes(figure, ".svg"))


def svg_element(content: bytes) -> str:
    """The SVG of a file without its XML prolog."""
    text = content.decode()
    return text.partition("<!DOCTYPE")[2].partition(">")[2] or text
