"""The loop over blocks of 32 replications in step; its results are those of `simulation.loop`, to the bit."""

from __future__ import annotations

import logging
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from llvmlite import binding
from numba import config
from numba.core import types
from numba.core.errors import NumbaError
from numba.extending import overload
from numpy.typing import NDArray

from sameluck.arrays import Floats, Ints
from sameluck.compilation.bodies import Body
from sameluck.compilation.decorators import compiled, inlined
from sameluck.environments.base import Law, draw_body_of
from sameluck.policies.base import Policy, Tally, own_body_of
from sameluck.randomness.streams import DECISION, REWARD, Bits, Key, stream, within, word
from sameluck.simulation.lanes.arithmetic import (
    as_float,
    as_unsigned,
    count_from,
    pick,
    some,
    splat,
    unlikely,
)
from sameluck.simulation.lanes.indexing import block_of, few, rows, scatter, store
from sameluck.simulation.lanes.lane_types import INLINED, LANES
from sameluck.simulation.lanes.lifting import CannotLift, lifted, lifted_inline

log = logging.getLogger("sameluck")
_stream, _within, _word = lifted_inline(stream), lifted_inline(within), lifted_inline(word)
_bodies: dict[type, Body] = {}  # of policies and laws, for lanes
_refused: dict[tuple[type, type], str] = {}  # why a policy with a law is left to the scalar loop


Numbers: TypeAlias = Any  # one per lane


class LaneArrays(NamedTuple):
    """The working arrays of a block: 32 numbers per arm, one per replication."""

    first: NDArray[np.uint64]  # the keys of the arms' reward stacks
    second: NDArray[np.uint64]
    pulls: Ints
    totals: Floats
    means: Floats
    memory: Floats
    earned: Floats


def lane_arrays(arms: int, memory: int) -> LaneArrays:
    """Working arrays for a policy with this much memory."""
    sizes = (*[arms] * 5, memory, 1)
    kinds = (np.uint64, np.uint64, np.int64, *[np.float64] * 4)
    return LaneArrays(*map(_aligned, sizes, kinds))


