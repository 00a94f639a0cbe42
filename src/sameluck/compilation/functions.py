"""Select and draw functions: their registration, the names they are compiled under, and their errors."""

from __future__ import annotations

import ast
import dis
import inspect
import itertools
import re
import traceback
from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, TypeAlias

from sameluck.errors import Invalid, did_you_mean

Function: TypeAlias = Callable[..., Any]

# Arguments of registered functions until version 0.2, and their names now.
RENAMED = {"luck": "noise", "chances": "probabilities", "law": "parameters"}


def is_builtin(thing: type | Function) -> bool:
    """Whether a class or function is defined in sameluck, so that the digest of its sources covers it."""
    return str(thing.__module__).startswith("sameluck.")


_serial = itertools.count()


def renamed(kind: type) -> type:
    """A NamedTuple class with the same fields under a name that was never used before.

    Numba identifies NamedTuples by name: a class defined again, as in a notebook, would run the machine code of the
    previous one. What a user registers is therefore compiled under a new name.
    """
    return namedtuple(f"{kind.__name__}_{next(_serial)}", kind._fields)  # type: ignore[attr-defined]


def check_registration(
    kind: object, body: Function, known: Mapping[str, type], what: str, arguments: str
) -> None:
    """Raise `Invalid` unless a body may be registered for a class: `what` is "a policy" or "an environment"."""
    if not isinstance(kind, type) or not hasattr(kind, "_fields"):
        raise Invalid(f"{kind!r} is not a class for {what}; make it a NamedTuple of parameters")
    if not inspect.isfunction(body):
        raise Invalid(f"a body of {kind.__name__} must be a plain Python function, got {body!r}")
    names = list(inspect.signature(body).parameters)
    if names != arguments.split(", "):
        renames = [f"rename {name} to {RENAMED[name]}" for name in names if name in RENAMED]
        got = "; ".join([f"got ({', '.join(names)})", *renames])
        raise Invalid(f"a body of {kind.__name__} must take ({arguments}), {got}")
    if is_builtin(body):
        return
    # Machine code of sameluck's own bodies is kept on disk for later processes.
    if is_builtin(kind):
        raise Invalid(f"{kind.__name__} is a class of sameluck; define a class of your own")
    for other in known.values():
        if is_builtin(other) and _word(other) == _word(kind):
            raise Invalid(f"sameluck has {what} called {other.__name__}; give yours another name")


def _word(kind: type) -> str:
    # Text forms ignore case and `_`: the class `bernoulli` would replace `Bernoulli` in them.
    return kind.__name__.replace("_", "").lower()


class NoSource(Exception):
    """Why a function has no syntax tree."""


def source_function(body: FunctionType) -> ast.FunctionDef:
    """The syntax tree of a function; `NoSource` if its source is not at hand or is not what was loaded."""
    try:
        text = "".join(inspect.findsource(body)[0])
        module = ast.parse(text)
        code = compile(text, body.__code__.co_filename, "exec", dont_inherit=True)
    except (OSError, SyntaxError, TypeError) as error:
        raise NoSource("its source is not available") from error
    if body.__code__ not in _codes(code):
        raise NoSource("its source has changed since it was loaded")
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef) and _first_line(node) == body.__code__.co_firstlineno:
            return node
    raise NoSource("it is not defined by def")


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _first_line(function: ast.FunctionDef) -> int:
    return min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])


_MADE = {"BUILD_LIST": "a list", "BUILD_MAP": "a dict", "BUILD_SET": "a set"}
_REASON = (
    r"^.*(?:Unknown attribute|No implementation|Untyped global|Cannot unify|[Uu]nsupported|NRT required"
    r"|Invalid use|is not defined|cannot determine|not supported|not allowed|must be|No conversion).*$"
)


class Misuse(Exception):
    """What a body must not do with what it is given; raised in plain Python only."""

    def __init__(self, reason: str, body: Function | None = None, line: int | None = None) -> None:
        super().__init__(reason)
        self.body = body  # if it is not raised in the body itself
        self.line = line


