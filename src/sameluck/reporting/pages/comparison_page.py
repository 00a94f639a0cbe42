"""Page of a comparison: answer, curve or leader board, replications, policies, and how to reproduce it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from sameluck import text_forms
from sameluck.environments.base import Environment
from sameluck.environments.empirical import Empirical
from sameluck.files import made_with
from sameluck.inference.effects import Effect
from sameluck.reporting.commands import compare_command, designs_command
from sameluck.reporting.effect_tables import levels_table, metric_table, page_table
from sameluck.reporting.pages.charts import Strip, Table, strips
from sameluck.reporting.pages.effect_charts import effect_chart, metric_chart
from sameluck.reporting.pages.leader_board import comparison_board
from sameluck.reporting.pages.page import Answer, Card, Code, EarnedMore, Folded, render
from sameluck.reporting.sentences import answer_sentences, contradiction, finding, remarks, scope
from sameluck.wording import amount, counted, digits_for, digits_of, listed, percent, signed, times

if TYPE_CHECKING:
    from sameluck.inference.comparison import Comparison

MAX_TABLE_ROWS = 200
MAX_METRIC_ROWS = 8  # of policies and checkpoints that are shown without a click
MAX_LEVEL_ROWS = 30  # shown without a click
MAX_ARMS = 8  # with a column of their pulls


def comparison_page(result: Comparison, curve: Comparison, more: Sequence[Card]) -> str:
    """Return the page; `curve` is the same comparison at more checkpoints, `more` are further cards."""
    several = len(result.runs.policies) > 2
    cards = [
        *([_board_card(result)] if several else _curve_cards(result, curve)),
        *([] if result.request.metric_definition.is_reward else [_metric_card(result, curve)]),
        *([_levels_card(result)] if result.by_level else []),
        _policies_card(result),
        Card("Cautions", "" if result.cautions else "None.", notes=result.cautions),
        *more,
        _reproduction_card(result, compare_command(result)),
    ]
    return _render(result, cards)


def designs_page(
    results: Mapping[str, Comparison], reference: Comparison, side_by_side: Card
) -> str:
    """Return the page of several designs: all side by side, then the verdict of each design."""
    cards = [
        side_by_side,
        *_design_cards(reference, results.get("naive")),
        *(
            Card(f"{label} design", result.verdict, *page_table(result), notes=result.cautions)
            for label, result in results.items()
        ),
        _reproduction_card(reference, designs_command(reference)),
    ]
    return _render(reference, cards)


def _render(result: Comparison, cards: Sequence[Card]) -> str:
    policies = result.runs.policies
    title = f"{len(policies)} policies" if len(policies) > 2 else " v ".join(policies)
    version = " on ".join(made_with().values())
    made = f"Made with sameluck {version}. Experiment {result.runs.experiment.digest}"
    footer = f"{made}; the same seed gives the same bits."
    about = f"Comparison report \N{MIDDLE DOT} {result.title}"
    return render(title, cards, footer, about=about, answer=_answer(result))


# The answer: the winner of two policies or the leader of several, and the users spent.


def _answer(result: Comparison) -> Answer:
    """Return the answer that the text gives; two policies have their colours in it."""
    effects, level = result.last_effects, percent(result.request.level)
    first, *details = answer_sentences(result)
    sentence: str | EarnedMore = first
    decided = any(effect.shows_difference for effect in effects)
    chip = f"Decided at {level}" if decided else "Not decided"
    numbers = _costs(result, effects[0])
    if len(result.runs.policies) > 2:
        chip = f"{len(result.runs.policies)} policies at {level}"
        numbers = [*numbers[:1], *_best_and_worst(result)]
    elif decided and _is_mean_reward(result) and not result.standings:
        effect, sentence = effects[0], _earned_more(effects[0])
        digits = digits_of(effect.low, effect.high)
        near, far = (signed(end, digits) for end in sorted((abs(effect.low), abs(effect.high))))
        details.insert(0, f"The {level} interval runs from {near} to {far} more.")
    if result.standings:
        ruled_out = sum(not standing.may_be_best for standing in result.standings)
        decided = ruled_out > 0
        chip = f"{ruled_out} of {len(result.standings)} ruled out at {level}"
    if result.check.contradicted:
        chip, decided = contradiction(result.check), False
    return Answer(chip, decided, sentence, " ".join([*details, *remarks(result)]), numbers)


def _is_mean_reward(result: Comparison) -> bool:
    request = result.request
    return request.interval_method.is_of_the_mean and request.metric_definition.is_reward


def _earned_more(effect: Effect) -> EarnedMore:
    ahead = effect.effect > 0
    winner, loser = (effect.policy, effect.control) if ahead else (effect.control, effect.policy)
    digits = digits_for((effect.high - effect.low) / 2)
    size, colours = f"{abs(effect.effect):,.{digits}f}", {effect.policy: 1, effect.control: 0}
    return EarnedMore(winner, loser, size, effect.checkpoint, colours)


def _costs(result: Comparison, effect: Effect) -> list[tuple[str, str, str]]:
    """Return users and variance, beside the naive design's, as (term, number, explanation)."""
    design = result.runs.experiment.design.label
    saves = effect.interactions < effect.naive_interactions
    instead = f"instead of {effect.naive_interactions:,}" if saves else f"under the {design} design"
    numbers = [("Users per replication", f"{effect.interactions:,.0f}", instead)]
    if design == "naive" or not math.isfinite(effect.variance_ratio) or result.request.adjust:
        return numbers
    saved = times(effect.variance_ratio, effect.ratio_low, effect.ratio_high)
    factor, _, interval = saved.partition(" (")
    bounds = f"{percent(effect.level)} interval {interval.rstrip(')')}"
    numbers.append(("Variance against the naive design", factor, bounds))
    naive_users = effect.naive_replications * effect.naive_interactions
    if math.isfinite(naive_users):
        took = f"{design} took {effect.replications * effect.interactions:,.0f}"
        about = f"users in {effect.naive_replications:,.0f} replications; {took}"
        numbers.append(("Naive design at equal precision", f"{naive_users:,.0f}", about))
    return numbers


