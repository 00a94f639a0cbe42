"""Effects: by how much one policy earned more than another, with an interval, estimated from `Runs`.

The replication is the unit of all inference, because the T users of a replication give one dependent trajectory.
Where a design shares rewards, effects are differences within replications, and shared noise cancels. Under `naive`
the policies' replications are independent and are compared as two samples (Welch).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

import numpy as np

from sameluck.arrays import Floats
from sameluck.design import Naive
from sameluck.errors import Invalid
from sameluck.inference.adjustments import adjusted_differences
from sameluck.inference.metrics import REWARD, Metric
from sameluck.inference.requests import Pair, Request, check_request, policy_pairs
from sameluck.inference.tails import quantile_moments, quantile_of, tail_difference
from sameluck.inference.variance_ratios import Moments, VarianceRatio, moments, ratio_of, rounded_up
from sameluck.intervals import Interval
from sameluck.runs import Runs

PairAt: TypeAlias = tuple[Pair, int]  # a pair and the index of a checkpoint


class _Estimate(NamedTuple):
    interval: Interval  # its p-value is over the family
    p_value: float  # of the comparison alone


NO_DIFFERENCE = _Estimate(Interval(0.0, 0.0, 1.0), 1.0)


class Effect(NamedTuple):
    """Difference between a policy and its control up to a checkpoint (theta in the paper)."""

    policy: str
    control: str
    checkpoint: int
    effect: float  # the difference of the metric: mean over replications (interval="median": the median)
    low: float
    high: float
    level: float
    p_value: float  # of this comparison alone
    p_adjusted: float  # over the family of `simultaneous`; below 1 - level exactly if the interval excludes 0
    sd: float  # of one replication's difference
    reward: float  # the policy's mean cumulative reward
    control_reward: float
    replications: int
    interactions: float  # mean real users per replication, for all policies of the experiment
    naive_interactions: int  # users per replication under the naive design
    variance_ratio: float  # Var(policy) + Var(control) over Var(policy - control); nan on a prior
    ratio_low: float
    ratio_high: float
    naive_replications: float  # that the naive design needs for the same precision
    plain_effect: float  # the mean without adjustment; `effect` unless that is adjusted or a median
    plain_sd: float

    @property
    def shows_difference(self) -> bool:
        """True if the interval excludes 0."""
        return not self.low <= 0 <= self.high

    @property
    def has_interval(self) -> bool:
        """True if both bounds are finite and the differences vary."""
        return self.sd > 0 and math.isfinite(self.high - self.low)

    @property
    def is_same_policy(self) -> bool:
        """True if both names stand for one policy with the same pulls and rewards."""
        return self.low == self.high == self.sd == 0

    @property
    def is_undecided(self) -> bool:
        """True if the policies differ and the interval contains 0."""
        return not self.shows_difference and not self.is_same_policy


class LevelEffect(NamedTuple):
    """Part of an effect that comes from the users of one level; the parts of all levels add up to the effect."""

    policy: str
    control: str
    checkpoint: int
    user_level: str  # its name
    users: float  # mean number of users of this level per replication and policy
    effect: float
    low: float
    high: float
    level: float  # confidence that the intervals of all levels hold together
    p_value: float  # of this level alone
    p_adjusted: float  # over all levels, and over the family of `simultaneous`
    sd: float  # of one replication's difference


def effects(
    runs: Runs, request: Request, pairs: Sequence[Pair] | None = None
) -> tuple[Effect, ...]:
    """Check the request and estimate its effects; see `estimated_effects`."""
    request = check_request(runs.experiment, runs.replications, request)
    return estimated_effects(runs, request, pairs)


def estimated_effects(
    runs: Runs, request: Request, pairs: Sequence[Pair] | None = None
) -> tuple[Effect, ...]:
    """Return one `Effect` for each pair and checkpoint, all checkpoints of a pair before the next pair.

    The rewards of `runs` are the values of the metric (`measured`), and `check_request` returned the request.
    """
    bad = np.argwhere(~np.isfinite(runs.rewards))
    if bad.size != 0:
        raise Invalid(f"rewards must be finite; replication {bad[0, 0]} has one that is not")
    pairs = requested_pairs(runs, request) if pairs is None else pairs
    estimates = _estimates(runs, [*pairs, *also_possible(pairs, request)], request)
    policy_moments = [
        [moments(runs.rewards[:, column, index]) for index in range(runs.checkpoints.size)]
        for column in range(len(runs.policies))
    ]
    keys = list(itertools.product(pairs, range(runs.checkpoints.size)))
    estimates |= {key: NO_DIFFERENCE for key in keys if _same(runs, key[0])}
    return tuple(_effect(runs, policy_moments, key, estimates[key], request) for key in keys)


def requested_pairs(runs: Runs, request: Request) -> list[Pair]:
    best = best_policy(runs, request.metric_definition)
    return policy_pairs(request.pairs, runs.policies, str(request.control), best)


def _same(runs: Runs, pair: Pair) -> bool:
    """Return whether two names stand for one policy with equal pulls and rewards, so that 0 is no estimate."""
    policy, control = (runs.experiment.policies[name] for name in pair)
    return type(policy) is type(control) and policy == control and has_equal_results(runs, pair)


def has_equal_results(runs: Runs, pair: Pair) -> bool:
    """Return whether two policies have the same pulls and rewards in every replication."""
    first, second = (runs.policies.index(name) for name in pair)
    same_pulls = np.array_equal(runs.pulls[:, first], runs.pulls[:, second])
    return same_pulls and np.array_equal(runs.rewards[:, first], runs.rewards[:, second])


def also_possible(pairs: Sequence[Pair], request: Request) -> list[Pair]:
    """Return the pairs that the data might have selected instead, for which intervals must hold too."""
    policies = [policy for policy, _ in pairs] if request.pairs == "best" else []
    return list(itertools.combinations(policies, 2))


def best_policy(runs: Runs, metric: Metric = REWARD) -> str:
    """Return the policy with the best metric at the last checkpoint; the first of several."""
    last = runs.rewards[:, :, -1]
    if metric.is_quantile:
        values = [quantile_of(column, metric.share or 0.5) for column in last.T]
    else:
        values = last.mean(axis=0).tolist()
    return runs.policies[int(np.argmin(values) if metric.lower_is_better else np.argmax(values))]


def is_paired(runs: Runs) -> bool:
    """Return whether the policies of a replication share rewards or an instance."""
    return not isinstance(runs.experiment.design, Naive) or has_prior(runs)


def has_prior(runs: Runs) -> bool:
    """Return whether the environment is a prior, with one instance per replication."""
    return runs.capabilities.has_instances


def is_interim(runs: Runs) -> bool:
    """Return whether a live experiment has planned more replications than these."""
    return runs.environment is None and runs.replications < runs.experiment.replications


def differences(runs: Runs, pair: Pair, index: int, request: Request | None = None) -> Floats:
    """Return the first policy's reward minus the second's at a checkpoint's index, adjusted if requested."""
    if request is not None and request.adjust is not None:
        predictable = request.interval_method.valid_at_every_look
        return adjusted_differences(runs, pair, index, predictable=predictable)
    rewards, control_rewards = _rewards(runs, pair, index)
    return rewards - control_rewards


