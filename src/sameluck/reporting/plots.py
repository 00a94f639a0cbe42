"""Matplotlib figures of effects, power and other curves; with `drawing` and `trace_figures`, the module `sl.plots`.

The numbers of a figure are a NamedTuple that tests and pages read too. Needs `sameluck[plots]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from sameluck.inference.planning.plan import PowerCurve
from sameluck.reporting.drawing import (
    COLOURS,
    DASHES,
    FORMATS,
    MARKERS,
    Axes,
    Figure,
    Svg,
    checked_path,
    colour,
    dash,
    drawing,
    panels,
    save,
    saved,
    svg_element,
    to_bytes,
    to_svg,
)
from sameluck.reporting.trace_figures import (
    MASKED,
    REAL,
    REPLAYED,
    SHADES,
    Visit,
    draw_stacks,
    draw_trajectories,
    visits,
)
from sameluck.wording import percent

if TYPE_CHECKING:
    from sameluck.inference.effects import Effect
    from sameluck.inference.policy_summaries import PolicyMetric

__all__ = [
    "COLOURS",
    "DASHES",
    "FORMATS",
    "MARKERS",
    "MASKED",
    "MAX_BANDS",
    "MAX_BARS",
    "MAX_LEGEND_INSIDE",
    "REAL",
    "REPLAYED",
    "SHADES",
    "Axes",
    "Curve",
    "Figure",
    "Line",
    "PowerCurve",
    "Svg",
    "Visit",
    "checked_path",
    "colour",
    "dash",
    "draw_effects",
    "draw_lines",
    "draw_policies",
    "draw_power",
    "draw_stacks",
    "draw_trajectories",
    "drawing",
    "effect_curves",
    "metric_curves",
    "panels",
    "save",
    "saved",
    "svg_element",
    "to_bytes",
    "to_svg",
    "visits",
]

MAX_LEGEND_INSIDE = 5  # curves; with more the legend is below the axes
MAX_BANDS = 8  # curves with distinguishable bands; of more, the last checkpoint is drawn
MAX_BARS = 60


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
    groups: dict[str, list[PolicyMetric]] = {}
    for row in values:
        groups.setdefault(row.policy, []).append(row)
    return [
        Curve(
            policy,
            *zip(*((row.checkpoint, row.value, row.low, row.high) for row in rows), strict=True),
        )
        for policy, rows in groups.items()
    ]


def effect_curves(effects: Sequence[Effect]) -> list[Curve]:
    groups: dict[str, list[Effect]] = {}
    for effect in effects:
        groups.setdefault(f"{effect.policy} minus {effect.control}", []).append(effect)
    return [
        Curve(
            pair,
            *zip(*((row.checkpoint, row.effect, row.low, row.high) for row in rows), strict=True),
        )
        for pair, rows in groups.items()
    ]


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
