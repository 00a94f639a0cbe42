"""Changes of a live experiment's policies: add or remove a policy, replace code, repair the ledger.

After a removal, other code or a repair the ledger is derived again: the policies are run on the known rewards from
the start, like a challenger. Entries that no policy needs any more are released: known rewards stay known to every
policy, awaited rewards are accepted, and nobody is enrolled for the other entries. Entries that are needed now are
wanted. Each policy thus has the distribution of a solo run, whatever earlier policies have requested: it reads every
entry of a stack once, in order.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

from sameluck.errors import Conflict, Invalid, did_you_mean, shown
from sameluck.experiment import ExperimentRecord
from sameluck.live.control.challengers import Challenger
from sameluck.live.control.history import check_reason
from sameluck.live.databases.base import Transaction
from sameluck.live.databases.rows import DefinitionRow, ExperimentRow, NumberRow, ReplicationRow
from sameluck.live.engine.protocol import Differences, ReplicationState
from sameluck.live.options import Maker, Makers, checked_makers
from sameluck.live.records import AddedPolicy
from sameluck.live.state.definition import Definition, records_text
from sameluck.live.state.digests import check_digest, marks_of
from sameluck.live.state.ledger import Ledger
from sameluck.live.state.replications import OpenReplications
from sameluck.policies.base import Policy
from sameluck.validation import require_flag
from sameluck.wording import counted

Change: TypeAlias = Callable[[Definition], Definition]  # of the policies, at the next revision


class LedgerDifference(NamedTuple):
    """Difference between a replication's ledger and the policies' requests.

    Attributes:
        replication: The number of the replication.
        period: The first period in which a policy needs an entry that was not requested; None without one.
        released: Entries that no policy needs any more, including known rewards.
        wanted: Entries that are needed and were not requested.
    """

    replication: int
    period: int | None
    released: int
    wanted: int


class LedgerChanges(NamedTuple):
    """Changes of the ledger, made or previewed, when it is derived again with this process's policies."""

    replications: int  # begun so far
    differences: tuple[LedgerDifference, ...]
    applied: bool

    def __str__(self) -> str:
        begun = f"{counted(self.replications, 'replication')} derived from the ledger again"
        if not self.differences:
            return f"{begun}: every entry that the policies request is in it, and no other."
        periods = [row.period for row in self.differences if row.period is not None]
        first = f", the first from period {min(periods):,} on" if periods else ""
        numbers = ", ".join(str(row.replication) for row in self.differences[:10])
        more = ", ..." if len(self.differences) > 10 else ""
        released = sum(row.released for row in self.differences)
        wanted = sum(row.wanted for row in self.differences)
        return (
            f"{begun}: differences in replication {numbers}{more}{first}. No policy needs "
            f"{counted(released, 'entry', 'entries')} any more, and {counted(wanted, 'entry', 'entries')} must be "
            "requested."
        )


class _Derived(NamedTuple):
    row: ReplicationRow  # when it was derived
    version: int
    complete: bool
    differences: Differences
    period: int | None


class _Plan(NamedTuple):
    before: DefinitionRow
    after: Definition
    states: dict[int, _Derived]  # by the number of the replication


