"""What happens to the users of a live experiment: assigned, exposed, rewarded, voided, overdue."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import TypeVar

from sameluck.errors import Conflict, Diverged, Invalid, SameluckError, Unknown, Unplayable, shown
from sameluck.experiment import Experiment
from sameluck.live.databases.base import Transaction, Work
from sameluck.live.databases.rows import AssignmentRow, ExperimentRow, LockedAssignment
from sameluck.live.records import (
    UNAVAILABLE,
    Assignment,
    AssignmentDetails,
    Receipt,
    details_of,
    moment,
)
from sameluck.live.state.replications import OpenReplications
from sameluck.live.users.batches import batches_of, map_valid, result_or_error
from sameluck.live.users.enrolment import Enrolment, Unit
from sameluck.live.users.pending_writes import PendingWrites
from sameluck.live.users.reward_outcomes import Report, checked_reward, is_id, outcome_of, voided
from sameluck.validation import require_flag

T = TypeVar("T")
_in_this_process: weakref.WeakSet[Assignments] = weakref.WeakSet()


def _after_fork() -> None:
    """A child has locks and states of its own; those of its parent may be in use."""
    for each in list(_in_this_process):
        each._enrolment.after_fork()
        each._replications.after_fork()
        each._settings.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class Assignments:
    """The users of one experiment: the part of a `LiveExperiment` that an application calls for each of them."""

    def __init__(self, replications: OpenReplications, row: ExperimentRow) -> None:
        row.check_streams()
        self._replications = replications
        self._database = replications.database
        self._settings = replications.settings
        self._id = self.id = (
            row.id
        )  # its number in the store; another experiment of the same name has another
        self.name = row.name
        self.options = replications.options
        self.started_at = moment(row.started_us)
        self._enrolment = Enrolment(replications, row)
        self._expiry = self._enrolment.expiry
        _in_this_process.add(self)

    @property
    def experiment(self) -> Experiment:
        """The experiment, policies that were added included."""
        return self._replications.experiment

    @property
    def fallback_assignment(self) -> Assignment:
        """Answer to a unit while the store is unavailable, without a call to the store."""
        return self._enrolment.not_enrolled(UNAVAILABLE)

    def fallback_arm(self) -> str:
        """Return the fallback arm at this moment."""
        return self._enrolment.read_fallback()

    def __repr__(self) -> str:
        names = ", ".join(self.experiment.policies)
        return f"<LiveExperiment {self.name!r}: {names}; horizon {self.experiment.horizon:,}>"

    def assign(self, unit: Unit, *, strict: bool = False) -> Assignment:
        """Return the arm to show a unit that has just arrived.

        The same unit gets the same answer while it is enrolled. A unit that the experiment does not need gets the
        fallback arm and `enrolled` False; that never raises. Neither does a store that is away or does not answer in
        time (`open(timeout=...)`): the unit gets the fallback arm with the reason UNAVAILABLE, unless `strict`, which
        raises `Unavailable`; nor a process whose code of a policy is not that of the experiment (DIVERGED, or with
        `strict` `OtherVersion`).
        """
        require_flag("strict", strict)
        code = self._enrolment.code_or_answer(unit)
        answer = self._enrolment.assign_all([code], strict)[0] if isinstance(code, str) else code
        self._enrolment.count([answer])
        return answer

    def assign_many(
        self, units: Iterable[Unit], *, strict: bool = False
    ) -> list[Assignment | SameluckError]:
        """Return what `assign` returns for each of several units, in their order; an error stands in its place.

        Much faster than one call per unit: they share a transaction (up to 100 of them). A unit that is not valid
        has an `Invalid`, which is returned and not raised, and the others are not affected.
        """
        require_flag("strict", strict)
        answers: list[Assignment | SameluckError] = []
        for some in batches_of("assign_many: units", units):
            answers += self._assign_together(some, strict=strict)
            self._enrolment.count(answers[-len(some) :])
        return answers

    def _assign_together(
        self, units: Sequence[Unit], *, strict: bool
    ) -> list[Assignment | SameluckError]:
        """As `assign_many`, in one transaction and without counting the answers."""
        codes = [result_or_error(self._enrolment.code_or_answer, unit) for unit in units]
        return map_valid(codes, str, partial(self._enrolment.assign_all, strict=strict))

    def _write(self, work: Work[T]) -> T:
        with self._settings.breaker.call(self._settings.patience):
            return self._replications.write(work)

    def expose(self, id: str | None) -> None:
        """Report that the unit has seen its arm: it counts, with the default reward if none comes in time."""
        if id is not None:
            _raise(self._write(partial(self._expose, id=id)))

    def _expose(self, transaction: Transaction, id: str) -> Conflict | None:
        locked, now = self._expiry.lock(transaction, id)
        if locked.voided:
            return voided(id)
        if locked.exposed_us is not None or locked.state == "settled":
            return None
        transaction.execute("expose", assignment=id, now=now)
        if self._expiry.explicit:
            transaction.execute("set_due", **locked.key(), due=now + self._expiry.window)
        return None

    def reward(self, id: str | None, value: float) -> Receipt:
        """Report the reward of a unit. It is durable once this returns.

        The first value counts. The same value again changes nothing; another value, a value after the window or for a
        voided assignment raises `Conflict` and is kept in the audit log. For a unit that is not enrolled (`id` None)
        nothing happens.
        """
        report = self._checked_report(id, value)
        if isinstance(report, Receipt):
            return report
        (answer,) = self._write(partial(self._reward_each, reports=[report]))
        if isinstance(answer, SameluckError):
            raise answer
        return answer

    def reward_many(
        self, pairs: Iterable[tuple[str | None, float]]
    ) -> list[Receipt | SameluckError]:
        """Report several rewards, as pairs of an assignment's id and a value; returns what `reward` returns for each.

        They count in their order, and are durable once this returns. As with `assign_many` they share a transaction,
        and an error (`Conflict`, `Invalid`, `Unknown`, ...) stands in its place, is not raised, and does not affect
        the others; its `code` is the reason. `Unavailable` is raised; the same call may then be made again.
        """
        answers: list[Receipt | SameluckError] = []
        for some in batches_of("reward_many: pairs", pairs):
            answers += self._reward_together(some)
        return answers

    def _reward_together(
        self, pairs: Sequence[tuple[str | None, float]]
    ) -> list[Receipt | SameluckError]:
        """As `reward_many`, in one transaction."""
        reports = [result_or_error(self._report_of_pair, pair) for pair in pairs]
        return map_valid(reports, Report, self._reward_all)

    def _report_of_pair(self, pair: tuple[str | None, float]) -> Report | Receipt:
        try:
            id, value = pair
        except (TypeError, ValueError):
            message = (
                f"reward_many: a pair is the id of an assignment and its reward, got {shown(pair)}"
            )
            raise Invalid(message) from None
        return self._checked_report(id, value)

    def _checked_report(self, id: str | None, value: float) -> Report | Receipt:
        """A reward to write, or the receipt of one for a unit that is not enrolled."""
        binary = self._replications.definition.binary_rewards
        number = checked_reward(value, self.options.reward.bounds, binary=binary)
        if id is None:
            return Receipt(applied=False, duplicate=False, value=number)
        if not is_id(id):
            raise self._expiry.unknown(id)
        return Report(id, number)

    def _reward_all(self, reports: Sequence[Report]) -> list[Receipt | SameluckError]:
        try:
            with self._settings.breaker.call(self._settings.patience):
                return self._database.write(partial(self._reward_each, reports=reports))
        except (Diverged, Unplayable):  # of one replication; the rewards of others count
            return [result_or_error(self.reward, *report) for report in reports]

    def _reward_each(
        self, transaction: Transaction, reports: Sequence[Report]
    ) -> list[Receipt | SameluckError]:
        """Report rewards in their order. One that is refused changes nothing, or the audit log alone."""
        rows = self._lock_each(transaction, list(dict.fromkeys([id for id, _ in reports])))
        settlements = PendingWrites(transaction)
        versions: dict[int, int] = {}  # of replications, once this transaction has changed them
        answers: list[Receipt | SameluckError] = []
        for id, value in reports:
            try:
                locked = rows.pop(id, None) or self._expiry.read(transaction, id)
                if locked.policy_revision != self._replications.definition.row.revision:
                    binary = self._replications.current(transaction).binary_rewards
                    checked_reward(value, self.options.reward.bounds, binary=binary)
            except (Invalid, Unknown) as error:  # before anything is written
                answers.append(error.with_traceback(None))
                continue
            if locked.replication in versions:
                locked = locked._replace(version=versions[locked.replication])
            answer, versions[locked.replication] = self._reward(settlements, locked, value)
            answers.append(answer)
        return answers

    def _reward(
        self, settlements: PendingWrites, locked: LockedAssignment, value: float
    ) -> tuple[Receipt | Conflict, int]:
        """Report a reward; returns the version of its replication too."""
        locked, now = self._expiry.expired(settlements.transaction, locked)
        outcome, conflict = outcome_of(locked, value)
        settlements.add("note_reward", assignment=locked.id, value=value, now=now, outcome=outcome)
        applied = outcome == "applied"
        if applied:
            self._replications.settle(settlements, locked, value, "observed", now)
        return conflict or Receipt(applied, outcome == "duplicate", value), locked.version + applied

    def _lock_each(
        self, transaction: Transaction, ids: Sequence[str]
    ) -> dict[str, LockedAssignment]:
        """Those of some assignments that are of this experiment, locked."""
        values = [{"assignment": id} for id in ids]
        rows = transaction.find_many(LockedAssignment, "lock_assignment", values)
        return {row.id: row for row in rows if row is not None and row.experiment == self._id}

    def void(self, id: str | None) -> None:
        """Report that the unit never saw its arm: its entry is wanted again, and the unit may be enrolled again."""
        if id is not None:
            _raise(self._write(partial(self._void, id=id)))

    def _void(self, transaction: Transaction, id: str) -> Conflict | None:
        locked, now = self._expiry.lock(transaction, id)
        if locked.voided:
            return None
        if locked.state == "settled":
            message = f"is settled with {locked.value!r} ({locked.source}) and cannot be voided"
            return Conflict(f"assignment {id!r} {message}", "already_settled")
        if locked.exposed_us is not None:
            message = "was exposed and cannot be voided; it gets the default reward if none comes"
            return Conflict(f"assignment {id!r} {message}", "already_exposed")
        self._replications.void(transaction, locked, now)
        return None

    def void_units(self, units: Iterable[Unit]) -> None:
        """Void the assignments of units that may be enrolled but were not told, since their answer was lost.

        As `void` does, but units that are not enrolled, or were exposed or rewarded, stay as they are.
        """
        for unit in chain.from_iterable(batches_of("void_units: units", units)):
            with suppress(Conflict):
                self.void(self._enrolment.assignment_of(self._enrolment.code(unit)))

    def tick(self) -> int:
        """Expire every assignment that is due; returns how many.

        Exposed, and no reward within the window: the default reward. Not exposed within the lease: voided, and the
        entry is wanted again. `assign` does this about once per second too, and a reward after its window is late
        whether or not this was called.
        """
        self._replications.advance_behind()
        return self._expiry.tick()

    def describe(self, id: str) -> AssignmentDetails:
        """Everything about an assignment, for the analyst; the application that serves users does not need it."""

        def work(transaction: Transaction) -> AssignmentDetails:
            row = transaction.find(AssignmentRow, "describe", assignment=id) if is_id(id) else None
            if row is None or row.experiment != self._id:
                raise self._expiry.unknown(id)
            definition = self._replications.current(transaction)
            owners, arms = definition.owner_names, definition.experiment.arm_names
            return details_of(id, self.name, owners, arms, row)

        return self._database.read(work)


def _raise(conflict: Conflict | None) -> None:
    if conflict is not None:
        raise conflict