def _rewards(runs: Runs, pair: Pair, index: int) -> tuple[Floats, Floats]:
    first, second = (runs.rewards[:, runs.policies.index(name), index] for name in pair)
    return first, second


def _estimates(runs: Runs, pairs: list[Pair], request: Request) -> dict[PairAt, _Estimate]:
    """Return intervals and p-values that hold for each family: over pairs, over checkpoints, or over both.

    Joint intervals use the correlation of paired differences; the others use Bonferroni's method.
    """
    keys = list(itertools.product(pairs, range(runs.checkpoints.size)))
    return _estimates_of(runs, keys, _families(keys, str(request.simultaneous)), request)


def _estimates_of(
    runs: Runs, keys: list[PairAt], families: list[list[PairAt]], request: Request
) -> dict[PairAt, _Estimate]:
    size = len(families[0])  # all families have the same
    method, adjusted = request.interval_method, request.adjust is not None
    jointly = method.has_joint_intervals and request.metric_definition.is_mean
    if jointly and size > 1 and (is_paired(runs) or adjusted):
        together: dict[PairAt, _Estimate] = {}
        for family in families:
            columns = np.column_stack([differences(runs, *key, request) for key in family])
            intervals = method.joint_intervals(columns, request.level)
            estimates = map(_Estimate, intervals, method.p_values(columns))
            together |= zip(family, estimates, strict=True)
        return together
    # Bonferroni: all keys at once, because bootstrap intervals share their resamples.
    alone = _each_alone(runs, keys, request._replace(level=1 - (1 - request.level) / size))
    return {
        key: _Estimate(
            interval._replace(p_value=min(1.0, size * interval.p_value)), interval.p_value
        )
        for key, interval in zip(keys, alone, strict=True)
    }


def _each_alone(runs: Runs, keys: list[PairAt], request: Request) -> list[Interval]:
    metric, method, level = request.metric_definition, request.interval_method, request.level
    paired = is_paired(runs)
    if not metric.is_mean:
        return [
            tail_difference(*_rewards(runs, *key), metric, level, paired=paired) for key in keys
        ]
    if method.has_two_sample_interval and not paired and request.adjust is None:
        return [method.two_sample_interval(*_rewards(runs, *key), level) for key in keys]
    return method.intervals(
        np.column_stack([differences(runs, *key, request) for key in keys]), level
    )


def _families(keys: list[PairAt], simultaneous: str) -> list[list[PairAt]]:
    families: dict[object, list[PairAt]] = {}
    for pair, index in keys:
        shared = {"pairs": index, "checkpoints": pair, "both": None, "none": (pair, index)}
        families.setdefault(shared[simultaneous], []).append((pair, index))
    return list(families.values())


