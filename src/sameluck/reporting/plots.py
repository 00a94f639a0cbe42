"""Figures: numbers first (NamedTuples that tests and pages read), then drawing. Needs `sameluck[plots]`."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, Protocol, TypeAlias

from sameluck.errors import Invalid, optional, shown
from sameluck.files import write_whole
from sameluck.reporting.wording import percent
from sameluck.trajectories import Trajectory

FORMATS = (".svg", ".pdf", ".png")

# Okabe and Ito's colours, which colour-blind readers can distinguish; dashes distinguish lines in black and white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "D")
LEGEND_INSIDE = 5  # curves; with more the legend is below the axes
BANDS = 8  # curves that can be told apart; of more the last checkpoint is drawn
BARS = 60  # of one figure
REAL, REPLAYED = "#A6CEE8", "#FFD9A0"  # light, for print; replayed ones also have dashed frames
SHADES = ("white", "#ECECEC", "#C9C9C9")  # of an entry that no policy, one policy or several used
MASKED = {"fc": "white", "hatch": "/////"}

_STYLE = {
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "font.size": 10,
    "svg.fonttype": "none",
    "svg.hashsalt": "sameluck",
}
_METADATA = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}  # no dates: equal bytes
_ARROW = {"arrowstyle": "-|>", "color": "#D55E00", "lw": 1.1, "shrinkA": 0, "shrinkB": 0}

Axes: TypeAlias = Any  # matplotlib's, which is imported only when something is drawn


class Figure(Protocol):
    """A matplotlib figure."""

    def __getattr__(self, name: str) -> Any: ...


@contextmanager
def drawing(
    size: tuple[float, float], title: str, ax: Axes | None = None
) -> Iterator[tuple[Figure, Axes]]:
    """An empty figure and its axes in the common style; or the axes `ax` and their figure as they are."""
    if ax is not None:
        if not hasattr(ax, "figure") or not hasattr(ax, "set_title"):
            raise Invalid(f"ax must be the Axes of a matplotlib figure, got {shown(ax)}")
        ax.set_title(title)
        yield ax.figure, ax
        return
    with panels(size, 1, 1) as (figure, ((axes,),)):
        axes.set_title(title)
        yield figure, axes


@contextmanager
def panels(
    size: tuple[float, float], rows: int, columns: int
) -> Iterator[tuple[Figure, Sequence[Sequence[Axes]]]]:
    """An empty figure and rows of axes in the common style."""
    with optional("matplotlib", "plots").rc_context(_STYLE):
        figure = optional("matplotlib.figure", "plots").Figure(figsize=size, layout="constrained")
        yield figure, figure.subplots(rows, columns, squeeze=False)


def colour(index: int) -> str:
    """The colour of the line or policy with this index."""
    return COLOURS[index % len(COLOURS)]


def dash(index: int) -> str:
    """The dashes of the line with this index."""
    return DASHES[index % len(DASHES)]


def checked_path(path: str | Path) -> Path:
    """The path, or `Invalid` if no figure can be written there; nothing is written."""
    target = Path(path)
    if target.suffix not in FORMATS:
        raise Invalid(f"cannot plot to {str(path)!r}: its ending must be {', '.join(FORMATS)}")
    if not target.parent.is_dir():
        raise Invalid(f"cannot write {str(path)!r}: no folder {str(target.parent)!r}")
    return target


def save(figure: Figure, path: str | Path) -> Path:
    """Write a figure as SVG, PDF or PNG, by the file's ending; the same figure gives the same bytes."""
    target = checked_path(path)
    write_whole(target, to_bytes(figure, target.suffix))
    return target


def saved(figure: Figure, path: str | Path | None) -> Figure:
    """The figure, written to `path` if given."""
    if path is not None:
        save(figure, path)
    return figure


def to_bytes(figure: Figure, ending: str) -> bytes:
    """The content of a file with a figure: `.svg`, `.pdf` or `.png`."""
    content = io.BytesIO()
    with optional("matplotlib", "plots").rc_context(_STYLE):
        figure.savefig(content, format=ending[1:], metadata=_METADATA.get(ending), dpi=160)
    return content.getvalue()


def to_svg(figure: Figure) -> str:
    """A figure as SVG text for a page."""
    return svg_element(to_bytes(figure, ".svg"))


def svg_element(content: bytes) -> str:
    """The SVG of a file without its XML prolog."""
    text = content.decode()
    return text.partition("<!DOCTYPE")[2].partition(">")[2] or text


class Curve(NamedTuple):
    """An effect and its interval at each checkpoint."""

    label: str
    checkpoints: tuple[int, ...]
    effect: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


