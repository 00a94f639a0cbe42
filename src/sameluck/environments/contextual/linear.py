"""Rewards that depend on features: `Linear`, `Logistic`, and their priors with random weights.

Weights are of two kinds. Each arm has weights of its own for the features of a user, or all arms share the weights,
and each arm has its own features of a user (`Features(d, per_arm=True)`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias, cast

import numpy as np

from sameluck import text_forms
from sameluck.arrays import Floats
from sameluck.compilation.decorators import compiled, dispatched
from sameluck.compilation.products import dot
from sameluck.context import MAX_FEATURES, Features
from sameluck.environments.base import CONTEXT_FUNCTIONS, draws
from sameluck.environments.checks import (
    MAX_REWARD,
    REWARD_LIMITS,
    check_each,
    check_row,
    check_table,
    per_arm,
)
from sameluck.environments.contextual.base import (
    ContextualEnvironment,
    contexts,
    expected,
    expects,
    write_context,
)
from sameluck.errors import Invalid, shown
from sameluck.randomness.samplers import normal, uniform
from sameluck.randomness.streams import ALL_POLICIES, INSTANCE, SLOTS, Bits, Key, at, stream, word
from sameluck.validation import is_listed, require_flag, require_whole

Weights: TypeAlias = Sequence[float | Sequence[float]]  # one list per arm, or one list for all arms


class _Weighted(ContextualEnvironment):
    """Base class of environments whose first field holds the weights."""

    __slots__ = ()
    weights: Weights

    @property
    def _arms_field(self) -> int | None:
        return self._asdict()["arms"]

    @property
    def shares_weights(self) -> bool:
        """Whether all arms have the same weights, for features that differ between arms."""
        return not is_listed(self.weights[0])

    @property
    def context(self) -> Features:
        first = self.weights if self.shares_weights else self.weights[0]
        return Features(len(cast(Sequence[float], first)), per_arm=self.shares_weights)

    def __init__(self, *_values: object, **_named: object) -> None:
        name = type(self).__name__
        if not is_listed(self.weights) or not len(self.weights):
            raise Invalid(
                f"{name}.weights must be a list of weights per arm, or one list for all arms, got "
                f"{shown(self.weights)}"
            )
        if self.shares_weights and self._arms_field is None:
            raise Invalid(
                f"{name}.arms is missing: {name}.weights is one list, so all arms share the weights; give arms=3, "
                "for example, or one list of weights per arm"
            )
        self.check(self.arms or 0)

    def check(self, arms: int) -> None:
        name = type(self).__name__
        if self._arms_field is not None:
            require_whole(f"{name}.arms", self._arms_field, 1, SLOTS)
            if self._arms_field != arms:
                raise Invalid(
                    f"{name}.arms is {shown(self._arms_field)}, but there are {arms} arms; give arms={arms}"
                )
        if self.shares_weights:
            check_row(f"{name}.weights", self.weights, None, **REWARD_LIMITS)
        else:
            check_table(f"{name}.weights", self.weights, arms, None, **REWARD_LIMITS)
        _check_slots(name, self.context, arms)

    def _compiled_weights(self, replications: range) -> _ArmWeights | _SharedWeights:
        weights = np.array(self.weights, float)
        return compiled_weights(np.tile(weights, (len(replications), *(1,) * weights.ndim)))


def _check_slots(name: str, context: Features, arms: int) -> None:
    numbers = math.prod(context.shape(arms))
    if numbers > SLOTS:
        raise Invalid(
            f"{name} has {numbers:,} features of all arms together, and at most {SLOTS:,} are drawn; use fewer"
        )


# In place of the field, which is None where the weights say how many arms there are.
def _number_of_arms(environment: _Weighted) -> int | None:
    return environment._arms_field if environment.shares_weights else len(environment.weights)


class _LinearFields(NamedTuple):
    weights: Weights
    sd: float | Sequence[float] = 1.0
    arms: int | None = None


class Linear(_LinearFields, _Weighted):
    """Normal rewards whose mean is linear in the features: `weights[arm] . context`, with standard deviation `sd`.

    The features of a user are independent standard normal numbers; `FromContexts` gives them another distribution.

    Args:
        weights: One list of weights per arm, one weight per feature. No intercept is added. A single list of weights
            is shared by all arms; then each arm has features of its own, and `arms` says how many arms.
        sd: Standard deviation of the rewards around their mean, one number or one per arm.
        arms: How many arms share the weights.
    """

    __slots__ = ()
    omits_defaults = True
    arms = property(_number_of_arms)
    sample = "linear([0.5, 0.0, -0.2], [0.3, 0.4, 0.1], sd=2)"

    @property
    def standard_deviations(self) -> Floats:
        return per_arm(self.sd, self.arms or 0)

    def check(self, arms: int) -> None:
        super().check(arms)
        check_each("Linear.sd", self.sd, arms, at_least=0, at_most=MAX_REWARD)

    def compiled_parameters(self, seed: int, replications: range, arms: int) -> CompiledLinear:
        return CompiledLinear(self._compiled_weights(replications), per_arm(self.sd, arms))


class _LogisticFields(NamedTuple):
    weights: Weights
    arms: int | None = None


class Logistic(_LogisticFields, _Weighted):
    """Rewards 0 and 1 with the success probability `1 / (1 + exp(-weights[arm] . context))`.

    The features of a user are independent standard normal numbers; `FromContexts` gives them another distribution.

    Args:
        weights: As in `Linear`: one list per arm, or one list that all arms share.
        arms: How many arms share the weights.
    """

    __slots__ = ()
    omits_defaults = True
    binary = True
    arms = property(_number_of_arms)
    sample = "logistic([1.0, -0.5], [0.2, 0.8])"

    def compiled_parameters(self, seed: int, replications: range, arms: int) -> CompiledLogistic:
        return CompiledLogistic(self._compiled_weights(replications))


class _WeightsPrior(ContextualEnvironment):
    """Base class of environments whose weights are drawn in each replication."""

    __slots__ = ()
    is_prior = True
    arms = None
    features: int
    mean: float | Sequence[float]
    sd: float | Sequence[float]
    shared: bool

    def __init__(self, *_values: object, **_named: object) -> None:
        self.check(1)

    @property
    def context(self) -> Features:
        return Features(self.features, per_arm=self.shared)

    def check(self, arms: int) -> None:
        name = type(self).__name__
        require_whole(f"{name}.features", self.features, 1, MAX_FEATURES)
        for field, least in (("mean", -MAX_REWARD), ("sd", 0.0)):
            value = getattr(self, field)
            bounds = {"at_least": least, "at_most": MAX_REWARD}
            if is_listed(value):
                check_row(f"{name}.{field}", value, self.features, **bounds)
            else:
                check_each(f"{name}.{field}", value, self.features, **bounds)
        require_flag(f"{name}.shared", self.shared)
        _check_slots(name, self.context, arms)

    def instance_weights(self, seed: int, replications: range, arms: int) -> Floats:
        """Return the weights in each replication (replication, arm, feature), or (replication, feature) if shared."""
        shape = (self.features,) if self.shared else (arms, self.features)
        weights = np.empty((len(replications), *shape))
        flat = weights.reshape(len(replications), -1)
        mean, sd = per_arm(self.mean, self.features), per_arm(self.sd, self.features)
        _draw_weights(np.uint64(seed), replications.start, mean, sd, flat)
        return weights

    def _compiled_weights(
        self, seed: int, replications: range, arms: int
    ) -> _ArmWeights | _SharedWeights:
        return compiled_weights(self.instance_weights(seed, replications, arms))

    def _instance(self, seed: int, replication: int, arms: int) -> tuple[Weights, int | None]:
        (weights,) = self.instance_weights(seed, range(replication, replication + 1), arms)
        return weights.tolist(), arms if self.shared else None


@compiled
def _draw_weights(seed: Bits, first: int, mean: Floats, sd: Floats, weights: Floats) -> None:
    # At addresses that no policy enters, so that all policies meet the same bandit.
    for row in range(weights.shape[0]):
        key = stream(seed, INSTANCE, first + row, ALL_POLICIES)
        for index in range(weights.shape[1]):
            feature = index % mean.size
            weights[row, index] = mean[feature] + sd[feature] * normal(word(key, index))


class _LinearPriorFields(NamedTuple):
    features: int
    mean: float | Sequence[float] = 0.0
    sd: float | Sequence[float] = 1.0
    noise_sd: float | Sequence[float] = 1.0
    shared: bool = False


class LinearPrior(_LinearPriorFields, _WeightsPrior):
    """`Linear` rewards whose weights are independent normal numbers, drawn in each replication.

    All policies meet the same weights. `instance` returns the environment of a replication.

    Args:
        features: How many features.
        mean: Mean of a weight, one number or one per feature.
        sd: Standard deviation of a weight, one number or one per feature.
        noise_sd: Standard deviation of the rewards around their mean, one number or one per arm.
        shared: Whether all arms share the weights; then each arm has features of its own.
    """

    __slots__ = ()
    sample = "linear_prior(3)"

    @property
    def standard_deviations(self) -> Floats:
        return np.atleast_1d(np.asarray(self.noise_sd, float))

    def check(self, arms: int) -> None:
        super().check(arms)
        limits = {"at_least": 0, "at_most": MAX_REWARD}
        count = len(self.noise_sd) if is_listed(self.noise_sd) and arms == 1 else arms
        check_each("LinearPrior.noise_sd", self.noise_sd, count, **limits)

    def compiled_parameters(self, seed: int, replications: range, arms: int) -> CompiledLinear:
        weights = self._compiled_weights(seed, replications, arms)
        return CompiledLinear(weights, per_arm(self.noise_sd, arms))

    def instance(self, seed: int, replication: int, arms: int) -> Linear:
        """Return the environment of a replication."""
        weights, shared_by = self._instance(seed, replication, arms)
        return Linear(weights, tuple(per_arm(self.noise_sd, arms).tolist()), shared_by)


class _LogisticPriorFields(NamedTuple):
    features: int
    mean: float | Sequence[float] = 0.0
    sd: float | Sequence[float] = 1.0
    shared: bool = False


class LogisticPrior(_LogisticPriorFields, _WeightsPrior):
    """`Logistic` rewards whose weights are independent normal numbers, drawn in each replication.

    All policies meet the same weights. `instance` returns the environment of a replication.

    Args:
        features: How many features.
        mean: Mean of a weight, one number or one per feature.
        sd: Standard deviation of a weight, one number or one per feature.
        shared: Whether all arms share the weights; then each arm has features of its own.
    """

    __slots__ = ()
    binary = True
    sample = "logistic_prior(3, sd=2)"

    def compiled_parameters(self, seed: int, replications: range, arms: int) -> CompiledLogistic:
        return CompiledLogistic(self._compiled_weights(seed, replications, arms))

    def instance(self, seed: int, replication: int, arms: int) -> Logistic:
        """Return the environment of a replication."""
        return Logistic(*self._instance(seed, replication, arms))


class _ArmWeights(NamedTuple):
    values: Floats  # (replication, arm, feature)


class _SharedWeights(NamedTuple):
    values: Floats  # (replication, feature)


def compiled_weights(values: Floats) -> _ArmWeights | _SharedWeights:
    """Return weights (row, arm, feature), or (row, feature) if the arms share them, as compiled code takes them."""
    return _SharedWeights(values) if values.ndim == 2 else _ArmWeights(values)


def _write_normal_features(
    weights: _ArmWeights, row: int, period: int, noise: Key, context: Floats
) -> None:
    for feature in range(context.size):
        context[feature] = normal(at(noise, period, feature))


def _write_normal_features_per_arm(
    weights: _SharedWeights, row: int, period: int, noise: Key, context: Floats
) -> None:
    arms, features = context.shape
    for arm in range(arms):
        for feature in range(features):
            context[arm, feature] = normal(at(noise, period, arm * features + feature))


CONTEXT_FUNCTIONS[_ArmWeights] = _write_normal_features
CONTEXT_FUNCTIONS[_SharedWeights] = _write_normal_features_per_arm


def _sum_of_arm(weights: _ArmWeights, row: int, context: Floats, arm: int) -> float:
    return dot(weights.values[row, arm], context)


def _sum_of_shared(weights: _SharedWeights, row: int, context: Floats, arm: int) -> float:
    return dot(weights.values[row], context[arm])


def _weighted_sum(weights: text_forms.Parameters, row: int, context: Floats, arm: int) -> float:
    """Return the sum of an arm's features times their weights."""
    raise NotImplementedError


