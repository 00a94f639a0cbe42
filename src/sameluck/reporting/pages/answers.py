"""What a comparison found, as the first section of its page."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sameluck.inference.effects import Effect
from sameluck.reporting.leaders import leading
from sameluck.reporting.pages import page as pages
from sameluck.reporting.sentences import finding, remarks
from sameluck.wording import amount, digits_for, digits_of, percent, signed, times

if TYPE_CHECKING:
    from sameluck.inference.comparison import Comparison


def answer_of(result: Comparison) -> pages.Answer:
    """Of two policies who earned more, of more of them who leads; and what it cost."""
    return _of_many(result) if len(result.runs.policies) > 2 else _of_two(result)


def _of_two(result: Comparison) -> pages.Answer:
    """Who earned more, and what it cost."""
    (effect,) = result.last_effects
    level, decided = percent(effect.level), effect.has_interval and effect.shows_difference
    sentence: str | pages.EarnedMore = finding(effect, metric=result.request.metric_definition)
    detail = []
    of_the_mean = result.request.interval_method.is_of_the_mean
    if decided and of_the_mean and result.request.metric_definition.is_reward:
        sentence = _sentence(effect)
        detail = [_interval(effect)]
    chip = f"Decided at {level}" if decided else "Not decided"
    numbers = _numbers(result, effect)
    return pages.Answer(chip, decided, sentence, " ".join([*detail, *remarks(result)]), numbers)


def _sentence(effect: Effect) -> pages.EarnedMore:
    colours = {effect.policy: 1, effect.control: 0}
    ahead = effect.effect > 0
    winner, loser = (effect.policy, effect.control) if ahead else (effect.control, effect.policy)
    digits = digits_for((effect.high - effect.low) / 2)
    more = f"{abs(effect.effect):,.{digits}f}"
    return pages.EarnedMore(winner, loser, more, effect.checkpoint, colours)


def _interval(effect: Effect) -> str:
    digits = digits_of(effect.low, effect.high)
    near, far = (signed(end, digits) for end in sorted((abs(effect.low), abs(effect.high))))
    return f"The {percent(effect.level)} interval runs from {near} to {far} more."


def _numbers(result: Comparison, effect: Effect) -> list[tuple[str, str, str]]:
    design, saves = (
        result.runs.experiment.design.label,
        effect.interactions < effect.naive_interactions,
    )
    instead = f"instead of {effect.naive_interactions:,}" if saves else f"under the {design} design"
    numbers = [("Users asked, a replication", f"{effect.interactions:,.0f}", instead)]
    if design != "naive" and math.isfinite(effect.variance_ratio) and not result.request.adjust:
        bounds = times(effect.variance_ratio, effect.ratio_low, effect.ratio_high)
        factor, _, interval = bounds.partition(" (")
        numbers.append(
            (
                "Variance, against the naive design",
                factor,
                f"{percent(effect.level)} interval {interval.rstrip(')')}",
            )
        )
        users = effect.naive_replications * effect.naive_interactions
        ours = effect.replications * effect.interactions
        if math.isfinite(users):
            about = f"users, in {effect.naive_replications:,.0f} replications; {design} took {ours:,.0f}"
            numbers.append(("The naive design, to be as sure", f"{users:,.0f}", about))
    return numbers


def _of_many(result: Comparison) -> pages.Answer:
    effects = result.last_effects
    sentence, detail = leading(effects, result.standings, result.request.metric_definition)
    level, count = percent(effects[0].level), len(result.runs.policies)
    chip, decided = (
        f"{count} policies at {level}",
        any(effect.shows_difference for effect in effects),
    )
    if result.standings:
        ruled_out = sum(not one.may_be_best for one in result.standings)
        chip, decided = f"{ruled_out} of {count} ruled out at {level}", ruled_out > 0
    numbers = [*_numbers(result, effects[0])[:1], *_best_and_worst(result)]
    details = " ".join(filter(None, [detail, *remarks(result)]))
    return pages.Answer(chip, decided, sentence, details, numbers)


def _best_and_worst(result: Comparison) -> list[tuple[str, str, str]]:
    last = result.runs.checkpoints[-1]
    if not result.request.metric_definition.is_reward:
        values = sorted((one.value, one.policy) for one in result.values if one.checkpoint == last)
        (low, least), (high, most) = values[0], values[-1]
        return [
            (f"Lowest {result.request.metric_definition.title}", amount(low), least),
            (f"Highest {result.request.metric_definition.title}", amount(high), most),
        ]
    summaries = [one for one in result.policies if one.checkpoint == last]
    best, worst = (choose(summaries, key=lambda one: one.reward) for choose in (max, min))
    spread = f"{worst.policy} against {best.policy}"
    return [
        ("Highest mean reward", f"{best.reward:,.0f}", f"{best.policy}, in a replication"),
        ("Worst to best", f"{best.reward - worst.reward:,.0f}", spread),
    ]
