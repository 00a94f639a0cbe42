"""Policies and laws for plain Python whose arrays refuse wrong indices and writes, for bodies of a user.

In machine code a division by zero gives a number, and a body may write to every array it is given.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from sameluck.arrays import Floats
from sameluck.compilation.functions import Misuse, is_builtin
from sameluck.environments.base import draw, draw_function_of, draws
from sameluck.environments.checks import MAX_REWARD
from sameluck.policies.base import (
    Policy,
    Tally,
    fill_probabilities,
    probabilities,
    replace_innermost,
    select,
    select_function_of,
    selects,
)
from sameluck.randomness.streams import Bits, Key, OnceBits, OnceKey
from sameluck.text_forms import Parameters, is_parameters

Value = TypeVar("Value")
Index: TypeAlias = Any  # whatever a body writes in brackets


class OutOfTime(Exception):
    """The time for running a body in plain Python is over."""


class Deadline:
    """When to stop running a body in plain Python."""

    def __init__(self, seconds: float = math.inf, watched: Collection[CodeType] = ()) -> None:
        self.watched = watched
        self.end = time.perf_counter() + seconds
        self.line: int | None = None  # of the user's code, the last that was begun
        self.file = ""

    def check(self) -> None:
        """Raise `OutOfTime` after the end."""
        if time.perf_counter() > self.end:
            raise OutOfTime

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Also check at every step of the watched code: a loop may not end. Not in a debugger, which traces too."""
        if not self.watched or sys.gettrace() is not None:
            yield
            return
        sys.settrace(self._trace)
        try:
            yield
        finally:
            sys.settrace(None)

    def _trace(self, frame: FrameType, event: str, _: object) -> Any:
        if (
            frame.f_code not in self.watched
        ):  # Numba must not be left while it compiles what is called
            return None
        frame.f_trace_opcodes = True  # `while True: pass` begins no line again
        if event in ("line", "opcode"):
            self.line, self.file = frame.f_lineno, frame.f_code.co_filename
            self.check()
        return self._trace


class GuardedArray(np.ndarray[Any, Any]):
    """A view that refuses an index out of range or negative, and writes if it is read-only."""

    label = "an array"
    deadline: Deadline | None = None

    def __array_finalize__(self, source: object) -> None:
        self.label = getattr(source, "label", self.label)
        self.deadline = getattr(source, "deadline", None)

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:  # noqa: FBT001, FBT002
        return np.asarray(array)[()]  # a new array, or the number that a sum is

    def __getitem__(self, index: Index) -> Any:
        self._check("reads", index)
        return super().__getitem__(index)

    def __iter__(self) -> Iterator[Any]:
        return iter(np.asarray(self))

    def __setitem__(self, index: Index, value: Any) -> None:
        if not self.flags.writeable:
            remedy = (
                ""
                if self.label.startswith("parameters")
                else ": only tally.memory may be written to"
            )
            raise Misuse(f"it writes to {self.label}, which it must not change{remedy}")
        self._check("writes", index)
        super().__setitem__(index, value)

    def _check(self, verb: str, index: Index) -> None:
        if self.deadline is not None:
            self.deadline.check()
        indices = index if isinstance(index, tuple) else (index,)
        for one, size in zip(indices, self.shape, strict=False):
            if not isinstance(one, int | np.integer):
                return
            if not 0 <= one < size:
                place = ", ".join(str(each) for each in indices)
                raise Misuse(f"it {verb} {self.label}[{place}], but {self._entries(size)}")

    def _entries(self, size: int) -> str:
        if self.label == "tally.memory" and size == 0:
            return "there is no memory: state its size by a method memory(self, arms)"
        return f"the indices are 0 to {size - 1}" if size else "it is empty"


def guarded(value: Value, label: str, deadline: Deadline, *, writable: bool = False) -> Value:
    """The same value; its arrays, also those in NamedTuples, as `GuardedArray` views."""
    if isinstance(value, np.ndarray):
        view = value.view(GuardedArray)
        view.label, view.deadline = label, deadline
        view.flags.writeable = writable and value.flags.writeable
        return view  # type: ignore[return-value]
    if not is_parameters(value):
        return value
    fields = value._asdict().items()
    inner = {name: guarded(one, f"{label}.{name}", deadline) for name, one in fields}
    return type(value)(**inner)  # type: ignore[return-value]


class GuardedPolicy(NamedTuple):
    """A prepared policy of a user whose body is checked in every period."""

    policy: Policy
    deadline: Deadline


def guarded_policy(policy: Policy, deadline: Deadline) -> Policy:
    """A prepared policy as it is checked; sameluck's own are not."""
    if is_builtin(select_function_of(policy)):
        return policy
    return replace_innermost(
        policy, lambda one: GuardedPolicy(guarded(one, "policy", deadline), deadline)
    )


@selects(GuardedPolicy)
def _select_guarded(policy: GuardedPolicy, tally: Tally, period: int, noise: Key | OnceKey) -> int:
    rule, deadline = policy
    deadline.check()
    memory = guarded(tally.memory, "tally.memory", deadline, writable=True)
    with np.errstate(divide="raise", invalid="raise"):
        arm = select(rule, guarded(tally, "tally", deadline)._replace(memory=memory), period, noise)
    if not isinstance(arm, int | np.integer) or isinstance(arm, bool):
        raise Misuse(
            f"what it returns, {arm!r}, is not a whole number: return an arm's index",
            select_function_of(rule),
        )
    return int(arm)


@probabilities(GuardedPolicy)
def _fill_guarded(policy: GuardedPolicy, tally: Tally, period: int, probabilities: Floats) -> None:
    rule, deadline = policy
    deadline.check()
    filled = guarded(probabilities, "probabilities", deadline, writable=True)
    with np.errstate(divide="raise", invalid="raise"):
        fill_probabilities(rule, guarded(tally, "tally", deadline), period, filled)


class GuardedParameters(NamedTuple):
    """A law of a user whose body is checked at every reward."""

    parameters: Parameters
    deadline: Deadline
    binary: bool


def guarded_parameters(parameters: Parameters, deadline: Deadline, *, binary: bool) -> Parameters:
    """A law as it is checked; sameluck's own are not."""
    if is_builtin(draw_function_of(parameters)):
        return parameters
    return GuardedParameters(guarded(parameters, "parameters", deadline), deadline, binary)


@draws(GuardedParameters)
def _draw_guarded(parameters: GuardedParameters, row: int, arm: int, bits: Bits) -> float:
    rule, body = parameters.parameters, draw_function_of(parameters.parameters)
    parameters.deadline.check()
    with np.errstate(divide="raise", invalid="raise"):
        reward = draw(rule, row, arm, OnceBits.of(bits))
    if not isinstance(reward, int | float | np.number) or isinstance(reward, bool):
        raise Misuse(f"what it returns, {reward!r}, is not a number{_instead(reward)}", body)
    if not abs(reward) <= MAX_REWARD:
        raise Misuse(
            f"it returns {reward}, which is not a finite number up to {MAX_REWARD:g}", body
        )
    if parameters.binary and reward not in (0, 1):
        raise Misuse(f"it returns {reward}, but `binary` is True: only 0 and 1 are", body)
    return float(reward)


def _instead(reward: object) -> str:
    truth = isinstance(reward, bool | np.bool_)
    return ", but True or False: write 1.0 if ... else 0.0" if truth else ""
