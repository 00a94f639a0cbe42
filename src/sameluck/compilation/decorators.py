"""Decorators of compiled functions, the only module that uses Numba's.

`inlined`     one function for two uses: plain Python when called from Python, inlined machine code when called from
              compiled code. Policies, environments, streams and samplers are written this way, so that the plain
              version is always there to check the compiled version against.
`called`      the same for a function that is seldom reached: called, not inlined, which keeps the hot loop small.
`dispatched`  as `inlined`, but the function is looked up by the type of the first argument.
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

from sameluck.compilation.functions import Function, is_builtin, runs_user_code
from sameluck.compilation.interruption import interruptible
from sameluck.compilation.machine_code import MachineCode

B = TypeVar("B", bound=Function)

# Compiled functions never allocate, so they need not count references to the arrays passed to them: counting
# costs a third of the speed and half of the compile time. Numba's wrappers for calls from C, which nobody makes,
# would take another quarter of the compile time.
_OPTIONS = {"error_model": "numpy", "_nrt": False, "no_cfunc_wrapper": True}
_INLINED = {**_OPTIONS, "forceinline": True}
# A wrong index in a user's function raises IndexError instead of ending the process; it costs no measurable time.
_BOUNDS_CHECKED = {**_INLINED, "boundscheck": True}
# Explicit, because by default Numba also inlines what an inlined function calls.
_CALLED = {**_INLINED, "forceinline": False}


# A Python function, a function that chooses its replacement in compiled code by the arguments' types, and options.
_overloads: list[tuple[Function, Function, dict[str, object]]] = []
_lock = threading.RLock()
_silent = threading.local()  # whether NumPy's warnings are off in this thread


class Watched:
    """First argument that sees which function it is passed to, in plain Python only."""

    def passed_to(self, function: Function, *arguments: object) -> object:
        return function(self, *arguments)


class Loop:
    """Outer loop that is compiled when it is first called, and runs without the GIL."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self._machine_code: Function | None = None  # Numba's dispatcher
        self._compiled: set[object] = set()  # types of arguments with users' functions

    def __call__(self, *arguments: object) -> Any:
        return self.prepared_for(*arguments)(*arguments)

    def prepared_for(self, *subjects: object) -> Function:
        """Return a function that calls the loop, if no other argument than these runs a user's function.

        A caller of the same policy in each period asks once, since the search takes longer than a short loop.
        """
        if self._machine_code is None:
            with _lock:
                self._machine_code = self._machine_code or _dispatcher(self.function)
        return self._interruptible if runs_user_code(subjects) else self._machine_code

    def _interruptible(self, *arguments: object) -> object:
        machine_code = self._machine_code
        assert machine_code is not None
        types = _types(arguments)
        if types not in self._compiled:
            # In this thread, where Ctrl-C ends it.
            machine_code._compile_for_args(*arguments)  # type: ignore[attr-defined]
            self._compiled.add(types)
        return interruptible(machine_code, *arguments)


def _types(argument: object) -> object:
    if not isinstance(argument, tuple):
        return type(argument)
    return type(argument), *map(_types, argument)


def compiled(function: Function) -> Loop:
    """Make an outer loop, compiled on first use; its machine code is kept on disk."""
    return Loop(function)


def inlined(function: B) -> B:
    """Run a function as plain Python when called from Python, and inline it when called from compiled code."""
    return _plain(function, _INLINED)


def called(function: B) -> B:
    """Do the same as `inlined` for a function that is seldom reached: compiled code calls it."""
    return _plain(function, _CALLED)


def _plain(function: B, options: dict[str, object]) -> B:
    @wraps(function)
    def plain(*arguments: object) -> object:
        if arguments and isinstance(arguments[0], Watched):
            return _wrapping_around(arguments[0].passed_to, function, *arguments[1:])
        return _wrapping_around(function, *arguments)

    _replace(plain, lambda *_: function, options)
    return plain  # type: ignore[return-value]