def locate_error(body: Function, error: Exception) -> tuple[str, str]:
    """The line of a body at which Numba or Python failed, and the reason in one line."""
    text, lines = str(error), [*_named_lines(body, error), *_raising_lines(body, error)]
    line = getattr(error, "line", None) or [body.__code__.co_firstlineno, *lines][-1]
    reason = _python_reason(body, error) or _numba_reason(text, error)
    return f"line {line}", reason.replace("it makes a new array", f"it makes {_made(body, line)}")


def _made(body: Function, line: int) -> str:
    """What a body makes in memory of its own, by its bytecode: on the line, or anywhere; otherwise an array."""
    steps = list(dis.get_instructions(body))
    near = [one for one in steps if one.positions and one.positions.lineno == line]
    made = [_MADE.get(one.opname) or _a_text(one) for one in [*near, *steps]]
    return next((what for what in made if what), "a new array")


def _a_text(step: dis.Instruction) -> str:
    return "a text" if "CONST" in step.opname and isinstance(step.argval, str) else ""


def _python_reason(body: Function, error: Exception) -> str:
    if isinstance(error, Misuse):
        return str(error)
    if isinstance(error, NameError) and error.name:
        return f"{error} ({did_you_mean(error.name, body.__code__.co_varnames)})"
    if isinstance(error, AttributeError) and error.name and hasattr(error.obj, "_fields"):
        owner = "the tally" if type(error.obj).__name__ == "Tally" else "its parameters"
        known = did_you_mean(error.name, error.obj._fields)
        return f"Unknown attribute {error.name!r} of {owner} ({known})"
    if isinstance(error, ZeroDivisionError) or "divide by zero" in str(error):
        return (
            "it divides by zero: test for 0 first"
            if "log" not in str(error)
            else "it takes the logarithm of 0"
        )
    if isinstance(error, TypeError) and "OnceKey" in str(error):
        return (
            "noise is not a number: read random bits from it, as in uniform(at(noise, period, 0))"
        )
    return ""


def _numba_reason(text: str, error: Exception) -> str:
    reasons = [
        line for line in re.findall(_REASON, text, re.MULTILINE) if "<function _" not in line
    ]
    lines = [line for line in text.splitlines() if line.strip() and "nopython mode" not in line]
    reason = (reasons[::-1] or lines or [type(error).__name__])[0].strip(" -")
    if "setitem" in reason or "read-only" in reason:
        reason = "it writes to an array that it must not change"
    if "NRT required" in text or "function empty" in reason:
        reason = "it makes a new array"
    if "Cannot unify" in reason and "Tally" in reason:
        reason = "what it returns is not a whole number"
    if untyped := re.match(r"Untyped global name '(\w+)'.*class '(function)?", reason):
        kind = (
            "a Python function: decorate that with numba.njit"
            if untyped[2]
            else "which cannot be compiled"
        )
        reason = f"it uses {untyped[1]}, {kind}"
    if "function numpy_take" in reason:
        reason = "min() and max() of an array cannot be compiled here: write a loop"
    if "index is out of bounds" in reason:
        reason = "an index is out of range; sl.trace(..., guard=True) names the line"
    if "<class 'float'>" in reason:
        reason = "what it returns is not a number"
        if ">>> float(bool)" in text:
            reason += ", but True or False: write 1.0 if ... else 0.0"
    reason = re.sub(r"of type Tally\(.*", "of the tally", reason)
    return reason[:200]


def blames(body: Function, error: Exception) -> bool:
    """Whether an error arose in a body, or while it was compiled."""
    code = body.__code__
    lines = range(code.co_firstlineno, max(line or 0 for _, _, line in code.co_lines()) + 1)
    raised = getattr(error, "body", None) is body or bool(_raising_lines(body, error))
    return raised or any(n in lines for n in _named_lines(body, error))


def _raising_lines(body: Function, error: Exception) -> list[int]:
    frames = traceback.walk_tb(error.__traceback__)
    return [line for frame, line in frames if frame.f_code is body.__code__]


def _named_lines(body: Function, error: Exception) -> list[int]:
    """The lines of a body's file that Numba's message names."""
    file = re.escape(Path(body.__code__.co_filename).name)
    return [int(line) for line in re.findall(rf'File "[^"]*{file}", line (\d+)', str(error))]
