"""Lanes give the same bits in machine code and in plain Python."""

import numba
import numpy as np

from budget import SEED
from sameluck.compilation.decorators import load_compiler
from sameluck.compilation.lanes import (
    WIDTH,
    lane_sum,
    lane_sums,
    load_lanes,
    load_padded,
    spread,
    store_lanes,
)


def every_operation(numbers, table, results):
    """Write what each function and operator returns."""
    first, second = load_lanes(numbers, 1), load_lanes(numbers, 3)
    store_lanes(results, 0, first + second)
    store_lanes(results, WIDTH, first - second)
    store_lanes(results, 2 * WIDTH, first * second)
    store_lanes(results, 3 * WIDTH, numbers[0] * first - spread(numbers[1]))
    store_lanes(results, 4 * WIDTH, lane_sums(numbers, 2))
    store_lanes(results, 5 * WIDTH, load_padded(table, 4, 7))
    store_lanes(results, 6 * WIDTH, load_padded(table, 0, table.size))
    results[7 * WIDTH] = lane_sum(first)


def test_machine_code_and_plain_python_give_the_same_bits():
    """Numbers of very different sizes, so that another order of additions shows."""
    random = np.random.default_rng(SEED)
    numbers = random.normal(size=80) * 10.0 ** random.integers(-8, 8, 80)
    table, results = numbers[:12].reshape(3, 4), [np.zeros(7 * WIDTH + 1) for _ in range(2)]
    load_compiler()
    every_operation(numbers, table, results[0])
    numba.njit(every_operation)(numbers, table, results[1])
    np.testing.assert_array_equal(*results)


def test_sums_add_neighbours_first():
    numbers = np.array([1e16, 1.0, -1e16, 1.0, 0.0, 1.0, 0.0, 1.0])
    assert lane_sum(numbers) == ((1e16 + 1.0) + (-1e16 + 1.0)) + (1.0 + 1.0)
    rows = np.concatenate([numbers * row for row in range(WIDTH)])
    assert lane_sums(rows, 0).tolist() == [lane_sum(numbers * row) for row in range(WIDTH)]


def test_padding_is_zero():
    """Beyond the end, and beyond the row of a table."""
    table = np.arange(1.0, 13.0).reshape(3, 4)
    assert load_padded(table, 4, 8).tolist() == [5, 6, 7, 8, 0, 0, 0, 0]
    assert load_padded(table.reshape(-1), 8, 12).tolist() == [9, 10, 11, 12, 0, 0, 0, 0]
