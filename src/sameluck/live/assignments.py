"""What happens to the users of a live experiment: assigned, exposed, rewarded, voided, overdue."""

from __future__ import annotations

import hashlib
import os
import threading
from collections import Counter
from functools import partial

import numpy as np

from sameluck.errors import Conflict, Diverged, Invalid, Unknown, Unplayable
from sameluck.experiment import Experiment
from sameluck.live import records
from sameluck.live.databases.base import Database, SqlValue, Transaction, Values
from sameluck.live.databases.rows import (
    AssignmentRow,
    EnrolmentRow,
    EntryRow,
    ExperimentRow,
    LockedAssignment,
    TextRow,
)
from sameluck.live.engine.scheduler import Scheduler
from sameluck.live.options import Clock, Makers, fallback_arm
from sameluck.live.records import ACTIVE, Assignment, Description, Receipt, description_of, moment
from sameluck.live.replications import OpenReplications
from sameluck.randomness import streams
from sameluck.validation import is_whole, require_number

SECOND = 1_000_000  # microseconds
MOST_OVERDUE = 100  # assignments read at once


class Assignments:
    """The users of one experiment: the part of a `LiveExperiment` that an application calls for each of them."""

    def __init__(
        self, database: Database, row: ExperimentRow, clock: Clock, makers: Makers | None
    ) -> None:
        if row.streams != streams.VERSION:
            raise Invalid(
                f"experiment {row.name!r} uses stream version {row.streams}, this sameluck has {streams.VERSION}; "
                "use the sameluck version it was started with"
            )
        self._replications = OpenReplications(database, row, makers)
        self._database = database
        self._clock = clock
        self._id = row.id
        self.name = row.name
        self.live = live = self._replications.live
        self.started_at = moment(row.started_us)
        self._salt = bytes.fromhex(row.salt)
        self._fallback = self.experiment.arm_names[fallback_arm(self.experiment, live)]
        self._bounds = live.reward.bounds
        self._explicit = live.exposure == "explicit"
        self._window = round(live.reward.window_seconds * SECOND)
        self._lease = round(live.lease_seconds * SECOND) if self._explicit else self._window
        self._guard = threading.Lock()
        self._answers: Counter[str] = Counter()  # that are not in the database
        self._next_count = 0
        self._next_sweep = 0

    @property
    def experiment(self) -> Experiment:
        """The experiment, policies that were added included."""
        return self._replications.experiment

    def __repr__(self) -> str:
        names = ", ".join(self.experiment.policies)
        return f"<LiveExperiment {self.name!r}: {names}; horizon {self.experiment.horizon:,}>"

    def _now(self) -> int:
        """Microseconds since 1970."""
        return round(self._clock() * SECOND)

    def assign(self, unit: str | int) -> Assignment:
        """Return the arm to show a unit that has just arrived.

        The same unit gets the same answer while it is enrolled. A unit that the experiment does not need gets the
        fallback arm and `enrolled` False; that never raises.
        """
        code = self._hash_unit(unit)
        if not self._in_traffic_share(code):
            return self._count(self._not_enrolled(records.NOT_IN_TRAFFIC_SHARE))
        now = self._now()
        if now >= self._next_sweep:
            self._next_sweep = now + SECOND
            self._sweep()
        answer = self._replications.write(partial(self._assign, code=code))
        if answer.reason in (records.NO_OPEN_SLOT, records.DRAINING) and self._sweep():
            answer = self._replications.write(partial(self._assign, code=code))
        return self._count(answer)

    def _hash_unit(self, unit: str | int) -> str:
        """The keyed hash that a unit is stored as: the database holds no name."""
        text = str(unit) if is_whole(unit) else unit
        if not isinstance(text, str) or not 0 < len(text) <= 1_000:
            raise Invalid(
                f"a unit must be text of 1 to 1,000 characters (or a whole number), got {unit!r}"
            )
        try:
            content = text.encode()
        except UnicodeEncodeError:
            raise Invalid(f"a unit must be valid Unicode, got {unit!r}") from None
        return hashlib.blake2b(content, key=self._salt, digest_size=16).hexdigest()

    def _in_traffic_share(self, code: str) -> bool:
        """Whether a unit is inside the traffic share: a fixed function of the unit."""
        share = self.live.traffic_share
        if share >= 1:
            return True
        draw = hashlib.blake2b(b"traffic share", key=bytes.fromhex(code), digest_size=8).digest()
        return int.from_bytes(draw, "little") < share * 2**64

    def _assign(self, transaction: Transaction, code: str) -> Assignment:
        """The arm of a unit: that of its assignment, or of the first wanted entry."""
        now = self._now()
        if now >= self._next_count:
            self._next_count = now + SECOND
            self._write_counts(transaction)
        transaction.lock(int(code[:15], 16))  # two calls of one unit get one answer
        id, due = _new_id(now), now + self._lease
        key: dict[str, SqlValue] = {"experiment": self._id, "unit": code}
        entry = transaction.find(EntryRow, "assign", **key, assignment=id, due=due)
        if entry is not None:
            transaction.run("enrol", assignment=id, **key, **entry._asdict(), now=now)
            return self._enrolled(id, entry.arm, records.ASSIGNED)
        before = transaction.one(EnrolmentRow, "enrolment", **key)
        if before.id is not None and before.arm is not None:
            return self._enrolled(before.id, before.arm, records.STICKY)
        if before.status not in ACTIVE:
            return self._not_enrolled(records.NOT_RUNNING)
        running = before.status == "running"
        return self._not_enrolled(records.NO_OPEN_SLOT if running else records.DRAINING)

    def _enrolled(self, id: str, arm: int, reason: str) -> Assignment:
        name = self._replications.scheduler.arm_names[arm]
        return Assignment(id, name, enrolled=True, reason=reason)

    def _not_enrolled(self, reason: str) -> Assignment:
        return Assignment(None, self._fallback, enrolled=False, reason=reason)

    def expose(self, id: str | None) -> None:
        """Report that the unit has seen its arm: it counts, with the default reward if none comes in time."""
        if id is not None:
            _raise(self._replications.write(partial(self._expose, id=id)))

    def _expose(self, transaction: Transaction, id: str) -> Conflict | None:
        locked, now = self._lock(transaction, id)
        if locked.voided:
            return _voided(id)
        if locked.exposed_us is not None or locked.state == "settled":
            return None
        transaction.run("expose", assignment=id, now=now)
        if self._explicit:
            transaction.run("set_due", **locked.key(), due=now + self._window)
        return None

    def reward(self, id: str | None, value: float) -> Receipt:
        """Report the reward of a unit. It is durable once this returns.

        The first value counts. The same value again changes nothing; another value, a value after the window or for a
        voided assignment raises `Conflict` and is kept in the audit log. For a unit that is not enrolled (`id` None)
        nothing happens.
        """
        value = self._checked_reward(value, self._replications.scheduler)
        if id is None:
            return Receipt(applied=False, duplicate=False, value=value)
        receipt, conflict = self._replications.write(partial(self._reward, id=id, value=value))
        _raise(conflict)
        return receipt

    def _checked_reward(self, value: object, scheduler: Scheduler) -> float:
        """Raise `Invalid` for a reward that some policy cannot take; True and False are 1 and 0."""
        low, high = self._bounds
        if isinstance(value, bool | np.bool_):
            value = float(value)
        if type(value) is not float or not low <= value <= high:  # or the usual case
            require_number("a reward", value, at_least=low, at_most=high)
        number = float(value)  # type: ignore[arg-type]
        if number not in (0, 1) and scheduler.binary_rewards:
            raise Invalid(f"a reward must be 0 or 1 (a policy counts successes), got {value!r}")
        return number

    def _reward(
        self, transaction: Transaction, id: str, value: float
    ) -> tuple[Receipt, Conflict | None]:
        locked, now = self._lock(transaction, id)
        if locked.policies != len(self._replications.scheduler.prepared):
            self._checked_reward(value, self._replications.current(transaction))
        outcome, conflict = _outcome(locked, value)
        transaction.run("note_reward", assignment=id, value=value, now=now, outcome=outcome)
        if outcome == "applied":
            self._replications.settle(transaction, locked, value, "observed", now)
        receipt = Receipt(outcome == "applied", outcome == "duplicate", value)
        return receipt, conflict

    def void(self, id: str | None) -> None:
        """Report that the unit never saw its arm: its entry is wanted again, and the unit may be enrolled again."""
        if id is not None:
            _raise(self._replications.write(partial(self._void, id=id)))

    def _void(self, transaction: Transaction, id: str) -> Conflict | None:
        locked, now = self._lock(transaction, id)
        if locked.voided:
            return None
        if locked.state == "settled":
            message = f"is settled with {locked.value!r} ({locked.source}) and cannot be voided"
            return Conflict(f"assignment {id!r} {message}", "already_settled")
        if locked.exposed_us is not None:
            message = "was exposed and cannot be voided; it gets the default reward if none comes"
            return Conflict(f"assignment {id!r} {message}", "already_exposed")
        self._want_again(transaction, locked, now)
        return None

    def tick(self) -> int:
        """Expire every assignment that is due; returns how many.

        Exposed, and no reward within the window: the default reward. Not exposed within the lease: voided, and the
        entry is wanted again. `assign` does this about once per second too, and a reward after its window is late
        whether or not this was called.
        """
        done = 0
        while True:
            overdue = self._database.read(self._overdue)
            for (id,) in overdue:
                done += self._replications.write(partial(self._expire_if_due, id=id))
            if len(overdue) < MOST_OVERDUE:
                return done

    def _sweep(self) -> int:
        try:
            return self.tick()
        except (Diverged, Unplayable):
            return 0  # the experiment's status is failed now; the unit gets the fallback arm

    def _overdue(self, transaction: Transaction) -> list[TextRow]:
        """Assignments whose lease or window has ended, the oldest first."""
        values = {"experiment": self._id, "now": self._now(), "limit": MOST_OVERDUE}
        return transaction.all(TextRow, "overdue", **values)

    def _expire_if_due(self, transaction: Transaction, id: str) -> bool:
        locked, now = self._read(transaction, id), self._now()
        expires = locked.is_due(now)
        if expires:
            self._expire(transaction, locked, now)
        return expires

    def _expire(self, transaction: Transaction, locked: LockedAssignment, now: int) -> None:
        if locked.exposed_us is not None or not self._explicit:
            default = self.live.reward.default
            self._replications.settle(transaction, locked, default, "default", now)
        else:
            self._want_again(transaction, locked, now)

    def _want_again(self, transaction: Transaction, locked: LockedAssignment, now: int) -> None:
        transaction.run("void", assignment=locked.id, now=now)
        transaction.run("want_again", **locked.key(), assignment=locked.id)

    def _lock(self, transaction: Transaction, id: str) -> tuple[LockedAssignment, int]:
        """An assignment, expired first if it is due."""
        locked, now = self._read(transaction, id), self._now()
        if locked.is_due(now):
            self._expire(transaction, locked, now)
            locked = self._read(transaction, id)
        return locked, now

    def _read(self, transaction: Transaction, id: str) -> LockedAssignment:
        row = None
        if _is_id(id):
            row = transaction.find(LockedAssignment, "lock_assignment", assignment=id)
        if row is None or row.experiment != self._id:
            raise self._unknown(id)
        return row

    def describe(self, id: str) -> Description:
        """Everything about an assignment, for the analyst; the application that serves users does not need it."""

        def work(transaction: Transaction) -> Description:
            row = transaction.find(AssignmentRow, "describe", assignment=id) if _is_id(id) else None
            if row is None or row.experiment != self._id:
                raise self._unknown(id)
            experiment = self._replications.current(transaction).experiment
            return description_of(id, self.name, experiment, row)

        return self._database.read(work)

    def _unknown(self, id: object) -> Unknown:
        return Unknown(
            f"no assignment {id!r} in experiment {self.name!r}; use the id that assign returned"
        )

    def _count(self, answer: Assignment) -> Assignment:
        with self._guard:
            self._answers[answer.reason] += 1
        return answer

    def _flush_counts(self) -> None:
        """Write how calls were answered since the last time."""
        if self._answers and not self._database.read_only:
            self._replications.write(self._write_counts)

    def _write_counts(self, transaction: Transaction) -> None:
        with self._guard:
            answers, self._answers = self._answers, Counter()
        if answers:
            transaction.undo(lambda: self._answers.update(answers))
            rows: list[Values] = [
                {"experiment": self._id, "reason": reason, "calls": calls}
                for reason, calls in sorted(answers.items())
            ]
            transaction.many("count_answers", rows)


