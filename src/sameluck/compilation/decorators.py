"""The only module that uses Numba's decorators.

`inlined`     one body for two uses: plain Python when called from Python, inlined machine code when called from
              compiled code. Policies, environments, streams and samplers are written this way, so that the plain
              version is always there to check the compiled one against.
`called`      the same for a body that is seldom reached: called rather than inlined, which keeps the hot loop small.
`dispatched`  the same as `inlined`, but the body is looked up by the type of the first argument.
`specialised` the same for a shortcut that plain Python does without.
`compiled`    an outer loop, compiled on first use and kept on disk (`machine_code`).

Numba is imported when the first loop is called.
"""

from __future__ import annotations

import gc
import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from importlib import import_module
from typing import Any, TypeVar

import numpy as np

from sameluck.compilation.functions import Function, is_builtin
from sameluck.compilation.machine_code import MachineCode

B = TypeVar("B", bound=Function)

# Compiled bodies never allocate, so they need not count references to the arrays passed to them: counting
# them in every period costs a third of the speed and half of the compile time. A wrapper of each for calls from C,
# which nobody makes, would take a quarter of it.
_OPTIONS = {"error_model": "numpy", "_nrt": False, "no_cfunc_wrapper": True}
_INLINED = {**_OPTIONS, "forceinline": True}
# A wrong index of a user's body raises IndexError in place of ending the process; it costs no measurable time.
_BOUNDS_CHECKED = {**_INLINED, "boundscheck": True}
# Explicit, because by default what an inlined body calls is inlined too.
_CALLED = {**_INLINED, "forceinline": False}


# A Python function, what chooses its replacement in compiled code from the types of the arguments, and options.
_overloads: list[tuple[Function, Function, dict[str, object]]] = []
_lock = threading.RLock()
_silent = threading.local()  # whether NumPy's warnings are off in this thread


class Watched:
    """A first argument that sees which function it is passed to, in plain Python only."""

    def passed_to(self, body: Function, *rest: object) -> object:
        """What the body returns."""
        return body(self, *rest)


class Loop:
    """An outer loop that is compiled when it is first called, without the GIL."""

    def __init__(self, body: Function) -> None:
        self.function = body
        self._machine_code: Function | None = None

    def __call__(self, *arguments: object) -> Any:
        if self._machine_code is None:
            with _lock:
                self._machine_code = self._machine_code or _dispatcher(self.function)
        return self._machine_code(*arguments)


def compiled(body: Function) -> Loop:
    """An outer loop, compiled on first use; the machine code is kept on disk."""
    return Loop(body)


def inlined(body: B) -> B:
    """Plain Python when called from Python, inlined machine code when called from compiled code."""
    return _plain(body, _INLINED)


def called(body: B) -> B:
    """As `inlined`, for a body that is seldom reached: a call in compiled code."""
    return _plain(body, _CALLED)


def _plain(body: B, options: dict[str, object]) -> B:
    @wraps(body)
    def plain(*arguments: object) -> object:
        if arguments and isinstance(arguments[0], Watched):
            return _wrapping_around(arguments[0].passed_to, body, *arguments[1:])
        return _wrapping_around(body, *arguments)

    _replace(plain, lambda *_: body, options)
    return plain  # type: ignore[return-value]


def _wrapping_around(body: Function, *arguments: object) -> object:
    """What the body returns: addresses are hashed in 64-bit arithmetic that wraps around, in NumPy with a warning."""
    if getattr(
        _silent, "now", False
    ):  # one body calls another: to silence NumPy again takes longer than most bodies
        return body(*arguments)
    _silent.now = True
    try:
        with np.errstate(over="ignore"):
            return body(*arguments)
    finally:
        _silent.now = False


def dispatched(
    stub: B,
    bodies: dict[type, Function],
    own: Callable[[Function], Function] = lambda body: body,
    otherwise: Function | None = None,
) -> B:
    """Call the body registered for the type of the first argument, in Python and in compiled code.

    `own` gives what is compiled in place of a body of a user, `otherwise` is the body of all other types.
    """

    @wraps(stub)
    def plain(subject: object, *rest: object) -> object:
        body = bodies.get(type(subject), otherwise) or bodies[type(subject)]
        return _wrapping_around(body, subject, *rest)

    def choose(subject: object, *, ours: bool) -> Function | None:
        body = bodies.get(getattr(subject, "instance_class", None), otherwise)  # type: ignore[arg-type]
        if body is None or is_builtin(body) is not ours:
            return None
        return body if ours else own(body)

    _replace(plain, lambda subject, *_: choose(subject, ours=True), _INLINED)
    _replace(plain, lambda subject, *_: choose(subject, ours=False), _BOUNDS_CHECKED)
    return plain  # type: ignore[return-value]


