"""Registration of policies: `Tally` and `selects`.

A select function is a pure function of (policy, tally, period, noise); periods count from 1, arms from 0. It runs as
plain Python and as machine code. It reads random numbers by address from `noise`, each address once:

    class Greedy(NamedTuple):
        optimism: float = 1.0

    @selects(Greedy)
    def _(policy, tally, period, noise):
        best, highest = 0, -np.inf
        for arm in range(tally.pulls.size):
            score = policy.optimism if tally.pulls[arm] == 0 else tally.means[arm]
            if score > highest:
                best, highest = arm, score
        return best

That is all a policy needs. It may also have

* `check(arms)`: raise `Invalid` for invalid parameters;
* `needs_binary`, a property: True if its rewards must be 0 and 1;
* `prepare(arms, horizon)`: return the rule, another NamedTuple with tables; the select function is registered for it;
* `memory(arms)`: return how many floats of `tally.memory` it keeps between periods;
* `check_context(context)`: raise `Invalid` unless it can use this context, or none (`sameluck.context`). `prepare`
  and `memory` may take `context` as their last argument;
* `batched()`, for a policy with memory that is also run in batches (`Batched`): return the same rule as another
  NamedTuple, with a select function of its own and without memory;
* `reward_scale()`: return the `RewardScale` it assumes, and `rescaled(sd, mean)`: return the policy for rewards of
  another scale. `compare` adds a caution if the rewards have another scale.

A policy whose select function does not use its `noise` argument is deterministic. Every policy breaks ties in favour
of the lowest arm.
"""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable
from functools import cache, partial
from types import CodeType
from typing import NamedTuple, Protocol, TypeAlias, TypeGuard, TypeVar

import numpy as np

from sameluck import text_forms
from sameluck.arrays import Floats, Ints
from sameluck.compilation.decorators import dispatched, specialised
from sameluck.compilation.functions import (
    check_registration,
    compiled_class,
    is_builtin,
    require_class,
)
from sameluck.context import Context, Features, Levels, States
from sameluck.errors import Invalid
from sameluck.policies.fast.rule_tables import kept_tables
from sameluck.randomness.streams import SLOTS, Key, OnceKey
from sameluck.validation import require_whole

T = TypeVar("T")
SelectFunction: TypeAlias = Callable[..., int | np.int64]
RepeatsArmFunction: TypeAlias = Callable[..., bool]
FastForm: TypeAlias = Callable[..., "Policy"]


class Policy(text_forms.Parameters, Protocol):
    """A NamedTuple of parameters whose class has a select function."""


class Tally(NamedTuple):
    """A policy's observations so far in a replication: all that a select function may know of the past."""

    pulls: Ints  # by arm
    totals: Floats  # sum of rewards, by arm
    means: Floats  # totals / pulls; 0 for an arm not yet pulled
    memory: Floats  # numbers that the policy keeps; 0 at the start
    last_arm: int  # in the period before; 0 in period 1
    last_reward: float  # in the period before; 0 in period 1
    context: Floats = None  # type: ignore[assignment]  # features of the present user, (feature,) or (arm, feature)
    last_context: Floats = None  # type: ignore[assignment]  # in the period before; 0 in period 1
    level: int = 0  # of the present user, or the state; 0 without levels
    last_level: int = 0  # in the period before; 0 in period 1
    step: int = 0  # in the episode, from 0; 0 without states


class PlayedArm(NamedTuple):
    """Arm of the period before, with its latest reward: it decides whether the arm must be repeated."""

    pulls: int
    mean: float
    memory: Floats  # of the policy, as `select` left it


class RewardScale(NamedTuple):
    """Standard deviations of an arm's rewards that a policy assumes."""

    low: float
    high: float
    unit_interval: bool = False  # whether rewards that fill [0, 1] fit, whatever their deviation