weighted_sum = dispatched(_weighted_sum, {_ArmWeights: _sum_of_arm, _SharedWeights: _sum_of_shared})


class CompiledLinear(NamedTuple):
    """Parameters of linear rewards."""

    weights: _ArmWeights | _SharedWeights
    sd: Floats  # (arm,)


class CompiledLogistic(NamedTuple):
    """Parameters of logistic rewards."""

    weights: _ArmWeights | _SharedWeights


@contexts(CompiledLinear)
@contexts(CompiledLogistic)
def _standard_normal(
    parameters: CompiledLinear, row: int, period: int, noise: Key, context: Floats
) -> None:
    write_context(parameters.weights, row, period, noise, context)


@expects(CompiledLinear)
def _linear_mean(parameters: CompiledLinear, row: int, context: Floats, arm: int) -> float:
    return weighted_sum(parameters.weights, row, context, arm)


@draws(CompiledLinear)
def _linear(parameters: CompiledLinear, row: int, context: Floats, arm: int, bits: Bits) -> float:
    return expected(parameters, row, context, arm) + parameters.sd[arm] * normal(bits)


@expects(CompiledLogistic)
def _success_probability(
    parameters: CompiledLogistic, row: int, context: Floats, arm: int
) -> float:
    score = weighted_sum(parameters.weights, row, context, arm)
    odds = math.exp(-abs(score))  # at most 1, so that no score overflows
    return 1.0 / (1.0 + odds) if score >= 0.0 else odds / (1.0 + odds)


@draws(CompiledLogistic)
def _success(
    parameters: CompiledLogistic, row: int, context: Floats, arm: int, bits: Bits
) -> float:
    return 1.0 if uniform(bits) < expected(parameters, row, context, arm) else 0.0