def draw_effects(
    curves: Sequence[Curve],
    *,
    level: float,
    title: str,
    scope: str = "",
    quantity: str = "cumulative reward",
    lowest_first: bool = False,
    ax: Axes | None = None,
) -> Figure:
    """The effect over the horizon with its interval as a band; as bars if there is one checkpoint, or many curves.

    `scope` says in brackets whether the intervals are simultaneous; `ax` are axes to draw on.
    """
    what, interval = f"effect on {quantity}", f"{percent(level)} interval{scope}"
    many = len(curves) > BANDS
    bars = many or all(len(curve.checkpoints) == 1 for curve in curves)
    legend = 0.22 * len(curves) if len(curves) > LEGEND_INSIDE else 0.0
    each = 0.24 if many else 0.45
    height = 1.4 + each * min(len(curves), BARS) if bars else 4.2 + legend
    with drawing((7.2, height), title, ax) as (figure, axes):
        if many:
            _draw_ranking(axes, curves, what, interval, lowest_first=lowest_first)
        else:
            (_draw_bars if bars else _draw_bands)(axes, curves, what, interval)
    return figure


def draw_policies(
    curves: Sequence[Curve], *, level: float, quantity: str, ax: Axes | None = None
) -> Figure:
    """A quantity of each policy over the horizon, with intervals; as bars if there is one checkpoint."""
    bars = all(len(curve.checkpoints) == 1 for curve in curves)
    legend = 0.22 * len(curves) if len(curves) > LEGEND_INSIDE else 0.0
    height = 1.4 + 0.45 * len(curves) if bars else 4.2 + legend
    with drawing((7.2, height), "", ax) as (figure, axes):
        draw = _draw_bars if bars else _draw_bands
        draw(axes, curves, quantity, f"{percent(level)} interval")
    return figure


def _draw_bands(axes: Axes, curves: Sequence[Curve], what: str, interval: str) -> None:
    for index, curve in enumerate(curves):
        horizons, shade = curve.checkpoints, colour(index)
        axes.fill_between(horizons, curve.low, curve.high, color=shade, alpha=0.18, lw=0)
        axes.plot(horizons, curve.low, color=shade, lw=0.8, alpha=0.7)
        axes.plot(horizons, curve.high, color=shade, lw=0.8, alpha=0.7)
        label = _legend_label(curve.label)
        axes.plot(horizons, curve.effect, dash(index), color=shade, lw=1.8, label=label)
    axes.axhline(0, color="0.35", lw=0.8, zorder=0)
    axes.set_xlabel("horizon (periods)")
    axes.set_ylabel(f"{what}\nwith {interval}")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.margins(x=0.01)
    if len(curves) > LEGEND_INSIDE:
        axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)
    else:
        axes.legend(frameon=False, loc="best")


def _draw_bars(
    axes: Axes, curves: Sequence[Curve], what: str, interval: str, *, shades: int = 7
) -> None:
    """The last checkpoint of each curve, from top to bottom; neighbours differ in colour unless `shades` is 1."""
    for index, curve in enumerate(curves):
        shade = colour(index % shades)
        axes.plot([curve.low[-1], curve.high[-1]], [index, index], color=shade, lw=3, alpha=0.5)
        axes.plot(curve.effect[-1], index, "o", color=shade, markersize=5)
    axes.axvline(0, color="0.35", lw=0.8, zorder=0)
    axes.set_yticks(range(len(curves)), [curve.label for curve in curves])
    axes.set_ylim(len(curves) - 0.5, -0.5)
    horizon = curves[0].checkpoints[-1]
    axes.set_xlabel(f"{what}\nover {horizon:,} periods, with {interval}")


def _draw_ranking(
    axes: Axes, curves: Sequence[Curve], what: str, interval: str, *, lowest_first: bool
) -> None:
    """Many effects in their order, in one colour; the policy that all are compared with is named once."""
    largest = sorted(curves, key=lambda curve: -abs(curve.effect[-1]))[:BARS]
    sign = 1.0 if lowest_first else -1.0
    ranked = sorted(largest, key=lambda curve: sign * curve.effect[-1])
    common = {curve.label.rpartition(" minus ")[2] for curve in curves}
    if len(common) == 1:
        ranked = [one._replace(label=one.label.rpartition(" minus ")[0]) for one in ranked]
    _draw_bars(axes, ranked, what, interval, shades=1)
    axes.tick_params(axis="y", labelsize=8)
    notes = [f"minus {name}" for name in common if len(common) == 1]
    if len(curves) > BARS:
        notes.append(f"the {BARS} largest of {len(curves):,} differences")
    axes.set_xlabel("\n".join([*notes, axes.get_xlabel()]))


class PowerCurve(NamedTuple):
    """The power of one design over its number of users."""

    label: str
    users: tuple[float, ...]
    power: tuple[float, ...]


