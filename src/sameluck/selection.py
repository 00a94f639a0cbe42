"""How a policy is written, registered and asked: `selects`, `chances`, `Tally`.

A body is a pure function of (policy, tally, period, luck); periods count from 1, arms from 0. It runs as
plain Python and as machine code, and reads its own randomness by address, each address once:

    class Greedy(NamedTuple):
        optimism: float = 1.0

    @selects(Greedy)
    def _(policy, tally, period, luck):
        best, highest = 0, -np.inf
        for arm in range(tally.pulls.size):
            score = policy.optimism if tally.pulls[arm] == 0 else tally.means[arm]
            if score > highest:
                best, highest = arm, score
        return best

That is all a policy needs. It may also have `check(arms)` (refuse bad parameters), `prepare(arms, horizon)`
(return another NamedTuple, of tables, that the body is registered for) and `memory(arms)` (how many floats
of `tally.memory` it keeps between periods). One with memory that shall also be played in batches (`Batched`) needs
`batched()`: the same rule as another NamedTuple, with a body of its own and without memory. Ties go to the lowest
arm everywhere.
"""

from __future__ import annotations

import inspect
import itertools
from collections import namedtuple
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sameluck import grammar
from sameluck.compiled import dispatched
from sameluck.errors import Invalid, require

Floats: TypeAlias = NDArray[np.float64]
Body: TypeAlias = Callable[..., int]


class Tally(NamedTuple):
    """What a policy has seen so far in one replication; all a `select` body may know of the past."""

    pulls: NDArray[np.int64]  # of each arm
    totals: Floats  # sum of rewards of each arm
    means: Floats  # totals / pulls; 0 for an arm not yet pulled
    memory: Floats  # the policy's own numbers, 0 at the start
    last: int  # the arm of the period before; 0 in period 1
    reward: float  # what it paid


POLICIES: dict[str, type] = {}
_BODIES: dict[type, Body] = {}
_CHANCES: dict[type, Callable[..., None]] = {}


_ALIASES: dict[type, type] = {}  # a user's class -> the class its machine code is made for
_serial = itertools.count()
_ANY_HORIZON = 100  # where only the kind of tables matters


def selects(kind: type) -> Callable[[Body], Body]:
    """Register the `select` body of a policy class (or of the tables its `prepare` returns).

    A class of your own may be registered again, with another body: the new one counts from then on.
    """

    def register(body: Body) -> Body:
        _check_kind(kind, body)
        _check_arguments(kind, body, ["policy", "tally", "period", "luck"])
        _BODIES[kind] = body
        if not _is_ours(body):
            _give_alias(kind, body)
        if not kind.__name__.startswith("_"):
            POLICIES[grammar.name_of(kind)] = kind
        return body

    return register


def _is_ours(body: Callable[..., Any]) -> bool:
    return body.__module__.startswith("sameluck.")


def _give_alias(kind: Any, body: Body) -> None:
    # Numba tells NamedTuples apart by their names: a class defined anew, as in a notebook, would run the machine code
    # of the one before. So a user's policy is compiled under a name that nothing had before.
    alias = namedtuple(f"{kind.__name__}_{next(_serial)}", kind._fields)  # type: ignore[misc]
    _ALIASES[kind] = alias
    _BODIES[alias] = body
    if kind in _CHANCES:
        _CHANCES[alias] = _CHANCES[kind]


def as_compiled(prepared: Any) -> Any:
    """The policy, as prepared, under the class its machine code is made for."""
    alias = _ALIASES.get(type(prepared))
    return prepared if alias is None else alias(*prepared)


def _check_kind(kind: Any, body: Callable[..., Any]) -> None:
    if not isinstance(kind, type) or not hasattr(kind, "_fields"):
        raise Invalid(f"{kind!r} is not a policy class; make it a NamedTuple of its parameters")
    if _is_ours(body):
        return
    # Machine code of ours is kept on disk, for every later process.
    ours = kind.__module__.startswith("sameluck.")
    require(not ours, f"{kind.__name__} is sameluck's and has its body; define a class of your own")
    known = POLICIES.get(grammar.name_of(kind))
    taken = known is not None and known.__module__.startswith("sameluck.")
    require(not taken, f"sameluck has a policy called {kind.__name__}; give yours another name")


def _check_arguments(kind: type, body: Callable[..., Any], expected: list[str]) -> None:
    names = list(inspect.signature(body).parameters)
    wanted = ", ".join(expected)
    require(
        names == expected,
        f"a body of {kind.__name__} must take ({wanted}), got ({', '.join(names)})",
    )


def body_of(prepared: Any) -> Body:
    """The select body that plays a policy, as prepared; of a policy that holds another, the other's."""
    kind = type(_core(prepared))
    require(kind in _BODIES, f"{kind.__name__} has no body; register one with sameluck.selects")
    return _BODIES[kind]


def _core(prepared: Any) -> Any:
    # What decides about a batched policy (is it ours, can it state its chances) is the one it holds.
    held = [field for field in prepared if type(field) in _BODIES]
    return _core(held[0]) if held else prepared


def _select(policy: Any, tally: Tally, period: int, luck: Any) -> int:
    """The arm a policy plays in a period."""
    raise NotImplementedError


select = dispatched(_select, _BODIES)


def chances(kind: type) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register the body that states a randomised policy's chances: `(policy, tally, period, chances)`.

    It fills `chances`, an array with a place for each arm, reads no luck and finds `tally.memory` empty. With it,
    `compare(adjust="exploration")` takes the luck of the policy's coin out of the effect.
    """

    def register(body: Callable[..., None]) -> Callable[..., None]:
        _check_kind(kind, body)
        _check_arguments(kind, body, ["policy", "tally", "period", "chances"])
        _CHANCES[kind] = body
        if kind in _ALIASES:
            _give_alias(kind, _BODIES[kind])
        return body

    return register


def _fill_chances(policy: Any, tally: Tally, period: int, chances: Floats) -> None:
    """Write the chance of each arm in a period into `chances`."""


fill_chances = dispatched(_fill_chances, _CHANCES)


def states_chances(prepared: Any) -> bool:
    """Whether the policy, as prepared, can state its chances."""
    return type(_core(prepared)) in _CHANCES


def prepare(policy: Any, arms: int, horizon: int) -> Any:
    """The policy as the compiled loop takes it: itself, or the tables its body reads."""
    return policy.prepare(arms, horizon) if hasattr(policy, "prepare") else policy


def register_tables(policy: Any, arms: int) -> bool:
    """Register a policy class whose body is registered for the tables it prepares; whether it is one."""
    kind = type(policy)
    if not hasattr(kind, "_fields") or not callable(getattr(kind, "prepare", None)):
        return False
    tables = policy.prepare(arms, _ANY_HORIZON)
    if type(tables) not in _BODIES:
        return False
    _check_kind(kind, _BODIES[type(tables)])
    POLICIES[grammar.name_of(kind)] = kind
    return True


def memory_of(prepared: Any, arms: int) -> int:
    """How many floats the policy keeps between periods."""
    return int(prepared.memory(arms)) if hasattr(prepared, "memory") else 0
