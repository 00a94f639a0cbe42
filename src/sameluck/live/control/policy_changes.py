"""Changes of a live experiment's policies: add or remove a policy, replace code, repair the ledger."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from sameluck.errors import Conflict, Invalid, did_you_mean, shown
from sameluck.experiment import ExperimentRecord
from sameluck.live.control.challengers import Challenger
from sameluck.live.control.history import check_reason
from sameluck.live.control.policy_migration import LedgerChanges, PolicyMigration
from sameluck.live.databases.base import Transaction
from sameluck.live.databases.rows import DefinitionRow
from sameluck.live.options import Maker, Makers, checked_makers
from sameluck.live.records import AddedPolicy
from sameluck.live.state.definition import Definition, records_text
from sameluck.live.state.replications import OpenReplications
from sameluck.policies.base import Policy
from sameluck.validation import require_flag
from sameluck.wording import counted


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

        def change(before: Definition) -> Definition:
            _check_names(before, names)
            return self._with_code(before, names, all_makers)

        migration = PolicyMigration(self.replications, change, names)
        if not confirm:
            return migration.preview()
        done = migration.apply("policy code replaced", ", ".join(names), reason)
        for name, make in checked_makers(makers).items():
            self.replications.add_maker(name, make)
        return done

    def _with_code(self, before: Definition, names: Sequence[str], makers: Makers) -> Definition:
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
