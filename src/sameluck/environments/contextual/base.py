"""Registration of environments with contexts: `contexts`, `expects`.

An environment with contexts has the properties `arms` and `context`, a second function that writes the context of a
period's user, and a draw function that takes the context. It may state the mean reward in a context, for regret:

    class Shop(NamedTuple):
        weights: Sequence[Sequence[float]]
        arms = property(lambda self: len(self.weights))
        context = property(lambda self: Features(len(self.weights[0])))

    @contexts(Shop)
    def _(parameters, row, period, noise, context):
        for feature in range(context.size):
            context[feature] = normal(at(noise, period, feature))

    @draws(Shop)
    def _(parameters, row, context, arm, bits):
        return parameters.weights[arm, 0] * context[0] + normal(bits)

    @expects(Shop)
    def _(parameters, row, context, arm):
        return parameters.weights[arm, 0] * context[0]

The context of an environment with `Levels` is an array of one number, the index of the level.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from sameluck import text_forms
from sameluck.arrays import Floats
from sameluck.compilation.decorators import dispatched
from sameluck.compilation.functions import Function, check_registration, require_class
from sameluck.context import Context
from sameluck.environments.base import (
    CONTEXT_CHECKS,
    CONTEXT_FUNCTIONS,
    ENVIRONMENTS,
    EXPECTED_FUNCTIONS,
    Environment,
)
from sameluck.errors import Invalid
from sameluck.randomness.streams import Key, OnceKey

_GAP_FUNCTIONS: dict[type, Callable[..., float]] = {}


class ContextualEnvironment(Environment):
    """Environment whose users have contexts: an arm has a mean reward in each context, not one for all users."""

    __slots__ = ()

    @property
    def context(self) -> Context:
        """Context of its users."""
        raise NotImplementedError

    @property
    def means(self) -> tuple[float, ...]:
        """Raise `Invalid`: the mean of an arm depends on the context."""
        raise Invalid(f"{type(self).__name__}: the mean reward of an arm depends on the context")

    def instance_means(self, seed: int, replications: range, arms: int) -> Floats:
        """Raise `Invalid`: the mean of an arm depends on the context."""
        raise Invalid(f"{type(self).__name__}: the mean reward of an arm depends on the context")


def contexts(environment_class: type) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register the function `(parameters, row, period, noise, context)` that writes the context of a period's user.

    It fills `context`, an array, from random numbers such as `normal(at(noise, period, 0))`, each address once.
    """
    return _register_for(
        "contexts", environment_class, CONTEXT_FUNCTIONS, "parameters, row, period, noise, context"
    )


def expects(environment_class: type) -> Callable[[Callable[..., float]], Callable[..., float]]:
    """Register the function `(parameters, row, context, arm)` that returns an arm's mean reward in a context.

    With it, regret and the share of the best arm are known.
    """
    return _register_for(
        "expects", environment_class, EXPECTED_FUNCTIONS, "parameters, row, context, arm"
    )


def _register_for(
    decorator: str, environment_class: type, functions: dict[type, Function], arguments: str
) -> Callable[[Function], Function]:
    require_class(decorator, environment_class)

    def register(function: Function) -> Function:
        check_registration(environment_class, function, ENVIRONMENTS, "an environment", arguments)
        functions[environment_class] = function
        return function

    return register


def _write_context(
    parameters: text_forms.Parameters, row: int, period: int, noise: Key | OnceKey, context: Floats
) -> None:
    """Write the context of a period's user over the context of the period before."""
    raise NotImplementedError


write_context = dispatched(_write_context, CONTEXT_FUNCTIONS)


def _is_valid_context(parameters: text_forms.Parameters, context: Floats, levels: int) -> bool:
    """Return whether a context may be used: a wrong level would be an index out of range."""
    raise NotImplementedError


def _trusted(parameters: text_forms.Parameters, context: Floats, levels: int) -> bool:
    return True


is_valid_context = dispatched(_is_valid_context, CONTEXT_CHECKS, otherwise=_trusted)


def _expected(parameters: text_forms.Parameters, row: int, context: Floats, arm: int) -> float:
    """Return an arm's mean reward in a context; NaN if the environment does not state it."""
    raise NotImplementedError


def _unknown(parameters: text_forms.Parameters, row: int, context: Floats, arm: int) -> float:
    return np.nan


expected = dispatched(_expected, EXPECTED_FUNCTIONS, otherwise=_unknown)


def gaps(parameters_class: type) -> Callable[[Callable[..., float]], Callable[..., float]]:
    """Register a function `(parameters, row, context, arm, arms)` that returns an arm's gap to the best arm."""
    return partial(_GAP_FUNCTIONS.setdefault, parameters_class)


def _gap_of_means(
    parameters: text_forms.Parameters, row: int, context: Floats, arm: int, arms: int
) -> float:
    played = expected(parameters, row, context, arm)
    best = played
    for other in range(arms):
        best = max(best, expected(parameters, row, context, other))
    return best - played


def _gap_in_context(
    parameters: text_forms.Parameters, row: int, context: Floats, arm: int, arms: int
) -> float:
    """Return how much less an arm earns in a context than the best arm, on average."""
    raise NotImplementedError


gap_in_context = dispatched(_gap_in_context, _GAP_FUNCTIONS, otherwise=_gap_of_means)