def draw_power(
    curves: Sequence[PowerCurve], *, effect: float, power: float | None, ax: Axes | None = None
) -> Figure:
    """Power over users on a logarithmic axis, a line for each design."""
    with drawing((7.2, 4.2), "What the designs need", ax) as (figure, axes):
        for index, curve in enumerate(curves):
            style = {"color": colour(index), "lw": 1.8, "label": _legend_label(curve.label)}
            axes.step(curve.users, curve.power, dash(index), where="post", **style)
        if power is not None:
            axes.axhline(power, color="0.35", lw=0.8, zorder=0)
            axes.annotate(f"{power:g}", (0.01, power + 0.01), xycoords=("axes fraction", "data"))
        axes.set_xscale("log")
        axes.set_ylim(0, 1.02)
        axes.set_xlabel("real users in total")
        axes.set_ylabel(f"power to find an effect of {effect:.4g}")
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.legend(frameon=False, loc="best")
    return figure


def _legend_label(label: str) -> str:
    # Matplotlib leaves names with a leading underscore out of a legend.
    return f"\u200b{label}" if label.startswith("_") else label


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
) -> Figure:
    """Quantities over the horizon on one axis, with a thin line at a limit."""
    with drawing((7.2, 3.8), title) as (figure, axes):
        for index, line in enumerate(lines):
            shade = colour(index)
            style = {"lw": 1.8, "marker": MARKERS[index % len(MARKERS)], "markersize": 4}
            style |= {"color": shade, "label": line.label}
            axes.plot(line.horizons, line.values, dash(index), **style)
            if line.errors:
                pairs = list(zip(line.values, line.errors, strict=True))
                low, high = [v - 2 * e for v, e in pairs], [v + 2 * e for v, e in pairs]
                axes.fill_between(line.horizons, low, high, color=shade, alpha=0.18, lw=0)
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
    return figure


class Visit(NamedTuple):
    """One period of one policy in a small replication."""

    policy: str
    period: int  # from 1
    arm: int
    position: int
    reward: float
    source: tuple[str, int] | None  # policy and period that revealed a replayed reward


def visits(trajectories: Mapping[str, Trajectory]) -> list[Visit]:
    """Every period of a traced replication, each replayed reward with its last earlier visit."""
    seen: dict[tuple[int, int], tuple[str, int]] = {}
    result = []
    for policy, trajectory in trajectories.items():
        rows = zip(*(column.tolist() for column in trajectory), strict=True)
        own = [
            Visit(policy, period, arm, position, reward, seen[arm, position] if replayed else None)
            for period, (arm, position, reward, replayed) in enumerate(rows, 1)
        ]
        seen |= {(visit.arm, visit.position): (policy, visit.period) for visit in own}
        result += own
    return result


def draw_trajectories(
    trajectories: Mapping[str, Trajectory], *, arms: Sequence[str] = (), title: str = ""
) -> Figure:
    """A small replication as `trace` returns it: each policy's arms and rewards, and an arrow to each replay.

    `arms` are the arms' names; their numbers, from 0, if not given.
    """
    patches = optional("matplotlib.patches", "plots")
    names, all_visits = list(trajectories), visits(trajectories)
    periods = max(visit.period for visit in all_visits)
    _check_room(periods)
    with drawing((1.7 + 0.55 * periods, 0.7 + 1.25 * len(names)), title) as (figure, axes):
        axes.axis("off")
        axes.set(xlim=(-0.3, periods + 0.6), ylim=(2.3 * len(names) - 1.2, -0.6))
        for visit in all_visits:
            row = 2.3 * names.index(visit.policy)
            _draw_visit(axes, patches, visit, row, arms[visit.arm] if arms else str(visit.arm))
            if visit.source is not None:
                start = visit.source[1], 2.3 * names.index(visit.source[0]) + 1.03
                axes.annotate("", (visit.period, row - 0.03), start, arrowprops=_ARROW, zorder=0)
        for index, name in enumerate(names):
            axes.text(0.3, 2.3 * index + 0.25, f"{name}  arm", ha="right", va="center")
            axes.text(0.3, 2.3 * index + 0.75, "reward", ha="right", va="center")
        for period in range(1, periods + 1):
            axes.text(period, -0.3, f"{period}", ha="center", va="center", color="0.35", fontsize=9)
        axes.text(0.3, -0.3, "period", ha="right", va="center", color="0.35", fontsize=9)
        _draw_legend(
            axes, patches, {"from a real user": {"fc": REAL}, "replayed": {"fc": REPLAYED}}
        )
    return figure


