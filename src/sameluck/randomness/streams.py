"""Random numbers by address: every random number is a pure function of its address.

An address is (seed, purpose, replication, stream owner, arm or period, position). Its first coordinates are hashed
into a 128-bit `Key`, once per stream; the last one is a counter, so reading is random access: nothing is consumed,
and any entry may be read at any time, in any order, on any machine, with the same bits.

The generator (stream version 1) is SplitMix64 in counter mode: the counter is multiplied by the golden
ratio's odd 64-bit number and mixed by Stafford's 13th variant of the MurmurHash3 finaliser (Steele, Lea and
Flood, "Fast splittable pseudorandom number generators", 2014: passes BigCrush). Two changes make it fit for
addresses: the key's first half is where the counter starts, and its second half is mixed in between the two
multiplications, so two streams share numbers only if all 128 bits of their keys collide. No NumPy stream is
involved; the numbers change only with `VERSION`.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple, TypeAlias

import numpy as np

from sameluck.compilation.decorators import Watched, compiled_as, inlined
from sameluck.compilation.function_errors import Misuse
from sameluck.compilation.functions import Function
from sameluck.errors import AddressReused

Bits: TypeAlias = np.uint64
Integer: TypeAlias = int | np.int64 | np.uint64

VERSION = 1

# Purposes of a number. Purposes never share numbers, so a policy's random choice never shifts a reward.
REWARD, DECISION, INSTANCE, AUDIT, TWIN, CONTEXT = 1, 2, 3, 4, 5, 6

ALL_POLICIES = 0  # the stream owner of the numbers that all policies of a replication share

SLOTS = 1 << 20  # decision numbers per period, one per arm: the largest number of arms

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_OTHER_LANE = np.uint64(0xD1B54A32D192ED03)
_27, _30, _31 = np.uint64(27), np.uint64(30), np.uint64(31)
_SLOTS = np.uint64(SLOTS)


class Key(NamedTuple):
    """128-bit name of a stream."""

    first: np.uint64
    second: np.uint64


@inlined
def mix(bits: Bits) -> Bits:
    """Mix 64 bits by a bijection in which every input bit flips every output bit with probability one half."""
    bits = (bits ^ (bits >> _30)) * _FIRST
    bits = (bits ^ (bits >> _27)) * _SECOND
    return bits ^ (bits >> _31)


@inlined
def subkey(key: Key, coordinate: Integer) -> Key:
    """Return the key one coordinate further down the address."""
    step = mix(np.uint64(coordinate) + _GOLDEN)
    return Key(mix(key.first ^ step), mix((key.second + step) * _OTHER_LANE))


@inlined
def stream(seed: Integer, purpose: Integer, replication: Integer, stream_owner: Integer) -> Key:
    """Return the key of everything that one owner reads for one purpose in one replication."""
    start = Key(mix(np.uint64(seed) + _OTHER_LANE), mix(np.uint64(seed) ^ _FIRST))
    # All of one type, so that `subkey` is compiled once.
    return subkey(subkey(subkey(start, np.uint64(purpose)), np.uint64(replication)), stream_owner)


@inlined
def _word(key: Key, index: Integer) -> Bits:
    bits = key.first + np.uint64(index) * _GOLDEN
    bits = ((bits ^ (bits >> _30)) * _FIRST) ^ key.second
    bits = (bits ^ (bits >> _27)) * _SECOND
    return bits ^ (bits >> _31)


@compiled_as(_word)
def word(key: Key | OnceKey, index: Integer) -> Bits:
    """Return the 64 random bits at an index of a stream."""
    if isinstance(key, OnceKey):
        key.read(int(index))
        bits = _word(key.key, index)
        return OnceBits.of(bits) if key.bits_once else bits
    return _word(key, index)


@inlined
def at(noise: Key | OnceKey, period: Integer, slot: Integer) -> Bits:
    """Return 64 random bits of a policy's decision noise in a period; use one slot per arm, or per purpose."""
    return word(noise, np.uint64(period) * _SLOTS + np.uint64(slot))


def within(noise: Key | OnceKey, coordinate: Integer) -> Key | OnceKey:
    """Return the key of a part of a policy's decision noise, such as the part for one level of a context."""
    if isinstance(noise, OnceKey):
        return noise.within(int(coordinate))
    return subkey(noise, coordinate)


compiled_as(subkey)(within)


@inlined
def again(bits: Bits, attempt: Integer) -> Bits:
    """Return more bits for a sampler that needs more than one word: a hash of its word."""
    return mix((bits ^ _OTHER_LANE) + np.uint64(attempt) * _GOLDEN)


class OnceKey:
    """Key that raises when an index is read twice: the fresh-key lemma as a check, in plain Python only."""

    def __init__(self, key: Key, name: str, *, bits_once: bool = False) -> None:
        self.key = key
        self.name = name
        self.bits_once = bits_once  # whether the bits must be taken once too (`OnceBits`)
        self.seen: set[int] = set()
        self._parts: dict[int, OnceKey] = {}

    def within(self, coordinate: int) -> OnceKey:
        """Return the key of a part, which remembers its own reads."""
        key = subkey(self.key, np.uint64(coordinate))
        part = OnceKey(key, self.name, bits_once=self.bits_once)
        return self._parts.setdefault(coordinate, part)

    def read(self, index: int) -> None:
        """Record a read; raise `AddressReused` if the index was read before."""
        if index in self.seen:
            period, slot = divmod(index, SLOTS)
            raise AddressReused(
                f"{self.name}: the random number of period {period}, slot {slot} was read twice, so the policy's "
                "distribution differs from its distribution in a solo run. Use another slot, or the period, in the "
                "address"
            )
        self.seen.add(index)


class OnceBits(np.uint64, Watched):
    """64 random bits that raise when a second sampler draws from them, in plain Python only.

    Two draws from the same bits depend on each other.
    """

    taken: dict[int, list[str]]  # words -> the draw that took them, by the name of its sampler
    draw: list[str]  # in which the bits are used; empty outside of a sampler

    @classmethod
    def of(
        cls, bits: Bits, taken: dict[int, list[str]] | None = None, draw: list[str] | None = None
    ) -> OnceBits:
        """Return the same bits, to be used once; so are the bits that `again` derives from them."""
        once = cls(bits)
        once.taken, once.draw = {} if taken is None else taken, draw or []
        return once

    def passed_to(self, function: Function, *arguments: object) -> object:
        """Record that a sampler uses the bits; raise `Misuse` if another draw has used them."""
        if function.__name__ == "again":
            return self.of(function(np.uint64(self), *arguments), self.taken, self.draw)
        draw = self.draw or [function.__name__]
        first = self.taken.setdefault(int(self), draw)
        if first is not draw:
            raise Misuse(
                f"{first[0]} and {draw[0]} draw from the same random bits, so that the draws depend on each other: "
                "take each from bits of its own, such as again(bits, 1) and again(bits, 2), or keep a draw in a "
                "variable"
            )
        return function(self.of(self, self.taken, draw), *arguments)


def owner_of(name: str) -> int:
    """Return a policy's stream owner: a stable 64-bit hash of its name, whatever the order of policies."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little") | 1