class PolicyMigration(NamedTuple):
    """Change of an experiment's policies, with the changes of its ledger."""

    replications: OpenReplications
    change: Change
    changed: Collection[str]  # the policies whose first differing periods are reported

    def preview(self) -> LedgerChanges:
        """Return the result of `apply` without changing anything."""
        plan = self.replications.database.read(self._derive)
        return _summary(plan.states, applied=False)

    def apply(self, change: str, subject: str, reason: str) -> LedgerChanges:
        """Change the policies and the ledger, and record the change; the long derivation holds no locks."""
        # Deriving may take minutes. It is done on a snapshot; only replications that changed since are derived again
        # while users wait.
        first = [self.replications.database.read(self._derive)]

        def work(transaction: Transaction) -> LedgerChanges:
            plan = first.pop() if first else None  # the transaction may be run again
            return self._apply(transaction, plan, change, subject, reason)

        return self.replications.database.write(work)

    def _derive(self, transaction: Transaction) -> _Plan:
        before = self.replications.current(transaction)
        after = self.change(before)
        ledger = self.replications.ledger(transaction, after.engine)
        return _Plan(before.row, after, self._derive_each(ledger))

    def _derive_each(self, ledger: Ledger) -> dict[int, _Derived]:
        digests = {mark.number: mark.known_digest for mark in marks_of(ledger)}
        derived = {}
        key = {"experiment": self.replications.id}
        rows = ledger.transaction.fetch_all(ReplicationRow, "replications", **key)
        by_number = {row.number: row for row in rows}
        for number, settled, outstanding in ledger.entries():
            check_digest(ledger, digests[number], number, settled)
            state = ledger.engine.rebuild(number, settled, outstanding)
            row, period = by_number[number], self._first_period(state)
            differences = state.differences()
            derived[number] = _Derived(row, state.version, state.complete, differences, period)
        return derived

    def _first_period(self, state: ReplicationState) -> int | None:
        """Return the first period in which a changed policy needs an entry that was not requested."""
        names = list(state.engine.experiment.policies)
        changed = [k for k, name in enumerate(names) if name in self.changed]
        lacking = [k for k in changed if state.needed_by([k]) - state.outstanding]
        return min((state.periods_done[k] + 1 for k in lacking), default=None)

    def _apply(
        self, transaction: Transaction, plan: _Plan | None, change: str, subject: str, reason: str
    ) -> LedgerChanges:
        # The lock order of a reward: its replication, then the experiment.
        key = {"experiment": self.replications.id}
        rows = transaction.fetch_all(ReplicationRow, "lock_all_replications", **key)
        before = transaction.fetch_one(ExperimentRow, "lock_experiment", **key)
        if plan is None or plan.before != before.policies:
            plan = self._derive(transaction)
        after, by_number = plan.after, plan.states
        # A replication that was behind has other requests once a process with the code has advanced it.
        stale = [
            row.number
            for row in rows
            if row.number not in by_number or by_number[row.number].row != row
        ]
        ledger = self.replications.ledger(transaction, after.engine)
        by_number = by_number | self._derive_each(ledger._replace(numbers=stale))
        open_before = transaction.fetch_one(NumberRow, "count_open", **key).number
        now = self.replications.settings.now()
        self.replications.set_definition(transaction, after)
        for row in rows:
            self._write(transaction, row.number, by_number[row.number], after, now)
        self.replications.history.record(transaction, change, subject=subject, reason=reason)
        self.replications.continue_after(transaction, before, open_before)
        return _summary(by_number, applied=True)

    def _write(
        self, transaction: Transaction, number: int, derived: _Derived, after: Definition, now: int
    ) -> None:
        key = {"experiment": self.replications.id, "replication": number}
        changes = ("release", derived.differences.surplus), ("want", derived.differences.missing)
        for statement, entries in changes:
            transaction.execute_many(statement, [{**key, **entry.columns()} for entry in entries])
        transaction.execute(
            "advance_replication",
            **key,
            version=derived.version,
            policies=len(after.experiment.policies),
            state="complete" if derived.complete else "open",
            complete=derived.complete,
            defaulted=0,
            digest=0,
            before=derived.version,
            now=now,
        )


def _summary(derived: Mapping[int, _Derived], *, applied: bool) -> LedgerChanges:
    differences = tuple(
        LedgerDifference(number, state.period, len(differences.surplus), len(differences.missing))
        for number, state in sorted(derived.items())
        if (differences := state.differences)
    )
    return LedgerChanges(len(derived), differences, applied)


