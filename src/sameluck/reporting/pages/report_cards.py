"""The sections of a comparison's page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from sameluck.inference.effects import Effect, shown_differences
from sameluck.reporting.effect_tables import page_table
from sameluck.reporting.leaders import board
from sameluck.reporting.pages import page as pages
from sameluck.reporting.pages.charts import Table
from sameluck.reporting.pages.effect_charts import effect_chart
from sameluck.reporting.pages.strips import Strip, strips
from sameluck.reporting.sentences import finding, scope
from sameluck.wording import amount, percent

if TYPE_CHECKING:
    from sameluck.inference.comparison import Comparison

TABLE_ROWS = 200


def curve_cards(result: Comparison, curve: Comparison) -> list[pages.Card]:
    """Two policies over the horizon, and each replication."""
    (effect,) = result.last_effects
    header, rows = page_table(result)
    header, rows = header[2:], [row[2:] for row in rows]  # one pair: the page says which
    chart = None
    if len(curve.effects) > 1 and curve.effects[-1].has_interval:
        sentence = finding(effect, metric=result.request.metric_definition)
        chart = effect_chart(
            curve.effects, sentence, quantity=result.request.metric_definition.quantity
        )
    words = (
        f"{effect.policy} minus {effect.control}, with {percent(effect.level)} intervals{scope(result)}."
        + " Grey: the naive design with as many replications, estimated from the same runs."
        * bool(chart and not result.request.metric_definition.is_quantile)
    )
    cards = [pages.Card("The difference over the horizon", words, header, rows, chart)]
    paired = (
        result.runs.experiment.design.label != "naive" and result.request.metric_definition.is_mean
    )
    if paired and effect.has_interval:
        lowest = result.request.metric_definition.lower_is_better
        cards.append(_replications_card([_strip(result, is_naive=False)], effect, lowest=lowest))
    return cards


def design_cards(result: Comparison, naive: Comparison | None) -> list[pages.Card]:
    """Two policies under a design and, measured, under the naive one: the curve and each replication."""
    effects = result.effects
    if len(result.runs.policies) > 2 or not effects[-1].has_interval:
        return []
    behind = naive.effects if naive is not None and naive is not result else None
    chart = effect_chart(effects, finding(effects[-1]), behind)
    words = f"{result.runs.experiment.design.label} before the naive design (grey), with as many replications each."
    rows = [_strip(result, is_naive=False)]
    if behind is not None and naive is not None:
        rows.append(_strip(naive, is_naive=True))
    curve = [pages.Card("The difference over the horizon", words, figure=chart)]
    return [*curve * (len(effects) > 1), _replications_card(rows, effects[-1])]


def _strip(result: Comparison, *, is_naive: bool) -> Strip:
    """The differences of single replications at the last checkpoint."""
    effect, runs = result.last_effects[0], result.runs
    values = shown_differences(runs, effect, result.request)
    return Strip(runs.experiment.design.label, values, effect.low, effect.high, is_naive)


def _replications_card(
    rows: Sequence[Strip], effect: Effect, *, lowest: bool = False
) -> pages.Card:
    """Each replication as a dot."""
    ahead = int(np.sum(rows[0].values < 0 if lowest else rows[0].values > 0))
    words = (
        f"A dot is the difference in one replication of {effect.checkpoint:,} periods; the block is the "
        f"{percent(effect.level)} interval. {effect.policy} was ahead in {ahead:,} of {rows[0].values.size:,}."
    )
    header = ["replication", *(row.label for row in rows)]
    numbered = enumerate(zip(*(row.values[:TABLE_ROWS].tolist() for row in rows), strict=True))
    cells = [[f"{number:,}", *map(amount, values)] for number, values in numbered]
    folded = pages.Folded("Show as table", Table(header, cells, "Differences, as a table"))
    return pages.Card("Each replication", words, figure=strips(rows), folded=folded)


def board_cards(result: Comparison) -> list[pages.Card]:
    """More than two policies by their differences to the control, or to the best of them."""
    effects = result.last_effects
    last = [one for one in result.policies if one.checkpoint == effects[0].checkpoint]
    by_reward = result.request.metric_definition.is_reward
    of = (
        "Differences"
        if by_reward
        else f"Differences in the {result.request.metric_definition.title}"
    )
    words = (
        f"{of} to {effects[0].control} over {effects[0].checkpoint:,} periods; one whose interval crosses "
        "the zero line is not told apart from it."
    )
    header, rows = page_table(result)
    values = () if by_reward else result.values
    drawn = board(
        effects, last, result.standings, scope(result), result.request.metric_definition, values
    )
    folded = pages.Folded("Every pair and horizon", Table(header, rows, "Every pair"))
    return [pages.Card("Leader board", words, figure=drawn, folded=folded)]


def policies_card(result: Comparison) -> pages.Card:
    """Each policy on its own."""
    arms = [f"pulls of {name}" for name in result.runs.experiment.arm_names[:8]]
    header = ["policy", "reward", "pseudo-regret", "plays the best arm", *arms]
    rows = [
        [
            one.policy,
            amount(one.reward),
            "-" if one.regret is None else amount(one.regret),
            "-" if one.best_arm_share is None else f"{one.best_arm_share:.1%}",
            *(amount(pulls) for pulls in one.pulls[:8]),
        ]
        for one in result.policies
        if one.checkpoint == result.runs.checkpoints[-1]
    ]
    return pages.Card("Policies", "", header, rows)
