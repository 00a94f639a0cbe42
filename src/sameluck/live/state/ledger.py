"""Ledger of an experiment: replications from their entries, runs and trajectories from replications."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from sameluck.arrays import Floats, Ints
from sameluck.experiment import Experiment, checked_checkpoints
from sameluck.live.databases.base import Transaction
from sameluck.live.databases.rows import EntryRow, LedgerRow
from sameluck.live.engine.protocol import (
    AUDITED,
    Engine,
    Entry,
    ReplicationState,
    SettledEntries,
    StackEngine,
)
from sameluck.live.engine.walker import WalkResults, empty_results
from sameluck.runs import Runs
from sameluck.trajectories import Trace, Trajectory, replayed_by
from sameluck.validation import require_list, require_one_of, require_whole

MAX_REPLICATIONS, MAX_ENTRIES = 200, 20_000  # read at once
_TYPES = ("i8", "i8", "i8", "i8", "f8", "?", "?")
_LEDGER = np.dtype(list(zip(LedgerRow._fields, _TYPES, strict=True)))


class Ledger(NamedTuple):
    """Ledger of an experiment's replications, on one consistent state of the database."""

    transaction: Transaction
    id: int  # of the experiment
    engine: Engine
    numbers: Sequence[int]  # of the replications
    # Replications in which the policies were not run after the last rewards
    behind: Collection[int] = ()
    partial: bool = False  # the engine lacks policies, whose requests cannot be checked

    def replications(self, *, checked: bool = True) -> Iterator[ReplicationState]:
        """Rebuild replications, in order; raise `Diverged` if a ledger differs from its policies' requests."""
        for number, settled, outstanding in self.entries():
            replication = self.engine.rebuild(number, settled, outstanding)
            if checked:
                self.check(replication)
            yield replication

    def check(self, replication: ReplicationState) -> None:
        """Raise `Diverged` if a replication differs from its policies' requests."""
        if not self.partial:
            replication.check(behind=replication.number in self.behind)

    def entries(self) -> Iterator[tuple[int, SettledEntries, list[Entry]]]:
        """Yield each replication's number, its settled entries and its outstanding entries."""
        for chunk in self.spans(self.numbers):
            span = {"experiment": self.id, "first": chunk[0], "stop": chunk[-1] + 1}
            # Straight into an array: a list of rows would take ten times the memory.
            rows = np.fromiter(self.transaction.iterate(LedgerRow, "ledger", **span), _LEDGER)
            outstanding: dict[int, list[Entry]] = {}
            for number, *entry in self.transaction.fetch_all(EntryRow, "outstanding", **span):
                outstanding.setdefault(number, []).append(Entry(*entry))
            for number in chunk:
                first, stop = np.searchsorted(rows["replication"], [number, number + 1])
                settled = rows[first:stop]
                columns = (np.ascontiguousarray(settled[name]) for name in LedgerRow._fields[1:])
                yield number, SettledEntries(*columns), outstanding.get(number, [])

    def spans(self, numbers: Sequence[int]) -> Iterator[Sequence[int]]:
        """Yield replications that are read at once: consecutive numbers with few entries."""
        size = max(1, min(MAX_REPLICATIONS, MAX_ENTRIES // self.engine.experiment.horizon))
        start = 0
        for index, number in enumerate(numbers, start=1):
            is_full = index - start == size
            if is_full or index == len(numbers) or numbers[index] != number + 1:
                yield numbers[start:index]
                start = index

    def runs(
        self,
        checkpoints: Sequence[int] | None,
        policies: Sequence[str] | None,
        before: Sequence[Runs] = (),
    ) -> Runs:
        """Return the runs of the complete prefix: the replications before the first that a policy has not finished.

        `before` are earlier runs. Runs of the same policies and checkpoints, or of these and further policies, are
        continued, since complete replications never change.
        """
        whole = self.engine.experiment
        names = [] if policies is None else require_list("policies", policies)
        for name in names:
            require_one_of("policy", name, list(whole.policies))
        names = names or list(whole.policies)
        horizons = checked_checkpoints(whole, checkpoints)
        experiment = whole.replace(policies={name: whole.policies[name] for name in names})
        earlier = [runs for runs in before if _answers(runs, experiment, horizons)]
        if not earlier:
            return self._complete_prefix(experiment, horizons, 0)
        first = _of_policies(max(earlier, key=attrgetter("replications")), experiment)
        later = self._replace(numbers=self.numbers[first.replications :])
        more = later._complete_prefix(experiment, horizons, first.replications)
        return Runs.concat([first, more]) if more.replications else first

    def _columns(self, policies: Iterable[str]) -> list[int]:
        names = tuple(self.engine.experiment.policies)
        return [names.index(name) for name in policies]

    def _prefix(
        self, columns: Sequence[int], checkpoints: Ints, first: int
    ) -> Iterator[tuple[SettledEntries, list[WalkResults]]]:
        """Yield settled entries and policies' results of the complete prefix, from the `first` replication on."""
        experiment = self.engine.experiment
        for expected, (number, settled, outstanding) in enumerate(self.entries(), start=first):
            results = [empty_results(experiment, checkpoints) for _ in experiment.policies]
            replication = self.engine.rebuild(number, settled, outstanding, results)
            fewest = min(replication.periods_done[column] for column in columns)
            if number != expected or fewest < checkpoints[-1]:
                return
            self.check(replication)
            yield settled, [results[column] for column in columns]

    def _complete_prefix(self, experiment: Experiment, checkpoints: Ints, first: int) -> Runs:
        columns = self._columns(experiment.policies)
        results: list[list[WalkResults]] = []
        ledgers: list[SettledEntries] = []
        for settled, of_policies in self._prefix(columns, checkpoints, first):
            results.append(of_policies)
            ledgers.append(settled)
        shape = (len(results), len(columns), checkpoints.size)
        rewards, pulls = np.zeros(shape), np.zeros((*shape, experiment.n_arms), np.int64)
        users = np.zeros((len(results), checkpoints.size), np.int64)
        for row, of_policies in enumerate(results):
            users[row] = self.engine.users(of_policies)
            for column, result in enumerate(of_policies):
                rewards[row, column], pulls[row, column] = result.rewards, result.pulls
        runs = Runs(experiment, checkpoints, rewards, pulls, users, None, first)
        if not isinstance(self.engine, StackEngine):
            return runs
        owners = list(dict.fromkeys(self.engine.stack_owners[column] for column in columns))
        pairs = zip(ledgers, runs.depths, strict=True)
        read = [_read(settled, owners, depths) for settled, depths in pairs]
        return replace(runs, observed=np.concatenate([np.empty(0), *read]))

    def trace(self, number: int) -> Trace:
        """Return the periods of one replication that each policy has done."""
        begun = len(self.numbers)
        number = require_whole(f"replication ({begun:,} begun so far)", number, 0, begun - 1)
        experiment = self.engine.experiment
        results = [empty_results(experiment, trajectory=True) for _ in experiment.policies]
        for _, settled, outstanding in self._replace(numbers=[number]).entries():
            replication = self.engine.rebuild(number, settled, outstanding, results)
        trajectories: dict[str, Trajectory] = {}
        done = zip(experiment.policies, replication.periods_done, results, strict=True)
        for name, periods, result in done:
            path = result.trajectory.until(periods)
            earlier = list(trajectories.values())
            replayed = replayed_by(experiment, path, earlier)
            trajectories[name] = path._replace(replayed=replayed)
        awaited = tuple(entry[1:] for entry in outstanding if entry.stack_owner != AUDITED)
        return Trace(experiment, None, number, trajectories, awaited)


def _read(settled: SettledEntries, owners: Sequence[int], depths: Ints) -> Floats:
    """Return the settled rewards that policies have read, ordered by stack owner and arm."""
    arms = depths.shape[1]
    codes = settled.stack_owner * arms + settled.cell
    first = [stack_owner * arms for stack_owner in owners]
    starts = np.searchsorted(codes, np.add.outer(first, np.arange(arms)).ravel())
    spans = zip(starts.tolist(), depths.ravel().tolist(), strict=True)
    return np.concatenate([settled.value[start : start + depth] for start, depth in spans])


def same_question(runs: Runs, other: Runs) -> bool:
    """Return True if two runs have the same policies and checkpoints."""
    return _asks(runs, other.experiment, other.checkpoints)


def _asks(runs: Runs, experiment: Experiment, checkpoints: Ints) -> bool:
    in_order = list(runs.experiment.policies) == list(experiment.policies)
    same = in_order and runs.experiment == experiment
    return same and np.array_equal(runs.checkpoints, checkpoints)


def _answers(runs: Runs, experiment: Experiment, checkpoints: Ints) -> bool:
    """Return True if runs have these policies, and perhaps further ones that share their stacks."""
    policies = runs.experiment.policies
    if not all(policies.get(name) == policy for name, policy in experiment.policies.items()):
        return False
    same_policies = len(policies) == len(experiment.policies)
    if not same_policies and not experiment.design.shares_rewards:
        return False
    same = runs.experiment.replace(policies=experiment.policies, control=experiment.control)
    return same == experiment and np.array_equal(runs.checkpoints, checkpoints)


def _of_policies(runs: Runs, experiment: Experiment) -> Runs:
    """Return the runs of some of their policies."""
    if list(runs.experiment.policies) == list(experiment.policies):
        return replace(runs, experiment=experiment)
    columns = [runs.policies.index(name) for name in experiment.policies]
    # Contiguous, as if they had been derived alone: sums over arrays depend on their order in memory.
    rewards = np.ascontiguousarray(runs.rewards[:, columns])
    pulls = np.ascontiguousarray(runs.pulls[:, columns])
    # Fewer policies have shared stacks (`_answers`); the users of all policies do not depend on their order.
    users = runs.interactions
    if len(columns) < len(runs.policies):
        users = experiment.design.interactions(pulls)
    fewer = Runs(experiment, runs.checkpoints, rewards, pulls, users, None, runs.first)
    if runs.observed is None:
        return fewer
    depths = runs.depths.ravel()
    positions = np.arange(depths.sum()) - np.repeat(np.cumsum(depths) - depths, depths)
    is_read = positions < np.repeat(fewer.depths.ravel(), depths)
    return replace(fewer, observed=runs.observed[is_read])
