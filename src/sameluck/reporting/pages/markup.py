"""Charts as HTML, for the pages of the service and for reports: every text is escaped, nothing is styled in place.

The marks of a chart are in an SVG that is stretched to its box; the words beside it are placed in per cent, so that
they keep their size on a phone. A chart has its finding as its label and its data as a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from html import escape
from importlib.resources import files

from sameluck.reporting.pages.charts import Chart, Label
from sameluck.reporting.tables import html_table

LOGO = (
    '<svg viewBox="0 0 20 20" aria-hidden="true"><path class="b0" d="M1 13h8v5H1zM1 7.5h8v5H1zM11 13h8v5h-8z"/>'
    '<path class="b1" d="M1 2h8v5H1z"/><path class="b2" d="M11 7.5h8v5h-8z"/></svg>'
)


@cache
def stylesheet() -> str:
    """Colours, type, tables and charts, which pages and reports share."""
    return files("sameluck.reporting.pages").joinpath("look.css").read_text(encoding="utf-8")


def plot(chart: Chart) -> str:
    """The drawing alone."""
    marks = "".join(
        f'<path class="m-{mark.kind}" d="{mark.path}"/>' for mark in chart.marks if mark.path
    )
    words = [
        *(_text("tick", one, 'dx="-8" dy=".34em"', "end") for one in chart.y_ticks),
        *(_text("tick", one, 'dy="17"') for one in chart.x_ticks),
        *(_text(f"label {one.kind}".strip(), one) for one in chart.labels),
    ]
    return (
        f'<svg class="plot {chart.size}" role="img" aria-label="{escape(chart.label)}">'
        '<svg viewBox="0 0 1000 1000" preserveAspectRatio="none" width="100%" height="100%">'
        f"{marks}</svg>{''.join(words)}</svg>"
    )


def figure(chart: Chart, id: str) -> str:
    """The drawing with the titles of its axes, and its data as a table that is folded away."""
    above = f'<p class="axis" aria-hidden="true">{escape(chart.y_title)}</p>' * bool(chart.y_title)
    below = f'<p class="axis right" aria-hidden="true">{escape(chart.x_title)}</p>' * bool(
        chart.x_title
    )
    table = ""
    if chart.rows:
        what = f"{chart.y_title}, as a table"
        rows = html_table(chart.columns, chart.rows, label=what, id=f"{id}-scroll")
        table = (
            f'<details class="tab" id="{id}-table"><summary>Show as table</summary>{rows}</details>'
        )
    frame = f'<div class="frame {chart.size}">{plot(chart)}</div>'
    return f'<figure class="chart">{above}{frame}{below}</figure>{table}'


def policy(name: str, place: int | None) -> str:
    """The name of a policy in the colour and with the mark of its place; plain without one."""
    if place is None:
        return f"<b>{escape(name)}</b>"
    return f'<span class="pn p{place}">{escape(name)}</span>'


def cautions(sentences: Sequence[str]) -> str:
    """What to read before relying on a result, as a list."""
    drawn = '<path d="M6 1.5 11 10.5H1zM6 4.8v2.6M6 8.4v.9"/>'
    sign = f'<svg width="18" height="18" viewBox="0 0 12 12" aria-hidden="true">{drawn}</svg>'
    items = "".join(f"<li>{sign}<p>Caution: {escape(one)}</p></li>" for one in sentences)
    return f'<ul class="cautions">{items}</ul>'


def _text(kind: str, label: Label, more: str = "", anchor: str = "") -> str:
    return (
        f'<text class="{kind}" x="{label.x:.1f}%" y="{label.y:.1f}%" {more} '
        f'text-anchor="{anchor or label.anchor}">{escape(label.text)}</text>'
    )
