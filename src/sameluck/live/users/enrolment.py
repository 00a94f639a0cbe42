"""Which arm a unit gets: that of its assignment, of the first wanted entry, or the fallback arm."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from functools import partial
from itertools import compress
from typing import Any, NamedTuple, SupportsIndex, TypeAlias
from uuid import UUID

from sameluck.errors import Closed, OtherVersion, SameluckError, Unavailable
from sameluck.live import records
from sameluck.live.calls.settings import SECOND, this_process
from sameluck.live.databases.base import Transaction, Values
from sameluck.live.databases.rows import (
    ACTIVE,
    CurrentRow,
    EnrolmentRow,
    EntryRow,
    ExperimentRow,
    LockedAssignment,
)
from sameluck.live.options import fallback_arm
from sameluck.live.records import Assignment
from sameluck.live.state.replications import OpenReplications
from sameluck.live.users.batches import MAX_BATCH, map_valid
from sameluck.live.users.expiry import Expiry
from sameluck.live.users.units import hash_unit, is_in_traffic_share

Unit: TypeAlias = str | SupportsIndex | UUID
WEEK = 7 * 86_400 * SECOND
FOREVER = 1 << 62  # microseconds
MOST_UNITS = 500  # whose visits are written at once
MOST_VOIDED = MAX_BATCH  # assignments at once, and the rest of those that one call has made
NO_ENTRY = (records.NO_OPEN_SLOT, records.DRAINING)  # no entry was wanted
AGAIN = (records.STICKY, records.EXCLUDED, records.ARM_DISABLED)  # the unit has called before


class MadeAssignment(NamedTuple):
    """An assignment that a call has made, whether or not that was committed."""

    id: str
    code: str  # of its unit


class Enrolment:
    """The units of one experiment, and how calls were answered."""

    def __init__(self, replications: OpenReplications, row: ExperimentRow) -> None:
        self._replications = replications
        self._id, self.expiry = row.id, Expiry(replications)
        self._settings = replications.settings
        self._salt = bytes.fromhex(row.salt)
        self._share = replications.options.traffic_share
        self._exclusion = replications.options.sticky_exclusion
        self._arm_names = replications.experiment.arm_names
        self._declared = fallback_arm(replications.experiment, replications.options)
        self._fallback = row.fallback  # in place of the declared one, as far as this process knows
        self._behind = False  # whether some replication is, as far as this process knows
        self._next_look = self._next_count = self._next_clock = 0
        self.after_fork()

    def after_fork(self) -> None:
        """Forget what is the parent's: a lock that it may hold, the answers that it counts, those it did not give."""
        self._guard = threading.Lock()
        self._unanswered: list[list[MadeAssignment]] = []  # their units were not told
        self._answers: Counter[str] = Counter()  # that are not in the database
        self._visits: Counter[str] = Counter()  # of units that came again, likewise

    def forget_key(self) -> None:
        """Find no unit any more, as a process that loads the experiment after its key was destroyed."""
        self._salt = b""

    def code(self, unit: object) -> str:
        """The hash that a unit is stored as."""
        return hash_unit(unit, self._salt)

    def code_or_answer(self, unit: object) -> str | Assignment:
        """The code of a unit, or the answer to one outside the traffic share."""
        code = self.code(unit)
        if is_in_traffic_share(code, self._share):
            return code
        now = self._settings.now()
        if now >= self._next_look:  # another process may have disabled the fallback arm
            self._next_look = now + SECOND
            with suppress(Unavailable), self._settings.breaker.call(self._settings.timeout):
                self._replications.database.read(self._look)
        return self.not_enrolled(records.NOT_IN_TRAFFIC_SHARE)

    def use_fallback(self, arm: int) -> None:
        """Answer with this fallback arm from now on, also while the store is away."""
        self._fallback = arm

    def read_fallback(self) -> str:
        """The fallback arm at this moment."""
        self._replications.database.read(self._look)
        return self.not_enrolled(records.NOT_RUNNING).arm

    def _look_again(self) -> None:
        """By the next call: the one that looked has failed, and may know nothing."""
        self._next_count = 0

    def _look(self, transaction: Transaction) -> None:
        row = transaction.find(CurrentRow, "experiment_now", experiment=self._id)
        self._fallback = row.fallback if row else self._fallback

    def assign_all(self, codes: Sequence[str], strict: bool) -> list[Assignment]:  # noqa: FBT001 a partial names it
        """The answers to units of the traffic share."""
        made: list[MadeAssignment] = []
        diverged = self._replications.definition.other_version
        try:
            with self._settings.breaker.call(self._settings.timeout):
                answers = self._assign_in_time(codes, made)
        except Closed:
            raise
        except Unavailable:
            if strict:
                raise
            # The store may have committed them; their units see the fallback arm, so that they must not count.
            self.mark_undelivered(made)
            return [self.not_enrolled(records.UNAVAILABLE)] * len(codes)
        if strict and diverged and any(one.reason == records.DIVERGED for one in answers):
            raise OtherVersion(str(diverged))
        with self._guard:
            self._visits.update(
                code for code, answer in zip(codes, answers, strict=True) if answer.reason in AGAIN
            )
        return answers

    def _assign_in_time(self, codes: Sequence[str], made: list[MadeAssignment]) -> list[Assignment]:
        """As `assign_all`. If an entry is missing, those that are due are expired first."""
        self.expiry.sweep_each_second()
        assign = partial(self._assign_each, made=made)
        answers = self._replications.write(partial(assign, codes=codes))
        without = [n for n, answer in enumerate(answers) if answer.reason in NO_ENTRY]
        if without and self.expiry.sweep(behind=self._behind):
            # As one by one: the sweep may have voided the assignment of a unit after the first without.
            after = range(without[0], len(codes))
            again = [n for n in after if answers[n].reason != records.ASSIGNED]
            some = [codes[n] for n in again]
            waived = {codes[n] for n in without}
            later = self._replications.write(partial(assign, codes=some, waived=waived))
            for n, answer in zip(again, later, strict=True):
                answers[n] = answer
        return answers

    def _assign_each(
        self,
        transaction: Transaction,
        codes: Sequence[str],
        made: list[MadeAssignment],
        waived: Collection[str] = (),
    ) -> list[Assignment]:
        """The answers to units; new assignments are added to `made`.

        `waived` are units that this call has turned away a moment ago: they try again.
        """
        # Two calls of one unit get one answer; in one order, two lists of units do not wait for each other.
        transaction.lock(sorted(set(codes)))
        now = self._settings.now()
        if now >= self._next_count:
            self._next_count = now + SECOND
            transaction.on_rollback(self._look_again)
            self._write_counts(transaction)
            self._note_clock(transaction, now)
            self._replications.refresh(transaction)  # another process may have changed the policies
            self._look(transaction)  # or the fallback arm
        if self._unanswered:
            self._void_unanswered(transaction, now)
        for code in sorted(waived):
            transaction.execute("unarrive", experiment=self._id, unit=code)
        enrolled: dict[str, Assignment | str] = {}
        if not self._diverged:
            enrolled = self._enrol_each(transaction, dict.fromkeys(codes), now, made)
        # A unit that is in the list again is enrolled already.
        answers = [enrolled.pop(code, code) for code in codes]
        return map_valid(answers, str, partial(self._enrolments, transaction, now))

    @property
    def _diverged(self) -> bool:
        """Whether this process has another version of a policy: it enrols nobody, but units keep their arms."""
        return self._replications.definition.other_version is not None

    def _enrol_each(
        self, transaction: Transaction, codes: Iterable[str], now: int, made: list[MadeAssignment]
    ) -> dict[str, Assignment | str]:
        """Enrol those of some units that are not enrolled, as long as entries are wanted."""
        id, due = self._id, now + self.expiry.lease
        values: list[dict[str, Any]] = [
            {"experiment": id, "unit": code, "assignment": _new_id(now), "due": due, "now": now}
            for code in codes
        ]
        entries = transaction.find_many(EntryRow, "assign", values)
        enrolled = [
            {**value, **entry._asdict(), "until": 0}
            for value, entry in zip(values, entries, strict=True)
            if entry is not None
        ]
        made.extend(MadeAssignment(one["assignment"], one["unit"]) for one in enrolled)
        transaction.execute_many("enrol", enrolled)
        transaction.execute_many("arrive", enrolled)
        return {
            one["unit"]: self._enrolled(one["assignment"], one["arm"], records.ASSIGNED)
            for one in enrolled
        }

    def _enrolments(
        self, transaction: Transaction, now: int, codes: Sequence[str]
    ) -> list[Assignment]:
        """The answers to units that no entry was assigned to; those that it turns away stay so for a time."""
        values: list[Values] = [{"experiment": self._id, "unit": code} for code in codes]
        rows = transaction.find_many(EnrolmentRow, "enrolment", values)
        until = FOREVER if self._exclusion is None else now + round(self._exclusion * SECOND)
        away: set[str] = set()  # those before in the list
        answers = []
        for code, row in zip(codes, rows, strict=True):
            answer = self._enrolment(row, now)
            if row is not None and answer.reason == records.STICKY and not row.told:
                transaction.execute("tell", assignment=row.id)
            if answer.reason in NO_ENTRY:
                if code in away and until > now:
                    answer = self.not_enrolled(records.EXCLUDED)
                else:
                    transaction.execute("arrive", experiment=self._id, unit=code, until=until)
                    away.add(code)
            answers.append(answer)
        return answers

    def assignment_of(self, code: str) -> str | None:
        """The assignment of a unit; None if it is not enrolled."""
        values: Values = {"experiment": self._id, "unit": code}
        read = self._replications.database.read
        return read(
            lambda transaction: transaction.fetch_one(EnrolmentRow, "enrolment", **values)
        ).id

    def _enrolment(self, row: EnrolmentRow | None, now: int) -> Assignment:
        if row is None:  # the experiment was deleted
            return self.not_enrolled(records.NOT_RUNNING)
        self._fallback, self._behind = row.fallback, row.behind
        if row.id is not None and row.arm is not None and row.sticky:
            if row.disabled:
                return self.not_enrolled(records.ARM_DISABLED)
            return self._enrolled(row.id, row.arm, records.STICKY)
        return self.not_enrolled(self._reason_not_enrolled(row, now))

    def _reason_not_enrolled(self, row: EnrolmentRow, now: int) -> str:
        if row.status not in ACTIVE:
            return records.NOT_RUNNING
        if self._diverged:
            return records.DIVERGED
        if row.away_until_us is not None and row.away_until_us > now:
            return records.EXCLUDED
        return records.NO_OPEN_SLOT if row.status == "running" else records.DRAINING

    def _enrolled(self, id: str, arm: int, reason: str) -> Assignment:
        return Assignment(id, self._arm_names[arm], enrolled=True, reason=reason)

    def not_enrolled(self, reason: str) -> Assignment:
        """The fallback arm."""
        arm = self._declared if self._fallback is None else self._fallback
        return Assignment(None, self._arm_names[arm], enrolled=False, reason=reason)

    def mark_undelivered(self, made: list[MadeAssignment]) -> None:
        """Void assignments by the next transactions: their units do not see the arm, unless they return before.

        The list may grow until the call that makes them has ended.
        """
        with self._guard:
            self._unanswered.append(made)

    def _void_unanswered(self, transaction: Transaction, now: int) -> None:
        """Void some of the assignments whose units were not told, those that another call tells at this moment later.

        The unit must be locked: the transaction that made the assignment may not have ended on the server.
        """
        lists = self._take_unanswered()
        made = [one for some in lists for one in some]
        free = transaction.try_lock([one.code for one in made])
        busy = [one for one, locked in zip(made, free, strict=True) if not locked]
        if busy:
            self.mark_undelivered(busy)
        transaction.on_rollback(lambda: self._take_back(lists, busy))
        values: list[Values] = [{"assignment": one.id} for one in compress(made, free)]
        for row in transaction.find_many(LockedAssignment, "lock_assignment", values):
            if row is None or row.told or row.voided:
                continue
            if row.state == "assigned" and row.exposed_us is None:
                self._replications.void(transaction, row, now)

    def _take_unanswered(self) -> list[list[MadeAssignment]]:
        """Some of the lists: a call that waits for it must not wait for long, or none would ever be voided."""
        lists: list[list[MadeAssignment]] = []
        with self._guard:
            while self._unanswered and sum(map(len, lists)) < MOST_VOIDED:
                lists.append(self._unanswered.pop(0))
        return lists

    def _take_back(self, lists: list[list[MadeAssignment]], busy: list[MadeAssignment]) -> None:
        with self._guard:
            self._unanswered = [*lists, *(one for one in self._unanswered if one is not busy)]

    def _note_clock(self, transaction: Transaction, now: int) -> None:
        """Write by how much this machine's clock is ahead, once a minute, for `sameluck live doctor`."""
        machine = self._settings.machine
        if machine is None or now < self._next_clock:
            return
        self._next_clock = now + 60 * SECOND
        ahead = round(machine.ahead() * SECOND)
        transaction.execute("note_clock", process=this_process(), ahead=ahead, now=now)
        transaction.execute("forget_clocks", before=now - WEEK)

    def count(self, answers: Iterable[Assignment | SameluckError]) -> None:
        """Count how calls were answered."""
        with self._guard:
            for answer in answers:
                if isinstance(answer, Assignment):
                    self._answers[answer.reason] += 1

    def answers_not_written(self) -> Counter[str]:
        """How calls were answered that are not counted in the database yet."""
        with self._guard:
            return Counter(self._answers)

    def flush(self) -> None:
        """Write how calls were answered since the last time, and void the assignments of units that were not told."""
        waiting = self._answers or self._visits or self._unanswered
        if waiting and not self._replications.database.read_only:
            self._replications.write(self._flush)

    def _flush(self, transaction: Transaction) -> None:
        for _ in range(len(self._unanswered)):
            self._void_unanswered(transaction, self._settings.now())
        self._write_counts(transaction)

    def _write_counts(self, transaction: Transaction) -> None:
        with self._guard:
            answers, self._answers = self._answers, Counter()
        if answers:
            transaction.on_rollback(lambda: self._answers.update(answers))
            rows: list[Values] = [
                {"experiment": self._id, "reason": reason, "calls": calls}
                for reason, calls in sorted(answers.items())
            ]
            transaction.execute_many("count_answers", rows)
        self._write_visits(transaction)

    def _write_visits(self, transaction: Transaction) -> None:
        """Those of some units, of one that another call has locked later: neither waits for the other."""
        with self._guard:
            codes = list(self._visits)[:MOST_UNITS]
        free = list(compress(codes, transaction.try_lock(codes)))
        with self._guard:
            visits = {code: self._visits.pop(code, 0) for code in free}
        if visits:
            transaction.on_rollback(lambda: self._visits.update(visits))
            rows: list[Values] = [
                {"experiment": self._id, "unit": code, "visits": count}
                for code, count in sorted(visits.items())
            ]
            transaction.execute_many("count_visits", rows)


def _new_id(now: int) -> str:
    # Time first: new rows go to the end of the index. 80 random bits cannot be guessed.
    return f"asg_{now // 1000:012x}{os.urandom(10).hex()}"
