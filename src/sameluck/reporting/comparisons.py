"""Presentation of a `Comparison`: as text, in notebooks, as LaTeX, as a figure and as a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sameluck.reporting import plots, tables
from sameluck.reporting.cautions import comparison_cautions as cautions
from sameluck.reporting.effect_tables import (
    levels_table,
    metric_table,
    shown_effects,
    shown_values,
)
from sameluck.reporting.pages.comparison_page import comparison_page as page
from sameluck.reporting.sentences import scope, title, verdict

if TYPE_CHECKING:
    from sameluck.inference.comparison import Comparison

__all__ = ["cautions", "page", "title", "verdict"]  # and the functions below


def text(result: Comparison) -> str:
    about, (header, rows), index = shown_effects(result)
    blocks = [tables.wrapped(f"{result.title}{about}"), tables.text_table(header, rows, index)]
    if not result.request.metric_definition.is_reward:
        header, rows = metric_table(shown_values(result), result.request)
        blocks.append(tables.text_table(header, rows, index=2))
    if result.by_level and len(result.last_effects) <= plots.MAX_BANDS:
        blocks.append(tables.text_table(*levels_table(result), index=3))
    return "\n\n".join([*blocks, *map(tables.wrapped, _sentences(result))])


def notebook(result: Comparison) -> str:
    about, table, _ = shown_effects(result)
    shown = tables.notebook(f"{result.title}{about}", *table, _sentences(result))
    if not result.request.metric_definition.is_reward:
        return shown + tables.html_table(*metric_table(shown_values(result), result.request))
    return shown + tables.html_table(*levels_table(result)) if result.by_level else shown


def _sentences(result: Comparison) -> list[str]:
    return [result.verdict, *(f"Caution: {caution}" for caution in result.cautions)]


def latex(result: Comparison) -> str:
    _, table, _ = shown_effects(result)
    return tables.latex_table(*table)


def figure(result: Comparison, ax: plots.Axes | None) -> plots.Figure:
    """Draw the effects over the horizon; many policies at the last checkpoint only, in their order."""
    runs, request = result.runs, result.request
    return plots.draw_effects(
        plots.effect_curves(result.effects),
        level=request.level,
        title=f"{runs.experiment.design.label} design, {runs.replications:,} replications",
        scope=scope(result),
        quantity=request.metric_definition.quantity,
        lowest_first=request.metric_definition.lower_is_better,
        ax=ax,
    )


def metric_figure(result: Comparison, ax: plots.Axes | None) -> plots.Figure:
    curves, quantity = plots.metric_curves(result.values), result.request.metric_definition.quantity
    return plots.draw_policies(curves, level=result.request.level, quantity=quantity, ax=ax)
