"""Sentences on runs and effects: setting, findings, possible reversals by unseen replications, and cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from sameluck import text_forms
from sameluck.inference.effects import Effect
from sameluck.inference.metrics import REWARD, Metric
from sameluck.inference.unseen import replications_to_exclude, reversing_loss, unseen_share
from sameluck.runs import Runs
from sameluck.wording import amount, counted, duration, listed, percent

if TYPE_CHECKING:
    from sameluck.inference.comparison import Comparison
    from sameluck.inference.policy_summaries import Standing
    from sameluck.inference.twins.failures import Failure

MAX_FINDINGS = 5  # that a verdict lists singly


def title(result: Comparison) -> str:
    design, metric = result.runs.experiment.design.label, result.request.metric_definition
    return f"{metric.description}{design} design on {setting(result.runs)}"


def verdict(result: Comparison) -> str:
    """Return the effects at the last checkpoint, what they cannot exclude and the users they cost."""
    effects, metric = result.last_effects, result.request.metric_definition
    median = not result.request.interval_method.is_of_the_mean
    sentences = [*findings(effects, median=median, metric=metric), *remarks(result)]
    if result.standings:
        names = ", ".join(row.policy for row in result.standings if row.may_be_best)
        level = f"{percent(result.request.level)} (one-sided)"
        sentences.append(f"May be the best of all by mean {metric.title}, at {level}: {names}.")
    return " ".join([*sentences, cost(effects[0], result.runs.experiment.design.label)])


def remarks(result: Comparison) -> list[str]:
    """Return what a reader must know beside the effects at the last checkpoint."""
    sentences = [*about_unseen(result), *failure_sentences(result.failures)]
    if not result.request.interval_method.is_of_the_mean:
        sentences.append(
            "The intervals are of the medians over replications, in which rare failures do not show."
        )
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


def about_unseen(result: Comparison) -> list[str]:
    """Say what rare, unseen replications could do to the weakest finding."""
    if not result.request.interval_method.is_of_the_mean:
        return []
    # Only for rewards is it known how much a policy can lose.
    differences = [
        abs(effect.effect)
        for effect in result.last_effects
        if result.request.metric_definition.is_reward and effect.shows_difference
    ]
    level, possible = result.request.level, result.possible_loss
    return [unseen_replications(result.runs, level, differences, possible)]


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


def findings(
    effects: Sequence[Effect], *, median: bool = False, metric: Metric = REWARD
) -> list[str]:
    """Return effects as sentences: a few singly, many with one control by their number and the best policy."""
    same = [finding(effect) for effect in effects if effect.is_same_policy]
    if len(effects) > MAX_FINDINGS and len({effect.control for effect in effects}) == 1:
        return [*_summary(effects, metric), *same]
    decided = [effect for effect in effects if effect.shows_difference]
    sentences = [finding(effect, median=median, metric=metric) for effect in decided[:MAX_FINDINGS]]
    if len(decided) > MAX_FINDINGS:
        sentences.append(f"{len(decided) - MAX_FINDINGS} more pairs differ (see the table).")
    undecided = [effect for effect in effects if effect.is_undecided]
    if len(undecided) > 1:
        pairs = listed(f"{effect.policy} and {effect.control}" for effect in undecided)
        return [*sentences, *same, f"No difference{_in(metric)} is shown between: {pairs}."]
    return [*sentences, *same, *(finding(effect, metric=metric) for effect in undecided)]


class _Ranking(NamedTuple):
    best: str  # of all policies, the control among them
    better: list[str]  # than the control, the largest difference first
    worse: list[str]
    undecided: list[str]

    @staticmethod
    def of(effects: Sequence[Effect], metric: Metric) -> _Ranking:
        sign = -1.0 if metric.lower_is_better else 1.0
        ranked = sorted(effects, key=lambda effect: -sign * effect.effect)
        decided = [effect for effect in ranked if effect.shows_difference]
        return _Ranking(
            ranked[0].policy if sign * ranked[0].effect > 0 else effects[0].control,
            [effect.policy for effect in decided if sign * effect.effect > 0],
            [effect.policy for effect in reversed(decided) if sign * effect.effect < 0],
            [effect.policy for effect in ranked if effect.is_undecided],
        )


def _summary(effects: Sequence[Effect], metric: Metric) -> list[str]:
    """Name the best policy and the policies that differ from the control, the largest differences first."""
    control, count = effects[0].control, len(effects)
    level, over = percent(effects[0].level), f"over {effects[0].checkpoint:,} periods"
    ranking = _Ranking.of(effects, metric)
    better, worse = ranking.better, ranking.worse
    if metric != REWARD:
        return [
            f"Best by {metric.title} {over}: {ranking.best}.",
            f"Of {count:,} policies {len(better):,} are better than {control}, at {level}{_names(better)}; "
            f"{len(worse):,} are worse{_names(worse)}.",
        ]
    rewards = {effect.policy: effect.reward for effect in effects}
    highest = rewards.get(ranking.best, effects[0].control_reward)
    sentences = [f"Highest mean reward {over}: {ranking.best}, {amount(highest)}."]
    for names, word in ((better, "more"), (worse, "less")):
        if names:
            share = f"{len(names):,} of {count:,} policies"
            sentences.append(f"{share} earned {word} than {control}, at {level}{_names(names)}.")
    if undecided := ranking.undecided:
        sentences.append(
            f"No difference from {control} is shown for {len(undecided):,}{_names(undecided)}."
        )
    return sentences


def _names(policies: Sequence[str]) -> str:
    return f" ({listed(policies, MAX_FINDINGS)})" if policies else ""


def finding(effect: Effect, *, median: bool = False, metric: Metric = REWARD) -> str:
    """Return one effect, of the mean or of the median, as a sentence."""
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
    near, far = (amount(bound) for bound in sorted((abs(effect.low), abs(effect.high))))
    size = amount(abs(effect.effect))
    if metric != REWARD:
        word = "higher" if effect.effect > 0 else "lower"
        statistic = " in the median replication" if median else ""
        return (
            f"The {metric.title} is {size} {word} with {effect.policy} than with {effect.control} {over}{statistic} "
            f"({level} interval {near} to {far} {word})."
        )
    word = "more" if effect.effect > 0 else "less"
    # Rare failures show in the mean only, so it stands beside the median.
    mean = f"{amount(abs(effect.plain_effect))} {'more' if effect.plain_effect > 0 else 'less'}"
    statistic = f" in the median replication, and {mean} on average" if median else ""
    return (
        f"{effect.policy} earned {size} {word} than {effect.control} {over}{statistic} "
        f"({level} interval {near} to {far} {word})."
    )


def _in(metric: Metric) -> str:
    """Return the metric after a noun; the reward needs no mention."""
    return "" if metric == REWARD else f" in the {metric.title}"


def headline(
    effects: Sequence[Effect], standings: Sequence[Standing], metric: Metric = REWARD
) -> tuple[str, str]:
    """Return a sentence on several policies at one checkpoint, and a second one with their names."""
    reference, level = effects[0].control, percent(effects[0].level)
    compared = [effect for effect in effects if effect.control == reference]
    ranking = _Ranking.of(compared, metric)
    if standings:
        candidates = [standing.policy for standing in standings if standing.may_be_best]
        together = f"all comparisons together, at {level} (one-sided)"
        if len(candidates) == 1:
            return f"{candidates[0]} is the best of {len(standings)} policies.", (
                f"Every other policy is ruled out as the best, {together}."
            )
        return (
            f"{ranking.best} leads; {len(candidates)} of {len(standings)} policies may be the best.",
            f"Any of {listed(candidates)} may be the best, {together}.",
        )
    better, worse, count = ranking.better, ranking.worse, len(compared)
    share = f"{len(better)} of {counted(count, 'policy', 'policies')}"
    if metric == REWARD:
        sentence = f"{ranking.best} earned most; {share} earned more than {reference}, {len(worse)} earned less."
    else:
        sentence = (
            f"{ranking.best} is the best in the {metric.title}; {share} are better than {reference}, "
            f"{len(worse)} are worse."
        )
    details = []
    if better:
        details.append(f"{'More' if metric == REWARD else 'Better'}: {listed(better)}.")
    if undecided := count - len(better) - len(worse):
        details.append(f"No difference from {reference} is shown for {undecided}, at {level}.")
    return sentence, " ".join(details)


def unseen_replications(
    runs: Runs, level: float, differences: Sequence[float], possible: float | None
) -> str:
    """Say what unseen replications could do to the smallest difference; `possible` is a policy's largest loss."""
    count = runs.replications
    seen = "this one" if count == 1 else f"any of these {count:,}"
    unlike = f"Up to {100 * unseen_share(count, level):.2g}% of replications may be unlike {seen}"
    if not differences:
        return f"{unlike}."
    weakest = min(differences)
    loss = reversing_loss(weakest, count, level)
    which = "this finding" if len(differences) == 1 else "the smallest of these differences"
    if possible is None:
        return f"{unlike}; {which} is reversed if those lose more than {amount(loss)} each."
    if weakest > possible:
        return (
            f"{unlike}; policies can differ by at most {amount(possible)} here, the horizon times the range of the "
            f"arms' means, so {which} is due to chance at least in part."
        )
    how = "at most" if runs.capabilities.has_instances else "on average"
    worst = f"always playing the worst arm loses {amount(possible)} {how}."
    if loss >= possible:
        return f"{unlike}; {which} is reversed only if those lose more than {amount(loss)} each, and {worst}"
    needed = replications_to_exclude(weakest, possible, level)
    time = "" if runs.seconds is None else _takes(runs.seconds * needed / count)
    return (
        f"{unlike}; {which} is reversed if those lose more than {amount(loss)} each, and {worst} "
        f"{needed:,} replications{time} exclude that."
    )


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
