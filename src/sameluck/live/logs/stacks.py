"""Log as a ledger: its rows as entries of the shared stacks, and the policies run on them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from sameluck.arrays import Floats, Ints
from sameluck.experiment import Experiment
from sameluck.live.databases.base import Transaction
from sameluck.live.engine.protocol import SHARED, Entry, SettledEntries
from sameluck.live.engine.scheduler import Scheduler
from sameluck.live.engine.walker import empty_results
from sameluck.live.options import LiveOptions, Makers
from sameluck.logs.rows import Log


class Difference(NamedTuple):
    """First row of a replication at which a policy plays another arm than the log."""

    row: int
    policy_arm: int
    log_arm: int


class LoggedReplication(NamedTuple):
    """State of one replication after every policy has run as far as the log reaches."""

    number: int
    version: int
    complete: bool
    periods_done: list[int]  # of each policy
    wanted: list[int]  # entries that each policy waits for
    outstanding: list[Entry]
    difference: Difference | None  # of the policy that wrote the log


class LogStacks:
    """Rows of a log by replication, arm and position."""

    def __init__(self, log: Log) -> None:
        self.log = log
        stack = log.replication * len(log.arms) + log.arm
        order = np.argsort(stack, kind="stable")
        stack = stack[order]
        self.replication: Ints = log.replication[order]
        self.arm: Ints = log.arm[order]
        self.position: Ints = np.arange(stack.size) - np.searchsorted(stack, stack)
        self.value: Floats = log.reward[order]
        numbers = np.arange(len(log.replications) + 1)
        self.starts: Ints = np.searchsorted(log.replication, numbers)
        self.settled: Ints = order - self.starts[self.replication] + 1  # the order of the log

    def span(self, number: int) -> slice:
        return slice(self.starts[number], self.starts[number + 1])

    def entries(self, number: int) -> SettledEntries:
        span = self.span(number)
        value = self.value[span]
        stack_owner, imported = np.full(value.size, SHARED), np.ones(value.size, bool)
        return SettledEntries(stack_owner, self.arm[span], self.position[span], value, imported)

    def replay_all(
        self,
        experiment: Experiment,
        options: LiveOptions,
        makers: Makers | None,
        logged_by: str | None,
    ) -> list[LoggedReplication]:
        """Run every policy on every replication, and compare the policy that wrote the log with the log."""
        engine = Scheduler(experiment, options, makers)
        numbers = range(len(self.log.replications))
        return [self._replay(engine, number, logged_by) for number in numbers]

    def _replay(self, engine: Scheduler, number: int, logged_by: str | None) -> LoggedReplication:
        experiment = engine.experiment
        names = list(experiment.policies)
        results = [empty_results(experiment, trajectory=name == logged_by) for name in names]
        state = engine.rebuild(number, self.entries(number), [], results)
        difference = None
        if logged_by is not None:
            k = names.index(logged_by)
            walker = state.walkers[k]
            next_arms = np.array([arm for arm, _ in walker.next_entries()], np.int64)
            arms = np.concatenate([results[k].trajectory.arms[: walker.periods_done], next_arms])
            difference = self._difference(number, arms)
        wanted = [len(state.needed_by([k])) for k in range(len(names))]
        state_now = number, state.version, state.complete, state.periods_done
        return LoggedReplication(*state_now, wanted, state.want(), difference)

    def _difference(self, number: int, policy_arms: Ints) -> Difference | None:
        span = self.span(number)
        log_arms = self.log.arm[span]
        both = min(policy_arms.size, log_arms.size)
        differs = np.flatnonzero(policy_arms[:both] != log_arms[:both])
        if differs.size == 0:
            return None
        columns = self.log.row[span], policy_arms, log_arms
        return Difference(*(int(column[differs[0]]) for column in columns))

    def rows(self, experiment: int, now: int) -> Iterator[dict[str, str | float]]:
        """Yield the parameters of `import_entry` for every entry."""
        common: dict[str, str | float] = {"experiment": experiment, "now": now}
        common |= {"stack_owner": SHARED, "state": "settled", "source": "imported"}
        names = ("replication", "arm", "position", "value", "settled")
        columns = (getattr(self, name).tolist() for name in names)
        for values in zip(*columns, strict=True):
            yield common | dict(zip(names, values, strict=True))


def write_ledger(
    stacks: LogStacks,
    replications: Sequence[LoggedReplication],
    transaction: Transaction,
    experiment: int,
    now: int,
) -> None:
    """Write the replications, their entries and the entries that the policies wait for."""
    rows = [
        {
            "experiment": experiment,
            "number": replication.number,
            "state": "complete" if replication.complete else "open",
            "version": replication.version,
            "policies": len(replication.periods_done),
            "complete": replication.complete,
            "now": now,
        }
        for replication in replications
    ]
    transaction.execute_many("import_replication", rows)
    transaction.execute_many("import_entry", stacks.rows(experiment, now))
    wanted = [
        {"experiment": experiment, "replication": replication.number, **entry._asdict()}
        for replication in replications
        for entry in replication.outstanding
    ]
    transaction.execute_many("want", wanted)
