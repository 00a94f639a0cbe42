"""Reading a ledger back: replications from their entries, runs and trajectories from replications."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from sameluck.experiment import Experiment
from sameluck.live.casting import Cast, Entry
from sameluck.live.database import Transaction
from sameluck.live.engine import Replication, Settled, check, rebuilt
from sameluck.live.walking import Book, empty_book
from sameluck.playing import Ints
from sameluck.runs import Runs, interactions
from sameluck.trajectories import Trace, Trajectory, replayed_by

CHUNK = 200  # replications read at once
_ROW = np.dtype(
    [
        ("replication", "i8"),
        ("owner", "i8"),
        ("arm", "i8"),
        ("position", "i8"),
        ("value", "f8"),
        ("imported", "?"),
    ]
)


def read_replications(
    transaction: Transaction,
    experiment: int,
    cast: Cast,
    numbers: Sequence[int],
    *,
    checked: bool = True,
) -> Iterator[Replication]:
    """Replications rebuilt from the ledger, in order; each is checked against what was asked for."""
    for number, settled, outstanding in _ledgers(transaction, experiment, numbers):
        replication = rebuilt(cast, number, settled, outstanding)
        if checked:
            check(replication)
        yield replication


def _ledgers(
    transaction: Transaction, experiment: int, numbers: Sequence[int]
) -> Iterator[tuple[int, Settled, list[Entry]]]:
    for start in range(0, len(numbers), CHUNK):
        some = numbers[start : start + CHUNK]
        span = {"experiment": experiment, "first": some[0], "stop": some[-1] + 1}
        rows = np.fromiter(transaction.each("ledger", **span), _ROW)
        open_entries: dict[int, list[Entry]] = {}
        for number, *place in transaction.all("outstanding", **span):
            open_entries.setdefault(number, []).append(Entry(*place))
        for number in some:
            first, stop = np.searchsorted(rows["replication"], [number, number + 1])
            part = rows[first:stop]
            columns = (np.ascontiguousarray(part[name]) for name in Settled._fields)
            yield number, Settled(*columns), open_entries.get(number, [])


def runs_of(
    transaction: Transaction,
    experiment: int,
    cast: Cast,
    numbers: Sequence[int],
    checkpoints: Ints,
    policies: Sequence[str],
    first: int = 0,
) -> Runs:
    """The complete prefix: replications `first`, ... up to the first in which a policy has yet to reach the end."""
    names = tuple(cast.experiment.policies)
    columns = [names.index(name) for name in policies]
    books: list[list[Book]] = []
    for number, settled, outstanding in _ledgers(transaction, experiment, numbers):
        own = [empty_book(cast.experiment, checkpoints) for _ in names]
        replication = rebuilt(cast, number, settled, outstanding, own)
        reaches = [replication.reaches[column] for column in columns]
        if number != first + len(books) or min(reaches) < checkpoints[-1]:
            break
        check(replication)
        books.append([own[column] for column in columns])
    chosen = {name: cast.experiment.policies[name] for name in policies}
    return _gathered(cast.experiment.replace(policies=chosen), checkpoints, books, first)


def _gathered(
    experiment: Experiment, checkpoints: Ints, books: Sequence[Sequence[Book]], first: int
) -> Runs:
    shape = (len(books), len(experiment.policies), checkpoints.size)
    rewards, pulls = np.zeros(shape), np.zeros((*shape, experiment.n_arms), np.int64)
    for row, own in enumerate(books):
        for column, book in enumerate(own):
            rewards[row, column], pulls[row, column] = book.rewards, book.pulls
    users = interactions(experiment.design, pulls)
    return Runs(experiment, checkpoints, rewards, pulls, users, None, first)


def trace_of(transaction: Transaction, experiment: int, cast: Cast, number: int) -> Trace:
    """Every period of one replication, as far as it has come."""
    books = [empty_book(cast.experiment, diary=True) for _ in cast.scripts]
    for _, settled, outstanding in _ledgers(transaction, experiment, [number]):
        replication = rebuilt(cast, number, settled, outstanding, books)
    trajectories: dict[str, Trajectory] = {}
    for name, reach, book in zip(cast.experiment.policies, replication.reaches, books, strict=True):
        arms, positions = book.diary.arms[:reach], book.diary.positions[:reach]
        replayed = replayed_by(cast.experiment, arms, positions, list(trajectories.values()))
        trajectories[name] = Trajectory(arms, positions, book.diary.rewards[:reach], replayed)
    return Trace(cast.experiment, None, number, trajectories)