def _best_and_worst(result: Comparison) -> list[tuple[str, str, str]]:
    last, metric = result.runs.checkpoints[-1], result.request.metric_definition
    if not metric.is_reward:
        values = sorted((row.value, row.policy) for row in result.values if row.checkpoint == last)
        (lowest, first), (highest, second) = values[0], values[-1]
        return [
            (f"Lowest {metric.title}", amount(lowest), first),
            (f"Highest {metric.title}", amount(highest), second),
        ]
    summaries = [summary for summary in result.policies if summary.checkpoint == last]
    best, worst = (choose(summaries, key=lambda row: row.reward) for choose in (max, min))
    difference = f"{best.policy} minus {worst.policy}"
    return [
        ("Highest mean reward", f"{best.reward:,.0f}", f"{best.policy}, per replication"),
        ("Best minus worst", f"{best.reward - worst.reward:,.0f}", difference),
    ]


# The cards.


def _curve_cards(result: Comparison, curve: Comparison) -> list[Card]:
    """Return two policies over the horizon, and the difference in each replication."""
    (effect,), metric = result.last_effects, result.request.metric_definition
    header, rows = page_table(result)
    header, rows = header[2:], [row[2:] for row in rows]  # the page names the pair
    chart, found = None, finding(effect, metric=metric)
    if len(curve.effects) > 1 and curve.effects[-1].has_interval:
        chart = effect_chart(curve.effects, found, quantity=metric.quantity)
    words = f"{effect.policy} minus {effect.control}, with {percent(effect.level)} intervals{scope(result)}."
    if chart and not metric.is_quantile:
        words += " Grey: the naive design with as many replications, estimated from the same runs."
    cards = [Card("The difference over the horizon", words, header, rows, chart)]
    if result.runs.experiment.design.label != "naive" and metric.is_mean and effect.has_interval:
        strip = _strip(result, is_naive=False)
        cards.append(_replications_card([strip], effect, lower_is_better=metric.lower_is_better))
    return cards


def _design_cards(result: Comparison, naive: Comparison | None) -> list[Card]:
    """Return two policies under a design and under the naive design: the curve and each replication."""
    effects = result.effects
    if len(result.runs.policies) > 2 or not effects[-1].has_interval:
        return []
    naive = None if naive is result else naive
    strip_rows = [_strip(result, is_naive=False)]
    if naive is not None:
        strip_rows.append(_strip(naive, is_naive=True))
    cards = [_replications_card(strip_rows, effects[-1])]
    if len(effects) > 1:
        behind = None if naive is None else naive.effects
        chart = effect_chart(effects, finding(effects[-1]), behind)
        design = result.runs.experiment.design.label
        words = (
            f"The {design} design and, in grey, the naive design, with as many replications each."
        )
        cards.insert(0, Card("The difference over the horizon", words, figure=chart))
    return cards


def _strip(result: Comparison, *, is_naive: bool) -> Strip:
    effect, design = result.last_effects[0], result.runs.experiment.design.label
    return Strip(design, result.differences, effect.low, effect.high, is_naive)


