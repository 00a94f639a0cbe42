"""How Numba compiles a body that only other compiled code calls.

Numba makes every function into a library of its own: it optimises it and emits machine code for it, also when all
its callers take a copy of its intermediate code. Here the second and third are left out: a body is linked into the
loop that calls it and is optimised and emitted with it. Bodies of sameluck also leave out the passes for what they
do not use: closures, literals as types, array expressions, `with`. Both save more than a third of the time in which a
loop compiles.

Numba compiles a body again for callers with other options, although the options of these bodies are their own; here
it is compiled once.
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
    """Intermediate code of one body to be linked into a loop, never machine code."""

    def finalize(self) -> None:
        """Link nothing: the loop links this body and all that it calls (`whole`), each once."""
        for library in self._linking_libraries:
            self._reload_init.update(library._reload_init)
        self._finalized = True

    def whole(self) -> list[JITCodeLibrary]:
        """The libraries of the body and of all that it calls."""
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
        """Translate the body of `state` and register it for its callers."""
        name = state.func_id.func_qualname
        state.library = LinkedLibrary(state.targetctx.codegen(), name)
        state.flags.no_compile = True
        changed: bool = super().run_pass(state)
        lowered = state.cr
        # Callers find the body by an object that would hold the address of its machine code.
        key = _dynfunc.make_function(
            lowered.fndesc.lookup_module(), name, "", 0, lowered.env, (state.library,)
        )
        state.targetctx.insert_user_function(key, lowered.fndesc, state.library.whole())
        state.reload_init.extend(state.library._reload_init)
        state.cr = lowered._replace(cfunc=key)
        return changed


class LinkedCompiler(CompilerBase):  # type: ignore[misc]
    """Numba's compiler with `LinkedLowering` as its last step: for bodies of a user."""

    def define_pipelines(self) -> list[PassManager]:
        """The passes that Numba runs."""
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(LinkedLowering, NativeLowering)
        passes.passes = [one for one in passes.passes if one[0] is not NativeLowering]
        passes.finalize()
        return [passes]


class ShortCompiler(CompilerBase):  # type: ignore[misc]
    """The passes that bodies of sameluck need."""

    def compile_extra(self, body: Function) -> CompileResult:
        """Compile a body for the types of its arguments, unless that is done."""
        key = (body, self.state.args, self.state.flags.copy())
        if key not in _compiled:
            _compiled[key] = super().compile_extra(body)
        return _compiled[key]._replace(metadata={})  # in which each caller notes times

    def define_pipelines(self) -> list[PassManager]:
        """The passes that Numba runs."""
        passes = PassManager("linked")
        for one in _PASSES:
            passes.add_pass(one, one._name)
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