def _aligned(size: int, kind: type) -> NDArray[Any]:
    # Rows of lanes begin with a cache line.
    raw: NDArray[Any] = np.zeros(size * LANES + 8, kind)
    start = -(raw.ctypes.data // 8) % 8
    return raw[start : start + size * LANES]


def fill_blocks(count: int) -> int:
    """How many replications the blocks have that this many need; at least one block."""
    return max(1, -(-count // LANES)) * LANES


@cache
def is_fast() -> bool:
    """Whether lanes are faster than one replication after another: they need AVX-512DQ."""
    if config.CPU_NAME or config.CPU_FEATURES:
        return "+avx512dq" in (config.CPU_FEATURES or "")
    return bool(binding.get_host_cpu_features().get("avx512dq"))


def _select(policy: Policy, tally: Tally, period: int, luck: Key) -> Numbers:
    raise NotImplementedError


@overload(_select, jit_options=INLINED, strict=False)
def _choose_select(policy: Any, tally: types.Type, period: types.Type, luck: types.Type) -> Body:
    body = _bodies[policy.instance_class]
    return lambda policy, tally, period, luck: body(True, policy, tally, period, luck)


def _draw(law: Law, row: Numbers, arm: Numbers, bits: Numbers) -> Numbers:
    raise NotImplementedError


@overload(_draw, jit_options=INLINED, strict=False)
def _choose_draw(law: Any, row: types.Type, arm: types.Type, bits: types.Type) -> Body:
    body = _bodies[law.instance_class]
    return lambda law, row, arm, bits: body(True, law, row, arm, bits)


@inlined
def _reset(arrays: LaneArrays, key: Key) -> None:
    for arm in range(arrays.pulls.size // LANES):
        stack = _within(True, key, arm)
        store(arrays.first, arm * LANES, stack.first)
        store(arrays.second, arm * LANES, stack.second)
        store(arrays.pulls, arm * LANES, splat(0))
        store(arrays.totals, arm * LANES, splat(0.0))
        store(arrays.means, arm * LANES, splat(0.0))
    for place in range(arrays.memory.size // LANES):
        store(arrays.memory, place * LANES, splat(0.0))


@inlined
def _state_of(arrays: LaneArrays, arm: Numbers) -> tuple[Key, Numbers, Numbers]:
    # The key of each lane's arm, its pulls and its total.
    first, second = rows(arrays.first), rows(arrays.second)
    pulls, totals = rows(arrays.pulls), rows(arrays.totals)
    if not few(pulls.size):
        return Key(first[arm], second[arm]), pulls[arm], totals[arm]
    key_first, key_second, pulled, total = first[0], second[0], pulls[0], totals[0]
    for each in range(1, pulls.size):
        here = arm == each
        key_first, key_second = (
            pick(here, first[each], key_first),
            pick(here, second[each], key_second),
        )
        pulled, total = pick(here, pulls[each], pulled), pick(here, totals[each], total)
    return Key(key_first, key_second), pulled, total


@inlined
def _update(arrays: LaneArrays, arm: Numbers, pulled: Numbers, total: Numbers) -> None:
    mean = total / pulled
    pulls, totals, means = rows(arrays.pulls), rows(arrays.totals), rows(arrays.means)
    if not few(pulls.size):
        places, everywhere = arm * LANES + count_from(0), splat(True)
        scatter(arrays.pulls, places, pulled, everywhere)
        scatter(arrays.totals, places, total, everywhere)
        scatter(arrays.means, places, mean, everywhere)
        return
    for each in range(pulls.size):
        here = arm == each
        store(arrays.pulls, each * LANES, pick(here, pulled, pulls[each]))
        store(arrays.totals, each * LANES, pick(here, total, totals[each]))
        store(arrays.means, each * LANES, pick(here, mean, means[each]))


@inlined
def _run_block(
    policy: Policy,
    law: Law,
    luck: Key,
    arrays: LaneArrays,
    block: int,
    checkpoints: Ints,
    rewards: Floats,
    pulls: Ints,
) -> bool:
    pulled_rows, totals, means = rows(arrays.pulls), rows(arrays.totals), rows(arrays.means)
    memory, arms, first_row = rows(arrays.memory), pulled_rows.size, block * LANES
    earned, reward, arm = splat(0.0), splat(0.0), splat(0)
    start = 1
    for checkpoint in range(checkpoints.size):
        stop = checkpoints[checkpoint] + 1
        for period in range(start, stop):
            tally = Tally(pulled_rows, totals, means, memory, arm, reward)
            arm = splat(_select(policy, tally, period, luck))
            if unlikely(some(as_unsigned(arm) >= np.uint64(arms))):
                return False
            key, pulled, total = _state_of(arrays, arm)
            bits = _word(True, key, pulled)
            reward = splat(as_float(_draw(law, block_of(block), arm, bits)))
            _update(arrays, arm, pulled + 1, total + reward)
            earned = earned + reward
        store(arrays.earned, 0, earned)
        for lane in range(LANES):
            rewards[first_row + lane, checkpoint] = arrays.earned[lane]
            for each in range(arms):
                pulls[first_row + lane, checkpoint, each] = arrays.pulls[each * LANES + lane]
        start = stop
    return True


@compiled
def _run_blocks(
    policy: Policy,
    law: Law,
    owners: tuple[Bits, Bits, Bits],
    first: int,
    arrays: LaneArrays,
    checkpoints: Ints,
    rewards: Floats,
    pulls: Ints,
) -> bool:
    # Returns False if a policy chose an arm that does not exist: the scalar loop knows where.
    seed, reward_owner, noise_owner = owners
    for block in range(rewards.shape[0] // LANES):
        replication = count_from(first + block * LANES)
        _reset(arrays, _stream(True, seed, REWARD, replication, reward_owner))
        luck = _stream(True, seed, DECISION, replication, noise_owner)
        if not _run_block(policy, law, luck, arrays, block, checkpoints, rewards, pulls):
            return False
    return True


def run_blocks(
    policy: Policy,
    law: Law,
    owners: tuple[Bits, Bits, Bits],
    first: int,
    arrays: LaneArrays,
    checkpoints: Ints,
    rewards: Floats,
    pulls: Ints,
) -> bool:
    """Fill the results of replications from `first` on, whole blocks of them; False if the scalar loop must do it."""
    kinds = (type(policy), type(law))
    if kinds in _refused:
        return False
    body, draw_body = own_body_of(policy), draw_body_of(law)
    try:
        _bodies[type(policy)], _bodies[type(law)] = lifted(body), lifted(draw_body)
        return _run_blocks(
            policy, _by_block(law, len(rewards)), owners, first, arrays, checkpoints, rewards, pulls
        )
    except (CannotLift, NumbaError) as error:
        _refused[kinds] = str(error)
        log.debug(
            "%s with %s runs one replication at a time: %s", *(k.__name__ for k in kinds), error
        )
    except IndexError:
        pass  # perhaps in a lane that does not take the branch
    return False


def _by_block(law: Law, count: int) -> Law:
    """A law with what differs between replications, (replication, arm), as (block, arm, lane)."""

    def by_block(value: object) -> object:
        if not isinstance(value, np.ndarray) or value.ndim != 2 or len(value) != count:
            return value
        return np.ascontiguousarray(value.reshape(-1, LANES, value.shape[1]).transpose(0, 2, 1))

    return type(law)(*map(by_block, law))
