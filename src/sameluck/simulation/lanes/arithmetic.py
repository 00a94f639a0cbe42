"""Arithmetic, comparisons, conditions and conversions of lanes.

Each operation does to every lane exactly what Numba's scalar operation does to a number: the same conversions, the
same rounding. Where no instruction does that (logarithms, integer division), there is no operation, and `lifting`
calls the scalar one lane by lane, or refuses the body. All functions also take numbers, and numbers alone stay
numbers.
"""

from __future__ import annotations

import operator

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin

from sameluck.simulation.lanes.lane_types import (
    I1,
    I64,
    LANES,
    SCALAR,
    Lanes,
    any_lanes,
    cast,
    common_kind,
    kind_of,
    splat_value,
)


def _register_operator(operation, result, lower):
    @infer_global(operation)
    class _Template(AbstractTemplate):
        key = operation

        def generic(self, args, kws):
            if len(args) != 2 or not any_lanes(*args):
                return None
            kind = result(common_kind(*map(kind_of, args)))
            return kind and signature(Lanes(kind), *args)

    def lower_promoted(context, builder, sig, args):
        promoted = Lanes(common_kind(*map(kind_of, sig.args)))
        if operation is operator.truediv:
            promoted = Lanes("f")
        both = (cast(context, builder, v, t, promoted) for v, t in zip(args, sig.args, strict=True))
        return lower(builder, promoted.kind, *both)

    numbers = (types.Number, types.IntegerLiteral, types.Boolean)
    pairs = [(Lanes, Lanes), *((Lanes, n) for n in numbers), *((n, Lanes) for n in numbers)]
    for pair in pairs:
        lower_builtin(operation, *pair)(lower_promoted)


def _register_arithmetic(operation, **instructions):
    # The instruction by kind of lanes.
    def lower(builder, kind, one, other):
        return getattr(builder, instructions[kind])(one, other)

    _register_operator(operation, lambda kind: kind if kind in instructions else None, lower)


def _register_comparison(operation, symbol):
    def lower(builder, kind, one, other):
        ordered = builder.fcmp_unordered if symbol == "!=" else builder.fcmp_ordered
        compare = {"i": builder.icmp_signed, "u": builder.icmp_unsigned, "f": ordered}[kind]
        return compare(symbol, one, other)

    _register_operator(operation, lambda kind: "m" if kind in ("f", "i", "u") else None, lower)


_register_arithmetic(operator.add, f="fadd", i="add", u="add")
_register_arithmetic(operator.sub, f="fsub", i="sub", u="sub")
_register_arithmetic(operator.mul, f="fmul", i="mul", u="mul")
_register_arithmetic(operator.and_, i="and_", u="and_", m="and_")
_register_arithmetic(operator.or_, i="or_", u="or_", m="or_")
_register_arithmetic(operator.xor, i="xor", u="xor", m="xor")
_register_arithmetic(operator.lshift, i="shl", u="shl")
_register_arithmetic(operator.rshift, i="ashr", u="lshr")
_register_operator(
    operator.truediv,
    lambda kind: "f" if kind in ("f", "i", "u") else None,
    lambda builder, kind, one, other: builder.fdiv(one, other),
)


def _register_extreme(function, symbol):
    def lower(builder, kind, one, other):
        compare = {"i": builder.icmp_signed, "u": builder.icmp_unsigned, "f": builder.fcmp_ordered}
        return builder.select(compare[kind](symbol, other, one), other, one)

    _register_operator(function, lambda kind: kind if kind in ("f", "i", "u") else None, lower)


_register_extreme(max, ">")
_register_extreme(min, "<")
for _operation, _symbol in (
    (operator.lt, "<"),
    (operator.le, "<="),
    (operator.gt, ">"),
    (operator.ge, ">="),
    (operator.eq, "=="),
    (operator.ne, "!="),
):
    _register_comparison(_operation, _symbol)


def _register_unary(function, lower_floats, lower_whole):
    @infer_global(function)
    class _Template(AbstractTemplate):
        key = function

        def generic(self, args, kws):
            fits = len(args) == 1 and isinstance(args[0], Lanes) and args[0].kind in "fi"
            return signature(args[0], args[0]) if fits else None

    @lower_builtin(function, Lanes)
    def _lower(context, builder, sig, args):
        return (lower_floats if sig.args[0].kind == "f" else lower_whole)(builder, args[0])


def _call_vector(builder, name, value):
    kind = ir.FunctionType(value.type, [value.type])
    name = f"llvm.{name}.v{LANES}f64"
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [value])


def _absolute(builder, value):
    negative = builder.icmp_signed("<", value, ir.Constant(value.type, [0] * LANES))
    return builder.select(negative, builder.neg(value), value)


_register_unary(operator.neg, lambda b, value: b.fneg(value), lambda b, value: b.neg(value))
_register_unary(abs, lambda b, value: _call_vector(b, "fabs", value), _absolute)


# What lifted bodies and the loop over blocks call.


@intrinsic
def splat(typing, value):
    """Lanes that are all the same number; lanes as they are."""
    target = Lanes(kind_of(value))
    return target(value), lambda c, b, sig, args: cast(c, b, args[0], value, target)


@intrinsic
def count_from(typing, first):
    """The whole numbers from `first` on, one per lane."""

    def lower(context, builder, sig, args):
        steps = ir.Constant(sig.return_type.vector, list(range(LANES)))
        return builder.add(splat_value(builder, args[0]), steps)

    return Lanes("i")(types.int64), lower


