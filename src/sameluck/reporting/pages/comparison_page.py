"""A comparison as a page: the answer, the curve or the leader board, replications, policies, how to repeat it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sameluck import text_forms
from sameluck.files import made_with
from sameluck.reporting.commands import compare_command, designs_command
from sameluck.reporting.effect_tables import page_table
from sameluck.reporting.pages import page as pages
from sameluck.reporting.pages.answers import answer_of
from sameluck.reporting.pages.metric_cards import metric_card
from sameluck.reporting.pages.report_cards import (
    board_cards,
    curve_cards,
    design_cards,
    policies_card,
)
from sameluck.reporting.sentences import scope
from sameluck.wording import listed, percent

if TYPE_CHECKING:
    from sameluck.inference.comparison import Comparison


def comparison_page(result: Comparison, curve: Comparison, more: Sequence[pages.Card]) -> str:
    """The page; `curve` is the same comparison at more checkpoints."""
    many = len(result.runs.policies) > 2
    cards = [
        *(board_cards(result) if many else curve_cards(result, curve)),
        *([] if result.request.metric_definition.is_reward else [metric_card(result, curve)]),
        policies_card(result),
        _cautions_card(result),
        *more,
        _reproduction_card(result, compare_command(result)),
    ]
    return _page_of(result, cards)


def designs_page(
    results: Mapping[str, Comparison], reference: Comparison, side_by_side: pages.Card
) -> str:
    """The page of several designs: all side by side, then each one's own verdict."""
    cards = [
        side_by_side,
        *design_cards(reference, results.get("naive")),
        *(_design_card(label, result) for label, result in results.items()),
        _reproduction_card(reference, designs_command(reference)),
    ]
    return _page_of(reference, cards)


def _page_of(result: Comparison, cards: Sequence[pages.Card]) -> str:
    """A page with the answer of a comparison and some cards."""
    policies = result.runs.policies
    title = f"{len(policies)} policies" if len(policies) > 2 else " v ".join(policies)
    made = " on ".join(made_with().values())
    made = f"Made with sameluck {made}. Experiment {result.runs.experiment.digest}"
    footer = f"{made}; the same seed gives the same bits."
    about = f"Comparison report \N{MIDDLE DOT} {result.title}"
    return pages.render(title, cards, footer, about=about, answer=answer_of(result))


def _design_card(label: str, result: Comparison) -> pages.Card:
    """Return the verdict and the table of one design."""
    table = page_table(result)
    return pages.Card(f"{label} design", result.verdict, *table, notes=result.cautions)


def _interval_name(result: Comparison) -> str:
    return (
        "order statistics"
        if result.request.metric_definition.is_quantile
        else result.request.interval
    )


def _cautions_card(result: Comparison) -> pages.Card:
    notes = result.cautions
    return pages.Card("Cautions", "" if notes else "None.", notes=notes)


def _reproduction_card(result: Comparison, command: str) -> pages.Card:
    """What gives the same numbers again."""
    runs, request = result.runs, result.request
    experiment, environment = runs.experiment, runs.environment
    facts = [
        *made_with().items(),
        ("experiment", experiment.digest),
        ("seed", str(experiment.seed)),
        ("rewards", "live traffic" if environment is None else text_forms.write_short(environment)),
        ("design", experiment.design.label),
        ("horizon", f"{experiment.horizon:,}"),
        ("checkpoints", listed(f"{one:,}" for one in runs.checkpoints)),
        ("replications", f"{runs.replications:,}"),
        ("interval", f"{_interval_name(result)}, {percent(request.level)}{scope(result)}"),
        *(
            []
            if result.request.metric_definition.is_reward
            else [("metric", result.request.metric_definition.name)]
        ),
    ]
    words = "The same seed gives the same bits, on any machine and with any number of workers."
    folded = pages.Folded(
        "Definition as JSON", pages.Code(experiment.to_json(), "Definition as JSON")
    )
    return pages.Card("Reproduce this", words, facts=facts, code=command, folded=folded)