POLICIES: dict[str, type[Policy]] = {}  # by the name of their text form
_SELECT_FUNCTIONS: dict[type, SelectFunction] = {}
_REPEATS_ARM_FUNCTIONS: dict[type, RepeatsArmFunction] = {}
_FAST_FORMS: dict[type, FastForm] = {}
_ANY_HORIZON = 100  # where only the class of the rule matters
_PLAIN = (bool, int, float, str, type(None))


def selects(policy_class: type) -> Callable[[SelectFunction], SelectFunction]:
    """Register the select function of a policy class, or of the rule that its `prepare` returns.

    A class of yours may be registered again with another function, which replaces the previous function.
    """
    require_class("selects", policy_class)

    def register(function: SelectFunction) -> SelectFunction:
        arguments = "policy, tally, period, noise"
        check_registration(policy_class, function, POLICIES, "a policy", arguments)
        _SELECT_FUNCTIONS[policy_class] = function
        if not is_builtin(function) and not policy_class.__name__.startswith("_"):
            POLICIES[text_forms.name_of(policy_class)] = policy_class
        return function

    return register


def repeats_arm(policy_class: type) -> Callable[[RepeatsArmFunction], RepeatsArmFunction]:
    """Register a shortcut `(policy, played, period, noise)` of a built-in policy.

    It may return True only if `select` would choose the arm just played and leave the memory as it is. Compiled loops
    then keep the arm's numbers in registers and do not call `select`. Plain Python does not use it, so that a wrong
    shortcut makes the compiled results differ.
    """
    return partial(_REPEATS_ARM_FUNCTIONS.setdefault, policy_class)


def fast_form(policy_class: type) -> Callable[[FastForm], FastForm]:
    """Register a function `(rule, arms)` that returns a built-in policy's rule in a faster form.

    The form must play the same arms to the bit. It has a select function of its own, and may have memory.
    """
    return partial(_FAST_FORMS.setdefault, policy_class)


def as_compiled(prepared: Policy) -> Policy:
    """Return a prepared policy under the class that its machine code is compiled for."""
    policy_class = type(prepared)
    if is_builtin(policy_class) or policy_class not in _SELECT_FUNCTIONS:
        return prepared
    select_function = _SELECT_FUNCTIONS[policy_class]
    compiled = compiled_class(policy_class, [select_function])
    _SELECT_FUNCTIONS.setdefault(compiled, select_function)
    return compiled(*prepared)


def select_function_of(prepared: Policy) -> SelectFunction:
    """Return the select function of a prepared policy, or of the policy that it wraps."""
    policy_class = type(_innermost(prepared))
    if policy_class not in _SELECT_FUNCTIONS:
        raise Invalid(
            f"{policy_class.__name__} has no select function; register one with sameluck.selects"
        )
    return _SELECT_FUNCTIONS[policy_class]


def check_complete(policy_class: type) -> None:
    """Raise `Invalid` unless a class of `sameluck.policies` has a select function or a `prepare` method."""
    if policy_class not in _SELECT_FUNCTIONS and not hasattr(policy_class, "prepare"):
        name = f"{policy_class.__module__}.{policy_class.__name__}"
        raise Invalid(
            f"{name} has no select function; register one with sameluck.selects, or start its name with an "
            "underscore if it is a helper, such as the rule of a policy"
        )


def _has_select_function(field: object) -> TypeGuard[Policy]:
    return type(field) in _SELECT_FUNCTIONS


def _innermost(prepared: Policy) -> Policy:
    # The policy that a batched policy wraps decides whether it is randomised.
    wrapped = [field for field in prepared if _has_select_function(field)]
    return _innermost(wrapped[0]) if wrapped else prepared


def replace_innermost(prepared: Policy, change: Callable[[Policy], Policy]) -> Policy:
    """Return a prepared policy with a change made to it, or to the policy that it wraps."""
    for name, field in prepared._asdict().items():
        if _has_select_function(field):
            return type(prepared)(**{**prepared._asdict(), name: replace_innermost(field, change)})
    return change(prepared)


