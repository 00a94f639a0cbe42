"""`DecreasingEpsilonGreedy`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sameluck.arrays import Floats
from sameluck.compilation.decorators import branch_hint
from sameluck.policies.base import Tally, probabilities, selects
from sameluck.randomness.samplers import uniform
from sameluck.randomness.streams import Key, at
from sameluck.validation import require_number


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


_EXPLORES, _WHICH_ARM = 0, 1  # slots of the decision noise


@selects(_Exploration)
def _explore_less_and_less(
    policy: _Exploration, tally: Tally, period: int, noise: Key
) -> int | np.int64:
    arms = tally.pulls.size
    if uniform(at(noise, period, _EXPLORES)) < policy.epsilon[period]:
        return np.int64(uniform(at(noise, period, _WHICH_ARM)) * arms)
    best, highest = 0, tally.means[0]
    for arm in range(1, arms):
        if tally.means[arm] > highest:
            branch_hint()
            best, highest = arm, tally.means[arm]
    return best


@probabilities(_Exploration)
def _chances(policy: _Exploration, tally: Tally, period: int, probabilities: Floats) -> None:
    arms, epsilon = probabilities.size, policy.epsilon[period]
    best = 0
    for arm in range(arms):
        if tally.means[arm] > tally.means[best]:
            best = arm
        probabilities[arm] = epsilon / arms
    probabilities[best] += 1.0 - epsilon
