"""`EpsilonGreedy`.

With more than `MANY_ARMS` arms the highest mean is found in a tournament: the same arm, in O(log K) a period.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sameluck.arrays import Floats
from sameluck.compilation.decorators import branch_hint, inlined
from sameluck.policies.base import PlayedArm, Tally, probabilities, repeats_arm, selects
from sameluck.policies.tournament import MANY_ARMS, highest_mean, highest_other_mean
from sameluck.randomness.samplers import uniform
from sameluck.randomness.streams import Bits, Key, at
from sameluck.validation import require_number, require_one_of


class EpsilonGreedy(NamedTuple):
    """Explore with probability epsilon, else play the arm with the highest mean so far.

    Each arm once in index order first. Exploring picks uniformly among all arms (`explore="all"`) or among all
    but the greedy one (`explore="others"`).
    """

    epsilon: float = 0.1
    explore: str = "all"

    def check(self, arms: int) -> None:
        require_number("EpsilonGreedy.epsilon", self.epsilon, at_least=0, at_most=1)
        require_one_of("EpsilonGreedy.explore", self.explore, ("all", "others"))

    def prepare(self, arms: int, horizon: int) -> _Greedy:
        return (_GreedyOfMany if arms > MANY_ARMS else _Greedy)(
            self.epsilon, self.explore == "others"
        )


class _Greedy(NamedTuple):
    epsilon: float
    others: bool

    def memory(self, arms: int) -> int:
        return 1  # the highest mean of the other arms; infinite if the policy explored

    def batched(self) -> _BatchedGreedy:
        return _BatchedGreedy(*self)


class _BatchedGreedy(_Greedy):
    def memory(self, arms: int) -> int:
        return 0


class _GreedyOfMany(_Greedy):
    def memory(self, arms: int) -> int:
        return arms


_EXPLORES, _WHICH_ARM = 0, 1  # slots of the decision noise


@selects(_Greedy)
def _greedy_or_other(policy: _Greedy, tally: Tally, period: int, noise: Key) -> int | np.int64:
    arms = tally.pulls.size
    tally.memory[0] = np.inf
    if period <= arms:
        return period - 1
    exploring = uniform(at(noise, period, _EXPLORES)) < policy.epsilon
    if exploring and not policy.others:
        return np.int64(uniform(at(noise, period, _WHICH_ARM)) * arms)
    best, highest, second = 0, tally.means[0], -np.inf
    for arm in range(1, arms):
        mean = tally.means[arm]
        if mean > highest:
            branch_hint()
            best, highest, second = arm, mean, highest
        else:
            second = max(second, mean)
    if exploring:
        return _other_than(best, arms, at(noise, period, _WHICH_ARM))
    tally.memory[0] = second
    return best


@repeats_arm(_GreedyOfMany)
@repeats_arm(_Greedy)
def _still_greedy(policy: _Greedy, played: PlayedArm, period: int, noise: Key) -> bool:
    exploring = uniform(at(noise, period, _EXPLORES)) < policy.epsilon
    return played.mean > played.memory[0] and not exploring


@selects(_BatchedGreedy)
def _greedy_or_other_in_batch(
    policy: _BatchedGreedy, tally: Tally, period: int, noise: Key
) -> int | np.int64:
    arms = tally.pulls.size
    if period <= arms:
        return period - 1
    exploring = uniform(at(noise, period, _EXPLORES)) < policy.epsilon
    if exploring and not policy.others:
        return np.int64(uniform(at(noise, period, _WHICH_ARM)) * arms)
    best, highest = 0, tally.means[0]
    for arm in range(1, arms):
        if tally.means[arm] > highest:
            branch_hint()
            best, highest = arm, tally.means[arm]
    if exploring:
        return _other_than(best, arms, at(noise, period, _WHICH_ARM))
    return best


@selects(_GreedyOfMany)
def _greedy_of_many_or_other(
    policy: _GreedyOfMany, tally: Tally, period: int, noise: Key
) -> int | np.int64:
    arms = tally.pulls.size
    tally.memory[0] = np.inf
    if period <= arms:
        return period - 1
    best = highest_mean(tally, period)
    if uniform(at(noise, period, _EXPLORES)) >= policy.epsilon:
        tally.memory[0] = highest_other_mean(tally, best)
        return best
    if not policy.others:
        return np.int64(uniform(at(noise, period, _WHICH_ARM)) * arms)
    return _other_than(best, arms, at(noise, period, _WHICH_ARM))


@inlined
def _other_than(best: int, arms: int, bits: Bits) -> np.int64:
    other = np.int64(uniform(bits) * (arms - 1))
    return other + 1 if other >= best else other


@probabilities(_GreedyOfMany)
@probabilities(_Greedy)
@probabilities(_BatchedGreedy)
def _greedy_probabilities(
    policy: _Greedy, tally: Tally, period: int, probabilities: Floats
) -> None:
    arms = probabilities.size
    sharing = arms - 1 if policy.others else arms
    best = 0
    for arm in range(1, arms):
        if tally.means[arm] > tally.means[best]:
            best = arm
    for arm in range(arms):
        if period <= arms:
            probabilities[arm] = 1.0 if arm == period - 1 else 0.0
        else:
            explored = 0.0 if policy.others and arm == best else policy.epsilon / sharing
            probabilities[arm] = explored + (1.0 - policy.epsilon if arm == best else 0.0)
