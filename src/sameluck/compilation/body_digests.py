"""A user's bodies as constants: what they are compiled from, under a name that contains a digest of all of it.

Machine code contains the constants, the functions and the classes that a body refers to. A body is therefore copied
together with them, and the copy is compiled. Its digest is taken from the same values: the bytecode, the default
arguments, and the value of every global name, closure variable and attribute of a module that the bytecode loads;
those of `numba.njit` functions included. Bodies with equal digests have equal machine code, in whatever process; a
body that is edited, or one of whose constants is changed, has another digest and is compiled anew.

What has no exact digest here (an object of an unknown class, a function of Python, a module that is passed on) raises
`NoDigest`; such a body is compiled as it is, in every process.
"""

from __future__ import annotations

import builtins
import dis
import enum
import hashlib
import sys
from collections import namedtuple
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sameluck.compilation.functions import Function

Token: TypeAlias = tuple[object, ...]  # of text, bytes and numbers: its repr tells values apart

_PLAIN = (type(None), type(Ellipsis), bool, int, float, complex, str, bytes)
_NUMBERS = "biufc"  # kinds of NumPy's dtypes
_MOST_BYTES = 10**6  # of an array; Numba does not store larger ones in machine code
_LIBRARIES = ("builtins", "math", "cmath", "_operator", "numpy", "sameluck")
_OPTION = (type(None), bool, str)
_LOADS = ("LOAD_GLOBAL", "LOAD_DEREF")
_ATTRIBUTE = ("LOAD_ATTR", "LOAD_METHOD")


class NoDigest(Exception):
    """Why a body has no exact digest."""


class CompiledBodies(NamedTuple):
    """The class that a user's class is compiled as, and the copies of its bodies."""

    kind: type
    bodies: tuple[Function, ...]


class _Constant(NamedTuple):
    """A value that machine code depends on: what tells it apart from others, and a copy that nothing changes."""

    token: Token
    copy: Callable[[], Any]


_known: dict[str, CompiledBodies] = {}
_undigested: dict[type, str] = {}


def compiled_bodies(kind: type, bodies: Sequence[Function], otherwise: type) -> CompiledBodies:
    """A user's class and its bodies as they are compiled.

    The class is named after the digest. Without one it is `otherwise`, and the bodies are compiled as they are.
    """
    try:
        copies = [_function(body, ()) for body in bodies]
    except Exception as reason:  # also what an object of the user raises
        _undigested[otherwise] = str(reason)
        return CompiledBodies(otherwise, tuple(bodies))
    fields: tuple[str, ...] = kind._fields  # type: ignore[attr-defined]
    name = f"{kind.__name__}_{_digest(fields, *(copy.token for copy in copies))}"
    if name not in _known:
        alias = namedtuple(name, fields, module=__name__)  # type: ignore[misc]
        _known.setdefault(name, CompiledBodies(alias, tuple(copy.copy() for copy in copies)))
    return _known[name]


def __getattr__(name: str) -> type:
    # Stored machine code refers to a class by its name in this module.
    if name in _known:
        return _known[name].kind
    raise AttributeError(name)


def has_digest(kind: type) -> bool:
    """Whether a class is named after the digest of its bodies."""
    return kind.__name__ in _known and _known[kind.__name__].kind is kind


def why_no_digest(kind: type) -> str:
    """Why the machine code of a class is not kept on disk."""
    return _undigested.get(kind, "it is not a class of sameluck, nor a policy or an environment")


def _digest(*tokens: object) -> str:
    return hashlib.blake2b(repr(tokens).encode(), digest_size=16).hexdigest()


def _constant(value: Any, callers: tuple[object, ...]) -> _Constant:  # noqa: PLR0911 a case per kind of value
    kind = type(value)
    if kind in _PLAIN:
        return _Constant((kind.__name__, repr(value)), lambda: value)
    if isinstance(value, np.generic) and value.dtype.kind in _NUMBERS:
        return _Constant((kind.__name__, value.dtype.str, value.tobytes()), lambda: value)
    if kind is np.ndarray:
        return _array(value)
    if kind is tuple:
        return _tuple(value, (), tuple, callers)
    if kind.__mro__[1:] == (tuple, object) and hasattr(kind, "_fields"):
        return _tuple(value, _named_tuple(kind, callers).token, kind._make, callers)
    if isinstance(value, enum.Enum):
        return _Constant(("member", value.name, _enumeration(kind, callers)), lambda: value)
    if isinstance(value, type):
        return _class(value, callers)
    if (token := _library_token(value)) is not None:
        return _Constant(token, lambda: value)
    if kind.__module__ == "numba.core.registry" and kind.__name__ == "CPUDispatcher":
        return _compiled_function(value, callers)
    name = getattr(value, "__qualname__", "an object")
    raise NoDigest(f"it uses {name}, of the class {kind.__module__}.{kind.__name__}")