def _select(policy: Policy, tally: Tally, period: int, noise: Key | OnceKey) -> int:
    """Return the arm that a policy chooses in a period."""
    raise NotImplementedError


select = dispatched(_select, _SELECT_FUNCTIONS)


def must_repeat(policy: Policy, played: PlayedArm, period: int, noise: Key | OnceKey) -> bool:
    """Return True if `select` must choose the arm just played; False in plain Python and without a shortcut."""
    return False


specialised(must_repeat, _REPEATS_ARM_FUNCTIONS)


def is_randomised(policy: Policy, arms: int) -> bool:
    """Return whether a policy uses random numbers: whether its select function reads its `noise` argument."""
    try:
        function = select_function_of(rule_of(policy, arms, _ANY_HORIZON))
    except Invalid:  # an external policy
        return True
    return _reads_noise(function.__code__)


@cache
def _reads_noise(code: CodeType) -> bool:
    # The name of the argument, also in instructions that combine two names (Python 3.13).
    names = (step.argval for step in dis.get_instructions(code))
    return any("noise" in (name if isinstance(name, tuple) else (name,)) for name in names)


def needs_binary(policy: Policy) -> bool:
    """Return whether a policy takes only rewards 0 and 1."""
    return bool(getattr(policy, "needs_binary", False))


def reward_scale(policy: Policy) -> RewardScale | None:
    """Return the scale of rewards that a policy assumes; None if it assumes no scale."""
    declare = getattr(policy, "reward_scale", None)
    scale = declare() if callable(declare) else None
    if scale is not None and not isinstance(scale, RewardScale):
        raise Invalid(
            f"{type(policy).__name__}.reward_scale must return a RewardScale, got {scale!r}"
        )
    return scale


def rescaled(policy: Policy, sd: float, mean: float) -> Policy | None:
    """Return the policy for rewards with this standard deviation and mean; None if no parameter sets the scale."""
    return policy.rescaled(sd, mean) if hasattr(policy, "rescaled") else None


def check_when_made(policy_class: type) -> None:
    """Make the constructor of a built-in class refuse parameters that are invalid for every number of arms."""

    def check(self: Policy, *_values: object, **_named: object) -> None:
        policy = text_forms.normal_form(self)
        if hasattr(policy, "check_alone"):
            policy.check_alone()
        else:
            check_parameters(policy, SLOTS)

    policy_class.__init__ = check  # type: ignore[misc]  # a NamedTuple may not define it itself


def check_parameters(policy: Policy, arms: int) -> None:
    """Raise `Invalid` for parameters that are invalid for this number of arms."""
    if hasattr(policy, "check"):
        policy.check(arms)


def prepare(policy: Policy, arms: int, horizon: int, context: Context | None = None) -> Policy:
    """Return the policy as the compiled loop takes it: its rule, in a fast form if one is registered."""
    rule = rule_of(policy, arms, horizon, context)
    form = _FAST_FORMS.get(type(policy))
    return form(rule, arms) if form else rule


def rule_of(policy: Policy, arms: int, horizon: int, context: Context | None = None) -> Policy:
    """Return the NamedTuple that a policy's select function takes: the policy itself, or what it prepares."""
    if not hasattr(policy, "prepare"):
        return policy
    make = partial(_with_context, policy.prepare, arms, horizon, context=context)
    if is_builtin(type(policy)) and all(isinstance(field, _PLAIN) for field in policy):
        # With the types, because NamedTuples of different classes, and 2 and 2.0, compare equal.
        key = (type(policy), *((type(field), field) for field in policy), arms, horizon, context)
        return kept_tables(key, make)
    return require_rule(f"{type(policy).__name__}.prepare", make())


def _with_context(method: Callable[..., T], *arguments: int, context: Context | None) -> T:
    takes_context = "context" in inspect.signature(method).parameters
    return method(*arguments, context) if takes_context else method(*arguments)


