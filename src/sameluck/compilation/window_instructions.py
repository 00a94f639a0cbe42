"""LLVM instructions of `windows`, which Numba calls when it compiles; importing this module registers them."""

from __future__ import annotations

from numba.core import types
from numba.extending import lower_builtin, type_callable
from numba.np.arrayobj import make_array, populate_array

from sameluck.compilation.windows import whole_numbers, window

_FLOATS, _INTS = types.Array(types.float64, 1, "C"), types.Array(types.int64, 1, "C")

type_callable(window)(lambda _: lambda array, start, size: _FLOATS)
type_callable(whole_numbers)(lambda _: lambda array, start, size: _INTS)


@lower_builtin(window, types.Array, types.Integer, types.Integer)
@lower_builtin(whole_numbers, types.Array, types.Integer, types.Integer)
def _window(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
    array, start, size = arguments
    whole = make_array(signature.args[0])(context, builder, array)
    part = make_array(signature.return_type)(context, builder)
    data = builder.bitcast(builder.gep(whole.data, [start]), part.data.type)
    # Without a record of its memory: code that counts references would otherwise free what it has not counted.
    populate_array(
        part,
        data=data,
        shape=[size],
        strides=[whole.itemsize],
        itemsize=whole.itemsize,
        meminfo=None,
    )
    return part._getvalue()
