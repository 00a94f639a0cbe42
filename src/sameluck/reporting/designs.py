"""Presentation of a `DesignComparison`: sentences, table, figure and page."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sameluck.reporting import plots, tables
from sameluck.reporting.pages.comparison_page import designs_page
from sameluck.reporting.pages.page import Card
from sameluck.reporting.sentences import about_other_seeds, answer_sentences, cost, scope, setting
from sameluck.wording import amount, percent

if TYPE_CHECKING:
    from sameluck.inference.planning.designs import DesignComparison, DesignRow


def title(result: DesignComparison) -> str:
    return setting(result.first.runs)


def verdict(result: DesignComparison) -> str:
    """Return the effects under the reference design, and what the other designs need for its precision."""
    reference, design = result.reference, result.reference_design
    effect = reference.last_effects[0]
    needs = [
        f"The {row.design} design would need about {row.replications_needed:,.0f} replications "
        f"({row.users_needed:,.0f} users, between {_count(row.users_low)} and {_count(row.users_high)}) for the "
        "same precision."
        for row in result.rows
        if row.policy == effect.policy and row.design != design and math.isfinite(row.users_needed)
    ]
    sentences = [*answer_sentences(reference), *about_other_seeds(reference)]
    return " ".join([*sentences, cost(effect, design), *needs])


def cautions(result: DesignComparison) -> list[str]:
    return [f"{label} design: {caution}" for label, caution in _labelled_cautions(result)]


def _labelled_cautions(result: DesignComparison) -> list[tuple[str, str]]:
    return [
        (label, caution)
        for label, comparison in result.results.items()
        for caution in dict.fromkeys(comparison.cautions)
    ]


def text(result: DesignComparison) -> str:
    table = tables.text_table(_header(result), _rows(result), index=2)
    title, *sentences = map(tables.wrapped, (result.title, *_sentences(result)))
    return "\n\n".join([title, table, *sentences])


def notebook(result: DesignComparison) -> str:
    return tables.notebook(result.title, _header(result), _rows(result), _sentences(result))


def _sentences(result: DesignComparison) -> list[str]:
    cautions = [f"Caution ({label}): {caution}" for label, caution in _labelled_cautions(result)]
    return [result.verdict, *cautions]


def _header(result: DesignComparison) -> list[str]:
    together = " (simultaneous)" if len(result.first.last_effects) > 1 else ""
    interval = f"{percent(result.first.request.level)} interval{together}"
    columns = ["design", "policy", "effect", interval, "sd", "users each"]
    return [*columns, "users for equal precision", "finding"]


def _rows(result: DesignComparison) -> list[list[str]]:
    return [
        [
            row.design,
            row.policy,
            amount(row.effect),
            f"{amount(row.low)} to {amount(row.high)}",
            amount(row.sd),
            f"{row.interactions:,.0f}",
            _users(row),
            _finding(row),
        ]
        for row in result.rows
    ]


def _users(row: DesignRow) -> str:
    if row.users_low == row.users_high or not math.isfinite(row.users_needed):
        return _count(row.users_needed)
    return f"{_count(row.users_needed)} ({_count(row.users_low)} to {_count(row.users_high)})"


def _count(value: float) -> str:
    if math.isinf(value):
        return "no bound"
    return f"{value:,.0f}" if math.isfinite(value) else "-"


def _finding(row: DesignRow) -> str:
    if row.low <= 0 <= row.high:
        return "undecided"
    return f"{row.policy if row.effect > 0 else row.control} wins"


def figure(result: DesignComparison, ax: plots.Axes | None) -> plots.Figure:
    first = result.first
    several = len(first.last_effects) > 1
    curves = [
        curve._replace(label=f"{label}: {curve.label}" if several else label)
        for label, comparison in result.results.items()
        for curve in plots.effect_curves(comparison.effects)
    ]
    effect = first.effects[0]
    pair = f"minus {effect.control}" if several else f"{effect.policy} minus {effect.control}"
    title = f"{pair}, {effect.replications:,} replications"
    return plots.draw_effects(curves, level=effect.level, title=title, scope=scope(first), ax=ax)


def page(result: DesignComparison) -> str:
    """Return a self-contained page: the reference design's answer, all side by side, each design's verdict."""
    card = Card("Side by side", result.verdict, _header(result), _rows(result))
    return designs_page(result.results, result.reference, card)
