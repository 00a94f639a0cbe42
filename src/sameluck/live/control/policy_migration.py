"""Deriving the ledger again, with a policy removed, with other code, or as it is: what changes, and the change.

The policies are run on the known rewards from the start, as a challenger is. Entries that no policy needs any more
are released: a reward that is known stays known to every policy, one that is awaited is accepted, and nobody is
enrolled for the others. Entries that are needed now are wanted. So each policy has the law that it has alone (it
reads every entry of a stack once, in order), whatever the policies before have requested.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple, TypeAlias

from sameluck.live.databases.base import Transaction
from sameluck.live.databases.rows import CurrentRow, DefinitionRow, NumberRow, ReplicationRow
from sameluck.live.engine.protocol import Differences, ReplicationState
from sameluck.live.state.definition import Definition
from sameluck.live.state.digests import check_digest, known_digests
from sameluck.live.state.ledger import Ledger
from sameluck.live.state.replications import OpenReplications
from sameluck.wording import counted

Change: TypeAlias = Callable[[Definition], Definition]  # of the policies, at the next revision


class LedgerDifference(NamedTuple):
    """How the ledger of a replication differs from what the policies request now."""

    replication: int
    period: (
        int | None
    )  # from which on a policy needs an entry that was not requested; None if none does
    released: int  # entries that no policy needs any more, rewards that are known among them
    wanted: int  # entries that are needed and were not requested


class LedgerChanges(NamedTuple):
    """What deriving the ledger again with the policies of this process changes, or has changed."""

    replications: int  # begun so far
    differences: tuple[LedgerDifference, ...]
    applied: bool

    def __str__(self) -> str:
        begun = f"{counted(self.replications, 'replication')} derived from the ledger again"
        if not self.differences:
            return f"{begun}: every entry that the policies request is in it, and no other."
        periods = [one.period for one in self.differences if one.period is not None]
        first = f", the first from period {min(periods):,} on" if periods else ""
        numbers = ", ".join(str(one.replication) for one in self.differences[:10])
        more = ", ..." if len(self.differences) > 10 else ""
        released = sum(one.released for one in self.differences)
        wanted = sum(one.wanted for one in self.differences)
        return (
            f"{begun}: differences in replication {numbers}{more}{first}. No policy needs "
            f"{counted(released, 'entry', 'entries')} any more, and {counted(wanted, 'entry', 'entries')} must be "
            "requested."
        )


class _Derived(NamedTuple):
    row: ReplicationRow  # with which it was derived
    version: int
    complete: bool
    found: Differences
    period: int | None


class _Plan(NamedTuple):
    before: DefinitionRow
    after: Definition
    states: dict[int, _Derived]  # by the number of the replication


class PolicyMigration(NamedTuple):
    """A change of the policies of an experiment, with what follows for its ledger."""

    replications: OpenReplications
    change: Change
    changed: Collection[str]  # the policies whose periods are shown

    def preview(self) -> LedgerChanges:
        """What `apply` would do; nothing is changed."""
        return self.replications.database.read(
            lambda t: _summary(self._derive(t).states, applied=False)
        )

    def apply(self, what: str, subject: str, reason: str) -> LedgerChanges:
        """Change the policies and the ledger, and record it; the long part is done before others must wait."""
        first = [self.replications.database.read(self._derive)]

        def work(transaction: Transaction) -> LedgerChanges:
            plan = first.pop() if first else None  # it may be run again
            return self._apply(transaction, plan, what, subject, reason)

        return self.replications.database.write(work)

    def _derive(self, transaction: Transaction) -> _Plan:
        before = self.replications.current(transaction)
        after = self.change(before)
        ledger = self.replications.ledger(transaction, after.engine)
        return _Plan(before.row, after, self._derive_each(ledger))

    def _derive_each(self, ledger: Ledger) -> dict[int, _Derived]:
        digests, derived = known_digests(ledger), {}
        key = {"experiment": self.replications.id}
        rows = ledger.transaction.fetch_all(ReplicationRow, "replications", **key)
        by_number = {row.number: row for row in rows}
        for number, settled, outstanding in ledger.entries():
            check_digest(ledger, digests, number, settled)
            state = ledger.engine.rebuild(number, settled, outstanding)
            period = self._first_period(state)
            derived[number] = _Derived(
                by_number[number], state.version, state.complete, state.differences(), period
            )
        return derived

    def _first_period(self, state: ReplicationState) -> int | None:
        """The first period in which a changed policy needs an entry that was not requested."""
        names = list(state.engine.experiment.policies)
        places = [k for k, name in enumerate(names) if name in self.changed]
        lacking = [k for k in places if state.needed_by([k]) - state.outstanding]
        return min((state.periods_done[k] + 1 for k in lacking), default=None)

    def _apply(
        self,
        transaction: Transaction,
        plan: _Plan | None,
        what: str,
        subject: str,
        reason: str,
    ) -> LedgerChanges:
        # In the order in which a reward locks them: its replication, then the experiment if that is complete.
        key = {"experiment": self.replications.id}
        rows = transaction.fetch_all(ReplicationRow, "lock_all_replications", **key)
        before = transaction.fetch_one(CurrentRow, "lock_experiment", **key)
        if plan is None or plan.before != before.policies:
            plan = self._derive(transaction)
        after, by_number = plan.after, plan.states
        # One that was behind has other requests once a process with the code has taken it up.
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
        self.replications.history.record(transaction, what, subject=subject, reason=reason)
        self.replications.continue_after(transaction, before, open_before)
        return _summary(by_number, applied=True)

    def _write(
        self, transaction: Transaction, number: int, derived: _Derived, after: Definition, now: int
    ) -> None:
        key = {"experiment": self.replications.id, "replication": number}
        surplus = [{**key, **entry._asdict()} for entry in derived.found.surplus]
        transaction.execute_many("release", surplus)
        wanted = [{**key, **entry._asdict()} for entry in derived.found.missing]
        transaction.execute_many("want", wanted)
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
    found = tuple(
        LedgerDifference(number, one.period, len(one.found.surplus), len(one.found.missing))
        for number, one in sorted(derived.items())
        if one.found
    )
    return LedgerChanges(len(derived), found, applied)
