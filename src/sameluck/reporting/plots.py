"""Matplotlib figures of effects, power, other curves and traced replications; with `drawing`, the module `sl.plots`.

The numbers of a figure are a NamedTuple that tests and pages read too. Needs `sameluck[plots]`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

from sameluck.errors import Invalid, optional
from sameluck.inference.planning.plan import PowerCurve
from sameluck.reporting.drawing import (
    MARKERS,
    Axes,
    Figure,
    checked_path,
    colour,
    dash,
    drawing,
    panels,
    save,
    to_bytes,
    to_svg,
)
from sameluck.trajectories import Trajectory
from sameluck.wording import percent

if TYPE_CHECKING:
    from sameluck.inference.effects import Effect
    from sameluck.inference.policy_summaries import PolicyMetric

# With the names of `drawing` that users of `sl.plots` need.
__all__ = [
    "Axes",
    "Curve",
    "Figure",
    "Line",
    "Visit",
    "checked_path",
    "colour",
    "draw_effects",
    "draw_lines",
    "draw_policies",
    "draw_power",
    "draw_stacks",
    "draw_trajectories",
    "effect_curves",
    "metric_curves",
    "panels",
    "save",
    "to_bytes",
    "to_svg",
    "visits",
]

MAX_LEGEND_INSIDE = 5  # curves; with more the legend is below the axes
MAX_BANDS = 8  # curves with distinguishable bands; of more, the last checkpoint is drawn
MAX_BARS = 60
REAL, REPLAYED = "#A6CEE8", "#FFD9A0"  # light, for print; replayed ones also have dashed frames
SHADES = ("white", "#ECECEC", "#C9C9C9")  # of an entry that no policy, one policy or several used
MASKED = {"fc": "white", "hatch": "/////"}

_ARROW = {"arrowstyle": "-|>", "color": "#D55E00", "lw": 1.1, "shrinkA": 0, "shrinkB": 0}


class Curve(NamedTuple):
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
    """Draw effects over the horizon with intervals as bands; as bars for one checkpoint or many curves.

    `scope` says in brackets which intervals hold together; `ax` are axes to draw on.
    """
    y_label, interval = f"effect on {quantity}", f"{percent(level)} interval{scope}"
    condensed = len(curves) > MAX_BANDS
    bars = condensed or all(len(curve.checkpoints) == 1 for curve in curves)
    legend = 0.22 * len(curves) if len(curves) > MAX_LEGEND_INSIDE else 0.0
    bar_height = 0.24 if condensed else 0.45
    height = 1.4 + bar_height * min(len(curves), MAX_BARS) if bars else 4.2 + legend
    with drawing((7.2, height), title, ax) as (figure, axes):
        if condensed:
            _draw_ranking(axes, curves, y_label, interval, lowest_first=lowest_first)
        else:
            (_draw_bars if bars else _draw_bands)(axes, curves, y_label, interval)
    return figure


def draw_policies(
    curves: Sequence[Curve], *, level: float, quantity: str, ax: Axes | None = None
) -> Figure:
    """Draw each policy's quantity over the horizon, with intervals; as bars for one checkpoint.

    The intervals of many policies would hide each other and are drawn for one checkpoint only. The legend lists many
    policies in the order of their lines at the last checkpoint.
    """
    bars = all(len(curve.checkpoints) == 1 for curve in curves)
    if len(curves) > MAX_BANDS:
        curves = sorted(curves, key=lambda curve: -curve.effect[-1])
    legend = 0.22 * len(curves) if len(curves) > MAX_LEGEND_INSIDE else 0.0
    height = 1.4 + 0.45 * len(curves) if bars else 4.2 + legend
    with drawing((7.2, height), "", ax) as (figure, axes):
        interval = f"{percent(level)} interval"
        if bars:
            _draw_bars(axes, curves, quantity, interval, shades=1 if len(curves) > MAX_BANDS else 7)
        else:
            _draw_bands(axes, curves, quantity, interval)
    return figure


def _draw_bands(axes: Axes, curves: Sequence[Curve], y_label: str, interval: str) -> None:
    with_intervals = len(curves) <= MAX_BANDS
    for index, curve in enumerate(curves):
        horizons, shade = curve.checkpoints, colour(index)
        if with_intervals:
            axes.fill_between(horizons, curve.low, curve.high, color=shade, alpha=0.18, lw=0)
            axes.plot(horizons, curve.low, color=shade, lw=0.8, alpha=0.7)
            axes.plot(horizons, curve.high, color=shade, lw=0.8, alpha=0.7)
        label = _legend_label(curve.label)
        axes.plot(horizons, curve.effect, dash(index), color=shade, lw=1.8, label=label)
    axes.axhline(0, color="0.35", lw=0.8, zorder=0)
    axes.set_xlabel("horizon (periods)")
    axes.set_ylabel(f"{y_label}\nwith {interval}" if with_intervals else y_label)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.margins(x=0.01)
    if len(curves) > MAX_LEGEND_INSIDE:
        axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)
    else:
        axes.legend(frameon=False, loc="best")


def _draw_bars(
    axes: Axes, curves: Sequence[Curve], y_label: str, interval: str, *, shades: int = 7
) -> None:
    """Draw the last checkpoint of each curve, from top to bottom, in `shades` colours."""
    for index, curve in enumerate(curves):
        shade = colour(index % shades)
        axes.plot([curve.low[-1], curve.high[-1]], [index, index], color=shade, lw=3, alpha=0.5)
        axes.plot(curve.effect[-1], index, "o", color=shade, markersize=5)
    axes.axvline(0, color="0.35", lw=0.8, zorder=0)
    axes.set_yticks(range(len(curves)), [curve.label for curve in curves])
    axes.set_ylim(len(curves) - 0.5, -0.5)
    horizon = curves[0].checkpoints[-1]
    axes.set_xlabel(f"{y_label}, over {horizon:,} periods\nwith {interval}")


def _draw_ranking(
    axes: Axes, curves: Sequence[Curve], y_label: str, interval: str, *, lowest_first: bool
) -> None:
    """Draw many effects in their order, in one colour; a common control is named once."""
    largest = sorted(curves, key=lambda curve: -abs(curve.effect[-1]))[:MAX_BARS]
    sign = 1.0 if lowest_first else -1.0
    ranked = sorted(largest, key=lambda curve: sign * curve.effect[-1])
    common = {curve.label.rpartition(" minus ")[2] for curve in curves}
    if len(common) == 1:
        ranked = [curve._replace(label=curve.label.rpartition(" minus ")[0]) for curve in ranked]
    _draw_bars(axes, ranked, y_label, interval, shades=1)
    axes.tick_params(axis="y", labelsize=8)
    notes = [f"minus {name}" for name in common if len(common) == 1]
    if len(curves) > MAX_BARS:
        notes.append(f"the {MAX_BARS} largest of {len(curves):,} differences")
    axes.set_xlabel("\n".join([*notes, axes.get_xlabel()]))


def metric_curves(values: Sequence[PolicyMetric]) -> list[Curve]:
    return _curves((row.policy, (row.checkpoint, row.value, row.low, row.high)) for row in values)


def effect_curves(effects: Sequence[Effect]) -> list[Curve]:
    return _curves(
        (f"{row.policy} minus {row.control}", (row.checkpoint, row.effect, row.low, row.high))
        for row in effects
    )


def _curves(rows: Iterable[tuple[str, tuple[int, float, float, float]]]) -> list[Curve]:
    groups: dict[str, list[tuple[int, float, float, float]]] = {}
    for label, numbers in rows:
        groups.setdefault(label, []).append(numbers)
    return [Curve(label, *zip(*numbers, strict=True)) for label, numbers in groups.items()]


def draw_power(
    curves: Sequence[PowerCurve], *, effect: float, power: float | None, ax: Axes | None = None
) -> Figure:
    """Draw power over users on a logarithmic axis, a line for each design."""
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
    """Draw quantities over the horizon on one axis, with a thin line at a limit."""
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
    """Period of a policy in a small replication."""

    policy: str
    period: int  # from 1
    arm: int
    position: int
    reward: float
    source: tuple[str, int] | None  # policy and period that revealed a replayed reward


def visits(trajectories: Mapping[str, Trajectory]) -> list[Visit]:
    """Return every period of a traced replication, each replayed reward with its last earlier visit."""
    seen: dict[tuple[float, int, int], tuple[str, int]] = {}
    result = []
    for policy, trajectory in trajectories.items():
        # The first number of a context is the level or state. The position of a user with features is the period.
        contexts = trajectory.contexts
        levels = [0.0] * trajectory.arms.size if contexts is None else contexts[:, 0].tolist()
        columns = [column.tolist() for column in trajectory[:4]]
        latest = {}  # not in `seen` yet: a policy does not replay its own rewards
        for period, (level, *row) in enumerate(zip(levels, *columns, strict=True), 1):
            arm, position, reward, replayed = row
            source = seen[level, arm, position] if replayed else None
            result.append(Visit(policy, period, arm, position, reward, source))
            latest[level, arm, position] = policy, period
        seen |= latest
    return result


def draw_trajectories(
    trajectories: Mapping[str, Trajectory], *, arms: Sequence[str] = (), title: str = ""
) -> Figure:
    """Draw a small replication from `trace`: each policy's arms and rewards, and an arrow to each replay.

    `arms` are the arms' names; the default is their numbers, from 0.
    """
    patches = optional("matplotlib.patches", "plots")
    names, all_visits = list(trajectories), visits(trajectories)
    periods = max(visit.period for visit in all_visits)
    _check_room(periods)
    with drawing((1.7 + 0.55 * periods, 0.7 + 1.25 * len(names)), title) as (figure, axes):
        axes.axis("off")
        axes.set(xlim=(-0.3, periods + 0.6), ylim=(2.3 * len(names) - 1.2, -0.6))
        for visit in all_visits:
            row, x = 2.3 * names.index(visit.policy), visit.period
            look = {"fc": REAL, "ls": "-"} if visit.source is None else {"fc": REPLAYED, "ls": "--"}
            axes.add_patch(patches.Rectangle((x - 0.4, row), 0.8, 1, ec="0.2", lw=0.8, **look))
            axes.plot([x - 0.4, x + 0.4], [row + 0.5, row + 0.5], color="0.2", lw=0.6)
            arm = arms[visit.arm] if arms else f"{visit.arm}"
            axes.text(x, row + 0.26, arm, ha="center", va="center", weight="bold")
            axes.text(x, row + 0.76, f"{visit.reward:.3g}", ha="center", va="center")
            if visit.source is not None:
                start = visit.source[1], 2.3 * names.index(visit.source[0]) + 1.03
                axes.annotate("", (x, row - 0.03), start, arrowprops=_ARROW, zorder=0)
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


def draw_stacks(
    trajectories: Mapping[str, Trajectory],
    *,
    arms: Sequence[str] = (),
    unused: Sequence[Sequence[float]] = (),
    masked: tuple[int, int] | None = None,
    title: str = "",
) -> Figure:
    """Draw the reward stacks of a small replication: which policy used which entry, in which period.

    Args:
        trajectories: Result of `trace`, or some of its policies; empty if `unused` has the stacks.
        arms: The arms' names; the default is their numbers, from 0.
        unused: The whole stack of each arm, if rewards that no policy used are known too.
        masked: An arm, and the first position whose reward is hidden.
        title: Title of the figure.

    Stacks of users with contexts are not drawn: an arm has one for each level, and none with features.
    """
    patches = optional("matplotlib.patches", "plots")
    if any(trajectory.contexts is not None for trajectory in trajectories.values()):
        raise Invalid(
            "draw_stacks draws one stack per arm, and with contexts an arm has a stack for each level, or none; use "
            "draw_trajectories, or read trace.to_dicts()"
        )
    names, all_visits = list(trajectories), visits(trajectories)
    n_arms = max([len(arms), len(unused), *(1 + visit.arm for visit in all_visits)])
    depth = max([*(1 + visit.position for visit in all_visits), *map(len, unused)])
    _check_room(depth)
    with drawing((1.7 + 0.62 * depth, 1.0 + 0.72 * n_arms), title) as (figure, axes):
        axes.axis("off")
        axes.set(xlim=(-0.3, depth + 0.1), ylim=(n_arms - 0.05, -0.4))
        for arm, position in itertools.product(range(n_arms), range(depth)):
            entry = [
                visit for visit in all_visits if (visit.arm, visit.position) == (arm, position)
            ]
            reward = entry[0].reward if entry else unused[arm][position] if unused else None
            look = {"fc": SHADES[min(len(entry), 2)]}
            if masked is not None and arm == masked[0] and position >= masked[1]:
                reward, look = None, MASKED
            axes.add_patch(patches.Rectangle((position, arm), 0.94, 0.84, ec="0.2", lw=0.8, **look))
            if reward is not None:
                # Periods of policies stand left of the centre.
                x, shade = (position + 0.56, "0.55") if names else (position + 0.47, "0.1")
                style = {"fontsize": 11, "color": "0.1" if entry else shade}
                axes.text(x, arm + 0.42, f"{reward:.3g}", ha="center", va="center", **style)
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
    axes.legend(
        frames, list(styles), ncols=4, frameon=False, loc="upper center", bbox_to_anchor=(0.5, 0.0)
    )
