"""What happens to one user, as pieces of work on the ledger: assigned, exposed, rewarded, voided, overdue."""

from __future__ import annotations

import hashlib
import os
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from sameluck.errors import Conflict, Invalid, Unknown
from sameluck.live import records as say
from sameluck.live.databases.base import Transaction
from sameluck.live.engine.scheduler import Entry
from sameluck.live.options import fallback_arm
from sameluck.live.records import Assignment, Receipt
from sameluck.live.replications import GOING, LockedAssignment, OpenReplications, found
from sameluck.validation import require_number

SECOND = 1_000_000  # microseconds
SWEEP_AT_ONCE = 100

Clock: TypeAlias = Callable[[], float]


class Assignments:
    """The users of one experiment."""

    def __init__(self, name: str, replications: OpenReplications, salt: str, clock: Clock) -> None:
        self.name = name
        self.replications = replications
        self.live = replications.live
        self.clock = clock
        self._salt = bytes.fromhex(salt)
        experiment = replications.experiment
        self._fallback = experiment.arm_names[fallback_arm(experiment, self.live)]
        self._bounds = self.live.reward.bounds
        explicit = self.live.exposure == "explicit"
        patience = self.live.lease_seconds if explicit else self.live.reward.window_seconds
        self._patience = round(patience * SECOND)
        self._guard = threading.Lock()
        self._calls: Counter[str] = Counter()
        self._next_count = 0

    def now(self) -> int:
        """Microseconds since 1970."""
        return round(self.clock() * SECOND)

    def code(self, unit: str | int) -> str:
        """A unit is kept as a keyed hash: enough to know it again, and no name in the database."""
        if isinstance(unit, int) and not isinstance(unit, bool):
            unit = str(unit)
        fits = isinstance(unit, str) and 0 < len(unit) <= 1_000
        if not fits:
            raise Invalid(
                f"a unit must be text of 1 to 1,000 characters (or a whole number), got {unit!r}"
            )
        try:
            content = unit.encode()  # type: ignore[union-attr]
        except UnicodeEncodeError:
            raise Invalid(f"a unit must be valid Unicode, got {unit!r}") from None
        return hashlib.blake2b(content, key=self._salt, digest_size=16).hexdigest()

    def takes_part(self, code: str) -> bool:
        """Whether a unit is inside the traffic share: a fixed function of the unit."""
        if self.live.traffic_share >= 1:
            return True
        place = hashlib.blake2b(b"traffic share", key=bytes.fromhex(code), digest_size=8).digest()
        return int.from_bytes(place, "little") < self.live.traffic_share * 2**64

    def checked_reward(self, value: Any) -> float:
        """A reward that some policy could not take is refused; True and False are 1 and 0."""
        low, high = self._bounds
        if isinstance(value, bool | np.bool_):  # whether somebody bought is a reward too
            value = float(value)
        if (
            type(value) is not float or not low <= value <= high
        ):  # the usual case needs no closer look
            require_number("a reward", value, at_least=low, at_most=high)
        if value not in (0, 1) and self.replications.scheduler.binary:
            raise Invalid(f"a reward must be 0 or 1 (a policy counts successes), got {value!r}")
        return float(value)

    def assign(self, transaction: Transaction, code: str) -> Assignment:
        """The arm for a unit: the one it has, or that of the lowest entry that waits for somebody."""
        now = self.now()
        self.count_calls(transaction, now)
        transaction.lock(int(code[:15], 16))  # two calls of one unit get one answer
        new, key = _new_id(now), {"experiment": self.replications.id, "unit": code}
        due = now + self._patience
        taken = transaction.one("take", **key, assignment=new, due=due)
        if taken is None:
            return self._untaken(*found(transaction.one("standing", **key)))
        replication, owner, arm, position = taken
        entry = {"replication": replication, "owner": owner, "arm": arm, "position": position}
        transaction.run("enrol", assignment=new, **key, **entry, now=now)
        return self._shown(new, arm, say.ASSIGNED)

    def _untaken(self, status: str, enrolled: str | None, arm: int) -> Assignment:
        if enrolled is not None:
            return self._shown(enrolled, arm, say.STICKY)
        if status not in GOING:
            return self.turned_away(say.NOT_RUNNING)
        return self.turned_away(say.NO_OPEN_SLOT if status == "running" else say.DRAINING)

    def _shown(self, id: str, arm: int, reason: str) -> Assignment:
        return Assignment(
            id, self.replications.scheduler.arm_names[arm], enrolled=True, reason=reason
        )

    def turned_away(self, reason: str) -> Assignment:
        """The fallback arm."""
        return Assignment(None, self._fallback, enrolled=False, reason=reason)

    def expose(self, transaction: Transaction, id: str) -> Conflict | None:
        """The unit has seen its arm."""
        locked, now = self._hold(transaction, id)
        if not locked.live:
            return _voided(id)
        if locked.exposed or locked.state == "settled":
            return None
        transaction.run("expose", assignment=id, now=now)
        if self.live.exposure == "explicit":
            due = now + round(self.live.reward.window_seconds * SECOND)
            transaction.run("set_due", **self.replications.key(locked), due=due)
        return None

    def reward(
        self, transaction: Transaction, id: str, value: float
    ) -> tuple[Receipt, Conflict | None]:
        """A reward was reported: it counts, or is noted as one that does not."""
        locked, now = self._hold(transaction, id)
        if locked.policies != len(self.replications.scheduler.prepared):
            self.replications.refresh(transaction)
            self.checked_reward(value)
        outcome, conflict = _judge(locked, value)
        transaction.run("note_reward", assignment=id, value=value, now=now, outcome=outcome)
        if outcome == "applied":
            self.replications.settle(transaction, locked, value, "observed", now)
        receipt = Receipt(outcome == "applied", outcome == "duplicate", value)
        return receipt, conflict

    def void(self, transaction: Transaction, id: str) -> Conflict | None:
        """The unit never saw its arm."""
        locked, now = self._hold(transaction, id)
        if locked.state == "settled" and locked.live:
            said = f"assignment {id!r} is settled with {locked.value!r} ({locked.source}) and cannot be voided"
            return Conflict(said, "already_settled")
        if locked.exposed:
            said = f"assignment {id!r} was exposed and cannot be voided; it gets the default reward if none comes"
            return Conflict(said, "already_exposed")
        if locked.live:
            self._offer_again(transaction, locked, now)
        return None

    def overdue(self, transaction: Transaction) -> list[str]:
        """Assignments whose lease or window has run out, the oldest first."""
        now = self.now()
        rows = transaction.all(
            "overdue", experiment=self.replications.id, now=now, limit=SWEEP_AT_ONCE
        )
        return [id for (id,) in rows]

    def expire_if_due(self, transaction: Transaction, id: str) -> bool:
        """Deal with one of them, unless somebody else has."""
        locked, now = self._look(transaction, id), self.now()
        expires = locked.is_due(now)
        if expires:
            self._expire(transaction, locked, now)
        return expires

    def _expire(self, transaction: Transaction, locked: LockedAssignment, now: int) -> None:
        if locked.exposed or self.live.exposure == "implicit":
            self.replications.settle(transaction, locked, self.live.reward.default, "default", now)
        else:
            self._offer_again(transaction, locked, now)

    def _offer_again(self, transaction: Transaction, locked: LockedAssignment, now: int) -> None:
        transaction.run("void", assignment=locked.id, now=now)
        transaction.run("offer_again", **self.replications.key(locked), assignment=locked.id)

    def _hold(self, transaction: Transaction, id: str) -> tuple[LockedAssignment, int]:
        """An assignment as it stands now: if its time is up, that has been dealt with."""
        locked, now = self._look(transaction, id), self.now()
        if locked.is_due(now):
            self._expire(transaction, locked, now)
            locked = self._look(transaction, id)
        return locked, now

    def _look(self, transaction: Transaction, id: str) -> LockedAssignment:
        row = transaction.one("lock_assignment", assignment=id) if is_id(id) else None
        if row is None or row[0] != self.replications.id:
            raise self.unknown(id)
        _, replication, owner, arm, position, exposed, current, state, due, *rest = row
        entry = Entry(owner, arm, position)
        return LockedAssignment(
            id, replication, entry, exposed is not None, current == id, state, due, *rest
        )

    def unknown(self, id: object) -> Unknown:
        """What to say of an id that is not there."""
        return Unknown(
            f"no assignment {id!r} in experiment {self.name!r}; use the id that assign returned"
        )

    def count(self, answer: Assignment) -> Assignment:
        """Remember how a call was answered."""
        with self._guard:
            self._calls[answer.reason] += 1
        return answer

    @property
    def uncounted(self) -> bool:
        """Whether there are calls that the database does not know of."""
        return bool(self._calls)

    def count_calls(self, transaction: Transaction, now: int | None = None) -> None:
        """Write down how calls were answered: now, or if that was long ago."""
        if now is not None and now < self._next_count:
            return
        with self._guard:
            calls, self._calls = self._calls, Counter()
            self._next_count = max(self._next_count, (now or 0) + SECOND)
        if not calls:
            return
        transaction.undo(lambda: self._calls.update(calls))
        rows = [
            {"experiment": self.replications.id, "reason": r, "calls": n}
            for r, n in sorted(calls.items())
        ]
        transaction.many("count_answers", rows)


def _judge(locked: LockedAssignment, value: float) -> tuple[str, Conflict | None]:
    """What a reported reward comes to, and what to say if it does not count."""
    if not locked.live:
        return "voided", _voided(locked.id)
    if locked.state == "assigned":
        return "applied", None
    if locked.source == "default":
        said = f"assignment {locked.id!r}: its window is over, and the default reward {locked.value!r} counts"
        return "late", Conflict(said, "reward_late")
    if locked.value == value:
        return "duplicate", None
    said = f"assignment {locked.id!r} was rewarded with {locked.value!r}; the first value counts, {value!r} does not"
    return "conflict", Conflict(said, "reward_conflict")


def _voided(id: str) -> Conflict:
    said = f"assignment {id!r} was voided (not exposed in time, or by request); its entry went to somebody else"
    return Conflict(said, "assignment_voided")


def is_id(id: Any) -> bool:
    """Whether this could be an assignment's id."""
    return isinstance(id, str) and id.isascii() and id.isprintable() and len(id) <= 100


def _new_id(now: int) -> str:
    # Time first: new rows go to the end of the index. 80 random bits: nobody guesses one.
    return f"asg_{now // 1000:012x}{os.urandom(10).hex()}"
