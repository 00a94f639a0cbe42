"""Challengers: policies that are added to a running experiment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from sameluck.arrays import Floats
from sameluck.errors import Invalid
from sameluck.live.databases.base import Row, Transaction
from sameluck.live.databases.rows import (
    DefinitionRow,
    ExperimentRow,
    NumberRow,
    ProgressRow,
    ReplicationRow,
)
from sameluck.live.engine.protocol import StackEngine, StackState, stack_engine
from sameluck.live.options import LiveOptions, check_fit, experiment_as_run
from sameluck.live.records import AddedPolicy
from sameluck.live.state.definition import Definition, PolicyRecord, records_text
from sameluck.live.state.replications import OpenReplications, PendingWrites
from sameluck.policies.base import Policy
from sameluck.validation import require_name

# Progress of a challenger in one replication on settled entries: finished, periods replayed, entries wanted
ChallengerProgress: TypeAlias = tuple[bool, int, int]


class Derived(NamedTuple):
    """Replication with a challenger, derived before the challenger is added."""

    version: int
    progress: ChallengerProgress
    state: StackState | None  # None if the policy has finished it and nothing is outstanding

    def can_catch_up(self, row: ReplicationRow) -> bool:
        """Return True if entries settled since are the only change."""
        if self.state is None:
            return self.version == row.version
        return self.state.taken_back == row.taken_back


class DerivedChallenger(NamedTuple):
    """Replications with a challenger, derived from one state of the database."""

    before: DefinitionRow  # without the policy
    after: Definition
    states: Mapping[int, Derived]  # by the number of the replication


class Challenger(NamedTuple):
    """Policy to be added, on one state of the database."""

    transaction: Transaction
    replications: OpenReplications
    name: str
    policy: Policy | str

    def preview(self) -> AddedPolicy:
        """Return the result of `join` without changing anything."""
        states = self.derive().states
        return self._summary([derived.progress for derived in states.values()], self._users())

    def derive(self) -> DerivedChallenger:
        """Derive the replications begun so far with the challenger: the long part of `join`, without any change."""
        before = self.replications.current(self.transaction)
        _engine(before)  # raises if this process does not have the code of every policy
        after = self._added_to(before)
        rows = self._all(ReplicationRow, "replications")
        return DerivedChallenger(before.row, after, self._derive_each(after, rows))

    def join(self, derived: DerivedChallenger, now: int) -> AddedPolicy:
        """Add the challenger, which reads the replications begun so far; complete ones may be opened again."""
        # The lock order of a reward: its replication, then the experiment.
        key = {"experiment": self.replications.id}
        # No reward can be settled from here to the commit; the derived states only lack what was settled before.
        self.transaction.fetch_all(ReplicationRow, "lock_all_replications", **key)
        row = self._one(ExperimentRow, "lock_experiment")
        if row.status == "failed":
            raise Invalid(f"cannot add a policy: the experiment's status is failed ({row.reason})")
        if row.policies != derived.before:  # another process has changed the policies since
            derived = self.derive()
        users, open_before = self._users(), self._one(NumberRow, "count_open").number
        progress = self._add(derived.after, derived.states, now)
        self.replications.history.record(self.transaction, "policy added", subject=self.name)
        self.replications.continue_after(self.transaction, row, open_before)
        return self._summary(progress, users)

    def catch_up(self, derived: DerivedChallenger) -> None:
        """Bring derived replications up to date without locks, so that `join` holds its locks for less time."""
        for row in self._all(ReplicationRow, "replications"):
            replication = derived.states.get(row.number)
            state = None if replication is None else replication.state
            if state is not None and state.taken_back == row.taken_back:
                self._settle_since(derived.after, state, row)

    def _derive_each(self, after: Definition, rows: Sequence[ReplicationRow]) -> dict[int, Derived]:
        engine = _engine(after)
        ledger = self.replications.ledger(self.transaction, engine)
        taken_back, states = {row.number: row.taken_back for row in rows}, {}
        for number, settled, outstanding in ledger._replace(numbers=list(taken_back)).entries():
            self._check_rewards(after, settled.value)
            state = engine.rebuild(number, settled, outstanding)
            state.taken_back = taken_back[number]
            finished, *_ = progress = _progress(state)
            is_final = finished and state.complete and not state.outstanding
            is_final = is_final and not state.all_audits()
            states[number] = Derived(state.version, progress, None if is_final else state)
        return states

    def _settle_since(self, after: Definition, state: StackState, row: ReplicationRow) -> None:
        """Settle the entries settled since. Without any, ask no database: SQLite would search all entries."""
        if state.version != row.version:
            values = self.replications.settle_since(self.transaction, state)
            self._check_rewards(after, np.array(values))

    def _add(
        self, after: Definition, derived: Mapping[int, Derived], now: int
    ) -> list[ChallengerProgress]:
        """Use the definition with the challenger, and settle the entries settled since it was derived."""
        self.replications.set_definition(self.transaction, after)
        outstanding = self.replications.outstanding(self.transaction)
        progress, writes = [], PendingWrites(self.transaction)
        for row in self._all(ReplicationRow, "replications"):
            replication = derived.get(row.number)
            if replication is None or not replication.can_catch_up(row):
                replication = self._derive_each(after, [row])[row.number]
            if replication.state is not None:
                state = replication.state
                self.replications.hold(self.transaction, row.number)
                self._settle_since(after, state, row)
                state.outstanding = outstanding.get(row.number, set())
                replication = replication._replace(progress=_progress(state))
                self.replications.states[row.number] = state
                self.replications.write_state(writes, state, state.want_afresh(), now)
            progress.append(replication.progress)
        return progress

    def _all(self, row: type[Row], statement: str) -> list[Row]:
        return self.transaction.fetch_all(row, statement, experiment=self.replications.id)

    def _one(self, row: type[Row], statement: str) -> Row:
        return self.transaction.fetch_one(row, statement, experiment=self.replications.id)

    def _users(self) -> int:
        row = self._one(ProgressRow, "progress")
        return row.settled - row.imported + row.waiting

    def _added_to(self, before: Definition) -> Definition:
        experiment, options, name = before.experiment, self.replications.options, self.name
        require_name("a policy's name", name)
        if name in before.records:
            verb = "had" if before.records[name].removed else "has"
            raise Invalid(f"the experiment {verb} a policy {name!r} already; choose another name")
        if options.aa:
            raise Invalid(
                "cannot add a policy to an A/A rehearsal: every policy plays the control's rule. Start another "
                "experiment"
            )
        wider = experiment.replace(policies={**experiment.policies, name: self.policy})
        if isinstance(options.batch, int):
            wider = experiment_as_run(wider, LiveOptions(batch={name: options.batch}))
        check_fit(wider, options)
        owner = 1 + max(record.owner for record in before.records.values())
        records = before.records | {name: PolicyRecord(owner, added=True)}
        row = DefinitionRow(wider.to_json(), records_text(records), before.row.revision + 1)
        define = self.replications.define
        return define(define(row).with_versions([name]))

    def _check_rewards(self, wider: Definition, values: Floats) -> None:
        if wider.binary_rewards and not np.isin(values, (0, 1)).all():
            raise Invalid(
                f"policy {self.name!r} needs rewards 0 and 1, but the experiment has had other rewards"
            )

    def _summary(self, progress: Sequence[ChallengerProgress], users: int) -> AddedPolicy:
        finished, replayed, wanted = map(sum, zip(*progress, strict=True))
        return AddedPolicy(self.name, len(progress), finished, replayed, wanted, users)


def _engine(definition: Definition) -> StackEngine:
    engine = stack_engine(definition.engine, "add_policy")
    if not engine.admits_challengers:
        raise Invalid(
            f"add_policy: design {engine.experiment.design.label} takes no policy after the start; start another "
            "experiment with all policies"
        )
    return engine


def _progress(state: StackState) -> ChallengerProgress:
    challenger = state.policies - 1
    periods = state.periods_done[challenger]
    wanted = len(state.needed_by([challenger]) - state.outstanding)
    return periods == state.engine.experiment.horizon, periods, wanted
