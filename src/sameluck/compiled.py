"""The only place that talks to Numba's decorators and its disk cache.

`shared`   one body for two worlds: plain Python when called from Python, inlined machine code when called
           from compiled code. Policies, environments, streams and samplers are written this way, so the
           plain version is always there to check the compiled one against.
`aside`    the same for a body that is seldom reached: called rather than inlined, to keep the hot loop small.
`dispatched`  the same as `shared`, but the body is looked up by the type of the first argument.
`compiled` an outer loop, compiled on first use and kept on disk.

Numba's disk cache notices an edit of the cached function's own file only; an edited callee in another file
would silently run the old code. So the cache lives in a directory named after a digest of every source that
is compiled. What a user defines is outside that digest and goes through `uncached`.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import re
import sys
import tempfile
import traceback
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import lower_builtin, overload, type_callable

Body = TypeVar("Body", bound=Callable[..., Any])

# Compiled bodies never allocate, so they need not count references to the arrays they are handed: counting
# them in every period costs a third of the speed and half of the compile time.
CALLED = {"error_model": "numpy", "_nrt": False}
INLINED = {**CALLED, "forceinline": True}
# Said aloud, because what an inlined body calls is inlined too unless it says otherwise.
ASIDE = {**CALLED, "forceinline": False}
COMPILED_SOURCES = (
    "compiled.py",
    "streams.py",
    "samplers.py",
    "selection.py",
    "policies.py",
    "batching.py",
    "environments.py",
    "playing.py",
    "simulation.py",
    "live/walking.py",
)


def cache_directory() -> Path:
    """Where compiled code is kept: a folder of the user's cache named after the sources' digest."""
    digest = hashlib.blake2b(numba.__version__.encode(), digest_size=8)
    for name in COMPILED_SOURCES:
        digest.update((Path(__file__).parent / name).read_bytes())
    try:
        folder = _user_cache() / digest.hexdigest()
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # read-only, or no home at all
        return _private_folder()
    return folder if os.access(folder, os.W_OK) else _private_folder()


def _user_cache() -> Path:
    if chosen := os.environ.get("SAMELUCK_CACHE_DIR"):
        return Path(chosen)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "sameluck"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sameluck"


def _private_folder() -> Path:
    # Never a shared folder of a known name: what lies in the cache is run.
    return Path(tempfile.mkdtemp(prefix="sameluck-"))


_CACHE = cache_directory()


def compiled(body: Callable[..., Any]) -> Any:
    """Compile an outer loop on first use, without the GIL, and keep the machine code on disk."""
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(_CACHE)
    try:
        return numba.njit(cache=True, nogil=True, **CALLED)(body)
    finally:
        numba.config.CACHE_DIR = before


def uncached(loop: Any) -> Any:
    """The twin of a compiled loop for types defined outside sameluck: never stored, so never stale."""
    return numba.njit(nogil=True, **CALLED)(loop.py_func)


def shared(body: Body) -> Body:
    """One body, plain Python from Python and inlined machine code from compiled code."""
    plain = _plain(body)
    _overload(plain, lambda *_: body, body, INLINED)
    return plain


def aside(body: Body) -> Body:
    """As `shared`, for what is seldom reached: a call in compiled code, not inlined."""
    plain = _plain(body)
    _overload(plain, lambda *_: body, body, ASIDE)
    return plain


def dispatched(stub: Body, bodies: dict[type, Callable[..., Any]]) -> Body:
    """Call the body registered for the type of the first argument, in Python and in compiled code."""

    @wraps(stub)
    def plain(subject: Any, *rest: Any) -> Any:
        with np.errstate(over="ignore"):
            return bodies[type(subject)](subject, *rest)

    def choose(subject: Any, *_: Any) -> Callable[..., Any] | None:
        return bodies.get(getattr(subject, "instance_class", None))  # type: ignore[arg-type]

    _overload(plain, choose, stub, INLINED)
    return plain  # type: ignore[return-value]


_REASON = (
    r"^.*(?:Unknown attribute|No implementation|Untyped global|Cannot unify|[Uu]nsupported|NRT required"
    r"|Invalid use|cannot determine|not supported|not allowed|must be|No conversion).*$"
)


def fault_in(body: Callable[..., Any], error: Exception) -> tuple[str, str]:
    """Where in a body something went wrong, and the reason in one line, of an error of Numba's or of Python's."""
    code, text = body.__code__, str(error)
    own_file = re.escape(code.co_filename.rpartition("/")[2])
    lines = re.findall(rf'File "[^"]*{own_file}", line (\d+)', text)
    for frame, line in traceback.walk_tb(error.__traceback__):
        if frame.f_code is code:
            lines.append(str(line))
    reasons = [
        line for line in re.findall(_REASON, text, re.MULTILINE) if "<function _" not in line
    ]
    reason = (reasons[::-1] or text.strip().splitlines() or [type(error).__name__])[0].strip(" -")
    if "NRT required" in text:
        reason = "it makes a new array"
    if "Cannot unify" in reason and "Tally" in reason:
        reason = "what it returns is not a whole number"
    reason = re.sub(r"of type Tally\(.*", "of the tally", reason)
    return f"line {lines[-1] if lines else code.co_firstlineno}", reason[:200]


def guessed() -> None:
    """Make the branch it stands in a real one, that the processor may guess; it does nothing else.

    LLVM likes to turn an argmax into conditional moves. Then each period waits for the whole of the one before,
    though the arm is easy to guess.
    """


@lower_builtin(guessed)
def _keep_branch(context, builder, signature, arguments):  # type: ignore[no-untyped-def]  # noqa: ARG001
    builder.asm(ir.FunctionType(ir.VoidType(), []), "", "", [], side_effect=True)
    return context.get_dummy_value()


type_callable(guessed)(lambda context: lambda: types.none)  # noqa: ARG005


def _plain(body: Body) -> Body:
    # Addresses are hashed in 64-bit arithmetic that wraps around, in NumPy with a warning.
    @wraps(body)
    def plain(*arguments: Any) -> Any:
        with np.errstate(over="ignore"):
            return body(*arguments)

    return plain  # type: ignore[return-value]


def _overload(
    function: Any, choose: Callable[..., Any], like: Callable[..., Any], options: dict[str, Any]
) -> None:
    choose.__signature__ = inspect.signature(like)  # type: ignore[attr-defined]
    overload(function, jit_options=options, strict=False)(choose)
