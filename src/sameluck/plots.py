"""Figures: numbers first (a NamedTuple that tests and pages can read), then drawing. Needs `sameluck[plots]`."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sameluck.errors import Invalid, optional, require
from sameluck.estimates import Effect

FORMATS = (".svg", ".pdf", ".png")

# Okabe and Ito's colours, told apart by colour-blind readers and in print; dashes tell them apart without colour.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "--", "-.", ":")

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


def effect_curves(effects: Sequence[Effect], label: str | None = None) -> list[Curve]:
    """One curve for each pair of policies."""
    pairs = dict.fromkeys((one.policy, one.control) for one in effects)
    curves = []
    for policy, control in pairs:
        points = [one for one in effects if (one.policy, one.control) == (policy, control)]
        curves.append(
            Curve(
                label or f"{policy} minus {control}",
                tuple(one.checkpoint for one in points),
                tuple(one.effect for one in points),
                tuple(one.low for one in points),
                tuple(one.high for one in points),
            )
        )
    return curves


def draw_effects(curves: Sequence[Curve], *, level: float, title: str) -> Any:
    """The effect over the horizon with its interval as a band; as bars if there is one checkpoint."""
    matplotlib = optional("matplotlib", "plots")
    figure_of = optional("matplotlib.figure", "plots").Figure
    with matplotlib.rc_context(_STYLE):
        bars = all(len(curve.checkpoints) == 1 for curve in curves)
        height = 1.4 + 0.45 * len(curves) if bars else 4.2
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
        axes.plot(curve.checkpoints, curve.effect, dash, color=colour, lw=1.8, label=curve.label)
    axes.axhline(0, color="0.35", lw=0.8, zorder=0)
    axes.set_xlabel("horizon (periods)")
    axes.set_ylabel(f"effect on cumulative reward\nwith {_percent(level)} interval")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.margins(x=0.01)
    axes.legend(frameon=False, loc="best")


def _draw_bars(axes: Any, curves: Sequence[Curve], level: float) -> None:
    for place, curve in enumerate(curves):
        colour = COLOURS[place % len(COLOURS)]
        axes.plot([curve.low[0], curve.high[0]], [place, place], color=colour, lw=3, alpha=0.5)
        axes.plot(curve.effect[0], place, "o", color=colour)
    axes.axvline(0, color="0.35", lw=0.8, zorder=0)
    axes.set_yticks(range(len(curves)), [curve.label for curve in curves])
    axes.set_ylim(len(curves) - 0.5, -0.5)
    horizon = curves[0].checkpoints[0]
    axes.set_xlabel(f"effect on cumulative reward\nover {horizon:,} periods, with {_percent(level)} interval")


def _percent(level: float) -> str:
    return f"{float(f'{100 * level:.6g}'):g}%"


def checked_path(path: str | Path) -> Path:
    """A path a figure can be written to, or a message that says why not; nothing is written yet."""
    target = Path(path)
    kinds = ", ".join(FORMATS)
    require(target.suffix in FORMATS, f"cannot plot to {str(path)!r}: its ending must be {kinds}")
    require(target.parent.is_dir(), f"cannot write {str(path)!r}: no folder {str(target.parent)!r}")
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


def to_svg(figure: Any) -> str:
    """A figure as SVG text for a page."""
    matplotlib = optional("matplotlib", "plots")
    text = io.StringIO()
    with matplotlib.rc_context(_STYLE):
        figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue().partition("<!DOCTYPE")[2].partition(">")[2] or text.getvalue()
