"""Windows are the same parts of an array in machine code and in plain Python."""

import sys

import numba
import numpy as np

from sameluck.compilation.decorators import load_compiler
from sameluck.compilation.windows import whole_numbers, window


def write_parts(numbers):
    """Write floats and whole numbers through windows, and return their sizes."""
    floats, whole = window(numbers, 2, 3), whole_numbers(numbers, 5, 4)
    floats[0], floats[2] = 0.5, 2.5
    whole[0], whole[3] = -7, (1 << 62) + 1
    return floats.size, whole.size, window(numbers, 10, 0).size


def test_machine_code_and_plain_python_write_the_same_bits():
    plain, compiled = np.zeros(10), np.zeros(10)
    load_compiler()
    machine_code = numba.njit(write_parts)
    assert write_parts(plain) == (3, 4, 0)
    for _ in range(1_000):  # a window that counted references wrongly would free the array
        assert machine_code(compiled) == (3, 4, 0)
    assert sys.getrefcount(compiled) == sys.getrefcount(plain)
    assert plain.tobytes() == compiled.tobytes()
    assert plain[[2, 3, 4]].tolist() == [0.5, 0.0, 2.5]
    assert plain.view(np.int64)[[5, 8]].tolist() == [-7, (1 << 62) + 1]
