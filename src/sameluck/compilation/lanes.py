"""`Lanes`: eight numbers that machine code adds and multiplies at once, with the same bits on every processor.

LLVM may not reorder a sum of floats, so that a plain loop over a vector adds one number at a time. Here the order is
part of the program: lane k of a sum adds every eighth number, and `lane_sum` adds neighbours first. A processor with
shorter registers takes several instructions for the same bits. In plain Python, lanes are an array of eight numbers;
`lane_instructions` has the machine code.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from sameluck.arrays import Floats

WIDTH = 8

Lanes: TypeAlias = Floats  # of length `WIDTH`; in machine code a value in registers, not an array


def load_lanes(array: Floats, start: int) -> Lanes:
    """Return the numbers of an array from an index on."""
    return np.array(np.asarray(array)[start : start + WIDTH])


def load_padded(array: Floats, start: int, end: int) -> Lanes:
    """Return the numbers of an array from an index on, with zeros from `end` on; the array may have several axes."""
    numbers = np.zeros(WIDTH)
    numbers[: end - start] = np.asarray(array).reshape(-1)[start : min(start + WIDTH, end)]
    return numbers


def store_lanes(array: Floats, start: int, lanes: Lanes) -> None:
    """Write lanes into an array from an index on."""
    np.asarray(array)[start : start + WIDTH] = lanes


def spread(number: float) -> Lanes:
    """Return lanes that all hold a number."""
    return np.full(WIDTH, number)


def lane_sum(lanes: Lanes) -> float:
    """Return the sum of the lanes: neighbours first, then sums of two, then sums of four."""
    while lanes.size > 1:
        lanes = lanes[::2] + lanes[1::2]
    return float(lanes[0])


def lane_sums(array: Floats, start: int) -> Lanes:
    """Return in lane k the sum of the k-th of eight lanes that an array holds from an index on."""
    rows = np.asarray(array)[start : start + WIDTH * WIDTH]
    return np.array([lane_sum(row) for row in rows.reshape(WIDTH, WIDTH)])
