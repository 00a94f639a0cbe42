"""How Numba compiles a body that only other compiled code calls.

Numba makes every function into a library of its own: it optimises it and emits machine code for it, also when all
its callers take a copy of its intermediate code. Here the second and third are left out: a body is linked into the
loop that calls it and is optimised and emitted with it. Bodies of sameluck also leave out the passes for what they
do not use: closures, literals as types, array expressions, `with`. Both save more than a third of the time in which a
loop compiles.
"""

from __future__ import annotations

from typing import Any

from numba import _dynfunc
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
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


class LinkedLibrary(JITCodeLibrary):  # type: ignore[misc]  # Numba is not typed
    """Intermediate code to be linked into other libraries, never machine code."""

    def finalize(self) -> None:
        """Link what the body calls."""
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalized = True


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
        state.targetctx.insert_user_function(key, lowered.fndesc, [state.library])
        state.reload_init.extend(state.library._reload_init)
        state.cr = lowered._replace(cfunc=key)
        return changed


class LinkedCompiler(CompilerBase):  # type: ignore[misc]
    """Numba's compiler with `LinkedLowering` as its last step: for bodies of a user, and for lanes."""

    def define_pipelines(self) -> list[PassManager]:
        """The passes that Numba runs."""
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(LinkedLowering, NativeLowering)
        passes.passes = [one for one in passes.passes if one[0] is not NativeLowering]
        passes.finalize()
        return [passes]


class ShortCompiler(CompilerBase):  # type: ignore[misc]
    """The passes that bodies of sameluck need."""

    def define_pipelines(self) -> list[PassManager]:
        """The passes that Numba runs."""
        passes = PassManager("linked")
        for one in _PASSES:
            passes.add_pass(one, one._name)
        passes.finalize()
        return [passes]


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
