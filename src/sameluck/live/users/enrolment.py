"""Enrolment of units: each gets the arm of its assignment, of the first wanted entry, or the fallback arm."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain, compress
from typing import Any, NamedTuple, TypeAlias

from sameluck.errors import Closed, OtherVersion, SameluckError, Unavailable
from sameluck.live import records
from sameluck.live.calls.call_queue import MAX_BATCH, batches_of, map_valid, result_or_error
from sameluck.live.calls.settings import SECOND, this_process
from sameluck.live.calls.timing import time_limit
from sameluck.live.databases.base import Transaction, Values
from sameluck.live.databases.rows import (
    ACTIVE,
    EnrolmentRow,
    EntryRow,
    ExperimentRow,
    LockedAssignment,
)
from sameluck.live.options import fallback_arm
from sameluck.live.records import Assignment
from sameluck.live.state.replications import OpenReplications
from sameluck.live.users.rewards import Expiry
from sameluck.live.users.units import Unit, hash_unit, is_in_traffic_share

WEEK = 7 * 86_400 * SECOND
FOREVER = 1 << 62  # microseconds
MAX_UNITS = 500  # units whose visits are written at once
NO_ENTRY = (records.NO_OPEN_SLOT, records.DRAINING)  # no entry was wanted
RETURNED = (records.STICKY, records.EXCLUDED, records.ARM_DISABLED)  # the unit has called before


Answer: TypeAlias = Assignment | SameluckError


class NewAssignment(NamedTuple):
    """An assignment that a call has made, whether or not the transaction was committed."""

    id: str
    unit_hash: str


class Enrolment:
    """Units of one experiment, and counts of the answers to their calls."""

    def __init__(self, replications: OpenReplications, row: ExperimentRow, expiry: Expiry) -> None:
        self._replications, self._expiry = replications, expiry
        self._id = row.id
        self._settings = replications.settings
        self._salt = bytes.fromhex(row.salt)
        self._share = replications.options.traffic_share
        self._exclusion = replications.options.sticky_exclusion
        self._arm_names = replications.experiment.arm_names
        self._declared_fallback = fallback_arm(replications.experiment, replications.options)
        self._fallback = row.fallback  # replaces the declared one; as far as this process knows
        self._lagging = False  # a replication is behind, as far as this process knows
        self._next_look = self._next_count = self._next_clock = 0
        self.after_fork()

    def after_fork(self) -> None:
        """Drop the parent's lock, which may be held there, and the counts that the parent will write."""
        self._guard = threading.Lock()
        self._undelivered: list[list[NewAssignment]] = []  # whose units did not get their arm
        self._answers: Counter[str] = Counter()  # by reason, not in the database yet
        self._visits: Counter[str] = Counter()  # by hash of a returning unit, likewise

    def forget_key(self) -> None:
        """Find no unit any more, like a process that loads the experiment after its key was destroyed."""
        self._salt = b""

    def unit_hash(self, unit: object) -> str:
        return hash_unit(unit, self._salt)

    def _in_time(self) -> time_limit:
        return time_limit(self._settings.timeout, self._settings.breaker)

    # Answers

    def assign(self, unit: Unit, *, strict: bool) -> Assignment:
        answer = self._hash_or_answer(unit)
        if isinstance(answer, str):
            (answer,) = self._assign_hashes([answer], strict=strict)
        self.count([answer])
        return answer

    def assign_many(self, units: Iterable[Unit], *, strict: bool) -> list[Answer]:
        answers: list[Answer] = []
        for batch in batches_of("assign_many: units", units):
            answers += self.assign_batch(batch, strict=strict)
            self.count(answers[-len(batch) :])
        return answers

    def assign_batch(self, units: Sequence[Unit], *, strict: bool) -> list[Answer]:
        """Return the arms to show several units, assigned in one transaction; the answers are not counted."""
        hashes = [result_or_error(self._hash_or_answer, unit) for unit in units]
        return map_valid(hashes, str, partial(self._assign_hashes, strict=strict))

    def not_enrolled(self, reason: str) -> Assignment:
        """Return the answer with the fallback arm, as far as this process knows it."""
        arm = self._declared_fallback if self._fallback is None else self._fallback
        return Assignment(None, self._arm_names[arm], enrolled=False, reason=reason)

    def use_fallback(self, arm: int) -> None:
        """Answer with this fallback arm from now on, also while the store is unavailable."""
        self._fallback = arm

    def read_fallback(self) -> str:
        self._replications.database.read(self._look)
        return self.not_enrolled(records.NOT_RUNNING).arm

    def _hash_or_answer(self, unit: object) -> str | Assignment:
        """Return the hash of a unit, or the answer to a unit outside the traffic share."""
        unit_hash = self.unit_hash(unit)
        if is_in_traffic_share(unit_hash, self._share):
            return unit_hash
        now = self._settings.now()
        if now >= self._next_look:  # another process may have disabled the fallback arm
            self._next_look = now + SECOND
            with suppress(Unavailable), self._in_time():
                self._replications.database.read(self._look)
        return self.not_enrolled(records.NOT_IN_TRAFFIC_SHARE)

    def _look(self, transaction: Transaction) -> None:
        """Read the policies and the fallback arm, which another process may have changed."""
        row = transaction.find(ExperimentRow, "experiment_now", experiment=self._id)
        if row is not None:  # None if the experiment was deleted
            self._replications.current(transaction, row)
            self._fallback = row.fallback

    def _assign_hashes(self, hashes: Sequence[str], *, strict: bool) -> list[Assignment]:
        # Filled inside the transaction: if the answer to the commit is lost, it tells which assignments may exist.
        made: list[NewAssignment] = []
        diverged = self._replications.definition.other_version
        try:
            with self._in_time():
                answers = self._assign_in_time(hashes, made)
        except Closed:
            raise
        except Unavailable:
            if strict:
                raise
            # The store may have committed the assignments, but their units see the fallback arm: they must not count.
            self.mark_undelivered(made)
            return [self.not_enrolled(records.UNAVAILABLE)] * len(hashes)
        if strict and diverged and any(answer.reason == records.DIVERGED for answer in answers):
            raise OtherVersion(str(diverged))
        returned = [answer.reason in RETURNED for answer in answers]
        with self._guard:
            self._visits.update(compress(hashes, returned))
        return answers

    def _assign_in_time(self, hashes: Sequence[str], made: list[NewAssignment]) -> list[Assignment]:
        """Assign entries to units; if entries are missing, expire due assignments and try again."""
        self._expiry.sweep_each_second()
        assign = partial(self._assign_each, made=made)
        answers = self._replications.write(partial(assign, hashes=hashes))
        refused = [index for index, answer in enumerate(answers) if answer.reason in NO_ENTRY]
        if refused and self._expiry.sweep(lagging=self._lagging):
            # As single calls would: the sweep may have voided the assignment of any unit after the first refused one.
            after = range(refused[0], len(hashes))
            again = [index for index in after if answers[index].reason != records.ASSIGNED]
            retried = [hashes[index] for index in again]
            waived = {hashes[index] for index in refused}
            later = self._replications.write(partial(assign, hashes=retried, waived=waived))
            for index, answer in zip(again, later, strict=True):
                answers[index] = answer
        return answers

    def _assign_each(
        self,
        transaction: Transaction,
        hashes: Sequence[str],
        made: list[NewAssignment],
        waived: Collection[str] = (),
    ) -> list[Assignment]:
        """Return the answers to units, and add new assignments to `made`.

        `waived` are units that this call has turned away a moment ago; their exclusion is waived.
        """
        # One answer for two calls of the same unit. The order is the same for every list of units: no deadlock.
        transaction.lock(sorted(set(hashes)))
        now = self._settings.now()
        if now >= self._next_count:
            self._next_count = now + SECOND
            # This call's look may not have happened.
            transaction.on_rollback(lambda: setattr(self, "_next_count", 0))
            self._write_counts(transaction)
            self._note_clock(transaction, now)
            self._look(transaction)
        if self._undelivered:
            self._void_undelivered(transaction, now)
        for unit_hash in sorted(waived):
            transaction.execute("unarrive", experiment=self._id, unit=unit_hash)
        enrolled: dict[str, Assignment | str] = {}
        if not self._is_diverged:
            enrolled = self._enrol_each(transaction, dict.fromkeys(hashes), now, made)
        # A unit that is in the list twice gets its new assignment once, and is enrolled the second time.
        answers = [enrolled.pop(unit_hash, unit_hash) for unit_hash in hashes]
        return map_valid(answers, str, partial(self._answer_others, transaction, now))

    @property
    def _is_diverged(self) -> bool:
        """True if this process has another version of a policy: it enrols nobody, but units keep their arms."""
        return self._replications.definition.other_version is not None

    def _enrol_each(
        self, transaction: Transaction, hashes: Iterable[str], now: int, made: list[NewAssignment]
    ) -> dict[str, Assignment | str]:
        """Enrol the units that are not enrolled, as long as entries are wanted."""
        common = {"experiment": self._id, "due": now + self._expiry.lease, "now": now}
        # An id begins with the time, so that new rows go to the end of the index; 80 random bits cannot be guessed.
        prefix = f"asg_{now // 1000:012x}"
        values: list[dict[str, Any]] = [
            {**common, "unit": unit_hash, "assignment": prefix + os.urandom(10).hex()}
            for unit_hash in hashes
        ]
        # The statement takes the first wanted entry that no other call has locked (SKIP LOCKED): calls do not queue
        # for the same entry, and no call waits for a reward that holds it.
        entries = transaction.find_many(EntryRow, "assign", values)
        enrolled = [
            {**value, **entry._asdict(), "until": 0}
            for value, entry in zip(values, entries, strict=True)
            if entry is not None
        ]
        made.extend(NewAssignment(row["assignment"], row["unit"]) for row in enrolled)
        transaction.execute_many("enrol", enrolled)
        transaction.execute_many("arrive", enrolled)
        return {
            row["unit"]: self._enrolled(row["assignment"], row["arm"], records.ASSIGNED)
            for row in enrolled
        }

    def _answer_others(
        self, transaction: Transaction, now: int, hashes: Sequence[str]
    ) -> list[Assignment]:
        """Return the answers to units without a new assignment; a unit turned away stays so for a time."""
        values: list[Values] = [{"experiment": self._id, "unit": unit_hash} for unit_hash in hashes]
        rows = transaction.find_many(EnrolmentRow, "enrolment", values)
        until = FOREVER if self._exclusion is None else now + round(self._exclusion * SECOND)
        turned_away: set[str] = set()  # earlier in the list
        answers = []
        for unit_hash, row in zip(hashes, rows, strict=True):
            answer = self._answer(row, now)
            if row is not None and answer.reason == records.STICKY and not row.told:
                transaction.execute("tell", assignment=row.id)
            if answer.reason in NO_ENTRY:
                if unit_hash in turned_away and until > now:
                    answer = self.not_enrolled(records.EXCLUDED)
                else:
                    transaction.execute("arrive", experiment=self._id, unit=unit_hash, until=until)
                    turned_away.add(unit_hash)
            answers.append(answer)
        return answers

    def _answer(self, row: EnrolmentRow | None, now: int) -> Assignment:
        if row is None:  # the experiment was deleted
            return self.not_enrolled(records.NOT_RUNNING)
        self._fallback, self._lagging = row.fallback, row.behind
        if row.id is not None and row.arm is not None and row.sticky:
            if row.disabled:
                return self.not_enrolled(records.ARM_DISABLED)
            return self._enrolled(row.id, row.arm, records.STICKY)
        reason = records.NO_OPEN_SLOT if row.status == "running" else records.DRAINING
        if row.status not in ACTIVE:
            reason = records.NOT_RUNNING
        elif self._is_diverged:
            reason = records.DIVERGED
        elif row.away_until_us is not None and row.away_until_us > now:
            reason = records.EXCLUDED
        return self.not_enrolled(reason)

    def _enrolled(self, id: str, cell: int, reason: str) -> Assignment:
        arm = self._replications.definition.arm_of(cell)
        return Assignment(id, self._arm_names[arm], enrolled=True, reason=reason)

    def assignment_of(self, unit_hash: str) -> str | None:
        """Return the id of a unit's assignment; None if the unit is not enrolled.

        A call that enrols the unit at this moment ends first, even if its process was killed during the commit.
        """

        def work(transaction: Transaction) -> str | None:
            transaction.lock([unit_hash])
            values: Values = {"experiment": self._id, "unit": unit_hash}
            return transaction.fetch_one(EnrolmentRow, "enrolment", **values).id

        return self._replications.write(work)

    # Assignments whose units did not get their arm

    def mark_undelivered(self, assignments: list[NewAssignment]) -> None:
        """Let the next transactions void assignments whose units do not see the arm, unless they return before.

        The list may grow until the call that makes the assignments has ended.
        """
        with self._guard:
            self._undelivered.append(assignments)

    def mark_answer_undelivered(self, unit: Unit, answer: Assignment | BaseException) -> None:
        """Let the next transactions void the assignment of an answer that its unit did not get."""
        # Only a new assignment is voided: a returning unit has seen its arm before.
        if isinstance(answer, Assignment) and answer.reason == records.ASSIGNED and answer.id:
            self.mark_undelivered([NewAssignment(answer.id, self.unit_hash(unit))])

    def _void_undelivered(self, transaction: Transaction, now: int) -> None:
        """Void undelivered assignments; leave those for later whose units another call has locked.

        The unit's lock is needed: the transaction that made the assignment may still run on the server. It is only
        tried, because this call holds the locks of its own units: waiting for another's could be a deadlock.
        """
        batches: list[list[NewAssignment]] = []
        with self._guard:
            # At most about a batch: a call that voids too many would miss its deadline, and void none.
            while self._undelivered and sum(map(len, batches)) < MAX_BATCH:
                batches.append(self._undelivered.pop(0))
        assignments = list(chain.from_iterable(batches))
        is_locked = transaction.try_lock([assignment.unit_hash for assignment in assignments])
        busy = list(compress(assignments, [not locked for locked in is_locked]))
        if busy:
            self.mark_undelivered(busy)
        transaction.on_rollback(lambda: self._put_back(batches, busy))
        locked = compress(assignments, is_locked)
        values: list[Values] = [{"assignment": assignment.id} for assignment in locked]
        for row in transaction.find_many(LockedAssignment, "lock_assignment", values):
            if row is None or row.told or row.voided:
                continue
            if row.state == "assigned" and row.exposed_us is None:
                self._replications.void(transaction, row, now)

    def _put_back(self, batches: list[list[NewAssignment]], busy: list[NewAssignment]) -> None:
        with self._guard:
            newer = [batch for batch in self._undelivered if batch is not busy]
            self._undelivered = [*batches, *newer]

    # Counts

    def count(self, answers: Iterable[Answer]) -> None:
        with self._guard:
            for answer in answers:
                if isinstance(answer, Assignment):
                    self._answers[answer.reason] += 1

    def unwritten_counts(self) -> Counter[str]:
        with self._guard:
            return Counter(self._answers)

    def flush(self) -> None:
        """Write the counts since the last time, and void undelivered assignments."""
        pending = self._answers or self._visits or self._undelivered
        if pending and not self._replications.database.read_only:
            self._replications.write(self._flush)

    def _flush(self, transaction: Transaction) -> None:
        for _ in range(len(self._undelivered)):
            self._void_undelivered(transaction, self._settings.now())
        self._write_counts(transaction)

    def _write_counts(self, transaction: Transaction) -> None:
        # Taken before the write and given back if it fails: a count that came meanwhile is not lost.
        with self._guard:
            answers, self._answers = self._answers, Counter()
            pending = list(self._visits)[:MAX_UNITS]
        transaction.on_rollback(lambda: self._answers.update(answers))
        for reason, calls in sorted(answers.items()):
            transaction.execute("count_answers", experiment=self._id, reason=reason, calls=calls)
        # Units that another call has locked are left for later, so that neither waits for the other.
        locked = list(compress(pending, transaction.try_lock(pending)))
        with self._guard:
            visits = {unit_hash: self._visits.pop(unit_hash, 0) for unit_hash in locked}
        transaction.on_rollback(lambda: self._visits.update(visits))
        rows: list[Values] = [
            {"experiment": self._id, "unit": unit_hash, "visits": count}
            for unit_hash, count in sorted(visits.items())
        ]
        transaction.execute_many("count_visits", rows)

    def _note_clock(self, transaction: Transaction, now: int) -> None:
        """Write once a minute how far this machine's clock is ahead, for `sameluck live doctor`."""
        machine = self._settings.machine
        if machine is None or now < self._next_clock:
            return
        self._next_clock = now + 60 * SECOND
        ahead = round(machine.ahead() * SECOND)
        transaction.execute("note_clock", process=this_process(), ahead=ahead, now=now)
        transaction.execute("forget_clocks", before=now - WEEK)