def specialised(function: Function, bodies: dict[type, Function]) -> None:
    """In compiled code, call the body for the type of the first argument, if any, in place of a function."""

    def choose(subject: object, *_: object) -> Function:
        return bodies.get(getattr(subject, "instance_class", type(None)), function)

    _replace(function, choose, _INLINED)


def compiled_as(replacement: Function) -> Callable[[B], B]:
    """In compiled code, call another function in place of the decorated one."""

    def decorate(function: B) -> B:
        _replace(function, lambda *_: inspect.unwrap(replacement), _INLINED)
        return function

    return decorate


def _replace(function: Function, choose: Function, options: dict[str, object]) -> None:
    choose.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    _overloads.append((function, choose, options))


def branch_hint() -> None:
    """Keep the branch that calls it a conditional jump, which the processor predicts; it has no other effect.

    LLVM tends to turn an argmax into conditional moves. Then each period waits for the whole of the one before,
    although the arm is easy to predict.
    """


def likely(condition: bool | np.bool_) -> bool | np.bool_:  # noqa: FBT001
    """The condition, which nearly always holds: what is done otherwise is moved out of the way."""
    return condition


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    # Numba makes millions of objects that are kept; to look through them takes a fifteenth of the time.
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@_without_garbage_collection()
def load_compiler() -> None:
    """Import Numba and register what compiled code calls; the first call of a loop does so too."""
    from numba.extending import overload

    from sameluck.compilation.inlining import LinkedCompiler, ShortCompiler

    _register_hints()
    while _overloads:
        function, choose, options = _overloads.pop()
        compiler = LinkedCompiler if options is _BOUNDS_CHECKED else ShortCompiler
        overload(function, jit_options={**options, "pipeline_class": compiler}, strict=False)(
            choose
        )


@contextmanager
def announcing(say: Callable[[], object]) -> Iterator[None]:
    """Call `say` before something is compiled in this thread meanwhile; not if machine code is only loaded."""
    from numba.core import event

    class Announcing(event.Listener):  # type: ignore[misc]  # Numba is not typed
        left, thread = True, threading.get_ident()

        def on_start(self, _: object) -> None:
            if self.left and self.thread == threading.get_ident():
                self.left = False
                say()

        def on_end(self, _: object) -> None:
            pass

    with event.install_listener("numba:compile", Announcing()):
        yield


def _dispatcher(body: Function) -> Function:
    import numba

    load_compiler()
    dispatcher: Any = numba.njit(nogil=True, **_OPTIONS)(body)
    dispatcher._cache = MachineCode(body)
    compile_now = dispatcher._compiler.compile

    @_without_garbage_collection()
    def compile_loop(*signature: object) -> object:
        _load_array_functions()
        return compile_now(*signature)

    dispatcher._compiler.compile = compile_loop
    return dispatcher


@cache
def _load_array_functions() -> None:
    # As Numba does before it compiles. It also imports SciPy's linear algebra, a tenth of the time of a first
    # compilation, to see whether it is there; a body that uses it imports it later.
    linear_algebra: Any = import_module("numba.np.linalg")
    ensure_blas, linear_algebra.ensure_blas = linear_algebra.ensure_blas, lambda: None
    try:
        import_module("numba.np.arraymath")
    finally:
        linear_algebra.ensure_blas = ensure_blas


@cache
def _register_hints() -> None:
    from llvmlite import ir
    from numba.core import types
    from numba.core.cgutils import get_or_insert_function
    from numba.extending import lower_builtin, type_callable

    _bit = ir.IntType(1)

    @lower_builtin(branch_hint)
    def _keep_branch(context, builder, signature, arguments):  # type: ignore[no-untyped-def]  # noqa: ARG001
        builder.asm(ir.FunctionType(ir.VoidType(), []), "", "", [], side_effect=True)
        return context.get_dummy_value()

    type_callable(branch_hint)(lambda context: lambda: types.none)  # noqa: ARG005

    @lower_builtin(likely, types.boolean)
    def _expect(context, builder, signature, arguments):  # type: ignore[no-untyped-def]  # noqa: ARG001
        kind = ir.FunctionType(_bit, [_bit, _bit])
        expect = get_or_insert_function(builder.module, kind, "llvm.expect.i1")
        return builder.call(expect, [*arguments, _bit(1)])

    type_callable(likely)(lambda context: lambda condition: types.boolean)  # noqa: ARG005
