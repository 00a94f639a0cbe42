"""Context of the present user in a loop: the arrays that it is written into, and what a policy sees of it.

Contexts belong to the owner of the rewards: policies that share rewards meet the same users. A loop without contexts
takes None in place of the arrays.
"""

from __future__ import annotations

import math
from typing import NamedTuple, TypeAlias

import numpy as np

from sameluck.arrays import Floats, padded
from sameluck.compilation.decorators import dispatched, inlined
from sameluck.context import Context
from sameluck.environments.base import draw
from sameluck.environments.contextual.base import is_valid_context, write_context
from sameluck.policies.observations import SeenContext, no_context
from sameluck.randomness.streams import Bits, Key, OnceKey
from sameluck.text_forms import Parameters


class FeatureArrays(NamedTuple):
    """Features of the present user and of the user before; `flat` and `last_flat` are views of them."""

    now: Floats
    last: Floats
    flat: Floats
    last_flat: Floats
    user: Floats  # as the environment sees it: the present features, with its hidden numbers if it has them
    level_rewards: Floats  # empty


class LevelArrays(NamedTuple):
    """Level or state of the present user and of the user before; see `Context.shape`."""

    now: Floats
    last: Floats
    flat: Floats
    last_flat: Floats
    user: Floats  # as the environment sees it
    level_rewards: Floats  # sum of rewards in each level; empty for states
    levels: int  # or states


ContextArrays: TypeAlias = FeatureArrays | LevelArrays


def empty_contexts(context: Context | None, arms: int, hidden: int) -> ContextArrays | None:
    """Return the arrays of a loop; None without contexts. `hidden` numbers of a user follow the context."""
    if context is None:
        return None
    shape = context.shape(arms)
    size = math.prod(shape)
    whole, last_flat = padded(size + hidden, np.float64), padded(size, np.float64)
    flat = whole[:size]
    now, last = flat.reshape(shape), last_flat.reshape(shape)
    user = whole if hidden else now
    if context.indexed_by_period:
        return FeatureArrays(now, last, flat, last_flat, user, np.zeros(0))
    level_rewards = np.zeros(context.segments)
    return LevelArrays(now, last, flat, last_flat, user, level_rewards, context.number)


def _nobody_arrives(
    contexts: None,
    parameters: Parameters,
    row: int,
    period: int,
    users: Key | OnceKey,
) -> bool:
    return True


def _write_features(
    contexts: FeatureArrays, parameters: Parameters, row: int, period: int, users: Key | OnceKey
) -> bool:
    for index in range(contexts.flat.size):
        contexts.last_flat[index] = contexts.flat[index]
    write_context(parameters, row, period, users, contexts.user)
    return is_valid_context(parameters, contexts.flat, 0)


def _write_level(
    contexts: LevelArrays, parameters: Parameters, row: int, period: int, users: Key | OnceKey
) -> bool:
    # Without a loop, which would be compiled for many numbers: a level is one number, a state three.
    contexts.last_flat[0] = contexts.flat[0]
    if contexts.flat.size > 1:
        contexts.last_flat[1], contexts.last_flat[2] = contexts.flat[1], contexts.flat[2]
    write_context(parameters, row, period, users, contexts.user)
    return is_valid_context(parameters, contexts.flat, contexts.levels)


def _arrive(
    contexts: ContextArrays | None,
    parameters: Parameters,
    row: int,
    period: int,
    users: Key | OnceKey,
) -> bool:
    """Write the context of a period's user over the context before; return whether it is valid."""
    raise NotImplementedError


arrive = dispatched(
    _arrive, {FeatureArrays: _write_features, LevelArrays: _write_level}, otherwise=_nobody_arrives
)


def _see_nothing(contexts: None, last_level: int) -> SeenContext:
    return no_context()


def _see_features(contexts: FeatureArrays, last_level: int) -> SeenContext:
    return SeenContext(contexts.now, contexts.last, 0, 0, 0)


def _see_level(contexts: LevelArrays, last_level: int) -> SeenContext:
    step = int(contexts.user[1]) if contexts.flat.size > 1 else 0
    return SeenContext(contexts.now, contexts.last, int(contexts.user[0]), last_level, step)


def _seen(contexts: ContextArrays | None, last_level: int) -> SeenContext:
    """Return what a policy sees of the present user and of the user before, who had the last level."""
    raise NotImplementedError


seen_by_policy = dispatched(
    _seen, {FeatureArrays: _see_features, LevelArrays: _see_level}, otherwise=_see_nothing
)


def _draw_for_anybody(
    contexts: None,
    parameters: Parameters,
    row: int,
    arm: int,
    bits: Bits,
) -> float:
    return draw(parameters, row, None, arm, bits)


def _draw_in_context(
    contexts: ContextArrays, parameters: Parameters, row: int, arm: int, bits: Bits
) -> float:
    return draw(parameters, row, contexts.user, arm, bits)


def _draw_for_user(
    contexts: ContextArrays | None, parameters: Parameters, row: int, arm: int, bits: Bits
) -> float:
    """Turn 64 random bits into the present user's reward for an arm."""
    raise NotImplementedError


draw_for_user = dispatched(
    _draw_for_user,
    {FeatureArrays: _draw_in_context, LevelArrays: _draw_in_context},
    otherwise=_draw_for_anybody,
)


@inlined
def forget(contexts: ContextArrays) -> None:
    """Begin a replication: no user has come."""
    for index in range(contexts.flat.size):
        contexts.flat[index] = 0.0
    for index in range(contexts.level_rewards.size):
        contexts.level_rewards[index] = 0.0
