"""What a number of replications cannot exclude: that some, rarer than these, are unlike all of them.

If a share p of all replications fails in some way, M replications meet none of them with probability (1 - p)^M. So
p_up = 1 - (1 - level)^(1 / M) is the exact upper confidence bound of a share that was never met. No interval of a
mean knows of such replications; a finding about the mean is reversed if they lose more than (1 - p_up) / p_up times
the effect.
"""

from __future__ import annotations

import math

import numpy as np

from sameluck.inference.movement import mean_ranges
from sameluck.runs import Runs


def unseen_share(replications: int, level: float) -> float:
    """The largest share of replications that may be unlike all of these, at a level of confidence."""
    return -math.expm1(math.log1p(-level) / replications)


def reversing_loss(effect: float, replications: int, level: float) -> float:
    """What unseen replications must lose, each, to reverse a mean difference."""
    share = unseen_share(replications, level)
    return abs(effect) * (1 - share) / share


def replications_to_exclude(effect: float, loss: float, level: float) -> int:
    """With how many replications unseen ones that lose this much cannot reverse a mean difference."""
    return math.ceil(math.log1p(-level) / math.log1p(-abs(effect) / (abs(effect) + loss)))


def possible_loss(runs: Runs) -> float | None:
    """The most that one policy can lose to another in a replication, in expectation: always the worst arm.

    None where the means of the arms are not known, as on live traffic, or not bounded, as on a Gaussian prior.
    """
    environment, horizon = runs.environment, float(runs.checkpoints[-1])
    if environment is None:
        return None
    if environment.is_prior:
        return horizon if environment.binary else None
    if environment.is_moving:
        return float(mean_ranges(environment, runs.checkpoints)[-1])
    means = environment.instance_means(0, range(1), runs.experiment.n_arms)
    return float(horizon * np.ptp(means))
