"""Logistic models of rewards 0 and 1: `LogisticTS`."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sameluck.compilation.decorators import branch_hint, called, inlined
from sameluck.context import Context
from sameluck.policies.base import Tally, selects
from sameluck.policies.contextual.linear import check_features, check_model
from sameluck.policies.regression.ridge import (
    Regressions,
    begin,
    learn,
    predict,
    regressions,
    take_context,
)
from sameluck.randomness.samplers import normal
from sameluck.randomness.streams import Key, at
from sameluck.validation import require_number

_MAX_STEPS = 60  # enough for bisection to reach the last bit


class LogisticTS(NamedTuple):
    """Thompson sampling in a logistic model of rewards 0 and 1 (Chapelle and Li, 2011, Algorithm 3).

    A reward of an arm is 1 with probability 1 / (1 + exp(-x . w)), where x is the context and w has the arm's
    weights. Their prior is normal with mean 0 and variance 1 / ridge. After each reward, the posterior is replaced by
    the normal distribution with its mode and its curvature there (Laplace's method). In each period draw `x . w` for
    each arm, with v times the posterior's standard deviation. Play the arm with the largest draw.

    The published algorithm neglects the covariances of the weights; here they are kept. No intercept is added: for an
    intercept, make a feature 1. Rewards before the last are not visited again.

    Args:
        v: Multiple of the posterior's standard deviation; above 1 for more exploration.
        ridge: Inverse variance of the weights' prior.
    """

    v: float = 1.0
    ridge: float = 1.0

    @property
    def needs_binary(self) -> bool:
        return True  # a reward is a success or a failure

    def check(self, arms: int) -> None:
        require_number("LogisticTS.v", self.v, at_least=0, at_most=1e100)
        check_model("LogisticTS", self.ridge, shared=False)

    def check_context(self, context: Context | None) -> None:
        check_features("LogisticTS", context, shared=False)

    def prepare(self, arms: int, horizon: int, context: Context | None) -> _LogisticDraws:
        return _LogisticDraws(self.v, regressions(arms, context, self.ridge, shared=False))


class _LogisticDraws(NamedTuple):
    v: float
    model: Regressions

    def memory(self, arms: int) -> int:
        return self.model.size


@selects(_LogisticDraws)
def _largest_log_odds(policy: _LogisticDraws, tally: Tally, period: int, noise: Key) -> int:
    model, last = policy.model, tally.last_arm
    if period == 1:
        begin(model, tally)
    else:
        log_odds, variance = (
            tally.memory[model.means + last],
            tally.memory[model.variances + last],
        )
        step = _mode_step(log_odds, variance, tally.last_reward)
        probability = _sigmoid(log_odds + variance * step)
        learn(model, tally, step, probability * (1.0 - probability))
    take_context(model, tally)
    best, highest = 0, -np.inf
    for arm in range(tally.pulls.size):
        estimate, sd = predict(model, tally, arm)
        drawn = estimate + policy.v * sd * normal(at(noise, period, arm))
        if drawn > highest:
            branch_hint()
            best, highest = arm, drawn
    return best


@inlined
def _sigmoid(log_odds: float) -> float:
    # Either form takes the exponential of a negative number, which cannot overflow.
    small = math.exp(-abs(log_odds))
    return (1.0 if log_odds >= 0.0 else small) / (1.0 + small)


@called
def _mode_step(log_odds: float, variance: float, reward: float) -> float:
    """Return the s for which the posterior's mode after a reward is w + s P x.

    The mode solves s = reward - sigmoid(log_odds + variance s), which has one solution, in [reward - 1, reward].
    """
    low, high = reward - 1.0, reward
    step = reward - _sigmoid(log_odds)
    for _ in range(_MAX_STEPS):
        probability = _sigmoid(log_odds + variance * step)
        excess = step - reward + probability
        if excess > 0.0:
            high = step
        else:
            low = step
        # Newton's method, or bisection where it leaves the interval.
        newton = step - excess / (1.0 + variance * probability * (1.0 - probability))
        if newton == step:
            break
        step = newton if low < newton < high else 0.5 * (low + high)
    return step
