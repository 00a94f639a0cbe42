"""Tests that the rows of a log look sorted, which is not the order in which users came."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from sameluck.arrays import Floats, Ints
from sameluck.logs.rows import Log

MIN_CORRELATION = 0.9  # of the largest possible correlation of reward and row
MIN_ERRORS = 5.0  # standard errors: by chance with probability 6e-7
MIN_BLOCK = 5  # rows of an arm that make a block


def sorted_by_reward(log: Log) -> bool:
    """Return True if the rewards of arms rise, or fall, in the order of the log.

    For each arm of a replication let T be the sum of (2 i - n - 1) r_i over its n rows, with r_i the rank of the i-th
    reward (ties share the mean rank), and T_max its value if they were sorted. Under any exchangeable order T has
    mean 0 and variance sum (2 i - n - 1)^2 sum (r_i - mean)^2 / (n - 1). The log looks sorted if, summed over the
    arms, |T| is at least 0.9 T_max and at least 5 standard errors.
    """
    total = largest = variance = 0.0
    for rewards in _stacks(log):
        ranks = _mean_ranks(rewards)
        weights = 2.0 * np.arange(1, ranks.size + 1) - ranks.size - 1
        total += float(weights @ ranks)
        largest += float(weights @ np.sort(ranks))
        spread = float(np.sum((ranks - ranks.mean()) ** 2))
        variance += float(weights @ weights) * spread / (ranks.size - 1)
    is_sure = abs(total) >= MIN_ERRORS * math.sqrt(variance) > 0
    return is_sure and abs(total) >= MIN_CORRELATION * largest


def _stacks(log: Log) -> Iterator[Floats]:
    """Yield the rewards of each arm of each replication, if there are two or more."""
    stack = log.replication * len(log.arms) + log.arm
    order = np.argsort(stack, kind="stable")
    for rewards in np.split(log.reward[order], np.flatnonzero(np.diff(stack[order])) + 1):
        if rewards.size > 1:
            yield rewards


def _mean_ranks(values: Floats) -> Floats:
    _, index, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[index]


def sorted_by_arm(log: Log) -> bool:
    """Return True if the rows of each arm are adjacent in every replication that can be judged.

    A replication can be judged if at least two of its arms have 5 rows or more.
    """
    starts = np.flatnonzero(np.diff(log.replication, prepend=-1))
    judged = [arms for arms in np.split(log.arm, starts[1:]) if _can_be_judged(arms)]
    return bool(judged) and all(_in_blocks(arms) for arms in judged)


def _can_be_judged(arms: Ints) -> bool:
    return int(np.sum(np.bincount(arms) >= MIN_BLOCK)) > 1


def _in_blocks(arms: Ints) -> bool:
    return int(np.count_nonzero(np.diff(arms))) + 1 == np.unique(arms).size
