"""Reading a ledger: replications from their entries, runs and trajectories from replications, and counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from sameluck.arrays import Ints
from sameluck.experiment import Experiment
from sameluck.live.databases.base import Transaction
from sameluck.live.databases.rows import (
    AnswerRow,
    AssignmentRow,
    CurrentRow,
    EntryCount,
    EntryRow,
    LedgerRow,
    NumberRow,
    ReplicationRow,
)
from sameluck.live.engine.replication import Replication, SettledEntries, check_ledger, rebuild
from sameluck.live.engine.scheduler import AUDITED, Entry, Scheduler
from sameluck.live.engine.walker import WalkResults, empty_results
from sameluck.live.records import Description, Status, moment
from sameluck.runs import Runs
from sameluck.trajectories import Trace, Trajectory, replayed_by

CHUNK = 200  # replications read at once
_LEDGER = np.dtype(list(zip(LedgerRow._fields, ("i8", "i8", "i8", "i8", "f8", "?"), strict=True)))


class Ledger(NamedTuple):
    """The ledger of an experiment on one consistent state of the database."""

    transaction: Transaction
    experiment: int
    scheduler: Scheduler
    numbers: Sequence[int]  # of the replications opened so far


def replication_numbers(transaction: Transaction, experiment: int) -> list[int]:
    """The numbers of the replications opened so far, in order."""
    rows = transaction.all(ReplicationRow, "replications", experiment=experiment)
    return [row.number for row in rows]


def read_replications(
    transaction: Transaction,
    experiment: int,
    scheduler: Scheduler,
    numbers: Sequence[int],
    *,
    checked: bool = True,
) -> Iterator[Replication]:
    """Replications rebuilt from the ledger, in order; raises `Diverged` if one is not what its policies derive."""
    for number, settled, outstanding in _ledgers(transaction, experiment, numbers):
        replication = rebuild(scheduler, number, settled, outstanding)
        if checked:
            check_ledger(replication)
        yield replication


def _ledgers(
    transaction: Transaction, experiment: int, numbers: Sequence[int]
) -> Iterator[tuple[int, SettledEntries, list[Entry]]]:
    for start in range(0, len(numbers), CHUNK):
        chunk = numbers[start : start + CHUNK]
        span = {"experiment": experiment, "first": chunk[0], "stop": chunk[-1] + 1}
        rows = np.fromiter(transaction.each(LedgerRow, "ledger", **span), _LEDGER)
        outstanding: dict[int, list[Entry]] = {}
        for number, *entry in transaction.all(EntryRow, "outstanding", **span):
            outstanding.setdefault(number, []).append(Entry(*entry))
        for number in chunk:
            first, stop = np.searchsorted(rows["replication"], [number, number + 1])
            part = rows[first:stop]
            columns = (np.ascontiguousarray(part[name]) for name in SettledEntries._fields)
            yield number, SettledEntries(*columns), outstanding.get(number, [])


def runs_of(
    transaction: Transaction,
    experiment: int,
    scheduler: Scheduler,
    numbers: Sequence[int],
    checkpoints: Ints,
    policies: Sequence[str],
    first: int = 0,
) -> Runs:
    """The complete prefix: replications `first`, ... before the first in which a policy has not reached the end."""
    names = tuple(scheduler.experiment.policies)
    columns = [names.index(name) for name in policies]
    results: list[list[WalkResults]] = []
    for number, settled, outstanding in _ledgers(transaction, experiment, numbers):
        own = [empty_results(scheduler.experiment, checkpoints) for _ in names]
        replication = rebuild(scheduler, number, settled, outstanding, own)
        fewest = min(replication.periods_done[column] for column in columns)
        if number != first + len(results) or fewest < checkpoints[-1]:
            break
        check_ledger(replication)
        results.append([own[column] for column in columns])
    some = {name: scheduler.experiment.policies[name] for name in policies}
    return _gather(scheduler.experiment.replace(policies=some), checkpoints, results, first)


def _gather(
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
    """Every period of one replication that each policy has done."""
    results = [empty_results(scheduler.experiment, trajectory=True) for _ in scheduler.prepared]
    for _, settled, outstanding in _ledgers(transaction, experiment, [number]):
        replication = rebuild(scheduler, number, settled, outstanding, results)
    trajectories: dict[str, Trajectory] = {}
    for name, periods, own in zip(
        scheduler.experiment.policies, replication.periods_done, results, strict=True
    ):
        one = own.trajectory.until(periods)
        earlier = list(trajectories.values())
        replayed = replayed_by(scheduler.experiment, one.arms, one.positions, earlier)
        trajectories[name] = one._replace(replayed=replayed)
    return Trace(scheduler.experiment, None, number, trajectories)


def description_of(id: str, name: str, experiment: Experiment, row: AssignmentRow) -> Description:
    """An assignment of an experiment."""
    voided = row.voided_us is not None
    exposed = row.exposed_us is not None and row.state == "assigned"
    return Description(
        id=id,
        experiment=name,
        replication=row.replication,
        policy=tuple(experiment.policies)[row.owner - 1] if row.owner > 0 else None,
        arm=experiment.arm_names[row.arm],
        arm_index=row.arm,
        position=row.position,
        status="voided" if voided else "exposed" if exposed else row.state,
        value=None if voided else row.value,
        source=None if voided else row.source,
        audit=row.owner == AUDITED,
        assigned_at=str(moment(row.assigned_us)),
        exposed_at=moment(row.exposed_us),
        settled_at=None if voided else moment(row.settled_us),
        due_at=None if voided else moment(row.due_us),
    )


def status_of(transaction: Transaction, id: int, name: str) -> Status:
    """The status of an experiment, with counts of everything."""
    current = transaction.one(CurrentRow, "experiment_now", experiment=id)
    experiment = Experiment.from_json(current.definition)
    replications = transaction.all(ReplicationRow, "replications", experiment=id)
    complete = [row.number for row in replications if row.state == "complete"]
    entries: Counter[str] = Counter()
    for state, source, count in transaction.all(EntryCount, "count_entries", experiment=id):
        entries[state] += count
        entries[source or ""] += count
    return Status(
        name=name,
        status=current.status,
        reason=current.reason,
        planned=experiment.replications,
        opened=len(replications),
        complete=len(complete),
        prefix=next((n for n, number in enumerate(complete) if n != number), len(complete)),
        horizon=experiment.horizon,
        users=transaction.one(NumberRow, "count_assigned", experiment=id).number,
        settled=entries["settled"] - entries["imported"],
        defaulted=entries["default"],
        imported=entries["imported"],
        waiting=entries["assigned"],
        wanted=entries["wanted"],
        voided=transaction.one(NumberRow, "count_voided", experiment=id).number,
        answers=dict(transaction.all(AnswerRow, "answers", experiment=id)),
    )
