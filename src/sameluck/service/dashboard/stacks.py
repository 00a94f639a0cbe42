"""The stacks of one replication: a square for each real user, in the order in which an arm was pulled.

The k-th pull of an arm pays the same to every policy. The policy that comes to an entry first has a user asked; the
others replay the answer. First is the earlier period, with the policies' order between equal periods; policies that
were added later come after the others, which had been there before. A dashed square is a reward that is awaited.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from sameluck.arrays import Bools, Ints
from sameluck.trajectories import Trace

ACROSS, STEP, SQUARE = 12, 8, 7
MOST_SQUARES = 600  # in a pile
MOST_PILES = 8
NEVER = np.iinfo(np.int64).max


class Pile(NamedTuple):
    """The stack of one arm."""

    arm: str
    depth: int
    asked: list[int]  # entries by the policy that came first
    replayed: int  # pulls that cost no user
    shared: int  # entries that more than one policy has used
    alone: list[int]  # entries that only this policy has used
    awaited: int  # entries whose reward is not known yet
    height: int
    squares: list[tuple[str, str]]  # class and path


class Stacks(NamedTuple):
    """The stacks of one replication up to a period."""

    replication: int
    period: int
    done: int  # periods that the policy which is farthest has done
    piles: list[Pile]
    unit: int  # users that a square stands for
    hidden: int  # arms without a pile

    @property
    def users(self) -> int:
        """Real users."""
        return sum(pile.depth for pile in self.piles)

    @property
    def pulls(self) -> int:
        """Periods of all policies: the users of the naive design."""
        return sum(pile.depth + pile.replayed for pile in self.piles)

    @property
    def shared(self) -> int:
        """Users whose answer more than one policy has used."""
        return sum(pile.shared for pile in self.piles)

    @property
    def awaited(self) -> int:
        """Rewards that are not known yet."""
        return sum(pile.awaited for pile in self.piles)

    @property
    def alone(self) -> list[int]:
        """By policy, users whose answer only this policy has used."""
        return [sum(counts) for counts in zip(*(pile.alone for pile in self.piles), strict=True)]


def stacks_of(
    trace: Trace, added: Sequence[str], places: Mapping[str, int | None], period: int | None
) -> Stacks:
    """The stacks of a replication, up to a period if one is given.

    `added` are policies that joined later, `places` the numbers of the policies' colours.
    """
    done = max(one.arms.size for one in trace.values())
    until = done if period is None else max(0, min(period, done))
    names, arms = list(trace), trace.experiment.arm_names
    grids = [_periods(trace, arm, until) for arm in range(len(arms))]
    unit = 1
    while max((grid.shape[1] for grid in grids), default=0) / unit > MOST_SQUARES:
        unit *= 10
    late = np.array([name in added for name in names])
    colours = ["" if places[name] is None else f" p{places[name]}" for name in names]
    outstanding = trace.outstanding if until == done and unit == 1 else ()
    piles = []
    for arm, grid in enumerate(grids):
        awaited = [place for of_arm, place in outstanding if of_arm == arm]
        piles.append(_pile(arms[arm], grid, late, colours, unit, awaited))
    top = max((pile.height for pile in piles), default=STEP)
    piles = [pile._replace(height=top) for pile in piles]
    return Stacks(trace.replication, until, done, piles, unit, max(0, len(piles) - MOST_PILES))


def _periods(trace: Trace, arm: int, until: int) -> Ints:
    """The period in which each policy comes to each entry of an arm (policy, position)."""
    pulled = [np.flatnonzero(one.arms[:until] == arm) + 1 for one in trace.values()]
    grid = np.full((len(pulled), max(own.size for own in pulled)), NEVER)
    for row, own in zip(grid, pulled, strict=True):
        row[: own.size] = own
    return grid


def _pile(
    arm: str, grid: Ints, late: Bools, colours: Sequence[str], unit: int, awaited: Sequence[int]
) -> Pile:
    used, depth = grid != NEVER, int(grid.shape[1])
    readers = used.sum(axis=0)
    # Policies that were added come after all others; among those the earlier period, then the order.
    order = np.where(
        used, np.where(late, NEVER // 2, 0)[:, None] + np.minimum(grid, NEVER // 4), NEVER
    )
    first = np.argmin(order, axis=0) if depth else np.empty(0, np.int64)
    squares = max([len(range(0, depth, unit)), *(place + 1 for place in awaited)])
    return Pile(
        arm=arm,
        depth=depth,
        asked=[int((first == k).sum()) for k in range(len(colours))],
        replayed=int(readers.sum()) - depth,
        shared=int((readers > 1).sum()),
        alone=[int(((readers == 1) & (first == k)).sum()) for k in range(len(colours))],
        awaited=len(awaited),
        height=STEP * max(1, -(-squares // ACROSS)),
        squares=_squares(readers[::unit], first[::unit], colours, awaited),
    )


def _squares(
    readers: Ints, first: Ints, colours: Sequence[str], awaited: Sequence[int]
) -> list[tuple[str, str]]:
    """Squares by class; y grows downwards from 0, the bottom of the pile, and is negative."""
    paths: dict[str, list[str]] = {}
    for place, (many, who) in enumerate(zip(readers.tolist(), first.tolist(), strict=True)):
        x, y = _corner(place)
        if many > 1:
            paths.setdefault(f"shared many{min(many, 4)}", []).append(f"M{x} {y}h7v7h-7z")
            if colours[who]:
                paths.setdefault(f"edge{colours[who]}", []).append(f"M{x} {y}h2v7h-2z")
        else:
            paths.setdefault(f"alone{colours[who]}", []).append(_hollow(x, y))
    for place in awaited:
        paths.setdefault("awaited", []).append(_hollow(*_corner(place)))
    # Edges lie on the squares.
    return [(kind, "".join(paths[kind])) for kind in sorted(paths, reverse=True)]


def _corner(place: int) -> tuple[int, int]:
    return place % ACROSS * STEP, -(place // ACROSS + 1) * STEP


def _hollow(x: int, y: int) -> str:
    return f"M{x + 0.5} {y + 0.5}h6v6h-6z"