def _wrapping_around(function: Function, *arguments: object) -> object:
    """Return what the function returns, without NumPy's warnings of overflow.

    Addresses are hashed in 64-bit arithmetic that wraps around.
    """
    # A function called by another is silenced already; to do it again takes longer than most functions.
    if getattr(_silent, "now", False):
        return function(*arguments)
    _silent.now = True
    try:
        with np.errstate(over="ignore"):
            return function(*arguments)
    finally:
        _silent.now = False


def dispatched(
    stub: B,
    functions: dict[type, Function],
    otherwise: Function | None = None,
) -> B:
    """Call the function registered for the type of the first argument, in Python and in compiled code.

    `otherwise` serves all other types.
    """

    @wraps(stub)
    def plain(subject: object, *arguments: object) -> object:
        function = functions.get(type(subject), otherwise) or functions[type(subject)]
        return _wrapping_around(function, subject, *arguments)

    def choose(subject: object, *, builtin: bool) -> Function | None:
        function = functions.get(getattr(subject, "instance_class", None), otherwise)  # type: ignore[arg-type]
        return function if function and is_builtin(function) is builtin else None

    _replace(plain, lambda subject, *_: choose(subject, builtin=True), _INLINED)
    _replace(plain, lambda subject, *_: choose(subject, builtin=False), _BOUNDS_CHECKED)
    return plain  # type: ignore[return-value]


def specialised(function: Function, functions: dict[type, Function]) -> None:
    """Replace a function, in compiled code only, by the function for the type of its first argument, if any."""

    def choose(subject: object, *_: object) -> Function:
        return functions.get(getattr(subject, "instance_class", type(None)), function)

    _replace(function, choose, _INLINED)


def compiled_as(replacement: Function) -> Callable[[B], B]:
    """Replace the decorated function by another function in compiled code."""

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
    """Return the condition, which nearly always holds; LLVM moves the other branch out of the way."""
    return condition


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    # Numba makes millions of objects that stay alive; scanning them takes a fifteenth of the compile time.
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
    import_module("sameluck.compilation.lane_instructions")
    import_module("sameluck.compilation.window_instructions")
    while _overloads:
        function, choose, options = _overloads.pop()
        compiler = LinkedCompiler if options is _BOUNDS_CHECKED else ShortCompiler
        overload(function, jit_options={**options, "pipeline_class": compiler}, strict=False)(
            choose
        )


@contextmanager
def announcing(announce: Callable[[], object]) -> Iterator[None]:
    """Call `announce` once before something is compiled in this thread; not if machine code is only loaded."""
    from numba.core import event

    class Announcing(event.Listener):  # type: ignore[misc]  # Numba is not typed
        left, thread = True, threading.get_ident()

        def on_start(self, _: object) -> None:
            if self.left and self.thread == threading.get_ident():
                self.left = False
                announce()

        def on_end(self, _: object) -> None:
            pass

    with event.install_listener("numba:compile", Announcing()):
        yield


def _dispatcher(function: Function) -> Function:
    import numba

    load_compiler()
    dispatcher: Any = numba.njit(nogil=True, **_OPTIONS)(function)
    dispatcher._cache = MachineCode(function)
    compile_now = dispatcher._compiler.compile

    @_without_garbage_collection()
    def compile_loop(*signature: object) -> object:
        from sameluck.compilation.inlining import set_environments

        _load_array_functions()
        loop = compile_now(*signature)
        set_environments(loop)
        return loop

    dispatcher._compiler.compile = compile_loop
    return dispatcher


@cache
def _load_array_functions() -> None:
    # As Numba does before it compiles. Numba also imports SciPy's linear algebra to see whether it is installed. That
    # takes a tenth of a first compilation; a function that uses it imports it later.
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
        signature_type = ir.FunctionType(_bit, [_bit, _bit])
        expect = get_or_insert_function(builder.module, signature_type, "llvm.expect.i1")
        return builder.call(expect, [*arguments, _bit(1)])

    type_callable(likely)(lambda context: lambda condition: types.boolean)  # noqa: ARG005
