"""Numbers of 32 lanes: a Numba type whose values are LLVM vectors, with the arithmetic that bodies use.

Each operation does to every lane exactly what Numba's scalar operation does to a number: the same conversions, the
same rounding. Where no instruction does that (logarithms, integer division), there is no operation, and `lifting`
calls the scalar one lane by lane, or refuses the body. All functions also take numbers, and numbers alone stay
numbers.
"""

from __future__ import annotations

import operator

import numpy as np
from llvmlite import binding, ir
from numba.core import cgutils, types
from numba.core.datamodel import PrimitiveModel, StructModel, register_default
from numba.core.imputils import lower_cast
from numba.core.typeconv import Conversion
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, overload, overload_attribute

LANES = 32
_FEW_ARMS = 8  # up to here selecting among all arms is faster than a gather
INLINED = {"error_model": "numpy", "_nrt": False, "forceinline": True}
ZERO, ONE = np.uint64(0), np.uint64(1)

_I1, _I32, _I64 = ir.IntType(1), ir.IntType(32), ir.IntType(64)
_ELEMENT = {"f": ir.DoubleType(), "i": _I64, "u": _I64, "m": _I1}
_SCALAR = {"f": types.float64, "i": types.int64, "u": types.uint64, "m": types.boolean}
_POINTERS, _MASK = ir.VectorType(ir.PointerType(), LANES), ir.VectorType(_I1, LANES)
_FAST_GATHER = not binding.get_host_cpu_name().startswith("znver")  # else 32 loads are faster


class Lanes(types.Type):
    """32 numbers of a kind: "f" float64, "i" int64, "u" uint64, "m" booleans (a mask)."""

    def __init__(self, kind):
        self.kind = kind
        self.vector = ir.VectorType(_ELEMENT[kind], LANES)
        super().__init__(f"Lanes({kind})")

    def unify(self, context, other):
        """Where a variable is lanes in one place and a number in another, it is lanes."""
        number = not isinstance(other, Lanes) and _kind(other)
        return self if number and _common(self.kind, number) == self.kind else None

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
        super().__init__(manager, block, _I64)


def _kind(of):
    if isinstance(of, Lanes):
        return of.kind
    if isinstance(of, types.Boolean):
        return "m"
    if isinstance(of, types.Float):
        return "f"
    if isinstance(of, types.Integer):
        return "i" if of.signed else "u"
    return None


def _common(one, other):
    # As Numba promotes; a signed with an unsigned integer would become a float there, and is refused here.
    if one == other:
        return one
    return "f" if {one, other} in ({"f", "i"}, {"f", "u"}) else None


def _any_lanes(*of):
    return any(isinstance(one, Lanes) for one in of)


def _splat(builder, value):
    vector = ir.VectorType(value.type, LANES)
    undefined = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(undefined, value, ir.Constant(_I32, 0))
    zeros = ir.Constant(ir.VectorType(_I32, LANES), [0] * LANES)
    return builder.shuffle_vector(first, undefined, zeros)


def _cast(context, builder, value, of, target):
    """A number or lanes as the target: a kind of number, or lanes that a number or other lanes promote to."""
    if not isinstance(target, Lanes):
        return context.cast(builder, value, of, target)
    if not isinstance(of, Lanes):
        return _splat(builder, context.cast(builder, value, of, _SCALAR[target.kind]))
    if of.kind == target.kind:
        return value
    return (builder.sitofp if of.kind == "i" else builder.uitofp)(value, target.vector)


@lower_cast(types.Integer, Lanes)
@lower_cast(types.IntegerLiteral, Lanes)
@lower_cast(types.Float, Lanes)
@lower_cast(types.Boolean, Lanes)
def _number_to_lanes(context, builder, of, target, value):
    return _cast(context, builder, value, of, target)


# Operators.


def _register_operator(operation, result, lower):
    @infer_global(operation)
    class _Template(AbstractTemplate):
        key = operation

        def generic(self, args, kws):
            if len(args) != 2 or not _any_lanes(*args):
                return None
            kind = result(_common(*map(_kind, args)))
            return kind and signature(Lanes(kind), *args)

    def lower_promoted(context, builder, sig, args):
        promoted = Lanes(_common(*map(_kind, sig.args)))
        if operation is operator.truediv:
            promoted = Lanes("f")
        both = (
            _cast(context, builder, v, t, promoted) for v, t in zip(args, sig.args, strict=True)
        )
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
    target = Lanes(_kind(value))
    return target(value), lambda c, b, sig, args: _cast(c, b, args[0], value, target)


@intrinsic
def count_from(typing, first):
    """The whole numbers from `first` on, one per lane."""

    def lower(context, builder, sig, args):
        steps = ir.Constant(sig.return_type.vector, list(range(LANES)))
        return builder.add(_splat(builder, args[0]), steps)

    return Lanes("i")(types.int64), lower


