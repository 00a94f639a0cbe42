"""LLVM instructions of `lanes`, which Numba calls when it compiles; importing this module registers them."""

from __future__ import annotations

import operator

from llvmlite import ir
from numba.core import types
from numba.core.datamodel import models
from numba.extending import lower_builtin, register_model, type_callable

from sameluck.compilation.lanes import (
    WIDTH,
    lane_sum,
    lane_sums,
    load_lanes,
    load_padded,
    spread,
    store_lanes,
)
from sameluck.compilation.machine_code import NumbaObject

_NUMBER, _INDEX = ir.DoubleType(), ir.IntType(32)
_VECTOR = ir.VectorType(_NUMBER, WIDTH)
_UNDEFINED = ir.Constant(_VECTOR, ir.Undefined)
_ALIGNMENT = 8  # arrays are aligned to numbers only


class LanesType(types.Type):
    """Numba's type of lanes."""


_LANES = LanesType("Lanes")


@register_model(LanesType)
class _LanesModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: NumbaObject, lanes_type: NumbaObject) -> None:
        super().__init__(manager, lanes_type, _VECTOR)


# Numba takes the names and the number of arguments from the inner functions.
type_callable(load_lanes)(lambda _: lambda array, start: _LANES)
type_callable(load_padded)(lambda _: lambda array, start, end: _LANES)
type_callable(store_lanes)(lambda _: lambda array, start, lanes: types.none)
type_callable(spread)(lambda _: lambda number: _LANES)
type_callable(lane_sum)(lambda _: lambda lanes: types.float64)
type_callable(lane_sums)(lambda _: lambda array, start: _LANES)


def _data(context: NumbaObject, builder: NumbaObject, signature: NumbaObject, array: NumbaObject):  # type: ignore[no-untyped-def]
    """Return the address of an array's first number; the array is contiguous."""
    return context.make_array(signature.args[0])(context, builder, array).data


def _load(builder: NumbaObject, address: NumbaObject) -> NumbaObject:
    lanes = builder.load(builder.bitcast(address, _VECTOR.as_pointer()))
    lanes.align = _ALIGNMENT
    return lanes


@lower_builtin(load_lanes, types.Array, types.Integer)
def _load_lanes(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
    array, start = arguments
    return _load(builder, builder.gep(_data(context, builder, signature, array), [start]))


@lower_builtin(load_padded, types.Array, types.Integer, types.Integer)
def _load_padded(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
    # Number by number: a wide load of numbers that were just written would wait for the writes.
    array, start, end = arguments
    data, lanes = _data(context, builder, signature, array), _UNDEFINED
    last = builder.sub(end, end.type(1))
    for lane in range(WIDTH):
        index = builder.add(start, start.type(lane))
        inside = builder.icmp_signed("<", index, end)
        number = builder.load(builder.gep(data, [builder.select(inside, index, last)]))
        number = builder.select(inside, number, _NUMBER(0.0))
        lanes = builder.insert_element(lanes, number, _INDEX(lane))
    return lanes


@lower_builtin(store_lanes, types.Array, types.Integer, LanesType)
def _store_lanes(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
    array, start, lanes = arguments
    address = builder.gep(_data(context, builder, signature, array), [start])
    builder.store(lanes, builder.bitcast(address, _VECTOR.as_pointer())).align = _ALIGNMENT
    return context.get_dummy_value()


@lower_builtin(spread, types.Float)
def _spread(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
    first = builder.insert_element(_UNDEFINED, arguments[0], _INDEX(0))
    return builder.shuffle_vector(first, _UNDEFINED, _order([0] * WIDTH))


def _order(lanes: list[int]) -> NumbaObject:
    return ir.Constant(ir.VectorType(_INDEX, len(lanes)), lanes)


def _add_neighbours(
    builder: NumbaObject, first: NumbaObject, second: NumbaObject, width: int
) -> NumbaObject:
    """Return the sums of neighbours in two vectors, one after the other."""
    orders = _order(list(range(0, width, 2))), _order(list(range(1, width, 2)))
    return builder.fadd(*(builder.shuffle_vector(first, second, order) for order in orders))


@lower_builtin(lane_sum, LanesType)
def _lane_sum(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
    (lanes,), width = arguments, WIDTH
    while width > 1:
        lanes, width = _add_neighbours(builder, lanes, lanes, width), width // 2
    return builder.extract_element(lanes, _INDEX(0))


@lower_builtin(lane_sums, types.Array, types.Integer)
def _lane_sums(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
    array, start = arguments
    first = builder.gep(_data(context, builder, signature, array), [start])
    rows = [_load(builder, builder.gep(first, [_INDEX(WIDTH * row)])) for row in range(WIDTH)]
    while len(rows) > 1:
        pairs = zip(rows[::2], rows[1::2], strict=True)
        rows = [_add_neighbours(builder, *pair, 2 * WIDTH) for pair in pairs]
    return rows[0]


def _register_operator(function: NumbaObject, instruction: str) -> None:
    """Compile an operator of two lanes, or of a number and lanes."""

    def operate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        left, right = arguments
        if signature.args[0] is not _LANES:
            left = _spread(context, builder, signature, [left])
        return getattr(builder, instruction)(left, right)

    def result(left: NumbaObject, right: NumbaObject) -> NumbaObject:
        return _LANES if right is _LANES and left in (_LANES, types.float64) else None

    type_callable(function)(lambda _: result)
    lower_builtin(function, LanesType, LanesType)(operate)
    lower_builtin(function, types.Float, LanesType)(operate)


_register_operator(operator.add, "fadd")
_register_operator(operator.sub, "fsub")
_register_operator(operator.mul, "fmul")