def _outcome(locked: LockedAssignment, value: float) -> tuple[str, Conflict | None]:
    """The outcome of a reported reward, and the error to raise if it does not count."""
    name = f"assignment {locked.id!r}"
    if locked.voided:
        return "voided", _voided(locked.id)
    if locked.state == "assigned":
        return "applied", None
    if locked.source == "default":
        message = f"{name}: its window is over, and the default reward {locked.value!r} counts"
        return "late", Conflict(message, "reward_late")
    if locked.value == value:
        return "duplicate", None
    message = (
        f"{name} was rewarded with {locked.value!r}; the first value counts, {value!r} does not"
    )
    return "conflict", Conflict(message, "reward_conflict")


def _voided(id: str) -> Conflict:
    message = "was voided (not exposed in time, or by request); its entry goes to another unit"
    return Conflict(f"assignment {id!r} {message}", "assignment_voided")


def _raise(conflict: Conflict | None) -> None:
    if conflict is not None:
        raise conflict


def _is_id(id: object) -> bool:
    """Whether this could be an assignment's id."""
    return isinstance(id, str) and id.isascii() and id.isprintable() and len(id) <= 100


def _new_id(now: int) -> str:
    # Time first: new rows go to the end of the index. 80 random bits cannot be guessed.
    return f"asg_{now // 1000:012x}{os.urandom(10).hex()}"
