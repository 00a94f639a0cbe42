"""The bodies of a user in an experiment, the functions they call and the names they use, read from their bytecode."""

from __future__ import annotations

import builtins
import difflib
import dis
import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import NamedTuple

import numpy as np

from sameluck.compilation.functions import Function, Misuse, is_builtin
from sameluck.environments.base import Environment, draw_function_of, prepared_parameters
from sameluck.experiment import Experiment
from sameluck.policies.base import (
    Policy,
    as_compiled,
    prepare,
    probabilities_function_of,
    select_function_of,
    states_probabilities,
)
from sameluck.policies.batched import Batched

_ATTRIBUTE = ("LOAD_ATTR", "LOAD_METHOD")
_NAME = ("LOAD_GLOBAL", "LOAD_DEREF")
_IMPURE = ("random", "numpy.random", "secrets", "uuid", "time", "datetime")
_LIBRARIES = ("sameluck", "numpy", "numba", "scipy")  # whose functions are not looked into
_RANDOMNESS = {  # by the fourth argument of a body
    "noise": "take random numbers from noise, as in uniform(at(noise, period, 0))",
    "bits": "take random numbers from bits, as in uniform(bits)",
    "probabilities": "probabilities are a function of the tally",
}
# Of a body: what an instruction of it, or of a function that it calls, loaded when it was compiled.
_constants: dict[Function, dict[tuple[Function, int], tuple[str, object]]] = {}


class UserFunction(NamedTuple):
    """A body with its parameters."""

    body: Function
    parameters: str
    arms: int
    horizon: int
    probabilities: bool = False  # whether it states the probabilities of a policy


def user_functions(
    experiment: Experiment, environment: Environment, policy: Policy, *, detail: bool
) -> Iterator[UserFunction]:
    """The select and draw functions that are not sameluck's, and with `detail` those that state probabilities."""
    arms, horizon = experiment.n_arms, experiment.horizon
    if not is_builtin(type(policy)) or isinstance(policy, Batched):
        prepared = as_compiled(prepare(policy, arms, horizon))
        if not is_builtin(select_function_of(prepared)):
            yield UserFunction(select_function_of(prepared), repr(policy), arms, horizon)
            if detail and states_probabilities(prepared):
                yield UserFunction(
                    probabilities_function_of(prepared),
                    repr(policy),
                    arms,
                    horizon,
                    probabilities=True,
                )
    if not is_builtin(type(environment)):
        body = draw_function_of(prepared_parameters(environment, experiment.seed, range(1), arms))
        if not is_builtin(body):
            yield UserFunction(body, repr(environment), arms, 0)


def check_names(body: Function) -> None:
    """Raise `Misuse` for a name that is not defined, global randomness, the clock, imports and changes of globals.

    A global name is a constant of the machine code: one that was changed since is refused too, unless the body has
    a digest (`body_digests`) and is compiled anew.
    """
    constants: dict[tuple[Function, int], tuple[str, object]] = {}
    for function in called_by(body):
        known = _known(function)
        for step, thing in _steps(function, known):
            if reason := _reason(body, function, known, step, thing):
                line = step.positions.lineno if step.positions else None
                raise Misuse(reason, body, line)
            if thing is not None and not isinstance(thing, ModuleType):
                constants[function, step.offset] = str(step.argval), _unchanging(thing)
    _check_constants(body, constants)


def called_by(body: Function) -> Iterator[Function]:
    """A body and the functions of a user that it calls, directly or not."""
    found, seen = [body], {body}
    while found:
        function = found.pop()
        yield function
        for _, thing in _steps(function, _known(function)):
            inner = getattr(thing, "py_func", thing)  # of a function compiled by Numba
            library = str(getattr(inner, "__module__", "")).partition(".")[0] in _LIBRARIES
            if inspect.isfunction(inner) and not library and inner not in seen:
                seen.add(inner)
                found.append(inner)


def _known(function: Function) -> dict[str, object]:
    nonlocals = inspect.getclosurevars(function).nonlocals
    return {**vars(builtins), **function.__globals__, **nonlocals}


def _steps(
    function: Function, known: dict[str, object]
) -> Iterator[tuple[dis.Instruction, object]]:
    """Each instruction, with the object that it loads by name or as an attribute of a module."""
    thing: object = None
    for step in dis.get_instructions(function):
        if step.opname in _NAME:
            thing = known.get(str(step.argval))
        elif step.opname in _ATTRIBUTE and isinstance(thing, ModuleType):
            thing = getattr(thing, str(step.argval), None)
        else:
            thing = None
        yield step, thing


def _reason(
    body: Function,
    function: Function,
    known: dict[str, object],
    step: dis.Instruction,
    thing: object,
) -> str:
    name, module = str(step.argval), _module(thing)
    helper = "" if function is body else function.__name__
    it, source = f"it calls {helper}, which" if helper else "it", body.__code__.co_varnames[3]
    if step.opname in _NAME and name not in known:
        near = difflib.get_close_matches(name, [*function.__code__.co_varnames, *known], n=1)
        remedy = f"did you mean {near[0]!r}?" if near else "define it before the body is run"
        return f"name {name!r}{helper and f' of {helper}'} is not defined ({remedy})"
    if step.opname == "IMPORT_NAME":
        return f"{it} imports {name}: import at the top of the file"
    if step.opname == "STORE_GLOBAL":
        remedy = ": keep numbers in tally.memory" if source == "noise" else ""
        return f"{it} changes the global {name!r}, which other replications read{remedy}"
    if any(f"{module}.".startswith(f"{one}.") for one in _IMPURE):
        return f"{it} uses {module}, which differs from run to run: {_RANDOMNESS[source]}"
    return ""


def _module(thing: object) -> str:
    if isinstance(thing, ModuleType):
        return thing.__name__
    owner = getattr(thing, "__self__", None)
    return str(getattr(thing, "__module__", None) or type(owner).__module__)


def _unchanging(thing: object) -> object:
    numbers = isinstance(thing, int | float | np.number | np.ndarray)
    return np.asarray(thing).tobytes() if numbers else thing


def _check_constants(
    body: Function, constants: dict[tuple[Function, int], tuple[str, object]]
) -> None:
    before = _constants.setdefault(body, constants)
    for place, (name, value) in constants.items():
        if _differs(before.get(place, (name, value))[1], value):
            raise Misuse(
                f"the global {name!r} has changed since it was compiled: make it a parameter, or define the body "
                "again",
                body,
            )


def _differs(one: object, other: object) -> bool:
    try:
        return one is not other and (type(one) is not type(other) or bool(one != other))
    except Exception:  # arrays in a tuple, say
        return True
