"""Reading a ledger: replications from their entries, runs and trajectories from replications."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from sameluck.arrays import Floats, Ints
from sameluck.experiment import Experiment, checked_checkpoints
from sameluck.live.databases.base import Transaction
from sameluck.live.databases.rows import EntryRow, LedgerRow
from sameluck.live.engine.protocol import AUDITED, Engine, Entry, ReplicationState, SettledEntries
from sameluck.live.engine.walker import WalkResults, empty_results
from sameluck.runs import Runs
from sameluck.trajectories import Trace, Trajectory, replayed_by
from sameluck.validation import require_list, require_one_of, require_whole

CHUNK, FEW_ENTRIES = 200, 20_000  # replications, and about so many entries, read at once
_LEDGER = np.dtype(
    list(zip(LedgerRow._fields, ("i8", "i8", "i8", "i8", "f8", "?", "?"), strict=True))
)


class Ledger(NamedTuple):
    """The ledger of an experiment, or of some of its replications, on one consistent state of the database."""

    transaction: Transaction
    id: int  # of the experiment
    engine: Engine
    numbers: Sequence[int]  # of the replications, opened so far
    behind: Collection[
        int
    ] = ()  # of these, in which the policies were not run after the last rewards
    partial: bool = False  # not all policies are there: what others need cannot be checked

    def replications(self, *, checked: bool = True) -> Iterator[ReplicationState]:
        """Replications rebuilt, in order; raises `Diverged` if one is not what its policies derive."""
        for number, settled, outstanding in self.entries():
            replication = self.engine.rebuild(number, settled, outstanding)
            if checked:
                self.check(replication)
            yield replication

    def check(self, replication: ReplicationState) -> None:
        """Raise `Diverged` if a replication is not what its policies derive."""
        if not self.partial:
            replication.check(behind=replication.number in self.behind)

    def entries(self) -> Iterator[tuple[int, SettledEntries, list[Entry]]]:
        """The settled and the outstanding entries of each replication."""
        together = max(1, min(CHUNK, FEW_ENTRIES // self.engine.experiment.horizon))
        for start in range(0, len(self.numbers), together):
            chunk = self.numbers[start : start + together]
            span = {"experiment": self.id, "first": chunk[0], "stop": chunk[-1] + 1}
            rows = np.fromiter(self.transaction.iterate(LedgerRow, "ledger", **span), _LEDGER)
            outstanding: dict[int, list[Entry]] = {}
            for number, *entry in self.transaction.fetch_all(EntryRow, "outstanding", **span):
                outstanding.setdefault(number, []).append(Entry(*entry))
            for number in chunk:
                first, stop = np.searchsorted(rows["replication"], [number, number + 1])
                part = rows[first:stop]
                columns = (np.ascontiguousarray(part[name]) for name in SettledEntries._fields)
                yield number, SettledEntries(*columns), outstanding.get(number, [])

    def runs(
        self,
        checkpoints: Sequence[int] | None,
        policies: Sequence[str] | None,
        before: Sequence[Runs] = (),
    ) -> Runs:
        """The complete prefix: replications before the first in which one of the policies has not reached the end.

        `before` are earlier runs; those of the same policies and checkpoints are continued: complete replications
        never change.
        """
        whole = self.engine.experiment
        names = [] if policies is None else require_list("policies", policies)
        for name in names:
            require_one_of("policy", name, list(whole.policies))
        names = names or list(whole.policies)
        horizons = checked_checkpoints(whole, checkpoints)
        experiment = whole.replace(policies={name: whole.policies[name] for name in names})
        for runs in before:
            if _is_of(runs, experiment, horizons):
                new = self._replace(numbers=self.numbers[runs.replications :])
                more = new._complete_prefix(experiment, horizons, runs.replications)
                return Runs.concat([runs, more])
        return self._complete_prefix(experiment, horizons, 0)

    def rewards(self, policies: Sequence[str]) -> Floats:
        """What `runs` has as the rewards of some policies at the horizon (replication, policy), and no more."""
        horizon = checked_checkpoints(self.engine.experiment, None)
        rewards = array("d")
        for _, results in self._prefix(self._columns(policies), horizon, 0):
            rewards.extend(one.rewards[-1] for one in results)
        return np.array(rewards).reshape(-1, len(policies))

    def _columns(self, policies: Iterable[str]) -> list[int]:
        names = tuple(self.engine.experiment.policies)
        return [names.index(name) for name in policies]

    def _prefix(
        self, columns: Sequence[int], checkpoints: Ints, first: int
    ) -> Iterator[tuple[SettledEntries, list[WalkResults]]]:
        """The replications of the complete prefix from the `first` on, with the results of some policies."""
        experiment = self.engine.experiment
        for place, (number, settled, outstanding) in enumerate(self.entries(), start=first):
            own = [empty_results(experiment, checkpoints) for _ in experiment.policies]
            replication = self.engine.rebuild(number, settled, outstanding, own)
            fewest = min(replication.periods_done[column] for column in columns)
            if number != place or fewest < checkpoints[-1]:
                return
            self.check(replication)
            yield settled, [own[column] for column in columns]

    def _complete_prefix(self, experiment: Experiment, checkpoints: Ints, first: int) -> Runs:
        columns = self._columns(experiment.policies)
        results: list[list[WalkResults]] = []
        ledgers: list[SettledEntries] = []
        for settled, own in self._prefix(columns, checkpoints, first):
            results.append(own)
            ledgers.append(settled)
        shape = (len(results), len(columns), checkpoints.size)
        rewards, pulls = np.zeros(shape), np.zeros((*shape, experiment.n_arms), np.int64)
        for row, of_policies in enumerate(results):
            for column, one in enumerate(of_policies):
                rewards[row, column], pulls[row, column] = one.rewards, one.pulls
        users = experiment.design.interactions(pulls)
        runs = Runs(experiment, checkpoints, rewards, pulls, users, None, first)
        owners = list(dict.fromkeys(self.engine.stack_owners[column] for column in columns))
        read = [
            _read(settled, owners, depths)
            for settled, depths in zip(ledgers, runs.depths, strict=True)
        ]
        return replace(runs, observed=np.concatenate([np.empty(0), *read]))

    def trace(self, number: int) -> Trace:
        """Every period of one replication that each policy has done."""
        begun = len(self.numbers)
        number = require_whole(f"replication ({begun:,} begun so far)", number, 0, begun - 1)
        experiment = self.engine.experiment
        results = [empty_results(experiment, trajectory=True) for _ in experiment.policies]
        for _, settled, outstanding in self._replace(numbers=[number]).entries():
            replication = self.engine.rebuild(number, settled, outstanding, results)
        trajectories: dict[str, Trajectory] = {}
        done = zip(experiment.policies, replication.periods_done, results, strict=True)
        for name, periods, own in done:
            one = own.trajectory.until(periods)
            replayed = replayed_by(experiment, one.arms, one.positions, list(trajectories.values()))
            trajectories[name] = one._replace(replayed=replayed)
        awaited = tuple(
            (arm, place) for stack_owner, arm, place in outstanding if stack_owner != AUDITED
        )
        return Trace(experiment, None, number, trajectories, awaited)


def _read(settled: SettledEntries, owners: Sequence[int], depths: Ints) -> Floats:
    """The settled rewards that policies have read of their owners' stacks (stack_owner, arm), in that order."""
    arms = depths.shape[1]
    codes, first = (
        settled.stack_owner * arms + settled.arm,
        [stack_owner * arms for stack_owner in owners],
    )
    starts = np.searchsorted(codes, np.add.outer(first, np.arange(arms)).ravel())
    places = zip(starts.tolist(), depths.ravel().tolist(), strict=True)
    return np.concatenate([settled.value[start : start + depth] for start, depth in places])


def same_question(runs: Runs, others: Runs) -> bool:
    """Whether two runs are of the same policies and checkpoints."""
    return _is_of(runs, others.experiment, others.checkpoints)


def _is_of(runs: Runs, experiment: Experiment, checkpoints: Ints) -> bool:
    in_order = list(runs.experiment.policies) == list(experiment.policies)
    same = in_order and runs.experiment == experiment
    return same and np.array_equal(runs.checkpoints, checkpoints)
