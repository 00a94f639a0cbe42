"""How a policy is written and registered: `Tally`, `selects`, `probabilities`.

A select function is a pure function of (policy, tally, period, noise); periods count from 1, arms from 0. It runs as
plain Python and as machine code, and reads its own randomness by address, each address once:

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

* `check(arms)`: raise `Invalid` for parameters that are not valid;
* `needs_binary`, a property: True if its rewards must be 0 and 1;
* `prepare(arms, horizon)`: return another NamedTuple, of tables, that the body is registered for;
* `memory(arms)`: how many floats of `tally.memory` it keeps between periods;
* `batched()`, for a policy with memory that is also run in batches (`Batched`): the same rule as another NamedTuple,
  with a body of its own and without memory;
* `reward_scale()`: the `RewardScale` it assumes, and `rescaled(sd, mean)`: the policy for rewards of another scale;
  `compare` has a caution if the rewards' scale is another.

A policy whose body does not use its `noise` argument is deterministic. Ties go to the lowest arm in every policy.
"""

from __future__ import annotations

import dis
import threading
from collections.abc import Callable
from functools import cache
from types import CodeType
from typing import NamedTuple, Protocol, TypeAlias, TypeGuard

import numpy as np

from sameluck import text_forms
from sameluck.arrays import Floats, Ints
from sameluck.compilation.decorators import dispatched, inlined, specialised
from sameluck.compilation.functions import check_registration, compiled_class, is_builtin
from sameluck.errors import Invalid
from sameluck.policies.branch_hints import with_branch_hints
from sameluck.randomness.streams import SLOTS, Key, OnceKey
from sameluck.validation import require_whole

SelectFunction: TypeAlias = Callable[..., int | np.int64]
ProbabilitiesFunction: TypeAlias = Callable[..., None]
RepeatsArmFunction: TypeAlias = Callable[..., bool]


class Policy(text_forms.Parameters, Protocol):
    """A NamedTuple of parameters whose class has a select function."""


class Tally(NamedTuple):
    """What a policy has observed so far in one replication: all that a select function may know of the past."""

    pulls: Ints  # of each arm
    totals: Floats  # sum of rewards of each arm
    means: Floats  # totals / pulls; 0 for an arm not yet pulled
    memory: Floats  # the policy's own numbers, 0 at the start
    last_arm: int  # the arm of the period before; 0 in period 1
    last_reward: float  # the reward of the period before


class PlayedArm(NamedTuple):
    """The arm of the period before, as it is now: what decides whether it is played again."""

    pulls: int
    mean: float
    memory: Floats  # the policy's, as `select` left it


class RewardScale(NamedTuple):
    """The standard deviations of an arm's rewards that a policy assumes."""

    low: float
    high: float
    unit_interval: bool = (
        False  # whether rewards that fill [0, 1] fit too, whatever their standard deviation
    )


POLICIES: dict[str, type[Policy]] = {}  # by the name of their text form
_SELECT_FUNCTIONS: dict[type, SelectFunction] = {}
_PROBABILITIES_FUNCTIONS: dict[type, ProbabilitiesFunction] = {}
_REPEATS_ARM_FUNCTIONS: dict[type, RepeatsArmFunction] = {}
_ANY_HORIZON = 100  # where only the class of the tables matters
_PLAIN = (bool, int, float, str, type(None))
_MOST_BYTES = 2**29
_tables: dict[tuple[object, ...], Policy] = {}
_tables_lock = threading.Lock()


def selects(kind: type) -> Callable[[SelectFunction], SelectFunction]:
    """Register the select function of a policy class, or of the tables that its `prepare` returns.

    A class of your own may be registered again with another body, which replaces the one before.
    """

    def register(body: SelectFunction) -> SelectFunction:
        check_registration(kind, body, POLICIES, "a policy", "policy, tally, period, noise")
        _SELECT_FUNCTIONS[kind] = body
        if not is_builtin(body) and not kind.__name__.startswith("_"):
            POLICIES[text_forms.name_of(kind)] = kind
        return body

    return register


def probabilities(kind: type) -> Callable[[ProbabilitiesFunction], ProbabilitiesFunction]:
    """Register the body that states a randomised policy's probabilities: `(policy, tally, period, probabilities)`.

    It fills `probabilities`, an array with one entry per arm, and uses no randomness. It is called once per period,
    with a `tally.memory` of its own: 0 in period 1, then as it left it. With it, `compare(adjust="exploration")`
    removes the noise of the policy's random choices from the effect.
    """

    def register(body: ProbabilitiesFunction) -> ProbabilitiesFunction:
        check_registration(kind, body, POLICIES, "a policy", "policy, tally, period, probabilities")
        _PROBABILITIES_FUNCTIONS[kind] = body
        return body

    return register


