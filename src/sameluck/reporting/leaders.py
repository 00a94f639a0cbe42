"""Many policies: who leads, who may be the best, and the leader board."""

from __future__ import annotations

from collections.abc import Sequence

from sameluck.inference.effects import Effect
from sameluck.inference.metrics import REWARD, Metric
from sameluck.inference.policy_summaries import PolicyMetric, PolicySummary, Standing
from sameluck.reporting.pages.leader_board import BoardEntry, LeaderBoard, leader_board
from sameluck.wording import counted, listed, percent


def board(
    effects: Sequence[Effect],
    policies: Sequence[PolicySummary],
    standings: Sequence[Standing] = (),
    kind: str = "",
    metric: Metric = REWARD,
    values: Sequence[PolicyMetric] = (),
) -> LeaderBoard:
    """Return the leader board of effects at one checkpoint, against the control of the first effect.

    `values` are those of a metric other than the reward.
    """
    measured = {one.policy: one.value for one in values if one.checkpoint == effects[0].checkpoint}
    reference = effects[0].control
    against = {one.policy: one for one in effects if one.control == reference}
    possible = {one.policy for one in standings if one.may_be_best}
    entries = []
    for one in policies:
        effect = against.get(one.policy)
        bounds = (0.0, 0.0, 0.0) if effect is None else (effect.effect, effect.low, effect.high)
        may_be_best = one.policy in possible
        value = measured.get(one.policy)
        entries.append(
            BoardEntry(
                one.policy, *bounds, one.reward, one.best_arm_share, may_be_best, value=value
            )
        )
    lowest, title = metric.lower_is_better, metric.title
    return leader_board(
        entries, reference, effects[0].level, kind, lowest_first=lowest, value_title=title
    )


def ranked(effects: Sequence[Effect], metric: Metric) -> list[Effect]:
    """Effects of more than two policies against one, by their last checkpoint, the best first; others as they are."""
    last = {one.policy: one.effect for one in effects}
    if len(last) < 2 or len({one.control for one in effects}) > 1:
        return list(effects)
    sign = 1.0 if metric.lower_is_better else -1.0
    return sorted(effects, key=lambda one: sign * last[one.policy])


def leading(
    effects: Sequence[Effect], standings: Sequence[Standing], metric: Metric = REWARD
) -> tuple[str, str]:
    """A sentence on many policies at one checkpoint, and one that says which."""
    reference, level = effects[0].control, percent(effects[0].level)
    against = [one for one in effects if one.control == reference]
    sign = -1.0 if metric.lower_is_better else 1.0
    if standings:
        possible = [one.policy for one in standings if one.may_be_best]
        leader = max(against, key=lambda one: one.reward if metric == REWARD else sign * one.effect)
        first = leader.policy if sign * leader.effect > 0 else reference
        count = len(standings)
        if len(possible) == 1:
            return f"{possible[0]} is the best of {count} policies.", (
                f"Every other one is ruled out as the best, all comparisons together, at {level} (one-sided)."
            )
        return f"{first} leads; {len(possible)} of {count} policies may be the best.", (
            f"{listed(possible)} cannot be told apart as the best, all comparisons together, at {level} (one-sided)."
        )
    against = sorted(against, key=lambda one: -sign * one.effect)
    best = against[0].policy if sign * against[0].effect > 0 else reference
    more = [one.policy for one in against if one.shows_difference and sign * one.effect > 0]
    less = [one.policy for one in against if one.shows_difference and sign * one.effect < 0]
    open_, by_reward = len(against) - len(more) - len(less), metric == REWARD
    of_all = f"{len(more)} of {counted(len(against), 'policy', 'policies')}"
    first = (
        f"{best} earned most; {of_all} earned more than {reference}, {len(less)} earned less."
        if by_reward
        else f"{best} is the best in the {metric.title}; {of_all} are better than {reference}, {len(less)} are worse."
    )
    which = [f"{'More' if by_reward else 'Better'}: {listed(more)}."] if more else []
    rest = [f"No difference from {reference} is shown for {open_}, at {level}."] if open_ else []
    return first, " ".join([*which, *rest])
