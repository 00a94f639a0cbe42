"""Digest of a ledger: the sum of the hashes of its settled entries, which the database keeps beside them.

The sum does not depend on the order, so each reward adds its own hash. An edited value changes the sum of the
entries, but not the stored sum. The digest does not protect against a person who changes both.
"""

from __future__ import annotations

import struct

import numpy as np

from sameluck.arrays import Floats, Ints

MODULUS = 1 << 62  # the sum of two digests stays below 2^63, the limit of a database's integers
_MASK = (1 << 64) - 1
STEP, FIRST, SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB  # SplitMix64


def entry_digest(stack_owner: int, arm: int, position: int, value: float) -> int:
    (bits,) = struct.unpack("<Q", struct.pack("<d", value))
    mixed = 0
    for word in (stack_owner + 1, arm, position, bits):
        mixed = (mixed + word + STEP) & _MASK
        mixed = ((mixed ^ (mixed >> 30)) * FIRST) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * SECOND) & _MASK
        mixed ^= mixed >> 31
    return mixed % MODULUS


def entries_digest(stack_owner: Ints, arm: Ints, position: Ints, value: Floats) -> int:
    """Return the sum of the digests of several entries modulo 2^62."""
    words = (stack_owner + 1, arm, position, value.astype("<f8"))
    mixed = np.zeros(value.size, np.uint64)
    for (
        word
    ) in words:  # sums and products overflow on purpose: arithmetic modulo 2^64, as with `_MASK`
        mixed += word.view(np.uint64) + np.uint64(STEP)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(FIRST)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(SECOND)
        mixed ^= mixed >> np.uint64(31)
    return int(np.sum(mixed)) % MODULUS  # 2^62 divides 2^64, so the sum may overflow
