"""Metrics: reward, regret, share of the best arm, or the tail of the rewards.

| metric            | of a policy up to checkpoint t                                                  |
|-------------------|---------------------------------------------------------------------------------|
| `reward`          | the mean over replications of the cumulative reward                             |
| `regret`          | pseudo-regret: the mean of sum over arms a of (mu* - mu_a) N_a(t)               |
| `realised_regret` | the mean of t mu* minus the cumulative reward                                   |
| `best_arm_share`  | the mean share of the t periods in which an arm of the highest mean was played  |
| `quantile(p)`     | the p-quantile over replications of the cumulative reward                       |
| `worst_tenth`     | the mean cumulative reward of the tenth of replications that earned least       |

mu_a are the true means of a replication's bandit, mu* is the largest of them and N_a(t) counts the plays of arm a. By
Wald's identity both regrets have the same expectation; they differ by the noise of the rewards. Where the means move
with the period, `realised_regret` is against the best arm of each period, and `regret` and `best_arm_share` are not
defined.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from sameluck.arrays import Floats, Ints
from sameluck.environments.base import Environment
from sameluck.environments.moving import Moving
from sameluck.errors import Invalid, did_you_mean, shown
from sameluck.runs import Runs

WORST_SHARE = 0.1  # of the replications, for `worst_tenth`
MIN_REPLICATIONS_FOR_WORST = 100  # ten in the tail; with fewer its interval misses far too often
_PERIODS_AT_ONCE = 1 << 16  # whose means are held in memory


class Metric(NamedTuple):
    name: str  # its text form
    title: str  # in tables and sentences
    about: str = ""  # a definition, where the title is too short
    lower_is_better: bool = False
    share: float | None = None  # of the replications: below a quantile, or in the tail

    @property
    def is_reward(self) -> bool:
        """True for the mean reward, the default."""
        return self.name == "reward"

    @property
    def quantity(self) -> str:
        return "cumulative reward" if self.is_reward else self.title

    @property
    def description(self) -> str:
        """Words before the title of a result; empty for the reward."""
        better = "lower" if self.lower_is_better else "higher"
        about = f", {self.about}" if self.about else ""
        return "" if self.is_reward else f"{self.title}{about} ({better} is better); "

    @property
    def is_mean(self) -> bool:
        """True for a mean over replications, to which every interval of a mean applies."""
        return self.share is None

    @property
    def is_quantile(self) -> bool:
        return self.share is not None and self.name != "worst_tenth"


REWARD = Metric("reward", "reward")
_REGRET = "the means of the best arm minus the means of the arms played"
_REALISED = "the mean of the best arm in every period, minus the rewards received"
_WORST = "mean reward of the worst tenth"
METRICS = {
    metric.name: metric
    for metric in (
        REWARD,
        Metric("regret", "pseudo-regret", _REGRET, lower_is_better=True),
        Metric("realised_regret", "realised regret", _REALISED, lower_is_better=True),
        Metric("best_arm_share", "share of the best arm"),
        Metric("worst_tenth", _WORST, "of the replications", share=WORST_SHARE),
    )
}
NAMES = (*METRICS, "quantile(0.5)")


def as_metric(metric: object) -> Metric:
    """Return the metric of a text form; raise `Invalid` for an unknown metric."""
    text = metric.replace(" ", "").replace("-", "_").lower() if isinstance(metric, str) else ""
    if text in METRICS:
        return METRICS[text]
    quantile = re.fullmatch(r"quantile\((\d*\.?\d+)\)", text)
    if quantile is None:
        raise Invalid(f"metric {shown(metric)} is not known; {did_you_mean(metric, NAMES)}")
    share = float(quantile[1])
    if not 0 < share < 1:
        raise Invalid(f"quantile must be between 0 and 1, such as quantile(0.1), got {share:g}")
    title = f"{100 * share:.12g}% quantile of the reward"
    return Metric(f"quantile({share:.12g})", title, "over replications", share=share)


def measured(runs: Runs, metric: Metric) -> Runs:
    """Return the runs with the metric's value of each replication in place of its reward.

    The mean over replications is the metric. For the reward and its quantiles these are the runs themselves.
    """
    if metric.is_reward or metric.is_quantile:
        return runs
    if metric.name == "worst_tenth":
        if runs.replications < MIN_REPLICATIONS_FOR_WORST:
            raise Invalid(
                f'metric="worst_tenth" needs {MIN_REPLICATIONS_FOR_WORST} replications, ten of them in the tenth, '
                f'got {runs.replications:,}; run more, or use "quantile(0.1)"'
            )
        return replace(runs, rewards=worst_values(runs.rewards))
    if runs.capabilities.has_contexts:
        return replace(runs, rewards=_in_contexts(runs, metric))
    if runs.environment is not None and not runs.capabilities.is_stationary:
        if metric.name != "realised_regret":
            raise Invalid(
                f"metric={metric.name!r} needs one mean per arm, and the means of {type(runs.environment).__name__} "
                'move with the period; use "realised_regret", against the best arm of each period'
            )
        best = summed_over_periods(runs.environment, runs.checkpoints, partial(np.max, axis=1))
        return replace(runs, rewards=best - runs.rewards)
    means = known_means(runs)
    if means is None:
        raise Invalid(
            f"metric={metric.name!r} needs the true means of the arms, which are known in simulations only, not on "
            'live traffic; leave it out, or use "quantile(0.5)" or "worst_tenth"'
        )
    return replace(runs, rewards=_FROM_MEANS[metric.name](runs, means[:, None, None]))


def _in_contexts(runs: Runs, metric: Metric) -> Floats:
    """Return a metric against the best arm in each context (replication, policy, checkpoint)."""
    if runs.regret is None or runs.best_pulls is None or np.isnan(runs.regret).any():
        raise Invalid(
            f"metric={metric.name!r} needs the mean reward of each arm in a context, which the environment does not "
            "state; register a function with sameluck.expects"
        )
    if metric.name == "realised_regret":
        raise Invalid(
            'metric="realised_regret" is not defined with contexts; use "regret", against the best arm in the context'
        )
    return runs.regret if metric.name == "regret" else runs.best_pulls / runs.checkpoints


def known_means(runs: Runs) -> Floats | None:
    """Return the true means of each replication's bandit (replication, arm); None if unknown or moving."""
    if runs.environment is None or not runs.capabilities.has_arm_means:
        return None
    experiment = runs.experiment
    replications = range(runs.first, runs.first + runs.replications)
    return runs.environment.instance_means(experiment.seed, replications, experiment.n_arms)


