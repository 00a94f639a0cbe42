"""`IMED`: indexed minimum empirical divergence."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sameluck.arrays import Floats
from sameluck.compilation.decorators import branch_hint
from sameluck.policies.base import RewardScale, Tally, selects
from sameluck.policies.kl_ucb import bernoulli_kl
from sameluck.policies.logarithms import natural_logs
from sameluck.randomness.streams import Key


class IMED(NamedTuple):
    """The arm of which the rewards say least that it is not the best (Honda and Takemura, 2015).

    Each arm once in index order; then the arm with the smallest `pulls * kl(mean, highest) + log(pulls)`, where
    `highest` is the highest mean and kl the divergence of Bernoulli distributions, as in `KLUCB`. For rewards in
    [0, 1]; a mean outside is replaced by 0 or 1. For rewards 0 and 1 the regret reaches the lower bound of Lai and
    Robbins (1985).
    """

    def reward_scale(self) -> RewardScale:
        """Rewards in [0, 1]."""
        return RewardScale(0.5, 0.5, unit_interval=True)

    def prepare(self, arms: int, horizon: int) -> _LogPulls:
        return _LogPulls(natural_logs(np.maximum(np.arange(horizon + 1.0), 1.0)))


class _LogPulls(NamedTuple):
    log: Floats  # by number of pulls


@selects(_LogPulls)
def _least_refuted(policy: _LogPulls, tally: Tally, period: int, noise: Key) -> int:
    if period <= tally.pulls.size:
        return period - 1
    highest = 0.0
    for arm in range(tally.pulls.size):
        if tally.pulls[arm] == 0:  # in batches only
            return arm
        highest = max(highest, min(tally.means[arm], 1.0))
    best, lowest = 0, np.inf
    for arm in range(tally.pulls.size):
        pulls = tally.pulls[arm]
        index = policy.log[pulls]
        mean = max(tally.means[arm], 0.0)
        if mean < highest:
            index += pulls * bernoulli_kl(mean, highest)
        if index < lowest:
            branch_hint()
            best, lowest = arm, index
    return best
