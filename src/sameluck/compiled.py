"""The only module that uses Numba's decorators and its disk cache.

`inlined`     one body for two uses: plain Python when called from Python, inlined machine code when called from
              compiled code. Policies, environments, streams and samplers are written this way, so that the plain
              version is always there to check the compiled one against.
`called`      the same for a body that is seldom reached: called rather than inlined, which keeps the hot loop small.
`dispatched`  the same as `inlined`, but the body is looked up by the type of the first argument.
`compiled`    an outer loop, compiled on first use and kept on disk.

Numba's disk cache notices an edit of the cached function's own file only; an edited callee in another file would
silently run the old code. The cache directory is therefore named after a digest of every source that is compiled.
What a user defines is outside that digest and is compiled by `uncached`.
"""

from __future__ import annotations

import hashlib
import inspect
import itertools
import os
import re
import sys
import tempfile
import traceback
from collections import namedtuple
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import lower_builtin, overload, type_callable

from sameluck.errors import Invalid

Body = TypeVar("Body", bound=Callable[..., Any])

# Compiled bodies never allocate, so they need not count references to the arrays they are handed: counting
# them in every period costs a third of the speed and half of the compile time.
_OPTIONS = {"error_model": "numpy", "_nrt": False}
INLINED = {**_OPTIONS, "forceinline": True}
# Stated, because what an inlined body calls is inlined too unless it says otherwise.
_CALLED = {**_OPTIONS, "forceinline": False}
_PACKAGE = Path(__file__).parent


def compiled_sources(package: Path = _PACKAGE) -> list[Path]:
    """Every source that may be compiled: those that import this module, and their neighbours in the same folder."""
    importing = [p for p in package.rglob("*.py") if b"sameluck.compiled import" in p.read_bytes()]
    folders = {source.parent for source in importing} - {package}
    return sorted({*importing, *(p for folder in folders for p in folder.glob("*.py"))})


def cache_directory() -> Path:
    """Where compiled code is kept: a folder of the user's cache named after the sources' digest."""
    digest = hashlib.blake2b(numba.__version__.encode(), digest_size=8)
    for source in [Path(__file__), *compiled_sources()]:
        digest.update(source.read_bytes())
    try:
        folder = _user_cache() / digest.hexdigest()
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # read-only, or no home at all
        return _private_folder()
    return folder if os.access(folder, os.W_OK) else _private_folder()


def _user_cache() -> Path:
    if chosen := os.environ.get("SAMELUCK_CACHE_DIR"):
        return Path(chosen)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home()) / "sameluck" / "cache"
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
        return numba.njit(cache=True, nogil=True, **_OPTIONS)(body)
    finally:
        numba.config.CACHE_DIR = before


def is_ours(thing: Any) -> bool:
    """Whether a class or function is defined in sameluck, so that the digest of its sources covers it."""
    return str(thing.__module__).startswith("sameluck.")


_serial = itertools.count()


def renamed(kind: Any) -> Callable[..., Any]:
    """A NamedTuple class with the same fields under a name that was never used before.

    Numba tells NamedTuples apart by name: a class defined again, as in a notebook, would run the machine code of the
    previous one. What a user registers is therefore compiled under a new name.
    """
    return namedtuple(f"{kind.__name__}_{next(_serial)}", kind._fields)


def check_registration(
    kind: Any, body: Callable[..., Any], known: Mapping[str, type], what: str, arguments: str
) -> None:
    """Raise `Invalid` unless a body may be registered for a class: `what` is "policy" or "environment"."""
    if not isinstance(kind, type) or not hasattr(kind, "_fields"):
        raise Invalid(f"{kind!r} is not a class for a {what}; make it a NamedTuple of parameters")
    names = ", ".join(inspect.signature(body).parameters)
    if names != arguments:
        raise Invalid(f"a body of {kind.__name__} must take ({arguments}), got ({names})")
    if is_ours(body):
        return
    # Machine code of sameluck's own bodies is kept on disk for later processes.
    if is_ours(kind):
        raise Invalid(f"{kind.__name__} is a class of sameluck; define a class of your own")
    if any(is_ours(other) and other.__name__ == kind.__name__ for other in known.values()):
        raise Invalid(f"sameluck has a {what} called {kind.__name__}; give yours another name")


def uncached(loop: Any) -> Any:
    """A compiled loop for types defined outside sameluck: never stored on disk, so never stale."""
    return numba.njit(nogil=True, **_OPTIONS)(loop.py_func)


def inlined(body: Body) -> Body:
    """Plain Python when called from Python, inlined machine code when called from compiled code."""
    plain = _plain(body)
    _overload(plain, lambda *_: body, body, INLINED)
    return plain


def called(body: Body) -> Body:
    """As `inlined`, for a body that is seldom reached: a call in compiled code."""
    plain = _plain(body)
    _overload(plain, lambda *_: body, body, _CALLED)
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


def locate_error(body: Callable[..., Any], error: Exception) -> tuple[str, str]:
    """The line of a body at which Numba or Python failed, and the reason in one line."""
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


def blames(body: Callable[..., Any], error: Exception) -> bool:
    """Whether an error arose in a body, or while it was compiled."""
    if any(frame.f_code is body.__code__ for frame, _ in traceback.walk_tb(error.__traceback__)):
        return True
    code = body.__code__
    lines = range(code.co_firstlineno, max(line or 0 for _, _, line in code.co_lines()) + 1)
    named = re.findall(
        rf'File "[^"]*{re.escape(Path(code.co_filename).name)}", line (\d+)', str(error)
    )
    return any(int(line) in lines for line in named)


def branch_hint() -> None:
    """Keep the branch it stands in a conditional jump, which the processor predicts; it does nothing else.

    LLVM tends to turn an argmax into conditional moves. Then each period waits for the whole of the one before,
    although the arm is easy to predict.
    """


@lower_builtin(branch_hint)
def _keep_branch(context, builder, signature, arguments):  # type: ignore[no-untyped-def]  # noqa: ARG001
    builder.asm(ir.FunctionType(ir.VoidType(), []), "", "", [], side_effect=True)
    return context.get_dummy_value()


type_callable(branch_hint)(lambda context: lambda: types.none)  # noqa: ARG005


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
