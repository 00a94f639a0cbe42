"""Arrays indexed by lanes: rows, gathers, scatters, and what a body reads and writes by index."""

from __future__ import annotations

import operator

from llvmlite import binding, ir
from numba.core import cgutils, types
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, overload, overload_attribute

from sameluck.simulation.lanes.arithmetic import (
    as_float,
    as_int,
    both,
    count_from,
    either,
    pick,
    some,
    splat,
    unlikely,
)
from sameluck.simulation.lanes.lane_types import (
    I1,
    I32,
    I64,
    INLINED,
    LANES,
    Block,
    Lanes,
    Rows,
    kind_of,
    splat_value,
)

_FEW_ARMS = 8  # up to here selecting among all arms is faster than a gather
_FAST_GATHER = not binding.get_host_cpu_name().startswith("znver")  # else 32 loads are faster
_POINTERS, _MASK = ir.VectorType(ir.PointerType(), LANES), ir.VectorType(I1, LANES)


@intrinsic
def few(typing, size):
    """Whether so few rows are to be selected from that it is faster than a gather."""

    def lower(context, builder, sig, args):
        # If LLVM knew how few, it would unroll every loop over them, and compile twice as long.
        launder = ir.FunctionType(I64, [I64])
        hidden = builder.asm(launder, "", "=r,0", args, side_effect=False)
        return builder.icmp_signed("<=", hidden, ir.Constant(I64, _FEW_ARMS))

    return types.boolean(types.int64), lower


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
    target = Lanes(kind_of(array.dtype))

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
    start = splat_value(builder, builder.ptrtoint(data, I64))
    times_eight = builder.shl(index, ir.Constant(index.type, [3] * LANES))
    return builder.inttoptr(builder.add(start, times_eight), _POINTERS)


def _masked(builder, what, result, arguments, lanes):
    name = f"llvm.masked.{what}.v{LANES}{'f' if lanes.kind == 'f' else 'i'}64.v{LANES}p0"
    return cgutils.get_or_insert_function(builder.module, ir.FunctionType(result, arguments), name)


def _gathered(builder, data, index, target):
    undefined = ir.Constant(target.vector, ir.Undefined)
    if _FAST_GATHER:
        kinds = [_POINTERS, I32, _MASK, target.vector]
        function = _masked(builder, "gather", target.vector, kinds, target)
        everywhere = ir.Constant(_MASK, [1] * LANES)
        places = _places(builder, data, index)
        return builder.call(function, [places, ir.Constant(I32, 8), everywhere, undefined])
    # The indices by way of memory: taking them out of registers one by one is slower. An atomic load, which costs
    # nothing here, is not turned into that again.
    indices = cgutils.alloca_once(builder, ir.ArrayType(I64, LANES))
    builder.store(index, builder.bitcast(indices, index.type.as_pointer()), align=8)
    found = undefined
    for lane in range(LANES):
        number = ir.Constant(I32, lane)
        place = builder.gep(indices, [ir.Constant(I32, 0), number])
        element = builder.load(builder.gep(data, [builder.load_atomic(place, "monotonic", 8)]))
        found = builder.insert_element(found, element, number)
    return found


@intrinsic
def gather(typing, array, index):
    """The elements of an array at 32 indices."""
    target = Lanes(kind_of(array.dtype))

    def lower(context, builder, sig, args):
        return _gathered(builder, _data(context, builder, array, args[0]), args[1], target)

    return target(array, index), lower


@intrinsic
def scatter(typing, array, index, value, mask):
    """Write 32 numbers at 32 different indices of an array, in the lanes of a mask."""

    def lower(context, builder, sig, args):
        kinds = [value.vector, _POINTERS, I32, _MASK]
        function = _masked(builder, "scatter", ir.VoidType(), kinds, value)
        places = _places(builder, _data(context, builder, array, args[0]), args[1])
        builder.call(function, [args[2], places, ir.Constant(I32, 8), args[3]])
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
        return signature(Lanes(kind_of(array.array.dtype)), *args) if row else None


@lower_builtin(operator.getitem, Rows, types.Integer)
@lower_builtin(operator.getitem, Rows, types.IntegerLiteral)
def _load_row(context, builder, sig, args):
    held, index = sig.args
    array = cgutils.create_struct_proxy(held)(context, builder, value=args[0]).array
    row = context.cast(builder, args[1], index, types.int64)
    place = builder.gep(
        _data(context, builder, held.array, array), [builder.mul(row, ir.Constant(I64, LANES))]
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
    if of_lanes and kind_of(index) in ("i", "u"):
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
