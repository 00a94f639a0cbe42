"""Fast forms of `EpsilonGreedy`.

**Ceiling, up to `MANY_ARMS` arms.** While one arm is played, the other means do not change. `select` notes the
highest of them. While the mean of the arm just played exceeds it and the policy does not explore, that arm is the
argmax, without a tie. After exploring the ceiling is infinite, so that all arms are compared again.

**Tournament, above `MANY_ARMS` arms.** The winner is the same, found in O(log K) comparisons; `tournament` says why.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sameluck.compilation.decorators import branch_hint
from sameluck.policies.base import (
    PlayedArm,
    Policy,
    Tally,
    fast_form,
    repeats_arm,
    selects,
)
from sameluck.policies.epsilon_greedy import (
    EXPLORES,
    WHICH_ARM,
    EpsilonGreedy,
    explored_arm,
)
from sameluck.policies.fast import tournament
from sameluck.randomness.samplers import uniform
from sameluck.randomness.streams import Key, at


class CeilingGreedy(NamedTuple):
    """Epsilon-greedy with the highest mean of the arms that are not played."""

    epsilon: float
    others: bool

    def memory(self, arms: int) -> int:
        return 1  # the ceiling


class TournamentGreedy(NamedTuple):
    """Epsilon-greedy whose best arm is found in a tournament."""

    epsilon: float
    others: bool

    def memory(self, arms: int) -> int:
        return arms  # the ceiling, and the winners at the inner nodes


@fast_form(EpsilonGreedy)
def _fast_greedy(rule: tuple[float, bool], arms: int) -> Policy:
    form = TournamentGreedy if arms > tournament.MANY_ARMS else CeilingGreedy
    return form(*rule)


@selects(CeilingGreedy)
def _greedy(policy: CeilingGreedy, tally: Tally, period: int, noise: Key) -> int | np.int64:
    arms = tally.pulls.size
    # Infinite unless this period ends with the best arm: an explored arm must not be repeated without a comparison.
    tally.memory[0] = np.inf
    if period <= arms:
        return period - 1
    exploring = uniform(at(noise, period, EXPLORES)) < policy.epsilon
    if exploring and not policy.others:
        return np.int64(uniform(at(noise, period, WHICH_ARM)) * arms)
    best, highest, second = 0, tally.means[0], -np.inf
    for arm in range(1, arms):
        mean = tally.means[arm]
        if mean > highest:
            branch_hint()
            best, highest, second = arm, mean, highest
        else:
            second = max(second, mean)
    if exploring:
        return explored_arm(best, arms, at(noise, period, WHICH_ARM))
    tally.memory[0] = second
    return best


@selects(TournamentGreedy)
def _greedy_of_many(
    policy: TournamentGreedy, tally: Tally, period: int, noise: Key
) -> int | np.int64:
    arms = tally.pulls.size
    tally.memory[0] = np.inf
    if period <= arms:
        return period - 1
    best = tournament.highest_mean(tally, period)
    if uniform(at(noise, period, EXPLORES)) >= policy.epsilon:
        tally.memory[0] = tournament.highest_other_mean(tally, best)
        return best
    if not policy.others:
        return np.int64(uniform(at(noise, period, WHICH_ARM)) * arms)
    return explored_arm(best, arms, at(noise, period, WHICH_ARM))


@repeats_arm(TournamentGreedy)
@repeats_arm(CeilingGreedy)
def _above_ceiling(policy: CeilingGreedy, played: PlayedArm, period: int, noise: Key) -> bool:
    # The same word that `select` would read in this period: addresses make a second reading harmless here.
    exploring = uniform(at(noise, period, EXPLORES)) < policy.epsilon
    return played.mean > played.memory[0] and not exploring
