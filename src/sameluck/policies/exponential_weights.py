"""Arms drawn with probabilities proportional to exponentials: `Softmax`, `GradientBandit`, `EXP3` and `EXP3IX`."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sameluck.arrays import Floats
from sameluck.compilation.decorators import branch_hint, inlined
from sameluck.policies.base import RewardScale, Tally, selects
from sameluck.randomness.samplers import exponential, uniform
from sameluck.randomness.streams import Bits, Key, at
from sameluck.validation import require_flag, require_number


class Softmax(NamedTuple):
    """Play each arm with probability proportional to exp(mean / temperature) (Boltzmann exploration; Luce, 1959).

    The mean of an arm not yet played is 0. The arm is the argmax of mean / temperature + g, where g is an independent
    standard Gumbel number for each arm and period. This gives the stated probabilities (Gumbel, 1954).
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
        return 2 * arms + 1  # preferences, probabilities, the sum of rewards before the last


@inlined
def _ascend(policy: GradientBandit, tally: Tally, period: int) -> None:
    """Update the memory with the last reward and compute the probabilities of this period."""
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


class EXP3(NamedTuple):
    """Exponential weights of estimated rewards (Auer, Cesa-Bianchi, Freund and Schapire, 2002).

    Arm a has probability `p[a] = (1 - gamma) * w[a] / sum(w) + gamma / K`, with K the number of arms and all w = 1 at
    the start. After a reward r of arm a, `w[a] *= exp(gamma * r / (p[a] * K))`. For rewards in [0, 1], which need not
    be random. By default gamma = min(1, sqrt(K log(K) / ((e - 1) T))), where T is the experiment's horizon. The
    expected regret is then at most 2.63 sqrt(T K log(K)).
    """

    gamma: float | None = None

    def check(self, arms: int) -> None:
        if self.gamma is not None:
            require_number("EXP3.gamma", self.gamma, above=0, at_most=1)

    def reward_scale(self) -> RewardScale:
        return RewardScale(0.5, 0.5, unit_interval=True)

    def prepare(self, arms: int, horizon: int) -> _ExponentialWeights:
        tuned = min(1.0, math.sqrt(arms * math.log(arms) / ((math.e - 1.0) * horizon)))
        gamma = tuned if self.gamma is None else float(self.gamma)
        return _ExponentialWeights(rate=gamma / arms, mixed=gamma, offset=0.0, bias=0.0)


class EXP3IX(NamedTuple):
    """EXP3 with implicit exploration: estimated losses have a downward bias (Neu, 2015).

    Arm a has probability p[a] proportional to exp(-eta * L[a]), with all L = 0 at the start. After a reward r of arm
    a, `L[a] += (1 - r) / (p[a] + eta / 2)`. For rewards in [0, 1], which need not be random. By default eta = sqrt(2
    log(K) / (K T)), where K is the number of arms and T the experiment's horizon. The regret is then small with high
    probability, not only in expectation.
    """

    eta: float | None = None

    def check(self, arms: int) -> None:
        if self.eta is not None:
            require_number("EXP3IX.eta", self.eta, above=0, at_most=1e6)

    def reward_scale(self) -> RewardScale:
        return RewardScale(0.5, 0.5, unit_interval=True)

    def prepare(self, arms: int, horizon: int) -> _ExponentialWeights:
        tuned = math.sqrt(2.0 * math.log(arms) / (arms * horizon))
        eta = tuned if self.eta is None else float(self.eta)
        return _ExponentialWeights(rate=eta, mixed=0.0, offset=1.0, bias=0.5 * eta)


class _ExponentialWeights(NamedTuple):
    rate: float
    mixed: float  # the share of uniform exploration
    offset: float  # 1 to estimate losses instead of rewards
    bias: float

    def memory(self, arms: int) -> int:
        return 2 * arms  # logarithms of weights, probabilities


@inlined
def _reweigh(policy: _ExponentialWeights, tally: Tally, period: int) -> None:
    """Update the memory with the last reward and compute the probabilities of this period."""
    arms, last = tally.pulls.size, tally.last_arm
    logs, probabilities = tally.memory[:arms], tally.memory[arms:]
    if period > 1:
        estimate = (tally.last_reward - policy.offset) / (probabilities[last] + policy.bias)
        logs[last] += policy.rate * estimate
    fill_softmax(logs, probabilities)
    for arm in range(arms):
        probabilities[arm] = (1.0 - policy.mixed) * probabilities[arm] + policy.mixed / arms


@selects(_ExponentialWeights)
def _draw_by_weights(policy: _ExponentialWeights, tally: Tally, period: int, noise: Key) -> int:
    _reweigh(policy, tally, period)
    return draw_arm(tally.memory[tally.pulls.size :], at(noise, period, 0))


@inlined
def fill_softmax(scores: Floats, probabilities: Floats) -> None:
    """Write probabilities proportional to the exponentials of the scores; both arrays may be the same."""
    # The highest score is subtracted so that no exponential overflows.
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
    """Return an arm drawn with these probabilities, never an arm with probability 0."""
    # Rounding may leave the sum of the probabilities below 1: then the last possible arm is drawn.
    drawn, left = 0, uniform(bits)
    for arm in range(probabilities.size):
        if left >= 0.0 and probabilities[arm] > 0.0:
            drawn = arm
        left -= probabilities[arm]
    return drawn
