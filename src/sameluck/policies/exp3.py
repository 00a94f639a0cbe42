"""Exponential weights for adversarial bandits: `EXP3` and `EXP3IX`."""

from __future__ import annotations

import math
from typing import NamedTuple

from sameluck.arrays import Floats
from sameluck.compilation.decorators import inlined
from sameluck.policies.base import RewardScale, Tally, probabilities, selects
from sameluck.policies.softmax import draw_arm, fill_softmax
from sameluck.randomness.streams import Key, at
from sameluck.validation import require_number


class EXP3(NamedTuple):
    """Exponential weights of estimated rewards (Auer, Cesa-Bianchi, Freund and Schapire, 2002).

    Arm a has probability `p[a] = (1 - gamma) * w[a] / sum(w) + gamma / K`, with K the number of arms and all w =
    1 at the start. After a reward r of arm a, `w[a] *= exp(gamma * r / (p[a] * K))`. For rewards in [0, 1], which
    need not be random. By default gamma = min(1, sqrt(K log(K) / ((e - 1) T))) with T the experiment's horizon,
    with which the expected regret is at most 2.63 sqrt(T K log(K)).
    """

    gamma: float | None = None

    def check(self, arms: int) -> None:
        if self.gamma is not None:
            require_number("EXP3.gamma", self.gamma, above=0, at_most=1)

    def reward_scale(self) -> RewardScale:
        """Rewards in [0, 1]."""
        return RewardScale(0.5, 0.5, unit_interval=True)

    def prepare(self, arms: int, horizon: int) -> _ExponentialWeights:
        tuned = min(1.0, math.sqrt(arms * math.log(arms) / ((math.e - 1.0) * horizon)))
        gamma = tuned if self.gamma is None else float(self.gamma)
        return _ExponentialWeights(rate=gamma / arms, mixed=gamma, offset=0.0, bias=0.0)


class EXP3IX(NamedTuple):
    """EXP3 with implicit exploration: estimated losses that are biased downwards (Neu, 2015).

    Arm a has probability p[a] proportional to exp(-eta * L[a]), with all L = 0 at the start. After a reward r of
    arm a, `L[a] += (1 - r) / (p[a] + eta / 2)`. For rewards in [0, 1], which need not be random. By default eta =
    sqrt(2 log(K) / (K T)) with K the number of arms and T the experiment's horizon; the regret is then small with
    high probability, not only in expectation.
    """

    eta: float | None = None

    def check(self, arms: int) -> None:
        if self.eta is not None:
            require_number("EXP3IX.eta", self.eta, above=0, at_most=1e6)

    def reward_scale(self) -> RewardScale:
        """Rewards in [0, 1]."""
        return RewardScale(0.5, 0.5, unit_interval=True)

    def prepare(self, arms: int, horizon: int) -> _ExponentialWeights:
        tuned = math.sqrt(2.0 * math.log(arms) / (arms * horizon))
        eta = tuned if self.eta is None else float(self.eta)
        return _ExponentialWeights(rate=eta, mixed=0.0, offset=1.0, bias=0.5 * eta)


class _ExponentialWeights(NamedTuple):
    rate: float
    mixed: float  # the share of uniform exploration
    offset: float  # 1 if losses are estimated in place of rewards
    bias: float

    def memory(self, arms: int) -> int:
        return 2 * arms  # logarithms of weights, probabilities


@inlined
def _reweigh(policy: _ExponentialWeights, tally: Tally, period: int) -> None:
    """Take the last reward into account and compute the probabilities of this period."""
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


@probabilities(_ExponentialWeights)
def _weighted_probabilities(
    policy: _ExponentialWeights, tally: Tally, period: int, probabilities: Floats
) -> None:
    _reweigh(policy, tally, period)
    for arm in range(probabilities.size):
        probabilities[arm] = tally.memory[probabilities.size + arm]