def _array(value: NDArray[np.generic]) -> _Constant:
    flags = value.flags
    if value.dtype.kind not in _NUMBERS or not (flags.c_contiguous or flags.f_contiguous):
        raise NoDigest("it uses an array that is not contiguous, or not of numbers")
    if value.nbytes > _MOST_BYTES:
        raise NoDigest(f"it uses an array of {value.nbytes} bytes")
    kept = value.copy(order="K")
    kept.flags.writeable = False
    layout = (flags.c_contiguous, flags.f_contiguous)
    token = (
        "array",
        kept.dtype.str,
        kept.shape,
        layout,
        hashlib.sha256(kept.tobytes("A")).digest(),
    )
    return _Constant(token, lambda: kept)


def _tuple(
    values: Sequence[object], named: Token, make: Function, callers: tuple[object, ...]
) -> _Constant:
    entries = [_constant(value, callers) for value in values]
    token = ("tuple", named, *(entry.token for entry in entries))
    return _Constant(token, lambda: make(entry.copy() for entry in entries))


def _class(kind: type, callers: tuple[object, ...]) -> _Constant:
    if (token := _library_token(kind)) is not None:
        return _Constant(token, lambda: kind)
    if type(kind) is enum.EnumType:
        return _Constant(_enumeration(kind, callers), lambda: kind)
    if kind.__mro__[1:] == (tuple, object) and hasattr(kind, "_fields"):
        return _named_tuple(kind, callers)
    raise NoDigest(f"it uses the class {kind.__qualname__}")


def _named_tuple(kind: Any, callers: tuple[object, ...]) -> _Constant:
    defaults = _constant(kind.__new__.__defaults__, callers).token
    token = ("NamedTuple", kind.__module__, kind.__qualname__, kind._fields, defaults)
    return _Constant(token, lambda: kind)


def _enumeration(kind: Any, callers: tuple[object, ...]) -> Token:
    if type(kind) is not enum.EnumType:
        raise NoDigest(f"it uses the class {kind.__qualname__}")
    every: dict[str, enum.Enum] = dict(kind.__members__)
    members = ((name, _constant(one.value, callers).token) for name, one in every.items())
    bases = tuple(base.__name__ for base in kind.__mro__[1:])
    return ("enum", kind.__module__, kind.__qualname__, bases, *members)


def _library_token(value: object) -> Token | None:
    """The name of a function or class of Python, NumPy or sameluck, whose versions the cache knows."""
    module = "numpy" if isinstance(value, np.ufunc) else str(getattr(value, "__module__", None))
    name = getattr(value, "__name__", None)
    known = module.partition(".")[0] in _LIBRARIES and not module.startswith("numpy.random")
    if not known or getattr(sys.modules.get(module), str(name), None) is not value:
        return None
    return ("library", module, name)


def _compiled_function(dispatcher: Any, callers: tuple[object, ...]) -> _Constant:
    """A function compiled by `numba.njit`: copied, because its machine code may be of earlier constants."""
    from numba import njit
    from numba.core.compiler import Compiler

    function, options = dispatcher.py_func, dict(dispatcher.targetoptions)
    if function in callers:
        raise NoDigest(f"{function.__qualname__} calls itself")
    plain = all(type(value) in _OPTION for value in options.values())
    if not plain or not options.pop("nopython", False) or options.get("parallel"):
        raise NoDigest(f"{function.__qualname__} is compiled with {dispatcher.targetoptions}")
    if dispatcher.locals or dispatcher._compiler.pipeline_class is not Compiler:
        raise NoDigest(f"{function.__qualname__} is compiled with types or a compiler of its own")
    if not dispatcher._can_compile:
        raise NoDigest(f"{function.__qualname__} is compiled for the types stated only")
    constant = _function(function, (*callers, function))
    token = ("njit", sorted(options.items()), constant.token)

    def copy() -> Function:
        # Machine code of two functions of one name must not be taken for one another.
        named = constant.copy()
        named.__qualname__ += f"_{_digest(token)}"
        return njit(**options)(named)

    return _Constant(token, copy)


