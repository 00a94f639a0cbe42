"""Assignments whose lease or reward window ends: voided, or settled with the default reward."""

from __future__ import annotations

from functools import partial

from sameluck.errors import Diverged, Unknown, Unplayable, shown
from sameluck.live.calls.deadline import seconds_left, time_limit
from sameluck.live.calls.settings import SECOND
from sameluck.live.databases.base import Transaction
from sameluck.live.databases.rows import LockedAssignment, TextRow
from sameluck.live.state.replications import OpenReplications
from sameluck.live.users.pending_writes import PendingWrites
from sameluck.live.users.reward_outcomes import is_id

MOST_OVERDUE = 100  # assignments read at once
ENOUGH = 0.02  # seconds to expire one


class Expiry:
    """The leases and windows of one experiment; an assignment is read as it is at this moment."""

    def __init__(self, replications: OpenReplications) -> None:
        options = replications.options
        self._replications = replications
        self._now = replications.settings.now
        self._default = options.reward.default
        self.explicit = options.exposure == "explicit"
        self.window = round(options.reward.window_seconds * SECOND)
        self.lease = round(options.lease_seconds * SECOND) if self.explicit else self.window
        self._next_sweep = 0

    def tick(self) -> int:
        """Expire every assignment that is due; returns how many."""
        done = 0
        while True:
            overdue = self._replications.database.read(self._overdue)
            for (id,) in overdue:
                if seconds_left() < ENOUGH:  # for the unit that this is done for
                    return done
                done += self._replications.write(partial(self._expire_if_due, id=id))
            if len(overdue) < MOST_OVERDUE:
                return done

    def sweep_each_second(self) -> None:
        """`sweep`, unless that was done less than a second ago."""
        now = self._now()
        if now >= self._next_sweep:
            self._next_sweep = now + SECOND
            self.sweep(behind=True)

    def sweep(self, *, behind: bool) -> int:
        """`tick`, and the policies where they are `behind`, for a unit that waits: for half of its call's time."""
        timeout = self._replications.settings.timeout
        try:
            with time_limit(timeout and timeout / 2):
                advanced = self._replications.advance_behind() if behind else 0
                return advanced + self.tick()
        except (Diverged, Unplayable):
            return 0  # the experiment's status is failed now; the unit gets the fallback arm

    def _overdue(self, transaction: Transaction) -> list[TextRow]:
        """Assignments whose lease or window has ended, the oldest first."""
        values = {"experiment": self._replications.id, "now": self._now(), "limit": MOST_OVERDUE}
        return transaction.fetch_all(TextRow, "overdue", **values)

    def _expire_if_due(self, transaction: Transaction, id: str) -> bool:
        locked, now = self.read(transaction, id), self._now()
        expires = locked.is_due(now)
        if expires:
            self._expire(transaction, locked, now)
        return expires

    def _expire(self, transaction: Transaction, locked: LockedAssignment, now: int) -> None:
        if locked.exposed_us is not None or not self.explicit:
            settlements = PendingWrites(transaction)
            self._replications.settle(settlements, locked, self._default, "default", now)
        else:
            self._replications.void(transaction, locked, now)

    def lock(self, transaction: Transaction, id: str) -> tuple[LockedAssignment, int]:
        """An assignment, expired first if it is due; and the time."""
        return self.expired(transaction, self.read(transaction, id))

    def expired(
        self, transaction: Transaction, locked: LockedAssignment
    ) -> tuple[LockedAssignment, int]:
        """As `lock`, for an assignment that has been read."""
        now = self._now()
        if locked.is_due(now):
            self._expire(transaction, locked, now)
            locked = self.read(transaction, locked.id)
        return locked, now

    def read(self, transaction: Transaction, id: str) -> LockedAssignment:
        """An assignment, its rows locked."""
        row = None
        if is_id(id):
            row = transaction.find(LockedAssignment, "lock_assignment", assignment=id)
        if row is None or row.experiment != self._replications.id:
            raise self.unknown(id)
        return row

    def unknown(self, id: object) -> Unknown:
        """The error for an id that is not of this experiment."""
        return Unknown(
            f"no assignment {shown(id)} in experiment {self._replications.name!r}; use the id that assign returned"
        )