def summed_over_periods(
    environment: Environment, checkpoints: Ints, statistic: Callable[[Floats], Floats]
) -> Floats:
    """Return a statistic of each period's means (period, arm), summed up to each checkpoint."""
    assert isinstance(environment, Moving)
    sums, total, start = np.empty(checkpoints.size), 0.0, 1
    for index, checkpoint in enumerate(checkpoints.tolist()):
        for first in range(start, checkpoint + 1, _PERIODS_AT_ONCE):
            times = range(first, min(first + _PERIODS_AT_ONCE, checkpoint + 1))
            total += float(statistic(environment.means_at(times)).sum())
        sums[index], start = total, checkpoint + 1
    return sums


def pseudo_regret(runs: Runs, means: Floats) -> Floats:
    """Return each arm's gap to the best arm times its plays, summed (replication, policy, checkpoint)."""
    gaps = means.max(axis=-1, keepdims=True) - means
    return np.asarray(np.sum(gaps * runs.pulls, axis=-1), float)


def best_arm_pulls(runs: Runs, means: Floats) -> Ints:
    """Return the plays of the arms with the highest mean (replication, policy, checkpoint)."""
    best = means == means.max(axis=-1, keepdims=True)
    return np.asarray(np.sum(best * runs.pulls, axis=-1))


_FROM_MEANS: dict[str, Callable[[Runs, Floats], Floats]] = {
    "regret": pseudo_regret,
    "realised_regret": lambda runs, means: runs.checkpoints * means.max(axis=-1) - runs.rewards,
    "best_arm_share": lambda runs, means: best_arm_pulls(runs, means) / runs.checkpoints,
}


def tail_size(replications: int, share: float) -> int:
    """Return the number of replications at or below the quantile of a share, rounded up."""
    return max(1, math.ceil(replications * share - 1e-9))


def worst_values(rewards: Floats) -> Floats:
    """Return q - max(q - reward, 0) / p for each replication (the first axis), q being the p-quantile of the rewards.

    Their mean is the mean of the worst share p (Rockafellar and Uryasev, 2000). Their standard deviation is the
    standard deviation of its influence function, so t intervals and differences within replications apply.
    """
    index = tail_size(len(rewards), WORST_SHARE) - 1
    quantile = np.sort(rewards, axis=0)[index]
    return np.asarray(quantile - np.maximum(quantile - rewards, 0) / WORST_SHARE, float)
