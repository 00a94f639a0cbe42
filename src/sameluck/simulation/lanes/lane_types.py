"""Numba types of lanes: their values are LLVM vectors of 32 numbers, and numbers convert to them.

A conversion does to every lane exactly what Numba's does to a number.
"""

from __future__ import annotations

from llvmlite import ir
from numba.core import types
from numba.core.datamodel import PrimitiveModel, StructModel, register_default
from numba.core.imputils import lower_cast
from numba.core.typeconv import Conversion

from sameluck.compilation.inlining import LinkedCompiler

LANES = 32
INLINED = {
    "error_model": "numpy",
    "_nrt": False,
    "forceinline": True,
    "no_cfunc_wrapper": True,
    "pipeline_class": LinkedCompiler,
}

I1, I32, I64 = ir.IntType(1), ir.IntType(32), ir.IntType(64)
_ELEMENT = {"f": ir.DoubleType(), "i": I64, "u": I64, "m": I1}
SCALAR = {"f": types.float64, "i": types.int64, "u": types.uint64, "m": types.boolean}


class Lanes(types.Type):
    """32 numbers of a kind: "f" float64, "i" int64, "u" uint64, "m" booleans (a mask)."""

    def __init__(self, kind):
        self.kind = kind
        self.vector = ir.VectorType(_ELEMENT[kind], LANES)
        super().__init__(f"Lanes({kind})")

    def unify(self, context, other):
        """Where a variable is lanes in one place and a number in another, it is lanes."""
        number = not isinstance(other, Lanes) and kind_of(other)
        return self if number and common_kind(self.kind, number) == self.kind else None

    def can_convert_from(self, context, other):
        """A number becomes lanes that are all the same."""
        return Conversion.safe if isinstance(other, (types.Number, types.Boolean)) else None


@register_default(Lanes)
class _LanesModel(PrimitiveModel):
    def __init__(self, manager, lanes):
        super().__init__(manager, lanes, lanes.vector)


class Rows(types.Type):
    """A flat array of rows of 32 lanes: one row per arm, or per place in a policy's memory."""

    def __init__(self, array):
        self.array = array
        super().__init__(f"Rows({array})")


@register_default(Rows)
class _RowsModel(StructModel):
    def __init__(self, manager, rows):
        super().__init__(manager, rows, [("array", rows.array)])


class Block(types.Type):
    """The `row` of a draw body: the 32 replications of a block."""

    def __init__(self):
        super().__init__("Block")


@register_default(Block)
class _BlockModel(PrimitiveModel):
    def __init__(self, manager, block):
        super().__init__(manager, block, I64)


def kind_of(of):
    """The kind of a number or of lanes; None for anything else."""
    if isinstance(of, Lanes):
        return of.kind
    if isinstance(of, types.Boolean):
        return "m"
    if isinstance(of, types.Float):
        return "f"
    if isinstance(of, types.Integer):
        return "i" if of.signed else "u"
    return None


def common_kind(one, other):
    """The kind that two kinds promote to, as in Numba; None if there is none.

    A signed with an unsigned integer becomes a float in Numba, and is refused here.
    """
    if one == other:
        return one
    return "f" if {one, other} in ({"f", "i"}, {"f", "u"}) else None


def any_lanes(*of):
    """Whether one of some types is lanes."""
    return any(isinstance(one, Lanes) for one in of)


def splat_value(builder, value):
    """A vector of a value in every lane."""
    vector = ir.VectorType(value.type, LANES)
    undefined = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(undefined, value, ir.Constant(I32, 0))
    zeros = ir.Constant(ir.VectorType(I32, LANES), [0] * LANES)
    return builder.shuffle_vector(first, undefined, zeros)


def cast(context, builder, value, of, target):
    """A number or lanes as the target: a kind of number, or lanes that a number or other lanes promote to."""
    if not isinstance(target, Lanes):
        return context.cast(builder, value, of, target)
    if not isinstance(of, Lanes):
        return splat_value(builder, context.cast(builder, value, of, SCALAR[target.kind]))
    if of.kind == target.kind:
        return value
    return (builder.sitofp if of.kind == "i" else builder.uitofp)(value, target.vector)


@lower_cast(types.Integer, Lanes)
@lower_cast(types.IntegerLiteral, Lanes)
@lower_cast(types.Float, Lanes)
@lower_cast(types.Boolean, Lanes)
def _number_to_lanes(context, builder, of, target, value):
    return cast(context, builder, value, of, target)
