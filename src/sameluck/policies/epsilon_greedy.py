"""Greedy policies that explore at random: `EpsilonGreedy` and `DecreasingEpsilonGreedy`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sameluck.arrays import Floats
from sameluck.compilation.decorators import branch_hint, inlined
from sameluck.policies.base import Tally, selects
from sameluck.randomness.samplers import uniform
from sameluck.randomness.streams import Bits, Key, at
from sameluck.validation import require_number, require_one_of

EXPLORES, WHICH_ARM = 0, 1  # slots of the decision noise


class EpsilonGreedy(NamedTuple):
    """Explore with probability epsilon, else play the arm with the highest mean so far.

    First play each arm once in index order. Exploring picks uniformly among all arms (`explore="all"`) or among all
    but the greedy arm (`explore="others"`).
    """

    epsilon: float = 0.1
    explore: str = "all"

    def check(self, arms: int) -> None:
        require_number("EpsilonGreedy.epsilon", self.epsilon, at_least=0, at_most=1)
        require_one_of("EpsilonGreedy.explore", self.explore, ("all", "others"))

    def prepare(self, arms: int, horizon: int) -> _Greedy:
        return _Greedy(self.epsilon, self.explore == "others")


class _Greedy(NamedTuple):
    epsilon: float
    others: bool


@selects(_Greedy)
def _greedy_or_explored(policy: _Greedy, tally: Tally, period: int, noise: Key) -> int | np.int64:
    arms = tally.pulls.size
    if period <= arms:
        return period - 1
    exploring = uniform(at(noise, period, EXPLORES)) < policy.epsilon
    if exploring and not policy.others:
        return np.int64(uniform(at(noise, period, WHICH_ARM)) * arms)
    best, highest = 0, tally.means[0]
    for arm in range(1, arms):
        if tally.means[arm] > highest:
            branch_hint()
            best, highest = arm, tally.means[arm]
    if exploring:
        return explored_arm(best, arms, at(noise, period, WHICH_ARM))
    return best


@inlined
def explored_arm(best: int, arms: int, bits: Bits) -> np.int64:
    """Return an arm other than the best, all equally likely."""
    arm = np.int64(uniform(bits) * (arms - 1))
    return arm + 1 if arm >= best else arm


class DecreasingEpsilonGreedy(NamedTuple):
    """Explore with probability min(1, c K / (d^2 t)) in period t (Auer, Cesa-Bianchi and Fischer, 2002, Figure 3).

    Exploring picks uniformly among all K arms; otherwise the arm with the highest mean so far is played. The mean
    of an arm not yet played is 0. With rewards in [0, 1], c > 5 and d at most the gap between the best arm and
    the next, the regret is O(log(T)).
    """

    c: float = 5.0
    d: float = 1.0

    def check(self, arms: int) -> None:
        require_number("DecreasingEpsilonGreedy.c", self.c, above=0, at_most=1e100)
        require_number("DecreasingEpsilonGreedy.d", self.d, at_least=1e-100, at_most=1)

    def prepare(self, arms: int, horizon: int) -> _Exploration:
        periods = np.maximum(np.arange(horizon + 1.0), 1.0)
        return _Exploration(np.minimum(1.0, self.c * arms / (self.d**2 * periods)))


class _Exploration(NamedTuple):
    epsilon: Floats  # by period


@selects(_Exploration)
def _explore_less_and_less(
    policy: _Exploration, tally: Tally, period: int, noise: Key
) -> int | np.int64:
    arms = tally.pulls.size
    if uniform(at(noise, period, EXPLORES)) < policy.epsilon[period]:
        return np.int64(uniform(at(noise, period, WHICH_ARM)) * arms)
    best, highest = 0, tally.means[0]
    for arm in range(1, arms):
        if tally.means[arm] > highest:
            branch_hint()
            best, highest = arm, tally.means[arm]
    return best
