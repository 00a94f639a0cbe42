"""Dot products of arrays, by lanes."""

from __future__ import annotations

from sameluck.arrays import Floats
from sameluck.compilation.decorators import inlined
from sameluck.compilation.lanes import WIDTH, lane_sum, load_lanes, spread


@inlined
def dot(first: Floats, second: Floats) -> float:
    """Return the dot product of two arrays of one length."""
    total, whole = 0.0, first.size - first.size % WIDTH
    if whole > 0:
        sums = spread(0.0)
        for index in range(0, whole, WIDTH):
            sums = sums + load_lanes(first, index) * load_lanes(second, index)
        total = lane_sum(sums)
    for index in range(whole, first.size):
        total += first[index] * second[index]
    return total
