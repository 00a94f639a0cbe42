"""Sentences on runs and effects: setting, answer, agreement of other seeds, unseen failures, and cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from sameluck import text_forms
from sameluck.inference.effects import Effect
from sameluck.inference.metrics import REWARD, Metric
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
    from sameluck.inference.unseen import SeedCheck

MAX_FINDINGS = 5  # that a verdict lists singly
SMALL_SHARE = 0.01  # of failures that would not show; a check of 300 replications excludes more


def title(result: Comparison) -> str:
    design, metric = result.runs.experiment.design.label, result.request.metric_definition
    return f"{metric.description}{design} design on {setting(result.runs)}"


def verdict(result: Comparison) -> str:
    """Return the effects at the last checkpoint, what other seeds say of them and the users they cost."""
    spent = cost(result.last_effects[0], result.runs.experiment.design.label)
    return " ".join([*answer_sentences(result), *remarks(result), spent])


def answer_sentences(result: Comparison) -> list[str]:
    """Return the answer in one sentence, and further sentences; pages and text both show it."""
    effects, metric = result.last_effects, result.request.metric_definition
    unbounded = [effect for effect in effects if effect.sd and math.isinf(effect.high - effect.low)]
    if len(unbounded) == len(effects):
        return [_no_interval_yet(result)]
    median = not result.request.interval_method.is_of_the_mean
    if len(effects) == 1:
        return [*_may_be_best(result), finding(effects[0], median=median, metric=metric)]
    several = _of_several(effects, metric, result.request.pairs, median=median)
    return [*_may_be_best(result), *several]


def _no_interval_yet(result: Comparison) -> str:
    needed = result.violations.replications_for_interval
    first = f"; the first comes at {needed:,}" if needed else ""
    return f"{counted(result.runs.replications, 'replication')}: no interval yet{first}."


def _may_be_best(result: Comparison) -> list[str]:
    standings, metric = result.standings, result.request.metric_definition
    if not standings:
        return []
    names = [standing.policy for standing in standings if standing.may_be_best]
    at = f"by mean {metric.title} at {percent(result.request.level)} (one-sided)"
    total = counted(len(standings), "policy", "policies")
    if len(names) == 1:
        return [f"{names[0]} is the best of {total} {at}."]
    return [f"{len(names)} of {total} may be the best {at}: {listed(names)}."]


def remarks(result: Comparison) -> list[str]:
    """Return what a reader must know beside the effects at the last checkpoint."""
    sentences = [*about_other_seeds(result), *failure_sentences(result.failures)]
    if result.request.adjust:
        effect = result.last_effects[0]
        plain = f"{amount(effect.plain_effect)} with an sd of {amount(effect.plain_sd)}"
        sentences.append(f"Without adjustment the first effect is {plain}.")
    return sentences


def failure_sentences(failures: Sequence[Failure]) -> list[str]:
    """Return the rare failures at the last checkpoint that has any."""
    last = max((failure.checkpoint for failure in failures), default=0)
    latest = [failure for failure in failures if failure.checkpoint == last]
    sentences = [failure_sentence(failure) for failure in latest[:MAX_FINDINGS]]
    if len(latest) > MAX_FINDINGS:
        more = counted(len(latest) - MAX_FINDINGS, "more pair")
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


def about_other_seeds(result: Comparison) -> list[str]:
    """Say whether other seeds agree, how often such intervals miss, and what neither can exclude."""
    check, misses = result.check, result.violations.misses
    sentences = []
    if check.obstacle:
        sentences.append(f"Not checked on other seeds: {check.obstacle}.")
    if check.contradicted:
        sentences.append(f"{contradiction(check)}: see the cautions.")
    elif len(check.pairs_on_other_seeds) == 1:
        sentences.append(_on_other_seeds(result))
    elif check.pairs_on_other_seeds:
        sentences.append(f"{check.replications:,} replications on other seeds agree.")
    if misses is not None and not check.contradicted:
        sentences.append(f"{_miss_rate(result)}; about {misses.replications:,} keep the level.")
    return [*sentences, *_about_unseen(result)]


def _on_other_seeds(result: Comparison) -> str:
    (pair,), (effect,) = result.check.pairs, result.last_effects
    difference, count = amount(pair.effect), f"({result.check.replications:,} replications)"
    if result.request.interval_method.is_of_the_mean:
        return f"On other seeds the difference is {difference} {count}."
    outweighed = pair.effect * effect.effect < 0 and abs(pair.effect) > 2 * pair.error
    rare = ": rare replications outweigh the rest" if outweighed else ""
    return f"On other seeds the mean difference is {difference} {count}{rare}."


def contradiction(check: SeedCheck) -> str:
    if check.on_copy:
        return "A copy of the arms contradicts this"
    return "Other seeds contradict this"


def _miss_rate(result: Comparison) -> str:
    """Say how often intervals miss, without a full stop."""
    misses = result.violations.misses
    assert misses is not None
    several = len(result.last_effects) > 1
    which = f"intervals of {misses.policy} minus {misses.control}" if several else "such intervals"
    return (
        f"With {result.runs.replications:,} replications {which} miss in {100 * misses.rate:.2g}% of experiments, "
        f"not in {100 * misses.promised:.2g}%{', on a copy of the arms' * result.check.on_copy}"
    )


def _about_unseen(result: Comparison) -> list[str]:
    """Say which failures would not show and could reverse the weakest finding; nothing after a long check."""
    request, runs, possible = result.request, result.runs, result.possible_loss
    count = runs.replications + result.check.replications
    is_mean = request.interval_method.is_of_the_mean and request.metric_definition.is_reward
    decided = [abs(effect.effect) for effect in result.last_effects if effect.shows_difference]
    if not is_mean or not decided or unseen_share(count, request.level) < SMALL_SHARE:
        return []
    weakest = min(decided)
    if possible is not None and weakest > possible:
        return [
            f"Policies can differ by at most {amount(possible)} here, the horizon times the range of the arms' "
            "means, so this is due to chance at least in part."
        ]
    share = f"{100 * unseen_share(count, request.level):.2g}%"
    unseen = f"Failures in under {share} of replications would not show in {count:,}"
    if possible is None:
        return [f"{unseen}."]
    if reversing_loss(weakest, count, request.level) >= possible:
        return []
    needed = replications_to_exclude(weakest, possible, request.level)
    time = "" if runs.seconds is None else _takes(runs.seconds * needed / runs.replications)
    return [f"{unseen}; run {needed:,}{time} to rule out a reversal."]


def scope(result: Comparison) -> str:
    """Return in brackets which intervals hold together; nothing for a single interval."""
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
    """Return the source of the rewards, the numbers of replications and periods, and the seed."""
    experiment, environment = runs.experiment, runs.environment
    rewards = "live traffic" if environment is None else text_forms.write_short(environment)
    return (
        f"{rewards}, {counted(runs.replications, 'replication')} of {counted(experiment.horizon, 'period')}, "
        f"seed {experiment.seed}"
    )


def _of_several(
    effects: Sequence[Effect], metric: Metric, pairs: str, *, median: bool
) -> list[str]:
    """Return the answer of several effects at one checkpoint in one sentence, and sentences on equal results.

    With `pairs="control"` the other policies are not compared with each other, so none is said to lead. Nor is one by
    its median: the policy that earned most on average may be behind in the median replication.
    """
    reference = _leader(effects, metric) if pairs == "all" else effects[0].control
    compared = [
        effect for effect in map(partial(_against, reference), effects) if effect is not None
    ]
    same = [finding(effect) for effect in effects if effect.is_same_policy]
    constant = [effect for effect in compared if effect.sd == 0 and not effect.is_same_policy]
    varying = [effect for effect in compared if effect.sd != 0]
    leads = pairs != "control" and not median
    sentences = [_contrast(varying, reference, metric, leads=leads)] if varying else []
    if median:
        sentences = [f"In the median replication: {sentence}" for sentence in sentences]
    if len(compared) < len(effects) and varying:
        differ = sum(effect.shows_difference for effect in effects)
        sentences.append(f"{differ:,} of {len(effects):,} pairs differ (see the table).")
    return [*sentences, *same, *_constant_differences(constant, reference, metric)]


def _leader(effects: Sequence[Effect], metric: Metric) -> str:
    """Return the policy with the best value of the metric."""
    sign = -1.0 if metric.lower_is_better else 1.0
    control = effects[0].control
    ahead = {effect.policy: sign * effect.effect for effect in effects if effect.control == control}
    return max([control, *ahead], key=lambda name: ahead.get(name, 0.0))


def _against(reference: str, effect: Effect) -> Effect | None:
    """Return the effect as a difference to the reference; None if it is not of the reference."""
    if effect.control == reference:
        return effect
    if effect.policy != reference:
        return None
    return effect._replace(
        policy=effect.control,
        control=reference,
        effect=-effect.effect,
        low=-effect.high,
        high=-effect.low,
        reward=effect.control_reward,
        control_reward=effect.reward,
    )


def _contrast(effects: Sequence[Effect], reference: str, metric: Metric, *, leads: bool) -> str:
    """Say which policies differ from the reference, the largest differences first; `leads`: it has the best value."""
    at, over = f"at {percent(effects[0].level)}", f"over {effects[0].checkpoint:,} periods"
    ranked = sorted(effects, key=lambda effect: -abs(effect.effect))
    decided = [effect for effect in ranked if effect.shows_difference]
    undecided = [effect.policy for effect in effects if not effect.shows_difference]
    total, others = counted(len(effects), "policy", "policies"), listed(undecided, MAX_FINDINGS)
    sign = -1.0 if metric.lower_is_better else 1.0
    if leads and all(sign * effect.effect < 0 for effect in decided):
        first, than = ("lowest", "lower") if metric.lower_is_better else ("highest", "higher")
        leader = f"{reference} has the {first} {metric.title} {over}"
        if metric == REWARD:
            leader, than = f"{reference} earned most {over}", "more"
        if not decided:
            return f"{leader}, but no difference from the other {total} is shown, {at}."
        none = f"; no difference from {others} is shown" if undecided else ""
        return f"{leader}: {than} than {_sizes(decided)}, {at}{none}."
    if not decided:
        none = f"No difference{_in(metric)} from {reference} is shown for any of {total}"
        return f"{none} {over}, {at}."
    more = [effect for effect in decided if effect.effect > 0]
    less = [effect for effect in decided if effect.effect < 0]
    by_word = zip(_comparatives(metric), (more, less), strict=True)
    (word, largest), *second = [(word, group) for word, group in by_word if group]
    first = (
        f"{len(largest):,} of {total} {_have(len(largest), metric)} {word} than {reference} {over}"
    )
    parts = [f"{first} ({_sizes(largest)})"]
    parts += [
        f"{len(group):,} {_have(len(group), metric)} {word} ({_sizes(group)})"
        for word, group in second
    ]
    none = f"; no difference is shown for {others}" if undecided else ""
    return f"{', '.join(parts)}, {at}{none}."


def _comparatives(metric: Metric) -> tuple[str, str]:
    """Return the words for a higher and for a lower value."""
    if metric == REWARD:
        return "more", "less"
    return f"a higher {metric.title}", f"a lower {metric.title}"


def _have(number: int, metric: Metric) -> str:
    if metric == REWARD:
        return "earned"
    return "has" if number == 1 else "have"


def _sizes(effects: Sequence[Effect]) -> str:
    sizes = (f"{effect.policy} by {amount(abs(effect.effect))}" for effect in effects)
    return listed(sizes, MAX_FINDINGS)


def _constant_differences(effects: Sequence[Effect], reference: str, metric: Metric) -> list[str]:
    """Name differences that are the same in every replication."""
    groups: dict[float, list[str]] = {}
    for effect in effects:
        groups.setdefault(effect.effect, []).append(effect.policy)
    return [
        _constant_difference(listed(names), reference, difference, effects[0].replications, metric)
        for difference, names in groups.items()
    ]


def _constant_difference(
    policies: str, control: str, difference: float, replications: int, metric: Metric
) -> str:
    where = f"in all {replications:,} replications; no interval can be given."
    if difference == 0:
        equal = "earned exactly the same" if metric == REWARD else f"did not differ{_in(metric)}"
        return f"{policies} and {control} {equal} {where}"
    size = amount(abs(difference))
    if metric == REWARD:
        first, second = (policies, control) if difference > 0 else (control, policies)
        return f"{first} earned exactly {size} more than {second} {where}"
    word = "higher" if difference > 0 else "lower"
    return (
        f"The {metric.title} is exactly {size} {word} with {policies} than with {control} {where}"
    )


def finding(effect: Effect, *, median: bool = False, metric: Metric = REWARD) -> str:
    """Return one effect, of the mean or of the median, as a sentence."""
    pair = f"{effect.policy} and {effect.control}"
    level, over = percent(effect.level), f"over {effect.checkpoint:,} periods"
    if effect.is_same_policy:
        return f"{pair} are the same policy and earned exactly the same {over}."
    if effect.sd == 0:
        names, count = (effect.policy, effect.control), effect.replications
        return _constant_difference(*names, effect.effect, count, metric)
    if math.isinf(effect.low) and math.isinf(effect.high):
        return f"Too few replications to compare {pair}: the interval has no bounds yet."
    start = "In the median replication " if median else ""
    if not effect.shows_difference:
        bounds = f"{amount(effect.low)} to {amount(effect.high)}"
        none = f"{'no' if start else 'No'} difference{_in(metric)} between {pair} is shown {over}"
        return f"{start}{none}: the {level} interval, {bounds}, contains 0.{_mean(effect, median)}"
    near, far = (amount(bound) for bound in sorted((abs(effect.low), abs(effect.high))))
    size = amount(abs(effect.effect))
    if metric != REWARD:
        word = "higher" if effect.effect > 0 else "lower"
        the = f"{start}the" if start else "The"
        return (
            f"{the} {metric.title} is {size} {word} with {effect.policy} than with {effect.control} {over} "
            f"({level} interval {near} to {far} {word})."
        )
    word = "more" if effect.effect > 0 else "less"
    relative = "" if median else _relative(effect)
    return (
        f"{start}{effect.policy} earned {size} {word} than {effect.control} {over} "
        f"({level} interval {near} to {far} {word}{relative}).{_mean(effect, median)}"
    )


def _relative(effect: Effect) -> str:
    """Return the interval in per cent of the control's reward, if both policies earned a positive reward."""
    bounds = sorted((abs(effect.low), abs(effect.high)))
    if min(effect.reward, effect.control_reward) <= 0 or math.isinf(bounds[1]):
        return ""
    low, high = (f"{100 * bound / effect.control_reward:.2g}%" for bound in bounds)
    return f", {low} to {high}"


def _mean(effect: Effect, median: bool) -> str:  # noqa: FBT001
    """Return the mean difference beside the median, because rare failures show in the mean only."""
    if not median or effect.plain_effect * effect.effect >= 0:
        return ""
    word = "more" if effect.plain_effect > 0 else "less"
    size = amount(abs(effect.plain_effect))
    return f" Its mean is {size} {word}: rare replications outweigh the rest."


def _in(metric: Metric) -> str:
    """Return the metric after a noun; the reward needs no mention."""
    return "" if metric == REWARD else f" in the {metric.title}"


def _takes(seconds: float) -> str:
    # One digit: two runs then nearly always print the same.
    if seconds < 60:
        return " (less than a minute)"
    return f" (about {duration(float(f'{seconds:.1g}'))})"


def cost(effect: Effect, design: str) -> str:
    """Return the real users per replication as a sentence."""
    users = f"The {design} design needs {effect.interactions:,.0f} users per replication"
    saves = effect.interactions < effect.naive_interactions
    return f"{users} instead of {effect.naive_interactions:,}." if saves else f"{users}."
