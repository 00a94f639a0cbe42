"""Expiry of assignments whose lease or reward window has ended: void them, or settle the default reward."""

from __future__ import annotations

from functools import partial

from sameluck.errors import Diverged, Unknown, Unplayable, shown
from sameluck.live.calls.settings import SECOND
from sameluck.live.calls.timing import seconds_left, time_limit
from sameluck.live.databases.base import Transaction
from sameluck.live.databases.rows import LockedAssignment, TextRow
from sameluck.live.state.replications import OpenReplications, PendingWrites
from sameluck.live.users.units import is_id

MAX_OVERDUE = 100  # assignments read at once
SECONDS_PER_EXPIRY = 0.02  # left of the caller's time, or the expiry is not begun


class Expiry:
    """Leases and reward windows of one experiment."""

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
        """Expire every assignment that is due and return their number."""
        expired = 0
        while True:
            overdue = self._replications.database.read(self._overdue)
            for (id,) in overdue:
                if seconds_left() < SECONDS_PER_EXPIRY:
                    return expired
                # One transaction each: a unit's reward must not wait for a hundred expiries.
                expired += self._replications.write(partial(self._expire_if_due, id=id))
            if len(overdue) < MAX_OVERDUE:
                return expired

    def sweep_each_second(self) -> None:
        """Sweep, unless the last sweep began less than a second ago."""
        now = self._now()
        if now >= self._next_sweep:
            self._next_sweep = now + SECOND
            self.sweep(lagging=True)

    def sweep(self, *, lagging: bool) -> int:
        """Expire due assignments and advance lagging replications, using at most half of the call's timeout.

        Return how many assignments and replications were changed.
        """
        timeout = self._replications.settings.timeout
        try:
            with time_limit(timeout and timeout / 2):
                advanced = self._replications.advance_lagging() if lagging else 0
                return advanced + self.tick()
        except (Diverged, Unplayable):
            return 0  # the experiment has failed; the unit gets the fallback arm

    def _overdue(self, transaction: Transaction) -> list[TextRow]:
        values = {"experiment": self._replications.id, "now": self._now(), "limit": MAX_OVERDUE}
        return transaction.fetch_all(TextRow, "overdue", **values)

    def _expire_if_due(self, transaction: Transaction, id: str) -> bool:
        locked, now = self.read(transaction, id), self._now()
        is_due = locked.is_due(now)
        if is_due:
            self._expire(transaction, locked, now)
        return is_due

    def _expire(self, transaction: Transaction, locked: LockedAssignment, now: int) -> None:
        if locked.exposed_us is not None or not self.explicit:
            writes = PendingWrites(transaction)
            self._replications.settle(writes, locked, self._default, "default", now)
        else:
            self._replications.void(transaction, locked, now)

    def lock(self, transaction: Transaction, id: str) -> tuple[LockedAssignment, int]:
        """Lock an assignment, expire it if it is due, and return it with the time."""
        locked = self.read(transaction, id)
        now = self._now()  # read once the lock is held, which may have taken long
        return self.expired(transaction, locked, now), now

    def expired(
        self, transaction: Transaction, locked: LockedAssignment, now: int
    ) -> LockedAssignment:
        """Return a locked assignment as it is now: expired first if it is due."""
        if locked.is_due(now):
            self._expire(transaction, locked, now)
            locked = self.read(transaction, locked.id)
        return locked

    def read(self, transaction: Transaction, id: str) -> LockedAssignment:
        """Lock and return an assignment of this experiment, or raise `Unknown`."""
        row = None
        if is_id(id):
            row = transaction.find(LockedAssignment, "lock_assignment", assignment=id)
        if row is None or row.experiment != self._replications.id:
            raise self.unknown(id)
        return row

    def unknown(self, id: object) -> Unknown:
        """Return the error for an id that belongs to no assignment of this experiment."""
        return Unknown(
            f"no assignment {shown(id)} in experiment {self._replications.name!r}; use the id that assign returned"
        )
