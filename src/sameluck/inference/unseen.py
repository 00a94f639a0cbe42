"""Unseen replications: rare outcomes that M replications cannot exclude, and losses that would reverse a finding.

If a share p of all replications fails in some way, M replications meet none of them with probability (1 - p)^M. So
p_up = 1 - (1 - level)^(1 / M) is the exact upper confidence bound of a share that was never met. No interval of a
mean accounts for such replications. They reverse a finding about the mean if each loses more than (1 - p_up) / p_up
times the effect.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from sameluck.inference.metrics import summed_over_periods
from sameluck.runs import Runs


def unseen_share(replications: int, level: float) -> float:
    """Return the upper confidence bound of the share of replications unlike all that were seen."""
    return -math.expm1(math.log1p(-level) / replications)


def reversing_loss(effect: float, replications: int, level: float) -> float:
    """Return the loss of each unseen replication beyond which a mean difference is reversed."""
    share = unseen_share(replications, level)
    return abs(effect) * (1 - share) / share


def replications_to_exclude(effect: float, loss: float, level: float) -> int:
    """Return the number of replications at which unseen losses of this size cannot reverse a mean difference."""
    return math.ceil(math.log1p(-level) / math.log1p(-abs(effect) / (abs(effect) + loss)))


def possible_loss(runs: Runs) -> float | None:
    """Return the largest expected loss of a policy to another in a replication: always playing the worst arm.

    None where the arms' means are unknown, as on live traffic, or unbounded, as on a Gaussian prior.
    """
    environment, horizon = runs.environment, float(runs.checkpoints[-1])
    if environment is None:
        return None
    if runs.capabilities.has_instances:
        return horizon if environment.binary else None
    if not runs.capabilities.is_stationary:
        ranges = partial(np.ptp, axis=1)
        return float(summed_over_periods(environment, runs.checkpoints, ranges)[-1])
    means = environment.instance_means(0, range(1), runs.experiment.n_arms)
    return float(horizon * np.ptp(means))
