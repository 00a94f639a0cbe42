"""Reading a ledger back: replications from their entries, runs and trajectories from replications."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from sameluck.arrays import Ints
from sameluck.experiment import Experiment
from sameluck.live.databases.base import Transaction
from sameluck.live.engine.replication import Replication, Settled, check, rebuilt
from sameluck.live.engine.scheduler import Entry, Scheduler
from sameluck.live.engine.walker import WalkResults, empty_results
from sameluck.runs import Runs
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
    scheduler: Scheduler,
    numbers: Sequence[int],
    *,
    checked: bool = True,
) -> Iterator[Replication]:
    """Replications rebuilt from the ledger, in order; each is checked against what was asked for."""
    for number, settled, outstanding in _ledgers(transaction, experiment, numbers):
        replication = rebuilt(scheduler, number, settled, outstanding)
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
    scheduler: Scheduler,
    numbers: Sequence[int],
    checkpoints: Ints,
    policies: Sequence[str],
    first: int = 0,
) -> Runs:
    """The complete prefix: replications `first`, ... up to the first in which a policy has yet to reach the end."""
    names = tuple(scheduler.experiment.policies)
    columns = [names.index(name) for name in policies]
    results: list[list[WalkResults]] = []
    for number, settled, outstanding in _ledgers(transaction, experiment, numbers):
        own = [empty_results(scheduler.experiment, checkpoints) for _ in names]
        replication = rebuilt(scheduler, number, settled, outstanding, own)
        reaches = [replication.reaches[column] for column in columns]
        if number != first + len(results) or min(reaches) < checkpoints[-1]:
            break
        check(replication)
        results.append([own[column] for column in columns])
    chosen = {name: scheduler.experiment.policies[name] for name in policies}
    return _gathered(scheduler.experiment.replace(policies=chosen), checkpoints, results, first)


def _gathered(
    experiment: Experiment, checkpoints: Ints, results: Sequence[Sequence[WalkResults]], first: int
) -> Runs:
    shape = (len(results), len(experiment.policies), checkpoints.size)
    rewards, pulls = np.zeros(shape), np.zeros((*shape, experiment.n_arms), np.int64)
    for row, of_policies in enumerate(results):
        for column, own in enumerate(of_policies):
            rewards[row, column], pulls[row, column] = own.rewards, own.pulls
    users = experiment.design.interactions(pulls)
    return Runs(experiment, checkpoints, rewards, pulls, users, None, first)


def trace_of(transaction: Transaction, experiment: int, scheduler: Scheduler, number: int) -> Trace:
    """Every period of one replication, as far as it has come."""
    results = [empty_results(scheduler.experiment, trajectory=True) for _ in scheduler.prepared]
    for _, settled, outstanding in _ledgers(transaction, experiment, [number]):
        replication = rebuilt(scheduler, number, settled, outstanding, results)
    trajectories: dict[str, Trajectory] = {}
    for name, reach, own in zip(
        scheduler.experiment.policies, replication.reaches, results, strict=True
    ):
        one = own.trajectory.until(reach)
        earlier = list(trajectories.values())
        replayed = replayed_by(scheduler.experiment, one.arms, one.positions, earlier)
        trajectories[name] = one._replace(replayed=replayed)
    return Trace(scheduler.experiment, None, number, trajectories)
