"""Linear models of the rewards: `LinUCB`, `LinTS` and `LinGreedy`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sameluck.compilation.decorators import inlined
from sameluck.context import Context
from sameluck.errors import Invalid
from sameluck.policies.base import Tally, require_features, selects
from sameluck.policies.epsilon_greedy import EXPLORES, WHICH_ARM
from sameluck.policies.regression import factored
from sameluck.policies.regression.factored import FactoredRegression, factored_regression
from sameluck.policies.regression.ridge import (
    Regressions,
    begin,
    learn,
    mean,
    predict,
    regressions,
    take_context,
)
from sameluck.randomness.samplers import normal, uniform
from sameluck.randomness.streams import Key, at
from sameluck.validation import require_flag, require_number


class LinUCB(NamedTuple):
    """Play the arm with the highest upper confidence bound of a linear model (Li, Chu, Langford and Schapire, 2010).

    In each period play the arm with the largest `x . theta + alpha * sqrt(x' P x)`. Here x is the context, theta the
    ridge regression of the arm's rewards on their contexts, and P the inverse of ridge * I + the sum of x x'. No
    intercept is added: for an intercept, make a feature 1.

    Args:
        alpha: Width of the bounds, in standard deviations of a reward around its mean.
        ridge: Penalty of the regression.
        shared: Whether all arms have one regression, for features by arm (`Features(..., per_arm=True)`), instead of
            each arm its own.
    """

    alpha: float = 1.0
    ridge: float = 1.0
    shared: bool = False

    def check(self, arms: int) -> None:
        require_number("LinUCB.alpha", self.alpha, at_least=0, at_most=1e100)
        check_model("LinUCB", self.ridge, shared=self.shared)

    def check_context(self, context: Context | None) -> None:
        check_features("LinUCB", context, shared=self.shared)

    def prepare(self, arms: int, horizon: int, context: Context | None) -> _LinearBounds:
        return _LinearBounds(self.alpha, regressions(arms, context, self.ridge, shared=self.shared))


class _LinearBounds(NamedTuple):
    alpha: float
    model: Regressions

    def memory(self, arms: int) -> int:
        return self.model.size


@selects(_LinearBounds)
def _highest_linear_bound(policy: _LinearBounds, tally: Tally, period: int, noise: Key) -> int:
    begin_or_learn(policy.model, tally, period)
    best, highest = 0, -np.inf
    for arm in range(tally.pulls.size):
        estimate, sd = predict(policy.model, tally, arm)
        bound = estimate + policy.alpha * sd
        if bound > highest:
            best, highest = arm, bound
    return best


@inlined
def begin_or_learn(model: Regressions, tally: Tally, period: int) -> None:
    """Add the last reward, or begin in the first period; then take the new context."""
    if period == 1:
        begin(model, tally)
    else:
        error = tally.last_reward - tally.memory[model.means + tally.last_arm]
        learn(model, tally, error / (1.0 + tally.memory[model.variances + tally.last_arm]), 1.0)
    take_context(model, tally)


class LinTS(NamedTuple):
    """Thompson sampling in a linear model (Agrawal and Goyal, 2013).

    In each period draw weights for each arm from the normal distribution with mean theta and covariance v^2 P, with
    theta and P as in `LinUCB`. Play the arm with the largest product of context and weights. With v = sd and ridge =
    (sd / prior_sd)^2 this is the posterior for rewards with standard deviation sd and weights with independent normal
    priors.

    Arms with regressions of their own have independent products, so each product is drawn as one number. Arms that
    share a regression share the weights drawn.

    Args:
        v: Standard deviation of a reward around its mean, or a multiple for more exploration.
        ridge: Penalty of the regression.
        shared: Whether all arms have one regression, as in `LinUCB`.
    """

    v: float = 1.0
    ridge: float = 1.0
    shared: bool = False

    def check(self, arms: int) -> None:
        require_number("LinTS.v", self.v, at_least=0, at_most=1e100)
        check_model("LinTS", self.ridge, shared=self.shared)

    def check_context(self, context: Context | None) -> None:
        check_features("LinTS", context, shared=self.shared)

    def prepare(
        self, arms: int, horizon: int, context: Context | None
    ) -> _LinearDraws | _SharedDraws:
        if self.shared:
            return _SharedDraws(self.v, factored_regression(arms, context, self.ridge))
        return _LinearDraws(self.v, regressions(arms, context, self.ridge, shared=False))


class _LinearDraws(NamedTuple):
    v: float
    model: Regressions

    def memory(self, arms: int) -> int:
        return self.model.size


@selects(_LinearDraws)
def _largest_linear_draw(policy: _LinearDraws, tally: Tally, period: int, noise: Key) -> int:
    begin_or_learn(policy.model, tally, period)
    best, highest = 0, -np.inf
    for arm in range(tally.pulls.size):
        estimate, sd = predict(policy.model, tally, arm)
        drawn = estimate + policy.v * sd * normal(at(noise, period, arm))
        if drawn > highest:
            best, highest = arm, drawn
    return best


class _SharedDraws(NamedTuple):
    v: float
    model: FactoredRegression

    def memory(self, arms: int) -> int:
        return self.model.size


@selects(_SharedDraws)
def _largest_shared_draw(policy: _SharedDraws, tally: Tally, period: int, noise: Key) -> int:
    model = policy.model
    if period == 1:
        factored.begin(model, tally)
    else:
        factored.learn(model, tally)
    factored.take_contexts(model, tally)
    factored.draw_weights(model, tally, policy.v, period, noise)
    best, highest = 0, -np.inf
    for arm in range(tally.pulls.size):
        drawn = factored.product(model, tally, arm)
        if drawn > highest:
            best, highest = arm, drawn
    return best


class LinGreedy(NamedTuple):
    """Explore with probability epsilon, else play the arm whose linear model promises most.

    Exploring picks uniformly among all arms; otherwise play the arm with the largest `x . theta`, as in `LinUCB`.

    Args:
        epsilon: Probability of exploring.
        ridge: Penalty of the regression.
        shared: Whether all arms have one regression, as in `LinUCB`.
    """

    epsilon: float = 0.1
    ridge: float = 1.0
    shared: bool = False

    def check(self, arms: int) -> None:
        require_number("LinGreedy.epsilon", self.epsilon, at_least=0, at_most=1)
        check_model("LinGreedy", self.ridge, shared=self.shared)

    def check_context(self, context: Context | None) -> None:
        check_features("LinGreedy", context, shared=self.shared)

    def prepare(self, arms: int, horizon: int, context: Context | None) -> _LinearGreedy:
        model = regressions(arms, context, self.ridge, shared=self.shared)
        return _LinearGreedy(self.epsilon, model)


class _LinearGreedy(NamedTuple):
    epsilon: float
    model: Regressions

    def memory(self, arms: int) -> int:
        return self.model.size


@selects(_LinearGreedy)
def _greedy_or_explored(
    policy: _LinearGreedy, tally: Tally, period: int, noise: Key
) -> int | np.int64:
    if period > 1:
        predict(policy.model, tally, tally.last_arm)
    begin_or_learn(policy.model, tally, period)
    if uniform(at(noise, period, EXPLORES)) < policy.epsilon:
        return np.int64(uniform(at(noise, period, WHICH_ARM)) * tally.pulls.size)
    best, highest = 0, -np.inf
    for arm in range(tally.pulls.size):
        estimate = mean(policy.model, tally, arm)
        if estimate > highest:
            best, highest = arm, estimate
    return best


def check_model(policy: str, ridge: float, *, shared: bool) -> None:
    require_number(f"{policy}.ridge", ridge, at_least=1e-9, at_most=1e100)
    require_flag(f"{policy}.shared", shared)


def check_features(policy: str, context: Context | None, *, shared: bool) -> None:
    """Raise `Invalid` unless users have features, and each arm its own if arms share a regression."""
    if not require_features(policy, context).per_arm and shared:
        raise Invalid(
            f"{policy}.shared needs features by arm, because arms with the same features and the same weights have "
            "the same score; take an environment with Features(..., per_arm=True), or shared=False"
        )
