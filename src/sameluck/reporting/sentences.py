"""Runs and effects in words: the setting, findings, what unseen replications could do to them, their cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from sameluck import text_forms
from sameluck.inference.effects import Effect
from sameluck.inference.metrics import REWARD, Metric
from sameluck.inference.requests import Request
from sameluck.inference.unseen import (
    replications_to_exclude,
    reversing_loss,
    unseen_share,
)
from sameluck.runs import Runs
from sameluck.wording import amount, counted, duration, listed, percent

if TYPE_CHECKING:
    from sameluck.inference.comparison import Comparison
    from sameluck.inference.twins.failures import Failure

FINDINGS = 5  # that a verdict lists


def title(result: Comparison) -> str:
    """Return what was compared, on one line."""
    design = result.runs.experiment.design.label
    return (
        f"{result.request.metric_definition.description}{design} design on {setting(result.runs)}"
    )


def verdict(result: Comparison) -> str:
    """Return the effects at the last checkpoint, what they cannot exclude and the users they cost."""
    effects = result.last_effects
    median = not result.request.interval_method.is_of_the_mean
    sentences = [
        *findings(effects, median=median, metric=result.request.metric_definition),
        *remarks(result),
    ]
    if result.standings:
        names = [row.policy for row in result.standings if row.may_be_best]
        sentences.append(may_be_best(names, result.request))
    return " ".join([*sentences, cost(effects[0], result.runs.experiment.design.label)])


def remarks(result: Comparison) -> list[str]:
    """Return what a reader must know beside the effects at the last checkpoint."""
    sentences = [*about_unseen(result), *failure_sentences(result.failures)]
    if not result.request.interval_method.is_of_the_mean:
        sentences.append(
            "The intervals are of the medians over replications, in which rare failures do not show."
        )
    if result.request.adjust:
        sentences.append(without_adjustment(result.last_effects[0]))
    return sentences


def failure_sentences(failures: Sequence[Failure]) -> list[str]:
    """Return the rare failures at the last checkpoint that has any."""
    last = max((failure.checkpoint for failure in failures), default=0)
    latest = [failure for failure in failures if failure.checkpoint == last]
    sentences = [failure_sentence(failure) for failure in latest[:FINDINGS]]
    if len(latest) > FINDINGS:
        more = counted(len(latest) - FINDINGS, "more pair")
        sentences.append(f"{more} fail rarely: see failures.")
    return sentences


def failure_sentence(failure: Failure) -> str:
    """Say how rare a failure is, how bad, and whether an observed replication has met it."""
    seen = f"{failure.met:,} of your {failure.replications:,} have"
    if failure.met == 0:
        several = failure.replications > 1
        seen = f"none of your {failure.replications:,} has" if several else "yours has not"
    return (
        f"On a copy of your arms, {failure.policy} ends {amount(failure.loss)} or more behind {failure.control} in "
        f"about 1 replication in {failure.one_in:,.0f}; {seen} met this."
    )


def about_unseen(result: Comparison) -> list[str]:
    """Say what rare replications that were not met could do to the weakest finding."""
    if not result.request.interval_method.is_of_the_mean:
        return []
    by_reward = (
        result.request.metric_definition.is_reward
    )  # how much can be lost is known for rewards alone
    shown = [
        abs(effect.effect)
        for effect in result.last_effects
        if by_reward and effect.shows_difference
    ]
    return [unseen_replications(result.runs, result.request.level, shown, result.possible_loss)]


def scope(result: Comparison) -> str:
    """Return in brackets which intervals hold together; nothing if there is one."""
    pairs, horizons = len(result.last_effects) > 1, result.runs.checkpoints.size > 1
    covered = str(result.request.simultaneous)
    over_pairs, over_horizons = covered in ("pairs", "both"), covered in ("checkpoints", "both")
    if not pairs and not horizons:
        return ""
    if (over_pairs or not pairs) and (over_horizons or not horizons):
        return " (simultaneous)"
    if pairs and over_pairs:
        return " (over pairs, pointwise)"
    if pairs and over_horizons:
        return " (over horizons, each alone)"
    return " (each alone)" if pairs else " (pointwise)"


def setting(runs: Runs) -> str:
    """Where the rewards come from, how many replications and periods there are, and the seed."""
    experiment, environment = runs.experiment, runs.environment
    rewards = "live traffic" if environment is None else text_forms.write_short(environment)
    return (
        f"{rewards}, {counted(runs.replications, 'replication')} of {counted(experiment.horizon, 'period')}, "
        f"seed {experiment.seed}"
    )


def findings(
    effects: Sequence[Effect], *, median: bool = False, metric: Metric = REWARD
) -> list[str]:
    """Effects as sentences: a few one by one, many against one policy by their number and the best of them."""
    if len(effects) > FINDINGS and len({one.control for one in effects}) == 1:
        of_many = _findings_of_many if metric == REWARD else partial(_metric_of_many, metric=metric)
        return [
            *of_many(effects),
            *(finding(one) for one in effects if one.is_same_policy),
        ]
    shown = [one for one in effects if one.shows_difference]
    sentences = [finding(one, median=median, metric=metric) for one in shown[:FINDINGS]]
    if len(shown) > FINDINGS:
        sentences.append(f"{len(shown) - FINDINGS} more pairs differ (see the table).")
    sentences += [finding(one) for one in effects if one.is_same_policy]
    others = [one for one in effects if not one.shows_difference and not one.is_same_policy]
    if len(others) > 1:
        pairs = listed(f"{one.policy} and {one.control}" for one in others)
        return [*sentences, f"No difference{_in(metric)} is shown between: {pairs}."]
    return [*sentences, *(finding(one, metric=metric) for one in others)]


def _findings_of_many(effects: Sequence[Effect]) -> list[str]:
    """Who earned most, and who more or less than the control of all, the largest differences first."""
    control, count = effects[0].control, len(effects)
    ranked = sorted(effects, key=lambda one: -one.effect)
    best = ranked[0].policy if ranked[0].effect > 0 else control
    most = max(0.0, ranked[0].effect) + effects[0].reward - effects[0].effect
    differ = [one for one in ranked if one.shows_difference]
    more = [one.policy for one in differ if one.effect > 0]
    less = [one.policy for one in reversed(differ) if one.effect < 0]
    equal = [one.policy for one in ranked if not one.shows_difference and not one.is_same_policy]
    level, over = percent(effects[0].level), f"over {effects[0].checkpoint:,} periods"
    sentences = [f"Most by mean reward {over}: {best}, {amount(most)}."]
    for names, word in ((more, "more"), (less, "less")):
        if names:
            share = f"{len(names):,} of {count:,} policies"
            sentences.append(f"{share} earned {word} than {control}, at {level}{_names(names)}.")
    if equal:
        sentences.append(
            f"No difference from {control} is shown for {len(equal):,}{_names(equal)}."
        )
    return sentences


def _names(policies: Sequence[str]) -> str:
    return f" ({listed(policies, FINDINGS)})" if policies else ""


def _metric_of_many(effects: Sequence[Effect], metric: Metric) -> list[str]:
    """Which policies are better or worse than the control of all, by a metric."""
    sign = -1.0 if metric.lower_is_better else 1.0
    control, ranked = effects[0].control, sorted(effects, key=lambda one: -sign * one.effect)
    best = ranked[0].policy if sign * ranked[0].effect > 0 else control
    differ = [one for one in ranked if one.shows_difference]
    better = [one.policy for one in differ if sign * one.effect > 0]
    worse = [one.policy for one in reversed(differ) if sign * one.effect < 0]
    level, over = percent(effects[0].level), f"over {effects[0].checkpoint:,} periods"
    return [
        f"Best by {metric.title} {over}: {best}.",
        f"Of {len(effects):,} policies {len(better):,} are better than {control}, at {level}{_names(better)}; "
        f"{len(worse):,} are worse{_names(worse)}.",
    ]


def finding(effect: Effect, *, median: bool = False, metric: Metric = REWARD) -> str:
    """One effect, of the mean or of the median, as a sentence."""
    pair = f"{effect.policy} and {effect.control}"
    level, over = percent(effect.level), f"over {effect.checkpoint:,} periods"
    if effect.is_same_policy:
        return f"{pair} are the same policy and earned exactly the same {over}."
    if effect.sd == 0:
        equal = "earned exactly the same" if metric == REWARD else f"did not differ{_in(metric)}"
        same = equal if effect.effect == 0 else "differed by exactly the same"
        return f"{pair} {same} {over} in each of {effect.replications:,} replications: no interval can be given."
    if math.isinf(effect.low) and math.isinf(effect.high):
        return f"Too few replications to compare {pair}: the interval has no bounds yet."
    if not effect.shows_difference:
        bounds = f"{amount(effect.low)} to {amount(effect.high)}"
        none = f"No difference{_in(metric)} between {pair} is shown {over}"
        return f"{none}: the {level} interval, {bounds}, contains 0."
    near, far = sorted((abs(effect.low), abs(effect.high)))
    if metric != REWARD:
        word = "higher" if effect.effect > 0 else "lower"
        place = " in the median replication" if median else ""
        return (
            f"The {metric.title} of {effect.policy} is {amount(abs(effect.effect))} {word} than that of "
            f"{effect.control} {over}{place} ({level} interval {amount(near)} to {amount(far)} {word})."
        )
    word = "more" if effect.effect > 0 else "less"
    # The mean is beside the median of a finding: rare failures show in the mean only.
    mean = f"{amount(abs(effect.plain_effect))} {'more' if effect.plain_effect > 0 else 'less'}"
    place = f" in the median replication, and {mean} on average" if median else ""
    return (
        f"{effect.policy} earned {amount(abs(effect.effect))} {word} than {effect.control} {over}{place} "
        f"({level} interval {amount(near)} to {amount(far)} {word})."
    )


def _in(metric: Metric) -> str:
    """The metric after a noun; the reward goes without saying."""
    return "" if metric == REWARD else f" in the {metric.title}"


def may_be_best(names: Sequence[str], request: Request) -> str:
    """Which policies may be the best of all, as a sentence."""
    level = f"{percent(request.level)} (one-sided)"
    return f"May be the best of all by mean {request.metric_definition.title}, at {level}: {', '.join(names)}."


def without_adjustment(effect: Effect) -> str:
    """What an adjusted effect is without its adjustment, as a sentence."""
    plain = f"{amount(effect.plain_effect)} with an sd of {amount(effect.plain_sd)}"
    return f"Without adjustment the first effect is {plain}."


def unseen_replications(
    runs: Runs, level: float, differences: Sequence[float], most: float | None
) -> str:
    """What replications that were not met could do to the smallest of the differences that are shown."""
    count = runs.replications
    seen = "this one" if count == 1 else f"any of these {count:,}"
    unlike = f"Up to {100 * unseen_share(count, level):.2g}% of replications may be unlike {seen}"
    if not differences:
        return f"{unlike}."
    weakest = min(differences)
    loss = reversing_loss(weakest, count, level)
    which = "this finding" if len(differences) == 1 else "the smallest of these differences"
    if most is None:
        return f"{unlike}; {which} is reversed if those lose more than {amount(loss)} each."
    if weakest > most:
        return (
            f"{unlike}; policies can differ by at most {amount(most)} here, the horizon times the range of the "
            f"arms' means, so {which} is due to chance at least in part."
        )
    a_prior = runs.environment is not None and runs.environment.is_prior
    worst = f"always playing the worst arm loses {amount(most)} {'at most' if a_prior else 'on average'}."
    if loss >= most:
        return f"{unlike}; {which} is reversed only if those lose more than {amount(loss)} each, and {worst}"
    needed = replications_to_exclude(weakest, most, level)
    time = "" if runs.seconds is None else _takes(runs.seconds * needed / count)
    return (
        f"{unlike}; {which} is reversed if those lose more than {amount(loss)} each, and {worst} "
        f"{needed:,} replications{time} exclude that."
    )


def _takes(seconds: float) -> str:
    # Coarse, so that two runs nearly always print the same.
    if seconds < 60:
        return " (less than a minute)"
    return f" (about {duration(float(f'{seconds:.1g}'))})"


def cost(effect: Effect, design: str) -> str:
    """The real users per replication, as a sentence."""
    users = f"The {design} design needs {effect.interactions:,.0f} users per replication"
    saves = effect.interactions < effect.naive_interactions
    return f"{users} instead of {effect.naive_interactions:,}." if saves else f"{users}."
