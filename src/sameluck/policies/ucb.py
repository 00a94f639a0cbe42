"""Upper confidence bounds: `UCB1` and `UCBDelta`.

With more than `MANY_ARMS` arms the highest bound is found in a tournament: the same arm, in O(log K) a period.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sameluck.arrays import Floats
from sameluck.compilation.decorators import branch_hint
from sameluck.policies.base import PlayedArm, RewardScale, Tally, repeats_arm, selects
from sameluck.policies.logarithms import natural_logs
from sameluck.policies.tournament import FLOATS_PER_ARM, MANY_ARMS, highest_bound
from sameluck.randomness.streams import Key
from sameluck.validation import require_number


class UCB1(NamedTuple):
    """Play the arm with the highest upper confidence bound (Auer, Cesa-Bianchi and Fischer, 2002).

    Each arm once in index order; then, in period t, the arm with the largest
    `mean + sqrt(alpha * log(t - 1) / pulls)`: the logarithm's argument is the number of plays made so far, as in
    the 2002 paper. `alpha` = 2 is the textbook rule; for alpha >= 2 and rewards in [0, 1] the variance of a
    suboptimal arm's pull count is O(log(T)^2) (Proposition on UCB1 and UCB-delta), so replay applies at its best.
    """

    alpha: float = 2.0

    def check(self, arms: int) -> None:
        require_number("UCB1.alpha", self.alpha, at_least=0)

    def reward_scale(self) -> RewardScale:
        """Sub-Gaussian rewards with variance alpha / 2; alpha / 8 in Hoeffding's bound for rewards in [0, 1]."""
        return RewardScale(math.sqrt(self.alpha / 8), math.sqrt(self.alpha / 2), unit_interval=True)

    def rescaled(self, sd: float, mean: float) -> UCB1:
        """With the alpha for rewards of this standard deviation."""
        return UCB1(alpha=2 * sd**2)

    def prepare(self, arms: int, horizon: int) -> _Bounds:
        growth = np.zeros(horizon + 1)
        growth[2:] = np.sqrt(natural_logs(np.arange(1.0, horizon)))
        return bound_tables(arms, growth, bound_widths(self.alpha, horizon))


class UCBDelta(NamedTuple):
    """Upper confidence bounds at a fixed confidence (Lattimore and Szepesvari, 2020, Algorithm 3).

    Each arm once in index order, then the arm with the largest `mean + sqrt(2 log(1 / delta) / pulls)`.

    Args:
        d: delta = T^-d with T the experiment's horizon; d >= 2 for the Proposition's variance bound.
        delta: An explicit delta in (0, 1) instead; then the rule does not depend on the horizon.
    """

    d: float = 2.0
    delta: float | None = None

    def check(self, arms: int) -> None:
        require_number("UCBDelta.d", self.d, at_least=0)
        if self.delta is not None:
            require_number("UCBDelta.delta", self.delta, above=0, at_most=1)

    def reward_scale(self) -> RewardScale:
        """Sub-Gaussian rewards with variance 1; 1 / 4 in Hoeffding's bound for rewards in [0, 1]."""
        return RewardScale(0.5, 1.0, unit_interval=True)

    def prepare(self, arms: int, horizon: int) -> _Bounds:
        evidence = self.d * math.log(horizon) if self.delta is None else -math.log(self.delta)
        return bound_tables(arms, np.ones(horizon + 1), bound_widths(2.0 * evidence, horizon))


class _Bounds(NamedTuple):
    growth: Floats  # by period, never falling
    width: Floats  # by number of pulls

    def memory(self, arms: int) -> int:
        return 1  # a ceiling: what the bounds of the arms not played will have grown to at the end of the block

    def batched(self) -> _BatchedBounds:
        return _BatchedBounds(*self)


class _BatchedBounds(_Bounds):  # more than one arm may have changed
    def memory(self, arms: int) -> int:
        return 0


class _BoundsOfMany(_Bounds):
    def memory(self, arms: int) -> int:
        return FLOATS_PER_ARM * arms


def bound_tables(arms: int, growth: Floats, width: Floats) -> _Bounds:
    """The rule that plays the arm with the largest `mean + growth[period] * width[pulls]`, each arm once first.

    The growth must never fall, and the width of an arm without pulls must be infinite.
    """
    return (_BoundsOfMany if arms > MANY_ARMS else _Bounds)(growth, width)


def bound_widths(scale: float | Floats, horizon: int) -> Floats:
    """sqrt(scale / pulls) by number of pulls."""
    widths: Floats = np.sqrt(scale / np.maximum(np.arange(horizon + 1), 1))
    widths[0] = np.inf  # used in batches only: otherwise each arm has been pulled once
    return widths


_BLOCK = 15  # the ceiling holds for a block of 16 periods


@selects(_Bounds)
def _highest_bound(policy: _Bounds, tally: Tally, period: int, noise: Key) -> int:
    arms = tally.pulls.size
    if period <= arms:
        tally.memory[0] = np.inf
        return period - 1
    now = policy.growth[np.uint64(period)]
    later = policy.growth[min(period | _BLOCK, policy.growth.size - 1)]
    best, ceiling = 0, -np.inf
    width = policy.width[np.uint64(tally.pulls[0])]
    highest, highest_later = tally.means[0] + now * width, tally.means[0] + later * width
    for arm in range(1, arms):
        width = policy.width[np.uint64(tally.pulls[arm])]
        bound, bound_later = tally.means[arm] + now * width, tally.means[arm] + later * width
        if bound > highest:
            branch_hint()
            ceiling = max(ceiling, highest_later)
            best, highest, highest_later = arm, bound, bound_later
        else:
            ceiling = max(ceiling, bound_later)
    tally.memory[0] = ceiling
    return best


@repeats_arm(_Bounds)
def _above_ceiling(policy: _Bounds, played: PlayedArm, period: int, noise: Key) -> bool:
    # Only the arm just played has changed: while its bound exceeds the ceiling it is the argmax.
    bound = played.mean + policy.growth[np.uint64(period)] * policy.width[np.uint64(played.pulls)]
    return bound > played.memory[0] and (period & _BLOCK) != 0


@selects(_BatchedBounds)
def _highest_bound_after_batch(
    policy: _BatchedBounds, tally: Tally, period: int, noise: Key
) -> int:
    if period <= tally.pulls.size:
        return period - 1
    best, highest = 0, -np.inf
    for arm in range(tally.pulls.size):
        width = policy.width[np.uint64(tally.pulls[arm])]
        bound = tally.means[arm] + policy.growth[np.uint64(period)] * width
        if bound > highest:
            branch_hint()
            best, highest = arm, bound
    return best


@selects(_BoundsOfMany)
def _highest_bound_of_many(policy: _BoundsOfMany, tally: Tally, period: int, noise: Key) -> int:
    if period <= tally.pulls.size:
        return period - 1
    return highest_bound(policy.growth, policy.width, tally, period)
