"""Figure of a twin: the distribution of differences on the copy, intervals side by side, and the tail of losses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sameluck.arrays import Floats
from sameluck.reporting.drawing import Axes, Figure, colour, drawing, panels
from sameluck.wording import amount, percent

_POINTER = {"arrowprops": {"arrowstyle": "-", "color": "0.5"}, "ha": "right", "va": "top"}


class Bar(NamedTuple):
    label: str
    centre: float | None
    low: float
    high: float


class Tail(NamedTuple):
    """Losses of a policy that fails rarely."""

    policy: str
    losses: Floats  # ascending
    loss: float  # of its rare failure
    one_in: float


class PairFigure(NamedTuple):
    """Numbers to draw for a pair of policies at a horizon."""

    label: str  # policy minus control
    horizon: int
    differences: Floats  # on the copy
    observed: Floats
    bars: tuple[Bar, ...]
    level: float  # of the bars
    tail: Tail | None  # None if no policy fails rarely


def draw_twin(pairs: Sequence[PairFigure], ax: Axes | None = None) -> Figure:
    """Draw a row of panels for each pair; on `ax`, only the distribution of the first pair's difference."""
    if ax is not None:
        with drawing((1, 1), "", ax) as (figure, axes):
            _draw_distribution(axes, pairs[0])
        return figure
    with panels((11.5, 3.4 * len(pairs)), len(pairs), 3) as (figure, rows):
        for (distribution, intervals, tail), pair in zip(rows, pairs, strict=True):
            _draw_distribution(distribution, pair)
            _draw_intervals(intervals, pair)
            _draw_tail(tail, pair)
    return figure


def _draw_distribution(axes: Axes, pair: PairFigure) -> None:
    low, high = np.quantile(pair.differences, [0.0005, 0.9995])
    low, high = min(low, pair.observed.min()), max(high, pair.observed.max())
    whole = bool((pair.differences == np.round(pair.differences)).all())
    width = max(1.0, float(np.ceil((high - low) / 60))) if whole else (high - low) / 60 or 1.0
    edges = np.arange(low - width / 2, high + 1.5 * width, width)
    heights, _ = np.histogram(pair.differences, edges)
    axes.stairs(heights / heights.max(), edges, fill=True, color=colour(0), alpha=0.35)
    label = f"observed ({pair.observed.size:,})"
    axes.plot(*_stacked(pair.observed, width), "o", color=colour(1), clip_on=False, label=label)
    axes.axvline(0, color="0.35", lw=0.8, zorder=0)
    axes.set(title=f"One replication: {pair.label}", yticks=[], ylim=(0, None))
    axes.spines["left"].set_visible(False)
    axes.set_xlabel(f"difference over {pair.horizon:,} periods, on the copy")
    # The frame tells the legend's dot apart from the observed dots.
    axes.legend(framealpha=0.9, edgecolor="0.85", loc="best")


def _stacked(values: Floats, width: float) -> tuple[Floats, Floats]:
    """Return the positions of dots, with dots of the same bar above each other; the panel has height 1."""
    ordered = np.sort(values)
    bars = np.round(ordered / width)
    rank = np.arange(values.size) - np.searchsorted(bars, bars)
    return ordered, rank.astype(float) * min(0.06, 0.8 / max(1, int(rank.max())))


def _draw_intervals(axes: Axes, pair: PairFigure) -> None:
    for index, bar in enumerate(pair.bars):
        axes.plot([bar.low, bar.high], [index, index], color=colour(index), lw=3, alpha=0.5)
        if bar.centre is not None:
            axes.plot(bar.centre, index, "o", color=colour(index))
    axes.axvline(0, color="0.35", lw=0.8, zorder=0)
    axes.set_yticks(range(len(pair.bars)), [bar.label for bar in pair.bars])
    axes.set_ylim(len(pair.bars) - 0.5, -0.5)
    axes.set(title=f"Effect, {percent(pair.level)} intervals", xlabel="effect on cumulative reward")


def _draw_tail(axes: Axes, pair: PairFigure) -> None:
    axes.set_title("Rare failures")
    if pair.tail is None:
        axes.axis("off")
        axes.text(0, 0.9, "none on the copy", transform=axes.transAxes, color="0.35", va="top")
        return
    policy, losses, loss, one_in = pair.tail
    share = np.arange(losses.size, 0, -1) / pair.differences.size
    axes.step(losses, share, where="pre", color=colour(1), lw=1.8)
    axes.plot(loss, 1 / one_in, "o", color=colour(1))
    axes.set_yscale("log")
    axes.set(xlabel=f"{policy} ends behind\nby this much, or more", ylabel="share of replications")
    text = f"{amount(loss)} or more:\n1 in {one_in:,.0f}"
    # The curve falls, so the upper right corner is empty.
    axes.annotate(text, (loss, 1 / one_in), (1, 1), textcoords="axes fraction", **_POINTER)