def repeats_arm(kind: type) -> Callable[[RepeatsArmFunction], RepeatsArmFunction]:
    """Register a shortcut of one of sameluck's own policies: `(policy, played, period, noise)`.

    It may return True only if `select` would choose the arm just played and leave the memory as it is. Compiled loops
    then keep the arm's numbers in registers and do not call `select`. Plain Python does not use it: a shortcut that
    is wrong makes the compiled results differ.
    """

    def register(body: RepeatsArmFunction) -> RepeatsArmFunction:
        _REPEATS_ARM_FUNCTIONS[kind] = body
        return body

    return register


def as_compiled(prepared: Policy) -> Policy:
    """Return a prepared policy under the class that its machine code is compiled for."""
    policy_class = type(prepared)
    if is_builtin(policy_class) or policy_class not in _SELECT_FUNCTIONS:
        return prepared
    select_function = _SELECT_FUNCTIONS[policy_class]
    stated = _PROBABILITIES_FUNCTIONS.get(policy_class)
    functions = [select_function] if stated is None else [select_function, stated]
    compiled = compiled_class(policy_class, functions)
    _SELECT_FUNCTIONS.setdefault(compiled, select_function)
    if stated is not None:
        _PROBABILITIES_FUNCTIONS.setdefault(compiled, stated)
    return compiled(*prepared)


def select_function_of(prepared: Policy) -> SelectFunction:
    """The select function of a prepared policy; of a policy that wraps another, the other's."""
    kind = type(_innermost(prepared))
    if kind not in _SELECT_FUNCTIONS:
        raise Invalid(f"{kind.__name__} has no body; register one with sameluck.selects")
    return _SELECT_FUNCTIONS[kind]


def outer_select_function_of(prepared: Policy) -> SelectFunction:
    """The select function of a prepared policy; of a policy that wraps another, its own."""
    return _SELECT_FUNCTIONS[type(prepared)]


def check_complete(kind: type) -> None:
    """Raise `Invalid` unless a class of `sameluck.policies` has a select function, or tables that may have one."""
    if kind not in _SELECT_FUNCTIONS and not hasattr(kind, "prepare"):
        raise Invalid(
            f"{kind.__module__}.{kind.__name__} has no select function; register one with sameluck.selects, or start "
            "its name with an underscore if it is a helper, such as the tables of a policy"
        )


def _has_select_function(field: object) -> TypeGuard[Policy]:
    return type(field) in _SELECT_FUNCTIONS


def _innermost(prepared: Policy) -> Policy:
    # The policy that a batched policy wraps decides whether it is randomised and states its probabilities.
    wrapped = [field for field in prepared if _has_select_function(field)]
    return _innermost(wrapped[0]) if wrapped else prepared


def replace_innermost(prepared: Policy, change: Callable[[Policy], Policy]) -> Policy:
    """A prepared policy after a change of itself, or of the policy that it wraps."""
    for name, field in prepared._asdict().items():
        if _has_select_function(field):
            return type(prepared)(**{**prepared._asdict(), name: replace_innermost(field, change)})
    return change(prepared)


def _select(policy: Policy, tally: Tally, period: int, noise: Key | OnceKey) -> int:
    """The arm that a policy chooses in a period."""
    raise NotImplementedError


select = dispatched(_select, _SELECT_FUNCTIONS, own=with_branch_hints)


def must_repeat(policy: Policy, played: PlayedArm, period: int, noise: Key | OnceKey) -> bool:
    """Whether `select` would surely choose the arm just played; in plain Python, and for most policies, False."""
    return False


specialised(must_repeat, _REPEATS_ARM_FUNCTIONS)


def _fill_probabilities(policy: Policy, tally: Tally, period: int, probabilities: Floats) -> None:
    """Write the probability of each arm in a period into `probabilities`."""


fill_probabilities = dispatched(_fill_probabilities, _PROBABILITIES_FUNCTIONS)


@inlined
def are_probabilities(probabilities: Floats) -> bool:
    """Whether no entry is negative and their sum is 1, but for rounding."""
    total, lowest = 0.0, 0.0
    for arm in range(probabilities.size):
        total += probabilities[arm]
        lowest = min(lowest, probabilities[arm])
    return lowest > -1e-6 and abs(total - 1.0) < 1e-6


def states_probabilities(prepared: Policy) -> bool:
    """Whether a prepared policy states its probabilities."""
    return type(_innermost(prepared)) in _PROBABILITIES_FUNCTIONS


def probabilities_function_of(prepared: Policy) -> ProbabilitiesFunction:
    """The probabilities function of a prepared policy that states its probabilities."""
    return _PROBABILITIES_FUNCTIONS[type(_innermost(prepared))]


