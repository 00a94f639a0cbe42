"""Policies that forget old rewards: `SlidingWindowUCB`, `DiscountedUCB` and `DiscountedThompson`."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sameluck.compilation.decorators import branch_hint, inlined
from sameluck.policies.base import RewardScale, Tally, selects
from sameluck.randomness.samplers import beta_log_odds
from sameluck.randomness.streams import Key, at
from sameluck.validation import require_number, require_whole


class SlidingWindowUCB(NamedTuple):
    """Upper confidence bounds from the last `window` periods, for arms that change (Garivier and Moulines, 2011).

    Play each arm once in index order. Then, in period t + 1, play the lowest arm that was not played in the last
    `window` periods. If all were played, play the arm with the largest
    `mean + b * sqrt(xi * log(min(t, window)) / pulls)`, with mean and pulls over the last `window` periods. For
    rewards in [0, b]; the regret bound is for xi > 1/2.
    """

    window: int = 1000
    xi: float = 0.6
    b: float = 1.0

    def check(self, arms: int) -> None:
        require_whole("SlidingWindowUCB.window", self.window, 1, 10_000_000)
        require_number("SlidingWindowUCB.xi", self.xi, at_least=0, at_most=1e6)
        require_number("SlidingWindowUCB.b", self.b, above=0, at_most=1e100)

    def reward_scale(self) -> RewardScale:
        return RewardScale(0.5 * self.b, self.b, unit_interval=self.b == 1)

    def prepare(self, arms: int, horizon: int) -> _Window:
        return _Window(min(self.window, horizon), self.b**2 * self.xi)


class _Window(NamedTuple):
    size: int
    scale: float

    def memory(self, arms: int) -> int:
        # Pulls and totals in the window by arm, then arms and rewards by period modulo size.
        return 2 * arms + 2 * self.size


@selects(_Window)
def _highest_recent_bound(policy: _Window, tally: Tally, period: int, noise: Key) -> int:
    arms, size = tally.pulls.size, policy.size
    pulls, totals = tally.memory[:arms], tally.memory[arms : 2 * arms]
    played, rewards = tally.memory[2 * arms : 2 * arms + size], tally.memory[2 * arms + size :]
    if period > 1:
        slot = (period - 2) % size
        if period - 1 > size:
            oldest = np.int64(played[slot])
            pulls[oldest] -= 1.0
            totals[oldest] -= rewards[slot]
        played[slot], rewards[slot] = tally.last_arm, tally.last_reward
        pulls[tally.last_arm] += 1.0
        totals[tally.last_arm] += tally.last_reward
    if period <= arms:
        return period - 1
    evidence = policy.scale * math.log(min(period - 1, size))
    best, highest = 0, -np.inf
    for arm in range(arms):
        if pulls[arm] == 0.0:
            return arm
        bound = totals[arm] / pulls[arm] + math.sqrt(evidence / pulls[arm])
        if bound > highest:
            branch_hint()
            best, highest = arm, bound
    return best


class DiscountedUCB(NamedTuple):
    """Upper confidence bounds from discounted rewards, for arms that change (Kocsis and Szepesvari, 2006).

    A reward of s periods ago counts gamma^(s - 1). Play each arm once in index order. Then play the arm with the
    largest `mean + 2 * b * sqrt(xi * log(n) / pulls)`, where mean and pulls are discounted and n is the sum of all
    arms' pulls. For rewards in [0, b]; the regret bound of Garivier and Moulines (2011) is for xi > 1/2.
    """

    gamma: float = 0.99
    xi: float = 0.6
    b: float = 1.0

    def check(self, arms: int) -> None:
        require_number("DiscountedUCB.gamma", self.gamma, above=0, at_most=1)
        require_number("DiscountedUCB.xi", self.xi, at_least=0, at_most=1e6)
        require_number("DiscountedUCB.b", self.b, above=0, at_most=1e100)

    def reward_scale(self) -> RewardScale:
        return RewardScale(0.5 * self.b, self.b, unit_interval=self.b == 1)

    def memory(self, arms: int) -> int:
        return 2 * arms  # discounted pulls and totals


_MIN_PULLS = 1e-300  # with fewer discounted pulls a mean cannot be computed


@inlined
def _discount(gamma: float, tally: Tally, period: int) -> None:
    """Discount all pulls and totals in the memory, and add the last reward."""
    arms, memory = tally.pulls.size, tally.memory
    for index in range(2 * arms):
        memory[index] *= gamma
    if period > 1:
        memory[tally.last_arm] += 1.0
        memory[arms + tally.last_arm] += tally.last_reward


@selects(DiscountedUCB)
def _highest_discounted_bound(policy: DiscountedUCB, tally: Tally, period: int, noise: Key) -> int:
    _discount(policy.gamma, tally, period)
    arms, pulls, total = tally.pulls.size, tally.memory[: tally.pulls.size], 0.0
    if period <= arms:
        return period - 1
    for arm in range(arms):
        total += pulls[arm]
    evidence = 4.0 * policy.b * policy.b * policy.xi * max(0.0, math.log(total))
    best, highest = 0, -np.inf
    for arm in range(arms):
        if pulls[arm] < _MIN_PULLS:
            return arm
        bound = tally.memory[arms + arm] / pulls[arm] + math.sqrt(evidence / pulls[arm])
        if bound > highest:
            branch_hint()
            best, highest = arm, bound
    return best


class DiscountedThompson(NamedTuple):
    """Thompson sampling with discounted successes and failures, for arms that change (Raj and Kalyani, 2017).

    A reward of s periods ago counts gamma^(s - 1). In each period draw a success probability for each arm from
    Beta(a + successes, b + failures), with discounted counts, and play the arm with the largest draw. For rewards 0
    and 1.
    """

    gamma: float = 0.99
    a: float = 1.0
    b: float = 1.0

    @property
    def needs_binary(self) -> bool:
        return True  # the posterior counts successes

    def check(self, arms: int) -> None:
        require_number("DiscountedThompson.gamma", self.gamma, above=0, at_most=1)
        require_number("DiscountedThompson.a", self.a, above=0, at_most=1e100)
        require_number("DiscountedThompson.b", self.b, above=0, at_most=1e100)

    def memory(self, arms: int) -> int:
        return 2 * arms  # discounted pulls and successes


@selects(DiscountedThompson)
def _largest_discounted_draw(
    policy: DiscountedThompson, tally: Tally, period: int, noise: Key
) -> int:
    _discount(policy.gamma, tally, period)
    arms = tally.pulls.size
    best, highest = 0, -np.inf
    for arm in range(arms):
        successes = tally.memory[arms + arm]
        # Rounding may make the discounted successes exceed the pulls.
        failures = max(0.0, tally.memory[arm] - successes)
        odds = beta_log_odds(at(noise, period, arm), policy.a + successes, policy.b + failures)
        if odds > highest:
            branch_hint()
            best, highest = arm, odds
    return best
