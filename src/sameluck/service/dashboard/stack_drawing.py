"""Reward stacks of one replication: a square for each real user, in the order in which an arm was pulled.

The k-th pull of an arm pays the same to every policy. The policy that reads an entry first requests a user; the other
policies replay the reward. The earlier period is first, and equal periods are in the order of the policies. Policies
that were added later come last. A dashed square is an awaited reward.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from sameluck.arrays import Ints
from sameluck.trajectories import Trace

ACROSS, STEP = 12, 8  # squares in a row, and units of the drawing per square
MAX_SQUARES = 600  # in a pile
NEVER = 1 << 60  # period in which an entry is read that a policy does not read
LATER = 1 << 50  # added to the periods of policies that were added later


class Pile(NamedTuple):
    """Stack of one arm."""

    arm: str
    depth: int
    asked: list[int]  # entries by the policy that read them first
    replayed: int  # pulls without a user
    shared: int  # entries that several policies have read
    alone: list[int]  # by policy, entries that no other policy has read
    awaited: int  # entries without a reward
    squares: list[tuple[str, str]]  # class and path


class Stacks(NamedTuple):
    """Stacks of one replication up to a period."""

    replication: int
    period: int
    done: int  # periods of the policy that is farthest
    piles: list[Pile]
    unit: int  # users that a square stands for
    height: int

    @property
    def users(self) -> int:
        return sum(pile.depth for pile in self.piles)

    @property
    def pulls(self) -> int:
        """Pulls of all policies, which are the users of the naive design."""
        return sum(pile.depth + pile.replayed for pile in self.piles)

    @property
    def shared(self) -> int:
        """Users whose reward several policies have read."""
        return sum(pile.shared for pile in self.piles)

    @property
    def awaited(self) -> int:
        return sum(pile.awaited for pile in self.piles)

    @property
    def alone(self) -> list[int]:
        """Users whose reward no other policy has read, by policy."""
        return [sum(counts) for counts in zip(*(pile.alone for pile in self.piles), strict=True)]


def stacks_of(
    trace: Trace, added: Sequence[str], colours: Mapping[str, int | None], period: int | None
) -> Stacks:
    """Return the stacks of a replication, up to `period` if that is not None.

    Args:
        trace: The replication.
        added: Policies that were added later.
        colours: Number of each policy's colour.
        period: The last period that is shown.
    """
    done = max(trajectory.arms.size for trajectory in trace.values())
    until = done if period is None else max(0, min(period, done))
    names, arms = list(trace), trace.experiment.arm_names
    grids = [_periods(trace, arm, until) for arm in range(len(arms))]
    unit = 1
    while max((grid.shape[1] for grid in grids), default=0) / unit > MAX_SQUARES:
        unit *= 10
    delays = np.array([[LATER * (name in added)] for name in names])
    classes = ["" if colours[name] is None else f" p{colours[name]}" for name in names]
    outstanding = trace.outstanding if until == done and unit == 1 else ()
    piles, squares = [], 1
    for arm, grid in enumerate(grids):
        awaited = [position for other, position in outstanding if other == arm]
        piles.append(_pile(arms[arm], grid, delays, classes, unit, awaited))
        squares = max([squares, len(range(0, grid.shape[1], unit)), *(k + 1 for k in awaited)])
    return Stacks(trace.replication, until, done, piles, unit, STEP * -(-squares // ACROSS))


def _periods(trace: Trace, arm: int, until: int) -> Ints:
    """Return the period in which each policy reads each entry of an arm, with axes policy and position."""
    pulls = [np.flatnonzero(played.arms[:until] == arm) + 1 for played in trace.values()]
    grid = np.full((len(pulls), max(periods.size for periods in pulls)), NEVER)
    for row, periods in zip(grid, pulls, strict=True):
        row[: periods.size] = periods
    return grid


def _pile(
    arm: str, grid: Ints, delays: Ints, classes: Sequence[str], unit: int, awaited: Sequence[int]
) -> Pile:
    readers, depth = (grid < NEVER).sum(axis=0), int(grid.shape[1])
    # Argmin takes the earlier period, then the order of the policies.
    first = np.argmin(grid + delays, axis=0)
    return Pile(
        arm=arm,
        depth=depth,
        asked=np.bincount(first, minlength=len(classes)).tolist(),
        replayed=int(readers.sum()) - depth,
        shared=int((readers > 1).sum()),
        alone=np.bincount(first[readers == 1], minlength=len(classes)).tolist(),
        awaited=len(awaited),
        squares=_squares(readers[::unit], first[::unit], classes, awaited),
    )


def _squares(
    readers: Ints, first: Ints, classes: Sequence[str], awaited: Sequence[int]
) -> list[tuple[str, str]]:
    """Return the class and path of the squares; y is negative above the bottom of the pile."""
    paths: dict[str, list[str]] = {}
    for position, (count, policy) in enumerate(zip(readers.tolist(), first.tolist(), strict=True)):
        x, y = _corner(position)
        if count > 1:
            paths.setdefault(f"shared many{min(count, 4)}", []).append(f"M{x} {y}h7v7h-7z")
            if classes[policy]:
                paths.setdefault(f"edge{classes[policy]}", []).append(f"M{x} {y}h2v7h-2z")
        else:
            paths.setdefault(f"alone{classes[policy]}", []).append(_hollow(x, y))
    for position in awaited:
        paths.setdefault("awaited", []).append(_hollow(*_corner(position)))
    # In reverse order of names, edges are drawn after the squares they lie on.
    return [(css_class, "".join(paths[css_class])) for css_class in sorted(paths, reverse=True)]


def _corner(position: int) -> tuple[int, int]:
    return position % ACROSS * STEP, -(position // ACROSS + 1) * STEP


def _hollow(x: int, y: int) -> str:
    return f"M{x + 0.5} {y + 0.5}h6v6h-6z"