def check_context(policy: Policy, context: Context | None, arms: int) -> None:
    """Raise `Invalid` unless a policy can use the context of an experiment; None for no context."""
    if hasattr(policy, "check_context"):
        policy.check_context(context)
        return
    if not has_select_function(policy, arms) or is_builtin(type(policy)):
        return
    names = select_function_of(rule_of(policy, arms, _ANY_HORIZON, context)).__code__.co_names
    if not {"context", "last_context"}.isdisjoint(names):
        require_features(type(policy).__name__, context)
    if not {"level", "last_level"}.isdisjoint(names):
        require_levels(type(policy).__name__, context)


def usable_contexts(policy: Policy, arms: int = 2) -> tuple[str, ...]:
    """Return the contexts of which a policy needs one: `levels`, `states`, `features`; empty if it needs none."""
    if _accepts(policy, None, arms):
        return ()
    contexts = (Levels(2), States(2, episode=2), Features(2), Features(2, per_arm=True))
    usable = (context for context in contexts if _accepts(policy, context, arms))
    return tuple(dict.fromkeys(text_forms.name_of(type(context)) for context in usable))


def _accepts(policy: Policy, context: Context | None, arms: int) -> bool:
    try:
        check_context(policy, context, arms)
    except Invalid:
        return False
    return True


def _worded(context: Context | None) -> str:
    return "no context" if context is None else f"the context {context.text}"


def require_features(policy: str, context: Context | None) -> Features:
    """Return the features of an experiment's users; raise `Invalid` for a policy that needs them without."""
    if not isinstance(context, Features):
        raise Invalid(
            f"{policy} needs users with features, and they have {_worded(context)}; simulate it in an environment "
            "with features, such as linear"
        )
    return context


def require_levels(policy: str, context: Context | None) -> Context:
    """Return the levels of an experiment's users; raise `Invalid` for a policy that needs them without."""
    if context is None or isinstance(context, Features):
        raise Invalid(
            f"{policy} needs users with levels, and they have {_worded(context)}; simulate it in an environment "
            "with levels, such as by_level"
        )
    return context


def require_states(policy: str, context: Context | None) -> States:
    """Return the states of an experiment; raise `Invalid` for a policy that needs them without."""
    if not isinstance(context, States):
        raise Invalid(
            f"{policy} needs states, and the users have {_worded(context)}; simulate it in an environment with "
            "states, such as river_swim"
        )
    return context


def require_rule(method: str, returned: object) -> Policy:
    """Return the rule that a policy's method returned, or raise `Invalid` unless it is a NamedTuple."""
    if not text_forms.is_parameters(returned):
        raise Invalid(
            f"{method} must return a NamedTuple that a select function is registered for, got {returned!r}; return "
            "the rule as such a NamedTuple"
        )
    return returned


def memory_of(prepared: Policy, arms: int, context: Context | None = None) -> int:
    """Return how many floats a prepared policy keeps between periods."""
    size = 0
    if hasattr(prepared, "memory"):
        size = _with_context(prepared.memory, arms, context=context)
    return require_whole(f"{type(prepared).__name__}.memory({arms})", size, 0, 10**8)


def has_select_function(policy: object, arms: int) -> TypeGuard[Policy]:
    """Return whether a policy or its rule has a select function; if so, register its class."""
    policy_class: type = type(policy)
    if policy_class in POLICIES.values():
        return True
    if not text_forms.is_parameters(policy) or not hasattr(policy, "prepare"):
        return False
    prepared = _with_context(policy.prepare, arms, _ANY_HORIZON, context=None)
    function = _SELECT_FUNCTIONS.get(type(prepared))
    if function is None:
        return False
    check_registration(policy_class, function, POLICIES, "a policy", "policy, tally, period, noise")
    POLICIES[text_forms.name_of(policy_class)] = policy_class
    return True