class PolicyChanges(NamedTuple):
    """Changes that operators make to the policies of one experiment."""

    replications: OpenReplications

    def add(self, name: str, policy: Policy | str, make: Maker | None) -> AddedPolicy:
        self._add_maker(name, policy, make)
        challenger = partial(Challenger, replications=self.replications, name=name, policy=policy)
        # Read and not write: the long derivation locks nothing, and a challenger that fails is just not added.
        database = self.replications.database
        derived = database.read(lambda transaction: challenger(transaction).derive())
        database.read(lambda transaction: challenger(transaction).catch_up(derived))
        first_attempt = [derived]

        def work(transaction: Transaction) -> AddedPolicy:
            # A transaction may be run again, and joining changes the derived states: derive them anew then.
            joining = challenger(transaction)
            states = first_attempt.pop() if first_attempt else joining.derive()
            return joining.join(states, self.replications.settings.now())

        return database.write(work)

    def preview(self, name: str, policy: Policy | str, make: Maker | None) -> AddedPolicy:
        """Return the result that `add` would return, without changing anything."""
        self._add_maker(name, policy, make)
        return self.replications.database.read(
            lambda transaction: Challenger(transaction, self.replications, name, policy).preview()
        )

    def _add_maker(self, name: str, policy: Policy | str, make: Maker | None) -> None:
        if make is not None:
            self.replications.add_maker(getattr(policy, "name", name), make)

    def remove(self, name: str, reason: str) -> LedgerChanges:
        check_reason(reason)
        change = PolicyMigration(self.replications, lambda before: self._without(before, name), ())
        return change.apply("policy removed", name, reason)

    def _without(self, before: Definition, name: str) -> Definition:
        values: ExperimentRecord = json.loads(before.row.definition)
        _check_names(before, [name])
        if name == values["control"]:
            raise Invalid(
                f"policy {name!r} is the control and cannot be removed; stop the experiment, or start another"
            )
        values["policies"].pop(name)
        records = before.records | {name: before.records[name]._replace(removed=True)}
        definition = json.dumps(values, indent=2, ensure_ascii=False)
        row = DefinitionRow(definition, records_text(records), before.row.revision + 1)
        return self.replications.define(row)

    def replace_code(
        self, names: Sequence[str], makers: Makers | None, reason: str, *, confirm: bool
    ) -> LedgerChanges:
        check_reason(reason)
        require_flag("confirm", confirm)
        all_makers = {**self.replications.makers, **checked_makers(makers)}
        migration = PolicyMigration(
            self.replications, lambda before: self._with_code(before, names, all_makers), names
        )
        if not confirm:
            return migration.preview()
        done = migration.apply("policy code replaced", ", ".join(names), reason)
        for name, make in checked_makers(makers).items():
            self.replications.add_maker(name, make)
        return done

    def _with_code(self, before: Definition, names: Sequence[str], makers: Makers) -> Definition:
        _check_names(before, names)
        here = self.replications.define(before.row, makers)
        for name in names:
            if name in here.missing:
                raise here.missing[name]
            if before.records[name].fingerprint == here.fingerprints[name]:
                raise Conflict(
                    f"this process has the version of policy {name!r} that the experiment has already "
                    f"({here.fingerprints[name] or 'none'}); run this in a process with the new code",
                    "invalid_transition",
                )
        row = here.with_versions(names)._replace(revision=before.row.revision + 1)
        after = self.replications.define(row, makers)
        after.playable, after.fingerprints = here.playable, here.fingerprints
        return after

    def repair(self, reason: str, *, confirm: bool) -> LedgerChanges:
        check_reason(reason)
        require_flag("confirm", confirm)

        def change(before: Definition) -> Definition:
            _ = before.engine  # raises if this process does not have the experiment's code
            row = before.row._replace(revision=before.row.revision + 1)
            after = self.replications.define(row)
            after.playable, after.fingerprints = before.playable, before.fingerprints
            return after

        policies = list(self.replications.experiment.policies)
        migration = PolicyMigration(self.replications, change, policies)
        preview = migration.preview()
        if not confirm:
            return preview
        subject = counted(len(preview.differences), "replication")
        return migration.apply("ledger repaired", subject, reason)


def _check_names(before: Definition, names: Sequence[str]) -> None:
    present = [name for name, record in before.records.items() if not record.removed]
    for name in names:
        if not isinstance(name, str) or name not in present:
            hint = did_you_mean(name, present)
            raise Invalid(f"no policy {shown(name)} in the experiment; {hint}")
