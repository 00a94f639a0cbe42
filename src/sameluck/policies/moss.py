"""`MOSS`: upper confidence bounds for a known horizon."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sameluck.policies.base import Policy, RewardScale
from sameluck.policies.logarithms import natural_logs
from sameluck.policies.ucb import bound_tables, bound_widths
from sameluck.validation import require_number


class MOSS(NamedTuple):
    """Upper confidence bounds that shrink with an arm's share of the horizon (Audibert and Bubeck, 2009).

    Each arm once in index order; then the arm with the largest
    `mean + sqrt(alpha * max(0, log(T / (K * pulls))) / pulls)` with T the experiment's horizon and K the number of
    arms. `alpha` = 1 is the published rule, for rewards in [0, 1]: its regret is at most 25 sqrt(T K), without the
    factor sqrt(log(T)) of UCB1. `alpha` = 4 is the rule for 1-sub-Gaussian rewards (Lattimore and Szepesvari, 2020,
    Algorithm 7).
    """

    alpha: float = 1.0

    def check(self, arms: int) -> None:
        require_number("MOSS.alpha", self.alpha, at_least=0)

    def reward_scale(self) -> RewardScale:
        """Sub-Gaussian rewards with variance alpha / 4."""
        sd = math.sqrt(self.alpha) / 2
        return RewardScale(sd, sd, unit_interval=True)

    def rescaled(self, sd: float, mean: float) -> MOSS:
        """With the alpha for rewards of this standard deviation."""
        return MOSS(alpha=4 * sd**2)

    def prepare(self, arms: int, horizon: int) -> Policy:
        logs = natural_logs(np.maximum(np.arange(horizon + 1.0), 1.0))
        evidence = np.maximum(0.0, math.log(horizon / arms) - logs)
        width = bound_widths(self.alpha * evidence, horizon)
        return bound_tables(arms, np.ones(horizon + 1), width)