def _effect(
    runs: Runs,
    policy_moments: list[list[Moments]],
    key: PairAt,
    estimate: _Estimate,
    request: Request,
) -> Effect:
    pair, index = key
    policy, control = (policy_moments[runs.policies.index(name)][index] for name in pair)
    values = differences(runs, pair, index)
    difference = moments(values)
    variance, ratio = policy.variance + control.variance, VarianceRatio(1.0, 1.0, 1.0)
    if is_paired(runs):
        variance = difference.variance
        # On a prior, naive runs share the instance too, and both policies' variances contain its variance.
        unknown = VarianceRatio(math.nan, math.nan, math.nan)
        ratio = unknown if has_prior(runs) else ratio_of(policy, control, difference, request.level)
    mean, sd = difference.mean, math.sqrt(variance)
    if request.adjust is not None:
        values = differences(runs, pair, index, request)
        mean, sd = float(values.mean()), math.sqrt(moments(values).variance)
    plain, plain_sd = difference.mean, math.sqrt(variance)
    metric, method = request.metric_definition, request.interval_method
    if metric.is_quantile:
        both, share = _rewards(runs, pair, index), metric.share or 0.5
        mean, sd = quantile_moments(*both, share, paired=is_paired(runs))
        plain, plain_sd, ratio = mean, sd, VarianceRatio(math.nan, math.nan, math.nan)
    checkpoint = int(runs.checkpoints[index])
    return Effect(
        policy=pair[0],
        control=pair[1],
        checkpoint=checkpoint,
        effect=mean if method.is_of_the_mean else method.centre(values),
        low=estimate.interval.low,
        high=estimate.interval.high,
        level=request.level,
        p_value=estimate.p_value,
        p_adjusted=estimate.interval.p_value,
        sd=sd,
        reward=policy.mean,
        control_reward=control.mean,
        replications=runs.replications,
        interactions=float(runs.interactions[:, index].mean()),
        naive_interactions=checkpoint * len(runs.policies),
        variance_ratio=ratio.value,
        ratio_low=ratio.low,
        ratio_high=ratio.high,
        naive_replications=rounded_up(runs.replications * ratio.value),
        plain_effect=plain,
        plain_sd=plain_sd,
    )


def level_effects(runs: Runs, request: Request, pairs: Sequence[Pair]) -> tuple[LevelEffect, ...]:
    """Split the effects of pairs at the last checkpoint by the users' levels; empty if that has no meaning.

    Intervals hold for all levels of a pair together; with `simultaneous="pairs"` or `"both"` for all pairs too. Only
    means of rewards add up, so there is nothing for other metrics and for medians.
    """
    method, context = request.interval_method, runs.experiment.context
    adds_up = method.is_of_the_mean and not method.copies_arms
    if not (request.metric_definition.is_reward and adds_up):
        return ()
    if context is None or runs.level_rewards is None or runs.visits is None:
        return ()
    names, shape = context.names, (*runs.rewards.shape[:2], context.number)
    # The levels take the place of checkpoints.
    by_level = replace(
        runs,
        checkpoints=np.arange(1, context.number + 1),
        rewards=runs.level_rewards[:, :, -1],
        pulls=np.broadcast_to(runs.pulls[:, :, -1:], (*shape, runs.experiment.n_arms)),
        interactions=np.broadcast_to(runs.interactions[:, -1:], (shape[0], context.number)),
        totals=None,
        observed=None,
        visits=None,
        level_rewards=None,
        regret=None,
        best_pulls=None,
    )
    covered = [*pairs, *also_possible(pairs, request)]
    keys = list(itertools.product(covered, range(context.number)))
    together = request.simultaneous in ("pairs", "both")
    families = _families(keys, "both" if together else "checkpoints")
    estimates = _estimates_of(by_level, keys, families, request)
    estimates |= {key: NO_DIFFERENCE for key in keys if _same(runs, key[0])}
    users = runs.visits[:, :, -1].reshape(*shape, -1).sum(axis=-1).mean(axis=0)
    result = []
    for pair, index in itertools.product(pairs, range(context.number)):
        policy, control = (moments(values) for values in _rewards(by_level, pair, index))
        difference = moments(differences(by_level, pair, index))
        variance = policy.variance + control.variance
        if is_paired(runs):
            variance = difference.variance
        interval, p_value = estimates[pair, index]
        result.append(
            LevelEffect(
                policy=pair[0],
                control=pair[1],
                checkpoint=int(runs.checkpoints[-1]),
                user_level=names[index],
                users=float(users[[runs.policies.index(name) for name in pair], index].mean()),
                effect=difference.mean,
                low=interval.low,
                high=interval.high,
                level=request.level,
                p_value=p_value,
                p_adjusted=interval.p_value,
                sd=math.sqrt(variance),
            )
        )
    return tuple(result)
