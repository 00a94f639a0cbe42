"""Numba compilers for functions that only other compiled code calls.

Numba makes every function a library of its own: it optimises the function and emits machine code, even if all callers
take a copy of its intermediate code. Here both steps are left out: a function is linked into the loop that calls it,
and is optimised and emitted with it. Functions of sameluck also leave out the passes for language features that they
do not use: closures, literals as types, array expressions, `with`. Both save more than a third of a loop's compile
time.

Numba also compiles a function again for callers with other options, although the options of these functions are their
own; here it is compiled once.
"""

from __future__ import annotations

from typing import Any

from llvmlite.binding import Linkage
from numba import _dynfunc
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, CompileResult, DefaultPassBuilder
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.typed_passes import (
    AnnotateTypes,
    IRLegalization,
    NativeLowering,
    NoPythonBackend,
    NopythonTypeInference,
    PreLowerStripPhis,
)
from numba.core.untyped_passes import (
    DeadBranchPrune,
    FixupArgs,
    GenericRewrites,
    IRProcessing,
    ReconstructSSA,
    TranslateByteCode,
)

from sameluck.compilation.functions import Function


class LinkedLibrary(JITCodeLibrary):  # type: ignore[misc]  # Numba is not typed
    """Intermediate code of one function, to be linked into a loop; never machine code."""

    environment: tuple[
        str, object
    ]  # the variable in machine code, and the object that it points to

    def finalize(self) -> None:
        """Link nothing: the loop links this function and all that it calls (`whole`), each once."""
        for library in self._linking_libraries:
            self._reload_init.update(library._reload_init)
        self._finalized = True

    def whole(self) -> list[JITCodeLibrary]:
        """Return the libraries of the function and of all that it calls."""
        return list(dict.fromkeys([self, *self._linking_libraries]))

    def _get_module_for_linking(self) -> Any:
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage == Linkage.external:
                function.linkage = "linkonce_odr"  # removed from the loop where it is inlined
        return self._final_module


@register_pass(mutates_CFG=True, analysis_only=False)
class LinkedLowering(NativeLowering):  # type: ignore[misc]
    """Numba's translation to intermediate code, without the machine code."""

    _name = "linked_lowering"

    def run_pass(self, state: Any) -> bool:
        """Translate the function of `state` and register it for its callers."""
        name = state.func_id.func_qualname
        state.library = LinkedLibrary(state.targetctx.codegen(), name)
        state.flags.no_compile = True
        changed: bool = super().run_pass(state)
        lowered = state.cr
        # Callers find the function by an object that would normally hold the address of its machine code.
        key = _dynfunc.make_function(
            lowered.fndesc.lookup_module(), name, "", 0, lowered.env, (state.library,)
        )
        state.library.environment = (lowered.fndesc.env_name, lowered.env)
        state.targetctx.insert_user_function(key, lowered.fndesc, state.library.whole())
        state.reload_init.extend(state.library._reload_init)
        state.cr = lowered._replace(cfunc=key)
        return changed


def set_environments(loop: CompileResult) -> None:
    """Set the variable of each function linked into a loop that points to the function's environment.

    Numba sets the variable of a function that has machine code of its own. Without it, `print` of a number returns an
    error while it holds the GIL, and the loop then waits for the GIL for ever.
    """
    codegen = loop.library.codegen
    for library in loop.library._linking_libraries:
        if isinstance(library, LinkedLibrary):
            name, environment = library.environment
            # The variable is optimised away in most functions.
            if codegen._engine.get_global_value_address(name):
                codegen.set_env(name, environment)


class LinkedCompiler(CompilerBase):  # type: ignore[misc]
    """Numba's compiler with `LinkedLowering` as its last step, for users' functions."""

    def define_pipelines(self) -> list[PassManager]:
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(LinkedLowering, NativeLowering)
        passes.passes = [entry for entry in passes.passes if entry[0] is not NativeLowering]
        passes.finalize()
        return [passes]


class ShortCompiler(CompilerBase):  # type: ignore[misc]
    """Compiler with only the passes that sameluck's functions need."""

    def compile_extra(self, function: Function) -> CompileResult:
        """Compile a function for the types of its arguments, unless that is done."""
        key = (function, self.state.args, self.state.flags.copy())
        if key not in _compiled:
            _compiled[key] = super().compile_extra(function)
        return _compiled[key]._replace(metadata={})  # in which each caller notes times

    def define_pipelines(self) -> list[PassManager]:
        passes = PassManager("linked")
        for compiler_pass in _PASSES:
            passes.add_pass(compiler_pass, compiler_pass._name)
        passes.finalize()
        return [passes]


_compiled: dict[tuple[object, ...], CompileResult] = {}
_PASSES = (
    TranslateByteCode,
    FixupArgs,
    IRProcessing,
    GenericRewrites,
    ReconstructSSA,
    DeadBranchPrune,
    NopythonTypeInference,
    PreLowerStripPhis,
    IRLegalization,
    AnnotateTypes,
    LinkedLowering,
    NoPythonBackend,
)