@intrinsic
def pick(typing, condition, one, other):
    """One where the condition holds, else the other."""
    if _any_lanes(condition, one, other):
        kind = _common(_kind(one), _kind(other))
        target = Lanes(kind) if kind and _kind(condition) == "m" else None
    else:
        target = typing.unify_types(one, other)
    if target is None:
        return None

    def lower(context, builder, sig, args):
        values = [_cast(context, builder, args[k], sig.args[k], target) for k in (1, 2)]
        where = (
            _cast(context, builder, args[0], condition, types.boolean)
            if not _any_lanes(condition)
            else args[0]
        )
        return builder.select(where, *values)

    return target(condition, one, other), lower


def _conditions(name, instruction, summary):
    def typer(typing, one, other):
        if _kind(one) != "m" or _kind(other) != "m":
            return None
        target = Lanes("m") if _any_lanes(one, other) else types.boolean

        def lower(context, builder, sig, args):
            both = (
                _cast(context, builder, v, t, target) for v, t in zip(args, sig.args, strict=True)
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
    if _kind(condition) != "m":
        return None
    target = condition if _any_lanes(condition) else types.boolean
    return target(condition), lambda c, b, sig, args: b.not_(
        _cast(c, b, args[0], condition, target)
    )


@intrinsic
def bits_of(typing, condition):
    """A condition as 64 bits: the bit of a lane is 1 where it holds."""

    def lower(context, builder, sig, args):
        if not _any_lanes(condition):
            return ir.Constant(_I64, (1 << LANES) - 1)
        return builder.zext(builder.bitcast(args[0], ir.IntType(LANES)), _I64)

    return types.uint64(condition), lower


@intrinsic
def some(typing, condition):
    """Whether a condition holds in any lane."""

    def lower(context, builder, sig, args):
        if not _any_lanes(condition):
            return _cast(context, builder, args[0], condition, types.boolean)
        bits = builder.bitcast(args[0], ir.IntType(LANES))
        return builder.icmp_unsigned("!=", bits, ir.Constant(bits.type, 0))

    return types.boolean(condition), lower


@intrinsic
def unlikely(typing, condition):
    """A condition that seldom holds: its branch is moved out of the way."""

    def lower(context, builder, sig, args):
        kind = ir.FunctionType(_I1, [_I1, _I1])
        expect = cgutils.get_or_insert_function(builder.module, kind, "llvm.expect.i1")
        return builder.call(expect, [args[0], ir.Constant(_I1, 0)])

    return types.boolean(types.boolean), lower


@intrinsic
def few(typing, size):
    """Whether so few rows are to be selected from that it is faster than a gather."""

    def lower(context, builder, sig, args):
        # If LLVM knew how few, it would unroll every loop over them, and compile twice as long.
        launder = ir.FunctionType(_I64, [_I64])
        hidden = builder.asm(launder, "", "=r,0", args, side_effect=False)
        return builder.icmp_signed("<=", hidden, ir.Constant(_I64, _FEW_ARMS))

    return types.boolean(types.int64), lower


@intrinsic
def lowest_bit(typing, bits):
    """The index of the lowest bit that is 1."""
    return types.uint64(types.uint64), lambda c, b, sig, args: b.cttz(args[0], ir.Constant(_I1, 1))


@intrinsic
def get_lane(typing, value, lane):
    """The number in a lane; a number is the same in all."""
    if not _any_lanes(value):
        plain = types.unliteral(value)
        return plain(plain, types.uint64), lambda c, b, sig, args: args[0]
    number = _SCALAR[value.kind]
    return number(value, types.uint64), lambda c, b, sig, args: b.extract_element(*args)


@intrinsic
def with_lane(typing, value, lane, number):
    """Lanes with another number in one of them."""

    def lower(context, builder, sig, args):
        return builder.insert_element(args[0], args[2], args[1])

    return value(value, types.uint64, _SCALAR[value.kind]), lower


def _conversion(name, kind):
    instructions = {"fi": "fptosi", "fu": "fptoui", "if": "sitofp", "uf": "uitofp"}

    def typer(typing, value):
        if _kind(value) not in ("f", "i", "u"):
            return None
        if not _any_lanes(value):
            target = _SCALAR[kind]
            return target(value), lambda c, b, sig, args: c.cast(b, args[0], value, target)
        target, instruction = Lanes(kind), instructions.get(value.kind + kind)

        def lower(context, builder, sig, args):
            if instruction is None:
                return args[0]
            return getattr(builder, instruction)(args[0], target.vector)

        return target(value), lower

    typer.__name__, typer.__doc__ = (
        name,
        f"A number of each lane as {_SCALAR[kind]}, as Numba converts it.",
    )
    return intrinsic(typer)


as_int, as_unsigned, as_float = (
    _conversion(*names) for names in (("as_int", "i"), ("as_unsigned", "u"), ("as_float", "f"))
)


@intrinsic
def root(typing, value):
    """The square root."""
    target = Lanes("f") if _any_lanes(value) else types.float64

    def lower(context, builder, sig, args):
        number = _cast(context, builder, args[0], value, target)
        if _any_lanes(value):
            return _call_vector(builder, "sqrt", number)
        kind = ir.FunctionType(number.type, [number.type])
        return builder.call(
            cgutils.get_or_insert_function(builder.module, kind, "llvm.sqrt.f64"), [number]
        )

    return target(value) if _kind(value) in ("f", "i", "u") else None, lower


# Arrays.


def _data(context, builder, array_type, array):
    return context.make_array(array_type)(context, builder, array).data


@intrinsic
def rows(typing, array):
    """A flat array as rows of lanes."""
    target = Rows(array)

    def lower(context, builder, sig, args):
        made = cgutils.create_struct_proxy(target)(context, builder)
        made.array = args[0]
        return made._getvalue()

    return target(array), lower


@intrinsic
def flat(typing, rows):
    """The array of rows."""

    def lower(context, builder, sig, args):
        return cgutils.create_struct_proxy(rows)(context, builder, value=args[0]).array

    return rows.array(rows), lower


@intrinsic
def block_of(typing, number):
    """The `row` of a draw body for the replications of a block."""
    return Block()(types.int64), lambda c, b, sig, args: args[0]


@intrinsic
def _number_of(typing, block):
    return types.int64(block), lambda c, b, sig, args: args[0]


@intrinsic
def load(typing, array, first):
    """The 32 numbers of an array from an index on."""
    target = Lanes(_kind(array.dtype))

    def lower(context, builder, sig, args):
        place = builder.gep(_data(context, builder, array, args[0]), [args[1]])
        return builder.load(place, align=8, typ=target.vector)

    return target(array, types.int64), lower


@intrinsic
def store(typing, array, first, value):
    """Write 32 numbers into an array from an index on."""

    def lower(context, builder, sig, args):
        place = builder.gep(_data(context, builder, array, args[0]), [args[1]])
        builder.store(args[2], builder.bitcast(place, value.vector.as_pointer()), align=8)
        return context.get_dummy_value()

    return types.none(array, types.int64, value), lower


def _places(builder, data, index):
    start = _splat(builder, builder.ptrtoint(data, _I64))
    times_eight = builder.shl(index, ir.Constant(index.type, [3] * LANES))
    return builder.inttoptr(builder.add(start, times_eight), _POINTERS)


def _masked(builder, what, result, arguments, lanes):
    name = f"llvm.masked.{what}.v{LANES}{'f' if lanes.kind == 'f' else 'i'}64.v{LANES}p0"
    return cgutils.get_or_insert_function(builder.module, ir.FunctionType(result, arguments), name)


def _gathered(builder, data, index, target):
    undefined = ir.Constant(target.vector, ir.Undefined)
    if _FAST_GATHER:
        kinds = [_POINTERS, _I32, _MASK, target.vector]
        function = _masked(builder, "gather", target.vector, kinds, target)
        everywhere = ir.Constant(_MASK, [1] * LANES)
        places = _places(builder, data, index)
        return builder.call(function, [places, ir.Constant(_I32, 8), everywhere, undefined])
    # The indices by way of memory: taking them out of registers one by one is slower. An atomic load, which costs
    # nothing here, is not turned into that again.
    indices = cgutils.alloca_once(builder, ir.ArrayType(_I64, LANES))
    builder.store(index, builder.bitcast(indices, index.type.as_pointer()), align=8)
    found = undefined
    for lane in range(LANES):
        number = ir.Constant(_I32, lane)
        place = builder.gep(indices, [ir.Constant(_I32, 0), number])
        element = builder.load(builder.gep(data, [builder.load_atomic(place, "monotonic", 8)]))
        found = builder.insert_element(found, element, number)
    return found


@intrinsic
def gather(typing, array, index):
    """The elements of an array at 32 indices."""
    target = Lanes(_kind(array.dtype))

    def lower(context, builder, sig, args):
        return _gathered(builder, _data(context, builder, array, args[0]), args[1], target)

    return target(array, index), lower


@intrinsic
def scatter(typing, array, index, value, mask):
    """Write 32 numbers at 32 different indices of an array, in the lanes of a mask."""

    def lower(context, builder, sig, args):
        kinds = [value.vector, _POINTERS, _I32, _MASK]
        function = _masked(builder, "scatter", ir.VoidType(), kinds, value)
        places = _places(builder, _data(context, builder, array, args[0]), args[1])
        builder.call(function, [args[2], places, ir.Constant(_I32, 8), args[3]])
        return context.get_dummy_value()

    return types.none(array, index, value, mask), lower


@overload_attribute(Rows, "size", jit_options=INLINED)
def _size(rows):
    return lambda rows: flat(rows).size // LANES


@infer_global(operator.getitem)
class _RowAt(AbstractTemplate):
    def generic(self, args, kws):
        array, index = args
        row = isinstance(array, Rows) and isinstance(index, types.Integer)
        return signature(Lanes(_kind(array.array.dtype)), *args) if row else None


@lower_builtin(operator.getitem, Rows, types.Integer)
@lower_builtin(operator.getitem, Rows, types.IntegerLiteral)
def _load_row(context, builder, sig, args):
    held, index = sig.args
    array = cgutils.create_struct_proxy(held)(context, builder, value=args[0]).array
    row = context.cast(builder, args[1], index, types.int64)
    place = builder.gep(
        _data(context, builder, held.array, array), [builder.mul(row, ir.Constant(_I64, LANES))]
    )
    return builder.load(place, align=8, typ=sig.return_type.vector)


def _is_table(array, dimensions):
    plain = isinstance(array, types.Array) and array.ndim == dimensions and array.layout == "C"
    return plain and array.dtype in (types.float64, types.int64, types.uint64)


def _is_index(index):
    return isinstance(index, Lanes) and index.kind in "iu"


@overload(operator.getitem, jit_options=INLINED, strict=False)
def _read(array, index):
    if isinstance(array, Rows):
        return _read_rows if _is_index(index) else None
    if _is_table(array, 1):
        return _read_table if _is_index(index) else None
    if _is_table(array, 3) and isinstance(index, types.BaseTuple) and len(index) == 2:
        block, arm = index
        return _read_block if isinstance(block, Block) and _is_index(arm) else None
    return None


def _read_rows(array, index):
    index = as_int(index)
    if not few(array.size):
        return gather(flat(array), index * LANES + count_from(0))
    found = array[0]
    for arm in range(1, array.size):
        found = pick(index == arm, array[arm], found)
    return found


def _read_table(array, index):
    if not few(array.size):
        return gather(array, index)
    found = splat(array[0])
    for place in range(1, array.size):
        found = pick(as_int(index) == place, array[place], found)
    return found


def _read_block(array, index):
    # The law of each replication: (block, arm, lane).
    arm = as_int(index[1])
    start = _number_of(index[0]) * array.shape[1] * LANES
    if not few(array.shape[1]):
        return gather(array, arm * LANES + count_from(start))
    found = load(array, start)
    for each in range(1, array.shape[1]):
        found = pick(arm == each, load(array, start + each * LANES), found)
    return found


def checked_read(array, index):
    """As `array[index]`; raises IndexError if the index is out of range in any lane."""
    raise NotImplementedError


@overload(checked_read, jit_options={**INLINED, "boundscheck": True}, strict=False)
def _checked_read(array, index):
    of_lanes = isinstance(array, Rows) or (_is_table(array, 1) and _is_index(index))
    if of_lanes and _kind(index) in ("i", "u"):
        return lambda array, index: array[_in_range(index, array.size)]
    return lambda array, index: array[index]


def _in_range(index, size):
    raise NotImplementedError


@overload(_in_range, jit_options=INLINED)
def _choose_in_range(index, size):
    def in_range(index, size):
        place = as_int(index)
        place = pick(place < 0, place + size, place)
        if unlikely(some(either(place < 0, place >= size))):
            raise IndexError("index is out of bounds")
        return place

    return in_range


def write(memory, index, value, mask):
    """Write a number per lane into a policy's memory, in the lanes of a mask."""
    raise NotImplementedError


@overload(write, jit_options=INLINED, strict=False)
def _write(memory, index, value, mask):
    if not isinstance(memory, Rows):
        return None
    if isinstance(index, types.Integer):
        return _write_row
    return _write_rows


def _write_row(memory, index, value, mask):
    place = _in_range(index, memory.size)
    store(flat(memory), place * LANES, splat(pick(mask, as_float(value), memory[place])))


def _write_rows(memory, index, value, mask):
    places = _in_range(index, memory.size)
    if not few(memory.size):
        where = places * LANES + count_from(0)
        scatter(flat(memory), where, splat(as_float(value)), splat(mask))
        return
    for place in range(memory.size):
        here = both(places == place, mask)
        store(flat(memory), place * LANES, pick(here, as_float(value), memory[place]))
