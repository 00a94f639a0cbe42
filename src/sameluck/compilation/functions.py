"""Select and draw functions: their registration, and the class that each is compiled under."""

from __future__ import annotations

import dis
import inspect
import itertools
import threading
from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from sameluck.errors import Invalid

Function: TypeAlias = Callable[..., Any]


def is_builtin(subject: type | Function) -> bool:
    """Return whether a class or function is defined in sameluck, so that its machine code may be kept on disk."""
    return str(getattr(subject, "__module__", "")).startswith("sameluck.")


def require_class(decorator: str, subject: object) -> None:
    """Raise `Invalid` if a decorator was applied to a function instead of being called with a class."""
    if inspect.isfunction(subject):
        raise Invalid(
            f"@sl.{decorator} needs the class that the function belongs to: write @sl.{decorator}(MyClass) above "
            f"{subject.__name__}, with MyClass a NamedTuple of parameters"
        )


def check_registration(
    subject: object, function: Function, registered: Mapping[str, type], role: str, arguments: str
) -> None:
    """Raise `Invalid` unless a function may be registered for a class; `role` is "a policy" or "an environment"."""
    if not isinstance(subject, type) or not hasattr(subject, "_fields"):
        raise Invalid(f"{subject!r} is not a class for {role}; make it a NamedTuple of parameters")
    name = subject.__name__
    if not inspect.isfunction(function):
        raise Invalid(f"a function of {name} must be a plain Python function, got {function!r}")
    names = list(inspect.signature(function).parameters)
    if names != arguments.split(", "):
        raise Invalid(f"a function of {name} must take ({arguments}), got ({', '.join(names)})")
    if is_builtin(function):
        return
    # Stored machine code is found by the name of sameluck's class: a user's function must not run under it.
    if is_builtin(subject):
        raise Invalid(f"{name} is a class of sameluck; define a class of your own")
    for other in registered.values():
        if is_builtin(other) and _text_form_name(other) == _text_form_name(subject):
            raise Invalid(f"sameluck has {role} called {other.__name__}; give yours another name")


def _text_form_name(subject: type) -> str:
    # Text forms ignore case and `_`: the class `bernoulli` would replace `Bernoulli` in them.
    return subject.__name__.replace("_", "").lower()


_serial = itertools.count()
_lock = threading.Lock()
_constants: dict[Function, dict[str, object]] = {}  # as of the last compilation
_versions: dict[Function, int] = {}  # how often a function's constants have changed
_compiled_classes: dict[tuple[object, ...], type] = {}


class Constant(NamedTuple):
    """A global, a closure variable or a module's attribute, which machine code takes for a constant."""

    name: str  # of an attribute: `module.attribute`
    value: object
    line: int | None


def constants_of(function: Function) -> Iterator[Constant]:
    """Yield the constants of a function, in the order of their use."""
    closure = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    name, value = "", None
    for step in dis.get_instructions(function):
        if step.opname == "LOAD_GLOBAL" and step.argval in function.__globals__:
            name, value = step.argval, function.__globals__[step.argval]
        elif step.opname == "LOAD_DEREF" and step.argval in closure:
            name, value = step.argval, None
            with suppress(ValueError):  # a variable without a value
                value = closure[name].cell_contents
        elif step.opname in ("LOAD_ATTR", "LOAD_METHOD") and isinstance(value, ModuleType):
            name, value = f"{name}.{step.argval}", getattr(value, step.argval, None)
        else:
            value = None
        if value is not None:
            yield Constant(name, value, step.positions.lineno if step.positions else None)


def changed_constants(function: Function) -> list[str]:
    """Return the names of a function's constants that have changed since it was first seen or last compiled."""
    values = _values(function)
    before = _constants.setdefault(function, _copies(values))
    return [name for name in values if name in before and not _equal(before[name], values[name])]


def _values(function: Function) -> dict[str, object]:
    return {constant.name: constant.value for constant in constants_of(function)}


def _copies(values: Mapping[str, object]) -> dict[str, object]:
    # An array may be changed in place.
    arrays = {name: value.copy() for name, value in values.items() if isinstance(value, np.ndarray)}
    return {**values, **arrays}


def _equal(before: object, now: object) -> bool:
    if before is now:
        return True
    if isinstance(before, np.ndarray) and isinstance(now, np.ndarray):
        return before.dtype == now.dtype and before.tobytes() == now.tobytes()
    try:
        return type(before) is type(now) and bool(before == now)
    except Exception:  # a tuple of arrays, say
        return False


def compiled_class(subject: type, functions: Sequence[Function]) -> type:
    """Return the NamedTuple class under which a user's class is compiled with its functions.

    It is a new class whenever a function or one of its constants has changed. Numba identifies a NamedTuple by its
    name and treats globals as constants: a class defined again, as in a notebook, or a changed constant would
    otherwise run the previous machine code.
    """
    with _lock:
        for function in functions:
            if changed_constants(function):
                _constants[function] = _copies(_values(function))
                _versions[function] = _versions.get(function, 0) + 1
        key = (subject, *((function, _versions.get(function, 0)) for function in functions))
        if key not in _compiled_classes:
            name = f"{subject.__name__}_{next(_serial)}"
            _compiled_classes[key] = namedtuple(name, subject._fields)  # type: ignore[attr-defined]
            _compiled_classes[key].is_user_code = True  # type: ignore[attr-defined]
        return _compiled_classes[key]


def runs_user_code(arguments: tuple[object, ...]) -> bool:
    """Return whether a loop runs a user's function for one of these arguments, or for what they contain."""
    tuples = [arguments]
    for subject in tuples:  # which grows meanwhile
        if getattr(subject, "is_user_code", False):
            return True
        tuples += [entry for entry in subject if isinstance(entry, tuple)]
    return False