def _replications_card(
    rows: Sequence[Strip], effect: Effect, *, lower_is_better: bool = False
) -> Card:
    values = rows[0].values
    ahead = int(np.sum(values < 0 if lower_is_better else values > 0))
    words = (
        f"Each dot is the difference in one replication of {effect.checkpoint:,} periods; the block is the "
        f"{percent(effect.level)} interval. {effect.policy} was ahead in {ahead:,} of {values.size:,}."
    )
    header = ["replication", *(row.label for row in rows)]
    columns = (row.values[:MAX_TABLE_ROWS].tolist() for row in rows)
    cells = [
        [f"{number:,}", *map(amount, differences)]
        for number, differences in enumerate(zip(*columns, strict=True))
    ]
    folded = Folded("Show as table", Table(header, cells, "Differences, as a table"))
    return Card("Each replication", words, figure=strips(rows), folded=folded)


def _board_card(result: Comparison) -> Card:
    """Return more than two policies by their differences to the control, or to the best policy."""
    effects, metric = result.last_effects, result.request.metric_definition
    last = [row for row in result.policies if row.checkpoint == effects[0].checkpoint]
    quantity = "" if metric.is_reward else f" in the {metric.title}"
    control = effects[0].control
    words = (
        f"Differences{quantity} to {control} over {effects[0].checkpoint:,} periods. A policy whose interval "
        f"crosses the zero line is not distinguished from {control}."
    )
    values = () if metric.is_reward else result.values
    board = comparison_board(effects, last, result.standings, scope(result), metric, values)
    folded = Folded("Every pair and horizon", Table(*page_table(result), "Every pair"))
    return Card("Leader board", words, figure=board, folded=folded)


def _metric_card(result: Comparison, curve: Comparison) -> Card:
    metric = result.request.metric_definition
    chart = metric_chart(curve.values, metric) if curve.runs.checkpoints.size > 1 else None
    better = "Lower" if metric.lower_is_better else "Higher"
    about = f"{metric.about[:1].upper()}{metric.about[1:]}. " if metric.about else ""
    words = f"{about}{better} is better. Each interval is of one policy alone."
    header, rows = metric_table(result.values, result.request)
    title = f"{metric.title[:1].upper()}{metric.title[1:]} of each policy"
    if len(rows) > MAX_METRIC_ROWS:
        folded = Folded("Every policy and horizon", Table(header, rows, title))
        return Card(title, words, figure=chart, folded=folded)
    return Card(title, words, header, rows, chart)


def _levels_card(result: Comparison) -> Card:
    """Return the effects by level; folded where the pairs are numerous."""
    words = "Differences from the users of each level. They add up to the whole difference."
    header, rows = levels_table(result)
    if len(rows) <= MAX_LEVEL_ROWS:
        return Card("Each level", words, header, rows)
    return Card(
        "Each level", words, folded=Folded("Every level", Table(header, rows, "Each level"))
    )


def _policies_card(result: Comparison) -> Card:
    arms = [f"pulls of {name}" for name in result.runs.experiment.arm_names[:MAX_ARMS]]
    header = ["policy", "reward", "pseudo-regret", "plays the best arm", *arms]
    rows = [
        [
            summary.policy,
            amount(summary.reward),
            "-" if summary.regret is None else amount(summary.regret),
            "-" if summary.best_arm_share is None else f"{summary.best_arm_share:.1%}",
            *(amount(pulls) for pulls in summary.pulls[:MAX_ARMS]),
        ]
        for summary in result.policies
        if summary.checkpoint == result.runs.checkpoints[-1]
    ]
    return Card("Policies", "", header, rows)


def _reproduction_card(result: Comparison, command: str) -> Card:
    runs, request = result.runs, result.request
    experiment, environment, metric = runs.experiment, runs.environment, request.metric_definition
    interval = "order statistics" if metric.is_quantile else request.interval
    facts = [
        *made_with().items(),
        ("experiment", experiment.digest),
        ("seed", str(experiment.seed)),
        ("rewards", _rewards(environment)),
        ("design", experiment.design.label),
        ("horizon", f"{experiment.horizon:,}"),
        ("checkpoints", listed(f"{checkpoint:,}" for checkpoint in runs.checkpoints)),
        ("replications", f"{runs.replications:,}"),
        ("interval", f"{interval}, {percent(request.level)}{scope(result)}"),
        *([] if metric.is_reward else [("metric", metric.name)]),
    ]
    words = "The same seed gives the same bits, on any machine and with any number of workers."
    folded = Folded("Definition as JSON", Code(experiment.to_json(), "Definition as JSON"))
    return Card("Reproduce this", words, facts=facts, code=command, folded=folded)


def _rewards(environment: Environment | None) -> str:
    if environment is None:
        return "live traffic"
    if not isinstance(environment, Empirical) or not environment.source:
        return text_forms.write_short(environment)
    skipped = f", {counted(environment.skipped, 'row')} left out" if environment.skipped else ""
    return f"{environment.source}, SHA-256 {environment.digest}...{skipped}"
