"""`window` and `whole_numbers`: parts of an array, without the checks that machine code makes for a slice."""

from __future__ import annotations

from sameluck.arrays import Floats, Ints


def window(array: Floats, start: int, size: int) -> Floats:
    """Return `array[start : start + size]`, which must be inside the array."""
    return array[start : start + size]


def whole_numbers(array: Floats, start: int, size: int) -> Ints:
    """Return the same part as 64-bit integers, which are kept in place of floats."""
    return array[start : start + size].view("int64")
