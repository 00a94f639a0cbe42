"""Array types for annotations, and arrays that share no cache line."""

from __future__ import annotations

from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]

Number = TypeVar("Number", np.float64, np.int64, np.uint64)


def padded(size: int, dtype: type[Number]) -> NDArray[Number]:
    """Return zeros, a cache line apart from other arrays and aligned with one."""
    # Two threads' small arrays in one cache line would make each write stall the other thread (false sharing).
    # Lanes that straddle cache lines would make regressions a quarter slower.
    space = np.zeros(size + 32, dtype)
    first = 16 - space.ctypes.data // space.itemsize % 8
    return space[first : first + size]
