"""Policies that draw arms with probabilities proportional to exponentials: `Softmax` and `GradientBandit`."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sameluck.arrays import Floats
from sameluck.compilation.decorators import branch_hint, inlined
from sameluck.policies.base import Tally, probabilities, selects
from sameluck.randomness.samplers import exponential, uniform
from sameluck.randomness.streams import Bits, Key, at
from sameluck.validation import require_flag, require_number


class Softmax(NamedTuple):
    """Play each arm with probability proportional to exp(mean / temperature) (Boltzmann exploration; Luce, 1959).

    The mean of an arm not yet played is 0. The arm is the one with the largest mean / temperature + g, with
    independent standard Gumbel numbers g, one for each arm and period, which gives these probabilities (Gumbel,
    1954).
    """

    temperature: float = 0.1

    def check(self, arms: int) -> None:
        require_number("Softmax.temperature", self.temperature, at_least=1e-100, at_most=1e100)


@selects(Softmax)
def _largest_with_gumbel_noise(policy: Softmax, tally: Tally, period: int, noise: Key) -> int:
    best, highest = 0, -np.inf
    for arm in range(tally.pulls.size):
        gumbel = -math.log(exponential(at(noise, period, arm)))
        score = tally.means[arm] / policy.temperature + gumbel
        if score > highest:
            branch_hint()
            best, highest = arm, score
    return best


@probabilities(Softmax)
def _softmax_probabilities(
    policy: Softmax, tally: Tally, period: int, probabilities: Floats
) -> None:
    for arm in range(probabilities.size):
        probabilities[arm] = tally.means[arm] / policy.temperature
    fill_softmax(probabilities, probabilities)


class GradientBandit(NamedTuple):
    """Gradient ascent on preferences h: arms have probabilities proportional to exp(h) (Sutton and Barto, 2018, 2.8).

    After a reward r of arm a, `h[a] += step * (r - baseline) * (1 - p[a])` and, for every other arm b,
    `h[b] -= step * (r - baseline) * p[b]`, where p are the probabilities that a was drawn with. The baseline is the
    average of all rewards before r (r itself in period 1), or 0 if `baseline` is False. All h are 0 at the start.
    """

    step: float = 0.1
    baseline: bool = True

    def check(self, arms: int) -> None:
        require_number("GradientBandit.step", self.step, above=0, at_most=1e100)
        require_flag("GradientBandit.baseline", self.baseline)

    def memory(self, arms: int) -> int:
        return (
            2 * arms + 1
        )  # preferences, probabilities, the sum of the rewards before the last one


@inlined
def _ascend(policy: GradientBandit, tally: Tally, period: int) -> None:
    """Take the last reward into account and compute the probabilities of this period."""
    arms, memory, reward = tally.pulls.size, tally.memory, tally.last_reward
    preferences, probabilities = memory[:arms], memory[arms : 2 * arms]
    if period > 1:
        usual = 0.0
        if policy.baseline:
            usual = memory[2 * arms] / (period - 2) if period > 2 else reward
        for arm in range(arms):
            chosen = 1.0 if arm == tally.last_arm else 0.0
            preferences[arm] += policy.step * (reward - usual) * (chosen - probabilities[arm])
        memory[2 * arms] += reward
    fill_softmax(preferences, probabilities)


@selects(GradientBandit)
def _draw_by_preferences(policy: GradientBandit, tally: Tally, period: int, noise: Key) -> int:
    _ascend(policy, tally, period)
    arms = tally.pulls.size
    return draw_arm(tally.memory[arms : 2 * arms], at(noise, period, 0))


@probabilities(GradientBandit)
def _gradient_probabilities(
    policy: GradientBandit, tally: Tally, period: int, probabilities: Floats
) -> None:
    _ascend(policy, tally, period)
    for arm in range(probabilities.size):
        probabilities[arm] = tally.memory[probabilities.size + arm]


@inlined
def fill_softmax(scores: Floats, probabilities: Floats) -> None:
    """Write probabilities proportional to the exponentials of the scores; both may be the same array."""
    highest, total = scores[0], 0.0
    for arm in range(1, scores.size):
        highest = max(highest, scores[arm])
    for arm in range(scores.size):
        probabilities[arm] = math.exp(scores[arm] - highest)
        total += probabilities[arm]
    for arm in range(scores.size):
        probabilities[arm] /= total


@inlined
def draw_arm(probabilities: Floats, bits: Bits) -> int:
    """An arm drawn with the given probabilities; never one of probability 0."""
    drawn, left = 0, uniform(bits)
    for arm in range(probabilities.size):
        if left >= 0.0 and probabilities[arm] > 0.0:
            drawn = arm
        left -= probabilities[arm]
    return drawn