@intrinsic
def pick(typing, condition, one, other):
    """One where the condition holds, else the other."""
    if any_lanes(condition, one, other):
        kind = common_kind(kind_of(one), kind_of(other))
        target = Lanes(kind) if kind and kind_of(condition) == "m" else None
    else:
        target = typing.unify_types(one, other)
    if target is None:
        return None

    def lower(context, builder, sig, args):
        values = [cast(context, builder, args[k], sig.args[k], target) for k in (1, 2)]
        where = (
            cast(context, builder, args[0], condition, types.boolean)
            if not any_lanes(condition)
            else args[0]
        )
        return builder.select(where, *values)

    return target(condition, one, other), lower


def _conditions(name, instruction, summary):
    def typer(typing, one, other):
        if kind_of(one) != "m" or kind_of(other) != "m":
            return None
        target = Lanes("m") if any_lanes(one, other) else types.boolean

        def lower(context, builder, sig, args):
            both = (
                cast(context, builder, v, t, target) for v, t in zip(args, sig.args, strict=True)
            )
            return getattr(builder, instruction)(*both)

        return target(one, other), lower

    typer.__name__, typer.__doc__ = name, summary
    return intrinsic(typer)


both = _conditions("both", "and_", "Where both conditions hold.")
either = _conditions("either", "or_", "Where one of two conditions holds.")


@intrinsic
def negated(typing, condition):
    """Where a condition does not hold."""
    if kind_of(condition) != "m":
        return None
    target = condition if any_lanes(condition) else types.boolean
    return target(condition), lambda c, b, sig, args: b.not_(cast(c, b, args[0], condition, target))


@intrinsic
def bits_of(typing, condition):
    """A condition as 64 bits: the bit of a lane is 1 where it holds."""

    def lower(context, builder, sig, args):
        if not any_lanes(condition):
            return ir.Constant(I64, (1 << LANES) - 1)
        return builder.zext(builder.bitcast(args[0], ir.IntType(LANES)), I64)

    return types.uint64(condition), lower


@intrinsic
def some(typing, condition):
    """Whether a condition holds in any lane."""

    def lower(context, builder, sig, args):
        if not any_lanes(condition):
            return cast(context, builder, args[0], condition, types.boolean)
        bits = builder.bitcast(args[0], ir.IntType(LANES))
        return builder.icmp_unsigned("!=", bits, ir.Constant(bits.type, 0))

    return types.boolean(condition), lower


@intrinsic
def unlikely(typing, condition):
    """A condition that seldom holds: its branch is moved out of the way."""

    def lower(context, builder, sig, args):
        kind = ir.FunctionType(I1, [I1, I1])
        expect = cgutils.get_or_insert_function(builder.module, kind, "llvm.expect.i1")
        return builder.call(expect, [args[0], ir.Constant(I1, 0)])

    return types.boolean(types.boolean), lower


@intrinsic
def lowest_bit(typing, bits):
    """The index of the lowest bit that is 1."""
    return types.uint64(types.uint64), lambda c, b, sig, args: b.cttz(args[0], ir.Constant(I1, 1))


@intrinsic
def get_lane(typing, value, lane):
    """The number in a lane; a number is the same in all."""
    if not any_lanes(value):
        plain = types.unliteral(value)
        return plain(plain, types.uint64), lambda c, b, sig, args: args[0]
    number = SCALAR[value.kind]
    return number(value, types.uint64), lambda c, b, sig, args: b.extract_element(*args)


@intrinsic
def with_lane(typing, value, lane, number):
    """Lanes with another number in one of them."""

    def lower(context, builder, sig, args):
        return builder.insert_element(args[0], args[2], args[1])

    return value(value, types.uint64, SCALAR[value.kind]), lower


def _conversion(name, kind):
    instructions = {"fi": "fptosi", "fu": "fptoui", "if": "sitofp", "uf": "uitofp"}

    def typer(typing, value):
        if kind_of(value) not in ("f", "i", "u"):
            return None
        if not any_lanes(value):
            target = SCALAR[kind]
            return target(value), lambda c, b, sig, args: c.cast(b, args[0], value, target)
        target, instruction = Lanes(kind), instructions.get(value.kind + kind)

        def lower(context, builder, sig, args):
            if instruction is None:
                return args[0]
            return getattr(builder, instruction)(args[0], target.vector)

        return target(value), lower

    typer.__name__, typer.__doc__ = (
        name,
        f"A number of each lane as {SCALAR[kind]}, as Numba converts it.",
    )
    return intrinsic(typer)


as_int, as_unsigned, as_float = (
    _conversion(*names) for names in (("as_int", "i"), ("as_unsigned", "u"), ("as_float", "f"))
)


@intrinsic
def root(typing, value):
    """The square root."""
    target = Lanes("f") if any_lanes(value) else types.float64

    def lower(context, builder, sig, args):
        number = cast(context, builder, args[0], value, target)
        if any_lanes(value):
            return _call_vector(builder, "sqrt", number)
        kind = ir.FunctionType(number.type, [number.type])
        return builder.call(
            cgutils.get_or_insert_function(builder.module, kind, "llvm.sqrt.f64"), [number]
        )

    return target(value) if kind_of(value) in ("f", "i", "u") else None, lower
