"""Upper confidence bounds: `UCB1`, `UCBDelta`, `MOSS`, and `UCBTuned` and `UCBV` with estimated variances."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from sameluck.arrays import Floats
from sameluck.compilation.decorators import branch_hint, inlined
from sameluck.policies.base import Policy, RewardScale, Tally, selects
from sameluck.policies.fast.rule_tables import natural_logs
from sameluck.randomness.streams import Key
from sameluck.validation import require_number


class UCB1(NamedTuple):
    """Play the arm with the highest upper confidence bound (Auer, Cesa-Bianchi and Fischer, 2002).

    Play each arm once in index order. Then, in period t, play the arm with the largest
    `mean + sqrt(alpha * log(t - 1) / pulls)`. The logarithm's argument is the number of plays so far, as in the 2002
    paper. `alpha` = 2 is the textbook rule. For alpha >= 2 and rewards in [0, 1] the variance of a suboptimal arm's
    pull count is O(log(T)^2) (the paper's proposition on UCB1 and UCB-delta). Replay is most effective there.
    """

    alpha: float = 2.0

    def check(self, arms: int) -> None:
        require_number("UCB1.alpha", self.alpha, at_least=0)

    def reward_scale(self) -> RewardScale:
        """Return the scale of sub-Gaussian rewards with variance alpha / 2, or alpha / 8 in Hoeffding's bound."""
        return RewardScale(math.sqrt(self.alpha / 8), math.sqrt(self.alpha / 2), unit_interval=True)

    def rescaled(self, sd: float, mean: float) -> UCB1:
        return UCB1(alpha=2 * sd**2)

    def prepare(self, arms: int, horizon: int) -> Policy:
        growth = np.zeros(horizon + 1)
        growth[2:] = np.sqrt(natural_logs(np.arange(1.0, horizon)))
        return bound_rule(growth, bound_widths(self.alpha, horizon))


class UCBDelta(NamedTuple):
    """Upper confidence bounds at a fixed confidence (Lattimore and Szepesvari, 2020, Algorithm 3).

    Play each arm once in index order, then the arm with the largest `mean + sqrt(2 log(1 / delta) / pulls)`.

    Args:
        d: delta = T^-d with T the experiment's horizon; d >= 2 for the Proposition's variance bound.
        delta: An explicit delta in (0, 1] instead; then the rule does not depend on the horizon.
    """

    d: float = 2.0
    delta: float | None = None

    def check(self, arms: int) -> None:
        require_number("UCBDelta.d", self.d, at_least=0)
        if self.delta is not None:
            require_number("UCBDelta.delta", self.delta, above=0, at_most=1)

    def reward_scale(self) -> RewardScale:
        """Return the scale of sub-Gaussian rewards with variance 1, or 1 / 4 in Hoeffding's bound."""
        return RewardScale(0.5, 1.0, unit_interval=True)

    def prepare(self, arms: int, horizon: int) -> Policy:
        evidence = self.d * math.log(horizon) if self.delta is None else -math.log(self.delta)
        return bound_rule(np.ones(horizon + 1), bound_widths(2.0 * evidence, horizon))


class MOSS(NamedTuple):
    """Upper confidence bounds that shrink with an arm's share of the horizon (Audibert and Bubeck, 2009).

    Play each arm once in index order. Then play the arm with the largest
    `mean + sqrt(alpha * max(0, log(T / (K * pulls))) / pulls)`, where T is the experiment's horizon and K the number
    of arms. `alpha` = 1 is the published rule, for rewards in [0, 1]: its regret is at most 25 sqrt(T K), without the
    factor sqrt(log(T)) of UCB1. `alpha` = 4 is the rule for 1-sub-Gaussian rewards (Lattimore and Szepesvari, 2020,
    Algorithm 7).
    """

    alpha: float = 1.0

    def check(self, arms: int) -> None:
        require_number("MOSS.alpha", self.alpha, at_least=0)

    def reward_scale(self) -> RewardScale:
        """Return the scale of sub-Gaussian rewards with variance alpha / 4."""
        sd = math.sqrt(self.alpha) / 2
        return RewardScale(sd, sd, unit_interval=True)

    def rescaled(self, sd: float, mean: float) -> MOSS:
        return MOSS(alpha=4 * sd**2)

    def prepare(self, arms: int, horizon: int) -> Policy:
        logs = natural_logs(np.maximum(np.arange(horizon + 1.0), 1.0))
        evidence = np.maximum(0.0, math.log(horizon / arms) - logs)
        return bound_rule(np.ones(horizon + 1), bound_widths(self.alpha * evidence, horizon))


class _Bounds(NamedTuple):
    growth: Floats  # by period, never falling
    width: Floats  # by number of pulls


def bound_rule(growth: Floats, width: Floats) -> Policy:
    """Return the rule that plays each arm once, then the arm with the largest `mean + growth[period] * width[pulls]`.

    The growth must never fall, and the width of an arm without pulls must be infinite.
    """
    return _Bounds(growth, width)


def bound_widths(scale: float | Floats, horizon: int) -> Floats:
    """Return sqrt(scale / pulls), by number of pulls."""
    widths: Floats = np.sqrt(scale / np.maximum(np.arange(horizon + 1), 1))
    widths[0] = np.inf  # used in batches only: otherwise each arm has been pulled once
    return widths


@selects(_Bounds)
def _highest_bound(policy: _Bounds, tally: Tally, period: int, noise: Key) -> int:
    if period <= tally.pulls.size:
        return period - 1
    best, highest = 0, -np.inf
    for arm in range(tally.pulls.size):
        # Unsigned indices need no check for negative ones.
        width = policy.width[np.uint64(tally.pulls[arm])]
        bound = tally.means[arm] + policy.growth[np.uint64(period)] * width
        if bound > highest:
            # Without a hint: the rule without contexts has its fast form, and a level is hard to predict.
            best, highest = arm, bound
    return best


class UCBTuned(NamedTuple):
    """UCB1 with the estimated variance in its bound (Auer, Cesa-Bianchi and Fischer, 2002, section 4).

    Play each arm once in index order. Then, in period t + 1, play the arm with the largest
    `mean + sqrt(log(t) / pulls * min(1/4, variance + sqrt(2 * log(t) / pulls)))`. The variance is the mean square of
    the arm's rewards minus the square of their mean. For rewards in [0, 1].
    """

    def reward_scale(self) -> RewardScale:
        return RewardScale(0.5, 0.5, unit_interval=True)

    def prepare(self, arms: int, horizon: int) -> _VarianceBounds:
        return _VarianceBounds(_logs_of_plays(horizon), 0.0, tuned=True)


class UCBV(NamedTuple):
    """Upper confidence bounds by the empirical Bernstein inequality (Audibert, Munos and Szepesvari, 2009).

    Play each arm once in index order. Then, in period t + 1, play the arm with the largest
    `mean + sqrt(2 * variance * e / pulls) + 3 * c * b * e / pulls`, with e = zeta * log(t) and the variance as in
    `UCBTuned`. For rewards in [0, b]. With zeta = 1.2 and c = 1 the regret is at most 10 log(T) times the sum of
    variance / gap + 2 b over all suboptimal arms.
    """

    zeta: float = 1.2
    c: float = 1.0
    b: float = 1.0

    def check(self, arms: int) -> None:
        require_number("UCBV.zeta", self.zeta, above=0, at_most=1e6)
        require_number("UCBV.c", self.c, at_least=0, at_most=1e6)
        require_number("UCBV.b", self.b, above=0, at_most=1e100)

    def prepare(self, arms: int, horizon: int) -> _VarianceBounds:
        evidence = self.zeta * _logs_of_plays(horizon)
        return _VarianceBounds(evidence, 3.0 * self.c * self.b, tuned=False)


def _logs_of_plays(horizon: int) -> Floats:
    """Return log(t) by period t + 1, from period 2 on."""
    logs = np.zeros(horizon + 1)
    logs[2:] = natural_logs(np.arange(1.0, horizon))
    return logs


class _VarianceBounds(NamedTuple):
    evidence: Floats  # by period, never falling
    range: float  # in Bernstein's inequality
    tuned: bool

    def memory(self, arms: int) -> int:
        return arms  # each arm's sum of squared rewards


@selects(_VarianceBounds)
def _highest_variance_bound(policy: _VarianceBounds, tally: Tally, period: int, noise: Key) -> int:
    add_square(tally)
    if period <= tally.pulls.size:
        return period - 1
    best, highest = 0, -np.inf
    for arm in range(tally.pulls.size):
        bound = variance_bound(policy, tally, arm, policy.evidence[np.uint64(period)])
        if bound > highest:
            branch_hint()
            best, highest = arm, bound
    return best


@inlined
def add_square(tally: Tally) -> None:
    """Add the square of the last reward to its arm's sum in the memory."""
    tally.memory[tally.last_arm] += tally.last_reward * tally.last_reward  # 0 in period 1


@inlined
def variance_bound(policy: Any, tally: Tally, arm: int, evidence: float) -> float:
    """Return the upper confidence bound of an arm; `policy` has the fields `range` and `tuned`."""
    mean, share = tally.means[arm], evidence / tally.pulls[arm]
    # Rounding may make the difference negative.
    variance = max(0.0, tally.memory[arm] / tally.pulls[arm] - mean * mean)
    if policy.tuned:
        return mean + math.sqrt(share * min(0.25, variance + math.sqrt(2.0 * share)))
    return mean + math.sqrt(2.0 * variance * share) + policy.range * share
