"""Figures: numbers first (NamedTuples that tests and pages read), then drawing. Needs `sameluck[plots]`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sameluck.reporting.figures import (
    Axes,
    Figure,
    checked_path,
    colour,
    dash,
    drawing,
    save,
    svg_element,
    to_bytes,
    to_svg,
)
from sameluck.reporting.trajectory_plots import Visit, draw_stacks, draw_trajectories, visits
from sameluck.reporting.wording import percent

__all__ = ["Curve", "Line", "PowerCurve", "draw_effects", "draw_lines", "draw_power"]
__all__ += ["Figure", "checked_path", "save", "svg_element", "to_bytes", "to_svg"]
__all__ += ["Visit", "draw_stacks", "draw_trajectories", "visits"]

MARKERS = ("o", "s", "^", "D")
LEGEND_INSIDE = 5  # curves; with more the legend is below the axes


class Curve(NamedTuple):
    """An effect and its interval at each checkpoint."""

    label: str
    checkpoints: tuple[int, ...]
    effect: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


def draw_effects(curves: Sequence[Curve], *, level: float, title: str) -> Figure:
    """The effect over the horizon with its interval as a band; as bars if there is one checkpoint."""
    bars = all(len(curve.checkpoints) == 1 for curve in curves)
    legend = 0.22 * len(curves) if len(curves) > LEGEND_INSIDE else 0.0
    height = 1.4 + 0.45 * len(curves) if bars else 4.2 + legend
    with drawing((7.2, height), title) as (figure, axes):
        draw = _draw_bars if bars else _draw_bands
        draw(axes, curves, level)
    return figure


def _draw_bands(axes: Axes, curves: Sequence[Curve], level: float) -> None:
    for index, curve in enumerate(curves):
        horizons, shade = curve.checkpoints, colour(index)
        axes.fill_between(horizons, curve.low, curve.high, color=shade, alpha=0.18, lw=0)
        axes.plot(horizons, curve.low, color=shade, lw=0.8, alpha=0.7)
        axes.plot(horizons, curve.high, color=shade, lw=0.8, alpha=0.7)
        label = _legend_label(curve.label)
        axes.plot(horizons, curve.effect, dash(index), color=shade, lw=1.8, label=label)
    axes.axhline(0, color="0.35", lw=0.8, zorder=0)
    axes.set_xlabel("horizon (periods)")
    axes.set_ylabel(f"effect on cumulative reward\nwith {percent(level)} interval")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.margins(x=0.01)
    if len(curves) > LEGEND_INSIDE:
        axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)
    else:
        axes.legend(frameon=False, loc="best")


def _draw_bars(axes: Axes, curves: Sequence[Curve], level: float) -> None:
    for index, curve in enumerate(curves):
        shade = colour(index)
        axes.plot([curve.low[0], curve.high[0]], [index, index], color=shade, lw=3, alpha=0.5)
        axes.plot(curve.effect[0], index, "o", color=shade)
    axes.axvline(0, color="0.35", lw=0.8, zorder=0)
    axes.set_yticks(range(len(curves)), [curve.label for curve in curves])
    axes.set_ylim(len(curves) - 0.5, -0.5)
    horizon = curves[0].checkpoints[0]
    axes.set_xlabel(
        f"effect on cumulative reward\nover {horizon:,} periods, with {percent(level)} interval"
    )


class PowerCurve(NamedTuple):
    """The power of one design over its number of users."""

    label: str
    users: tuple[float, ...]
    power: tuple[float, ...]


def draw_power(curves: Sequence[PowerCurve], *, effect: float, power: float | None) -> Figure:
    """Power over users on a logarithmic axis, a line for each design."""
    with drawing((7.2, 4.2), "What the designs need") as (figure, axes):
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