def is_randomised(policy: Policy, arms: int) -> bool:
    """Whether a policy uses randomness of its own: whether its select function reads its `noise` argument."""
    try:
        body = select_function_of(prepare(policy, arms, _ANY_HORIZON))
    except Invalid:  # an object of the application
        return True
    return _reads_noise(body.__code__)


@cache
def _reads_noise(code: CodeType) -> bool:
    names = (step.argval for step in dis.get_instructions(code))
    return any("noise" in (name if isinstance(name, tuple) else (name,)) for name in names)


def needs_binary(policy: Policy) -> bool:
    """Whether a policy takes only rewards 0 and 1."""
    return bool(getattr(policy, "needs_binary", False))


def reward_scale(policy: Policy) -> RewardScale | None:
    """The scale of rewards that a policy assumes; None if it works alike at every scale, or does not say."""
    declare = getattr(policy, "reward_scale", None)
    scale = declare() if callable(declare) else None
    if scale is not None and not isinstance(scale, RewardScale):
        raise Invalid(
            f"{type(policy).__name__}.reward_scale must return a RewardScale, got {scale!r}"
        )
    return scale


def rescaled(policy: Policy, sd: float, mean: float) -> Policy | None:
    """The policy for rewards of this standard deviation and a mean of this size; None if no parameter sets it."""
    return policy.rescaled(sd, mean) if hasattr(policy, "rescaled") else None


def check_when_made(kind: type) -> None:
    """Let a class of sameluck refuse parameters that are not valid for any number of arms, when an object is made."""

    def check(self: Policy, *_values: object, **_named: object) -> None:
        policy = text_forms.normal_form(self)
        if hasattr(policy, "check_alone"):
            policy.check_alone()
        else:
            check_parameters(policy, SLOTS)

    kind.__init__ = check  # type: ignore[misc]  # a NamedTuple may not define it itself


def check_parameters(policy: Policy, arms: int) -> None:
    """Raise `Invalid` if a policy's parameters are not valid."""
    if hasattr(policy, "check"):
        policy.check(arms)


def prepare(policy: Policy, arms: int, horizon: int) -> Policy:
    """The policy as the compiled loop takes it: itself, or the tables that its body reads."""
    if not hasattr(policy, "prepare"):
        return policy
    if is_builtin(type(policy)) and all(isinstance(field, _PLAIN) for field in policy):
        return _kept_tables(policy, arms, horizon, policy.prepare)
    return require_rule(f"{type(policy).__name__}.prepare", policy.prepare(arms, horizon))


def _kept_tables(
    policy: Policy, arms: int, horizon: int, make: Callable[[int, int], Policy]
) -> Policy:
    """Tables that all tasks of a process share, made once; the last ones used are kept, up to `_MOST_BYTES`."""
    # By type too: NamedTuples of different classes compare equal.
    key = (type(policy), *((type(field), field) for field in policy), arms, horizon)
    with _tables_lock:
        if key in _tables:
            _tables[key] = _tables.pop(key)
            return _tables[key]
        _tables[key] = make(arms, horizon)
        kept = sum(map(_bytes, _tables.values()))
        while len(_tables) > 1 and kept > _MOST_BYTES:
            kept -= _bytes(_tables.pop(next(iter(_tables))))
        return _tables[key]


def _bytes(tables: Policy) -> int:
    return sum(int(getattr(field, "nbytes", 0)) for field in tables)


def require_rule(method: str, returned: object) -> Policy:
    """What a method of a policy returned, or `Invalid` unless it is a NamedTuple, as a select function takes it."""
    if not text_forms.is_parameters(returned):
        raise Invalid(
            f"{method} must return a NamedTuple that a select function is registered for, got {returned!r}; return "
            "the rule as such a NamedTuple"
        )
    return returned


def memory_of(prepared: Policy, arms: int) -> int:
    """How many floats a prepared policy keeps between periods."""
    if not hasattr(prepared, "memory"):
        return 0
    return require_whole(
        f"{type(prepared).__name__}.memory({arms})", prepared.memory(arms), 0, 10**8
    )


def has_select_function(policy: object, arms: int) -> TypeGuard[Policy]:
    """Whether a body is registered for a policy or for its tables; if so, its class is registered too."""
    kind: type = type(policy)
    if kind in POLICIES.values():
        return True
    if not text_forms.is_parameters(policy) or not hasattr(policy, "prepare"):
        return False
    body = _SELECT_FUNCTIONS.get(type(policy.prepare(arms, _ANY_HORIZON)))
    if body is None:
        return False
    check_registration(kind, body, POLICIES, "a policy", "policy, tally, period, noise")
    POLICIES[text_forms.name_of(kind)] = kind
    return True