def _function(function: Any, callers: tuple[object, ...]) -> _Constant:
    code, module = function.__code__, function.__module__
    if module not in sys.modules:  # machine code is loaded with it
        raise NoDigest(f"{function.__qualname__} is of a module {module!r} that cannot be imported")
    cells = _cells(function)
    paths, values = [], []
    for names in _loaded_names(code):
        path, value = _resolved(function, cells, names)
        paths.append(path)
        values.append(_constant(value, callers))
    defaults = _constant(function.__defaults__, callers)
    if function.__kwdefaults__:
        raise NoDigest(f"{function.__qualname__} has arguments by keyword only")
    named = tuple(zip(paths, (value.token for value in values), strict=True))
    token = ("function", module, _code_token(code), defaults.token, named)

    def copy() -> FunctionType:
        namespace: dict[str, object] = {"__name__": module, "__builtins__": builtins}
        for path, value in zip(paths, values, strict=True):
            _place(namespace, path, value.copy())
        closure = tuple(CellType(namespace.pop(name, None)) for name in code.co_freevars)
        made = FunctionType(code, namespace, function.__name__, defaults.copy(), closure)
        made.__module__, made.__qualname__ = module, function.__qualname__
        return made

    return _Constant(token, copy)


def _cells(function: FunctionType) -> dict[str, object]:
    try:
        contents = [cell.cell_contents for cell in function.__closure__ or ()]
    except ValueError:
        raise NoDigest(f"{function.__qualname__} uses a variable that is not yet defined") from None
    return dict(zip(function.__code__.co_freevars, contents, strict=True))


def _resolved(
    function: FunctionType, cells: dict[str, object], names: tuple[str, ...]
) -> tuple[tuple[str, ...], object]:
    """The value of a name, or of an attribute of the module that it names, and the names that lead to it."""
    scopes = (cells, function.__globals__, vars(builtins))
    value = next((scope[names[0]] for scope in scopes if names[0] in scope), NoDigest)
    length = 1
    while isinstance(value, ModuleType) and length < len(names):
        value = getattr(value, names[length], NoDigest)
        length += 1
    if value is NoDigest or isinstance(value, ModuleType):
        what = "is not defined" if value is NoDigest else "is a module that is passed on"
        raise NoDigest(f"{'.'.join(names[:length])} {what}")
    return names[:length], value


def _place(namespace: dict[str, object], path: tuple[str, ...], value: object) -> None:
    for name in path[:-1]:
        namespace = vars(namespace.setdefault(name, ModuleType(name)))
    namespace[path[-1]] = value


@lru_cache(maxsize=1024)
def _loaded_names(code: CodeType) -> tuple[tuple[str, ...], ...]:
    """Each name of another scope that bytecode loads, with the attributes that it takes of it."""
    found: dict[tuple[str, ...], None] = {}
    for each in _codes(code):
        names: tuple[str, ...] = ()
        for step in dis.get_instructions(each):
            if step.opname == "EXTENDED_ARG":
                continue
            if names and step.opname in _ATTRIBUTE:
                names = (*names, str(step.argval))
                continue
            found[names] = None
            outer = step.opname == "LOAD_GLOBAL" or step.argval in code.co_freevars
            names = (str(step.argval),) if step.opname in _LOADS and outer else ()
            if step.opname.startswith("IMPORT"):
                raise NoDigest(f"{code.co_name} imports a module")
            if step.opname == "LOAD_GLOBAL" and step.argval in code.co_freevars:
                raise NoDigest(f"{step.argval} is a global name and one of a closure")
        found[names] = None
    return tuple(names for names in found if names)


@lru_cache(maxsize=1024)
def _code_token(code: CodeType) -> Token:
    # Without file and line numbers: a body that is moved is the same.
    return (
        code.co_code,
        code.co_names,
        code.co_varnames,
        code.co_freevars,
        code.co_cellvars,
        code.co_argcount,
        code.co_posonlyargcount,
        code.co_kwonlyargcount,
        code.co_flags,
        code.co_exceptiontable,
        *map(_constant_token, code.co_consts),
    )


def _constant_token(value: object) -> Token:
    if isinstance(value, CodeType):
        return _code_token(value)
    if isinstance(value, tuple):
        return ("tuple", *map(_constant_token, value))
    if isinstance(value, frozenset):
        return ("frozenset", *sorted(map(_constant_token, value), key=repr))
    return (type(value).__name__, repr(value))


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)