def _draw_visit(axes: Axes, patches: ModuleType, visit: Visit, row: float, arm: str) -> None:
    x, real = visit.period, visit.source is None
    style = {"fc": REAL, "ls": "-"} if real else {"fc": REPLAYED, "ls": "--"}
    axes.add_patch(patches.Rectangle((x - 0.4, row), 0.8, 1, ec="0.2", lw=0.8, **style))
    axes.plot([x - 0.4, x + 0.4], [row + 0.5, row + 0.5], color="0.2", lw=0.6)
    axes.text(x, row + 0.26, arm, ha="center", va="center", weight="bold")
    axes.text(x, row + 0.76, f"{visit.reward:.3g}", ha="center", va="center")


def draw_stacks(
    trajectories: Mapping[str, Trajectory],
    *,
    arms: Sequence[str] = (),
    unused: Sequence[Sequence[float]] = (),
    masked: tuple[int, int] | None = None,
    title: str = "",
) -> Figure:
    """The reward stacks of a small replication: which policy used which entry, in which period.

    Args:
        trajectories: What `trace` returned, or some of its policies; none if `unused` has the stacks.
        arms: The arms' names; their numbers, from 0, if not given.
        unused: The whole stack of each arm, where the rewards that no policy used are known too.
        masked: An arm and the position from which its rewards are hidden.
        title: Above the figure.
    """
    patches = optional("matplotlib.patches", "plots")
    names, all_visits = list(trajectories), visits(trajectories)
    n_arms = max([len(arms), len(unused), *(1 + visit.arm for visit in all_visits)])
    depth = max([*(1 + visit.position for visit in all_visits), *map(len, unused)])
    _check_room(depth)
    with drawing((1.7 + 0.62 * depth, 1.0 + 0.72 * n_arms), title) as (figure, axes):
        axes.axis("off")
        axes.set(xlim=(-0.3, depth + 0.1), ylim=(n_arms - 0.05, -0.4))
        for arm, position in itertools.product(range(n_arms), range(depth)):
            entry = [v for v in all_visits if (v.arm, v.position) == (arm, position)]
            reward = entry[0].reward if entry else unused[arm][position] if unused else None
            look = {"fc": SHADES[min(len(entry), 2)]}
            if masked is not None and arm == masked[0] and position >= masked[1]:
                reward, look = None, MASKED
            axes.add_patch(patches.Rectangle((position, arm), 0.94, 0.84, ec="0.2", lw=0.8, **look))
            if reward is not None:
                _draw_reward(axes, (position, arm), reward, beside=bool(names), used=bool(entry))
            for visit in entry:
                index = names.index(visit.policy)
                height = arm + 0.84 * (index + 0.6) / (max(len(names), 2) + 0.2)
                style = {"fontsize": 7.5, "va": "center", "weight": "bold", "color": colour(index)}
                axes.text(position + 0.07, height, f"{visit.period}", **style)
        for arm in range(n_arms):
            label = f"arm {arms[arm] if arms else arm}"
            axes.text(-0.15, arm + 0.42, label, ha="right", va="center")
        for index, name in enumerate(names):
            style = {"ha": "center", "color": colour(index), "fontsize": 9}
            axes.text(depth * (index + 0.5) / len(names), -0.22, f"period of {name}", **style)
        _draw_legend(axes, patches, _stack_legend(len(names), masked=masked is not None))
    return figure


def _draw_reward(
    axes: Axes, corner: tuple[int, int], reward: float, *, beside: bool, used: bool
) -> None:
    """A reward in its entry; to the right of the centre if periods stand beside it."""
    x, y = corner[0] + (0.56 if beside else 0.47), corner[1] + 0.42
    shade = "0.1" if used or not beside else "0.55"
    axes.text(x, y, f"{reward:.3g}", ha="center", va="center", fontsize=11, color=shade)


def _stack_legend(policies: int, *, masked: bool) -> dict[str, dict[str, str]]:
    labels = {
        0: ("known",),
        1: ("not used", "used"),
        2: ("not used", "used by one policy", "used by both"),
    }.get(policies, ("not used", "used by one policy", "used by several"))
    shades = {label: {"fc": SHADES[index]} for index, label in reversed([*enumerate(labels)])}
    return {**shades, "masked": MASKED} if masked else shades


def _check_room(columns: int) -> None:
    if columns > 60:
        raise Invalid(
            f"a figure of single periods has room for 60 columns, got {columns:,}; trace a shorter horizon"
        )


def _draw_legend(axes: Axes, patches: ModuleType, styles: Mapping[str, dict[str, str]]) -> None:
    frames = [patches.Patch(ec="0.2", lw=0.8, **style) for style in styles.values()]
    place = {"loc": "upper center", "bbox_to_anchor": (0.5, 0.0)}
    axes.legend(frames, list(styles), ncols=4, frameon=False, **place)
