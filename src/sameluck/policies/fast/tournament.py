"""Tournaments: the arm with the highest mean or upper confidence bound, found in O(log K) instead of O(K).

The K arms are the leaves of a binary tree: arm a is node K + a, and the children of node n < K are nodes 2n and
2n + 1. Each inner node holds the winner of its children, so node 1 holds the best arm. A policy observes one reward
per period; only the nodes above that arm are compared again. Ties go to the lower arm. This order of the arms is
total, so that the winner does not depend on the tree: it is the arm that a loop over all arms finds.

The upper confidence bound of an arm that is not played grows. `highest_bound` is therefore a kinetic tournament
(Basch, Guibas and Hershberger, "Data structures for mobile data", 1999): a node also holds the growth up to which it
is certain that nothing changes in its subtree, and is compared again when the growth exceeds it. This happens to less
than one node per period on average, but to any number of them while bounds differ by their rounding alone, as with
rewards in [0, 1] and alpha above 1e20.

**The arm is the same to the bit.** The bound of an arm with mean m and width w >= 0 at growth g is computed as
b(g) = fl(m + fl(g w)). Let arm x win against arm y at growth `now`. It wins at every growth from `now` to g if

1. x < y, m_x >= m_y and w_x >= w_y: rounding is monotone, so b_x >= b_y at any growth, and x wins ties. Exact ties
   never expire; or if
2. now * loss < lead and g * loss <= lead, where, with M = |m_x| + |m_y|, W = w_x + w_y and s = 2^-48,

       lead = m_x - m_y - s M,    loss = w_y - w_x + s W.

   Proof: with u = 2^-53, each bound has an error of at most 3u (|m| + g w); g w does not underflow, since widths are
   square roots. So x wins where f(g) = m_x - m_y - g (w_y - w_x) - 3u (M + g W) is positive. `lead` and `loss` are
   computed with errors of at most 3u M and 3u W, their comparison and their quotient with at most 2u (M + g W). Both
   conditions, as computed, thus imply f >= (s - 8u) (M + g W) > 0 at `now` and at g, and f is linear.

Otherwise the winner is certain for `now` only.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sameluck.arrays import Floats, Ints
from sameluck.compilation.decorators import branch_hint, inlined
from sameluck.policies.base import Tally

MANY_ARMS = 64  # above, a tournament is faster than a loop over all arms
FLOATS_PER_ARM = 8  # of memory, for `highest_bound`: two nodes
_FIELDS = 4  # of a node
_SLACK = 2.0**-48
_BLOCK = 15  # a ceiling holds for a block of 16 periods


class _Winner(NamedTuple):
    arm: float
    mean: float
    width: float
    until: float  # the growth up to which the subtree is certain


@inlined
def _read(nodes: Floats, node: int) -> _Winner:
    offset = _FIELDS * node
    return _Winner(nodes[offset], nodes[offset + 1], nodes[offset + 2], nodes[offset + 3])


@inlined
def _write(nodes: Floats, node: int, winner: _Winner) -> None:
    offset = _FIELDS * node
    nodes[offset] = winner.arm
    nodes[offset + 1] = winner.mean
    nodes[offset + 2] = winner.width
    nodes[offset + 3] = winner.until


@inlined
def _until(nodes: Floats, node: int) -> float:
    return float(nodes[_FIELDS * node + 3])


@inlined
def _certain_until(winner: _Winner, loser: _Winner, now: float) -> float:
    if winner.arm < loser.arm and winner.mean >= loser.mean and winner.width >= loser.width:
        return np.inf
    lead = winner.mean - loser.mean - _SLACK * (abs(winner.mean) + abs(loser.mean))
    loss = loser.width - winner.width + _SLACK * (loser.width + winner.width)
    if lead > now * loss:
        return max(now, lead / loss) if loss > 0.0 else np.inf
    return now


@inlined
def _compared(first: _Winner, second: _Winner, now: float) -> _Winner:
    bound, second_bound = first.mean + now * first.width, second.mean + now * second.width
    if second_bound > bound or (second_bound == bound and second.arm < first.arm):
        first, second = second, first
    until = min(_certain_until(first, second, now), first.until, second.until)
    return _Winner(first.arm, first.mean, first.width, until)


@inlined
def _compare_again(nodes: Floats, top: int, now: float) -> None:
    # Nodes at and below `top` that are no longer certain, children first.
    node = top
    while _until(nodes, top) < now:
        if _until(nodes, 2 * node) < now:
            node = 2 * node
        elif _until(nodes, 2 * node + 1) < now:
            node = 2 * node + 1
        else:
            _write(nodes, node, _compared(_read(nodes, 2 * node), _read(nodes, 2 * node + 1), now))
            node //= 2


@inlined
def _enter_arms(nodes: Floats, widths: Floats, tally: Tally) -> None:
    # The inner nodes are certain up to growth 0: they will be compared.
    arms = tally.pulls.size
    nodes[0] = np.inf
    for arm in range(arms):
        width = widths[np.uint64(tally.pulls[arm])]
        _write(nodes, arms + arm, _Winner(float(arm), tally.means[arm], width, np.inf))


@inlined
def highest_bound(growth: Floats, widths: Floats, tally: Tally, period: int) -> int:
    """Return the arm with the largest `mean + growth[period] * widths[pulls]`, after each arm was pulled once.

    It must be called in every period from K + 1 on, keeps `FLOATS_PER_ARM * K` numbers in `tally.memory`, and needs a
    growth that is positive and never falls.
    """
    # There is no node 0; its first number is a ceiling. If the arm just played is the best again, no other arm
    # exceeds the bounds that the winners beside its path will have at the end of the block, if they are certain until
    # then. While the bound of the arm is above this ceiling, the tree is not needed.
    arms, nodes = tally.pulls.size, tally.memory
    if period == arms + 1:
        _enter_arms(nodes, widths, tally)
    now = growth[np.uint64(period)]
    last = np.uint64(tally.last_arm)
    mean, width = tally.means[last], widths[np.uint64(tally.pulls[last])]
    if mean + now * width > nodes[0] and (period & _BLOCK) != 0:
        return tally.last_arm
    later = growth[min(period | _BLOCK, growth.size - 1)]
    ceiling, until = -np.inf, np.inf
    node, best = arms + tally.last_arm, _Winner(float(tally.last_arm), mean, width, np.inf)
    _write(nodes, node, best)
    while node > 1:
        if _until(nodes, node ^ 1) < now:
            branch_hint()
            _compare_again(nodes, node ^ 1, now)
        sibling = _read(nodes, node ^ 1)
        ceiling = max(ceiling, sibling.mean + later * sibling.width)
        until = min(until, sibling.until)
        best = _compared(best, sibling, now)
        node //= 2
        _write(nodes, node, best)
    arm = int(best.arm)
    nodes[0] = ceiling if arm == tally.last_arm and until >= later else np.inf
    return arm


@inlined
def _winner_at(winners: Ints, node: int) -> int:
    arms = winners.size
    return winners[node] if node < arms else node - arms


@inlined
def _higher_mean(winners: Ints, means: Floats, node: int) -> int:
    left, right = _winner_at(winners, 2 * node), _winner_at(winners, 2 * node + 1)
    low, high = min(left, right), max(left, right)
    return high if means[high] > means[low] else low


@inlined
def highest_mean(tally: Tally, period: int) -> int:
    """Return the arm with the highest mean, after each arm was pulled once.

    It must be called whenever the arm just played may no longer be the best. It keeps K numbers in `tally.memory` and
    leaves the first of them free.
    """
    arms, winners = tally.pulls.size, tally.memory.view(np.int64)
    if period == arms + 1:
        for node in range(arms - 1, 0, -1):
            winners[node] = _higher_mean(winners, tally.means, node)
    node = (arms + tally.last_arm) // 2
    while node > 0:
        before, winners[node] = winners[node], _higher_mean(winners, tally.means, node)
        if winners[node] == before and before != tally.last_arm:
            break  # the nodes above do not change either
        node //= 2
    return winners[1]


@inlined
def highest_other_mean(tally: Tally, best: int) -> float:
    """Return the highest mean of the arms other than the best."""
    # It is the mean of a winner beside the path of the best arm.
    winners, node, highest = tally.memory.view(np.int64), tally.pulls.size + best, -np.inf
    while node > 1:
        highest = max(highest, tally.means[_winner_at(winners, node ^ 1)])
        node //= 2
    return highest
