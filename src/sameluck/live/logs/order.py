"""Whether the rows of a log look sorted: then their order is not the one in which users came."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from sameluck.arrays import Floats, Ints
from sameluck.logs.rows import Log

SORTED = 0.9  # of the largest possible correlation of reward and place
SURE = 5.0  # standard errors: by chance with probability 6e-7
BLOCK = 5  # rows of an arm that make a block


def sorted_by_reward(log: Log) -> bool:
    """Whether the rewards of arms rise, or fall, with their place in the log.

    For each arm of a replication let T be the sum of (2 i - n - 1) r_i over its n rows, with r_i the rank of the i-th
    reward (ties share the mean rank), and T_max its value if they were sorted. Under any exchangeable order T has
    mean 0 and variance sum (2 i - n - 1)^2 sum (r_i - mean)^2 / (n - 1). The log looks sorted if the sum of T over
    all of them is 0.9 of that of T_max or more, in absolute value, and at least 5 standard errors from 0.
    """
    total = largest = variance = 0.0
    for rewards in _stacks(log):
        ranks = _mean_ranks(rewards)
        places = 2.0 * np.arange(1, ranks.size + 1) - ranks.size - 1
        total += float(places @ ranks)
        largest += float(places @ np.sort(ranks))
        spread = float(np.sum((ranks - ranks.mean()) ** 2))
        variance += float(places @ places) * spread / (ranks.size - 1)
    return abs(total) >= SORTED * largest and abs(total) >= SURE * math.sqrt(variance) > 0


def _stacks(log: Log) -> Iterator[Floats]:
    """The rewards of each arm of each replication, if there are two or more."""
    code = log.replication * len(log.arms) + log.arm
    order = np.argsort(code, kind="stable")
    for part in np.split(log.reward[order], np.flatnonzero(np.diff(code[order])) + 1):
        if part.size > 1:
            yield part


def _mean_ranks(values: Floats) -> Floats:
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[place]


def sorted_by_arm(log: Log) -> bool:
    """Whether in every replication that can be judged the rows of each arm stand together.

    A replication can be judged if at least two of its arms have 5 rows or more.
    """
    starts = np.flatnonzero(np.diff(log.replication, prepend=-1))
    judged = [part for part in np.split(log.arm, starts[1:]) if _can_be_judged(part)]
    return bool(judged) and all(_in_blocks(part) for part in judged)


def _can_be_judged(arms: Ints) -> bool:
    return int(np.sum(np.bincount(arms) >= BLOCK)) > 1


def _in_blocks(arms: Ints) -> bool:
    return int(np.count_nonzero(np.diff(arms))) + 1 == np.unique(arms).size
