"""Errors of a user's select and draw functions: the line that failed and the reason in one sentence."""

from __future__ import annotations

import difflib
import linecache
import os
import re
import traceback

from sameluck.compilation.functions import Function
from sameluck.errors import did_you_mean

_REASON = (
    r"^.*(?:Unknown attribute|No implementation|Untyped global|Cannot unify|[Uu]nsupported|NRT required"
    r"|Invalid use|is not defined|cannot determine|not supported|not allowed|must be|No conversion|opcode"
    r"|Cannot capture|Cannot modify).*$"
)
_CLEARER = {  # than a reason that does not say what the function did
    "function empty": "it makes a new array, list or text",
    "Cannot unify.*Tally": "what it returns is not a whole number",
    "<class 'float'>": "what it returns is not a number",
    "function numpy_take": "min() and max() of an array cannot be compiled here: write a loop",
    "index is out of bounds": "an index is out of range; sl.trace(..., guard=True) names the line",
}
_LINE = r'File "([^"]*)", line (\d+)|(?: at | from )(\S[^\n]*) \((\d+)\)$'
_COLOUR = r"\x1b\[[0-9;]*m"
_MAX_LENGTH = 200  # of a reason


class Misuse(Exception):
    """Forbidden use of an argument or a global by a user's function; raised in plain Python only."""

    def __init__(
        self, reason: str, function: Function | None = None, line: int | None = None
    ) -> None:
        super().__init__(reason)
        self.function = function  # if the error is not raised in the function itself
        self.line = line


def locate_error(function: Function, error: Exception) -> tuple[str, str]:
    """Return the line of a function at which Numba or Python failed, and the reason in one line."""
    lines = [*_named_lines(function, error), *_raising_lines(function, error)]
    line = getattr(error, "line", None) or [function.__code__.co_firstlineno, *lines][-1]
    return f"line {line}", _python_reason(function, error, line) or _numba_reason(error)


def _python_reason(function: Function, error: Exception, line: int) -> str:
    if isinstance(error, Misuse):
        return str(error)
    if isinstance(error, NameError) and error.name:
        return f"{error} ({_remedy_for_name(function, error.name)})"
    if isinstance(error, AttributeError) and error.name and hasattr(error.obj, "_fields"):
        subject = "the tally" if type(error.obj).__name__ == "Tally" else "its parameters"
        hint = did_you_mean(error.name, error.obj._fields)
        return f"Unknown attribute {error.name!r} of {subject} ({hint})"
    if isinstance(error, ZeroDivisionError | FloatingPointError):
        return _arithmetic_reason(
            str(error), linecache.getline(function.__code__.co_filename, line)
        )
    if isinstance(error, TypeError) and "OnceKey" in str(error):
        return (
            "noise is not a number: read random bits from it, as in uniform(at(noise, period, 0))"
        )
    return ""


def _arithmetic_reason(error: str, source: str) -> str:
    operation = error.rpartition(" ")[2]  # "invalid value encountered in log"
    if "log" in operation:
        sign = "0" if "zero" in error else "a negative number"
        return f"it takes the logarithm of {sign}"
    if operation in ("sqrt", "power"):
        return "it takes a root of a negative number"
    if "zero" not in error and "divide" not in error:
        return f"{error}: the result is not a number"
    if "pulls" in source:
        return (
            "it divides by zero: pulls is 0 for an arm that was not played yet; play each arm once first, or use "
            "tally.means, which is 0 then"
        )
    return "it divides by zero: test for 0 first"


def _remedy_for_name(function: Function, name: str) -> str:
    names = [*function.__code__.co_varnames, *function.__globals__]
    close = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {close[0]!r}?" if close else "define it before the function is run"


def _numba_reason(error: Exception) -> str:
    text = _text(error)
    reasons = [
        line for line in re.findall(_REASON, text, re.MULTILINE) if "<function _" not in line
    ]
    lines = [line for line in text.splitlines() if line.strip() and "nopython mode" not in line]
    reason = (reasons[::-1] or lines or [type(error).__name__])[0].strip(" -")
    if "NRT required" in text:
        return "it makes a new array, list or text"
    if helper := re.match(r"Untyped global name '(\w+)'.*class 'function", reason):
        return f"it uses {helper[1]}, a Python function: decorate it with numba.njit"
    clearer = (sentence for pattern, sentence in _CLEARER.items() if re.search(pattern, reason))
    return next(clearer, reason[:_MAX_LENGTH])


def blames(function: Function, error: Exception) -> bool:
    """Return whether an error arose in a function, or while it was compiled."""
    code = function.__code__
    lines = range(code.co_firstlineno, max(line or 0 for _, _, line in code.co_lines()) + 1)
    raised = getattr(error, "function", None) is function or bool(_raising_lines(function, error))
    return raised or any(line in lines for line in _named_lines(function, error))


def _raising_lines(function: Function, error: Exception) -> list[int]:
    frames = traceback.walk_tb(error.__traceback__)
    return [line for frame, line in frames if frame.f_code is function.__code__]


def _named_lines(function: Function, error: Exception) -> list[int]:
    """Return the lines of a function's file that Numba's message names."""
    file = os.path.abspath(function.__code__.co_filename)
    named = re.findall(_LINE, _text(error), re.MULTILINE)
    pairs = [(path or other, line or number) for path, line, other, number in named]
    return [int(line) for path, line in pairs if os.path.abspath(path) == file]


def _text(error: Exception) -> str:
    # Numba colours its messages where colorama is installed.
    return re.sub(_COLOUR, "", str(error))
