"""Summaries of single policies, and the policies that may be the best."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sameluck.inference.effects import differences
from sameluck.inference.metrics import best_arm_pulls, known_means, pseudo_regret
from sameluck.inference.requests import Request
from sameluck.inference.tails import tail_value
from sameluck.intervals import standard_error
from sameluck.runs import Runs


class PolicySummary(NamedTuple):
    """Rewards, pulls and regret of a policy up to a checkpoint."""

    policy: str
    checkpoint: int
    reward: float  # mean cumulative reward
    sd: float  # of the reward of one replication
    pulls: tuple[float, ...]  # mean for each arm
    regret: float | None  # mean pseudo-regret, where the environment's means are known
    best_arm_share: (
        float | None
    )  # share of periods with a best arm (in the context); None without means


class PolicyMetric(NamedTuple):
    """Metric of a policy up to a checkpoint, with an interval of this policy and checkpoint alone."""

    policy: str
    checkpoint: int
    value: float
    low: float
    high: float
    level: float


class Standing(NamedTuple):
    """Policy against the best other policy (multiple comparisons with the best; Hsu, 1984)."""

    policy: str
    checkpoint: int
    low: float  # bound of its mean minus the best other policy's; at most 0
    high: float
    level: float
    may_be_best: bool


def summarise(runs: Runs) -> tuple[PolicySummary, ...]:
    means = known_means(runs)
    regret, best = runs.regret, runs.best_pulls  # with contexts
    if regret is not None and np.isnan(regret).any():
        regret = best = None  # the environment does not state its means
    if means is not None:
        regret = pseudo_regret(runs, means[:, None, None])
        best = best_arm_pulls(runs, means[:, None, None])
    summaries = []
    for column, name in enumerate(runs.policies):
        for index, checkpoint in enumerate(runs.checkpoints.tolist()):
            at = np.s_[:, column, index]
            rewards = runs.rewards[at]
            sd = float(rewards.std(ddof=1)) if rewards.size > 1 else math.nan
            pulls = tuple(runs.pulls[at].mean(axis=0).tolist())
            mean_regret = None if regret is None else float(regret[at].mean())
            share = None if best is None else float(best[at].mean() / checkpoint)
            reward = float(rewards.mean())
            summaries.append(PolicySummary(name, checkpoint, reward, sd, pulls, mean_regret, share))
    return tuple(summaries)


def policy_metrics(measured_runs: Runs, request: Request) -> tuple[PolicyMetric, ...]:
    metric, method, level = request.metric_definition, request.interval_method, request.level
    records = []
    for column, name in enumerate(measured_runs.policies):
        for index, checkpoint in enumerate(measured_runs.checkpoints.tolist()):
            values = measured_runs.rewards[:, column, index]
            if metric.is_mean:
                value, interval = float(values.mean()), method.policy_interval(values, level)
            else:
                value, interval = tail_value(values, metric, level)
            records.append(
                PolicyMetric(name, checkpoint, value, interval.low, interval.high, level)
            )
    return tuple(records)


def standings(runs: Runs, request: Request) -> tuple[Standing, ...]:
    """Return which policies may be the best at the last checkpoint, with the level over all policies.

    Let D_ij be the mean of policy i minus the mean of policy j. The one-sided half-widths w_ij are such that all
    D_ij + w_ij, j != i, exceed the true differences with probability `level`. If they do for the best policy i, its
    D_ij + w_ij are all above 0, so the policies with this property may be the best. A policy is at most
    max(0, min_j D_ij + w_ij) above the best other policy, and at least min(0, min_j D_ij - w_ji) over the policies j
    that may be the best (Hsu, 1984, with common random numbers).
    """
    halves = {name: _half_widths(runs, name, request) for name in runs.policies}
    upper = {
        name: min(ahead + half for ahead, half in rivals.values())
        for name, rivals in halves.items()
    }
    candidates = [name for name in runs.policies if upper[name] >= 0]
    return tuple(
        Standing(
            name,
            int(runs.checkpoints[-1]),
            min([0.0, *(-sum(halves[other][name]) for other in candidates if other != name)]),
            max(0.0, upper[name]),
            request.level,
            name in candidates,
        )
        for name in runs.policies
    )


def _half_widths(runs: Runs, name: str, request: Request) -> dict[str, tuple[float, float]]:
    """Return by how much a policy is ahead of each other one, and the one-sided half-width of this lead."""
    sign = -1.0 if request.metric_definition.lower_is_better else 1.0
    rivals = [rival for rival in runs.policies if rival != name]
    last = runs.checkpoints.size - 1
    columns = sign * np.column_stack(
        [differences(runs, (name, rival), last, request) for rival in rivals]
    )
    halves = request.interval_method.one_sided_half_widths(columns, request.level)
    # Equal differences say nothing about their spread.
    halves[standard_error(columns) == 0] = math.inf
    ahead = columns.mean(axis=0).tolist()
    return dict(zip(rivals, zip(ahead, halves.tolist(), strict=True), strict=True))
