"""Calls about assignments: exposures, rewards, voids, and the expiry of leases and reward windows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from decimal import Decimal
from functools import partial
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np

from sameluck.errors import Conflict, Diverged, Invalid, SameluckError, Unknown, Unplayable, shown
from sameluck.live.calls.call_queue import batches_of, map_valid, result_or_error
from sameluck.live.calls.settings import SECOND
from sameluck.live.calls.timing import seconds_left, time_limit
from sameluck.live.databases.base import Transaction, Values, Work
from sameluck.live.databases.rows import LockedAssignment, TextRow
from sameluck.live.records import Receipt
from sameluck.live.state.replications import OpenReplications, PendingWrites
from sameluck.live.users.units import ASSIGNMENT_ID, is_id
from sameluck.validation import require_number

T = TypeVar("T")
ReceiptOrError: TypeAlias = Receipt | SameluckError

MAX_OVERDUE = 100  # assignments read at once
SECONDS_PER_EXPIRY = 0.02  # left of the caller's time, or the expiry is not begun


class Report(NamedTuple):
    """A valid reward that was reported."""

    id: str
    value: float


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
        expired, key = 0, {"experiment": self._replications.id, "limit": MAX_OVERDUE}
        while True:
            overdue = self._replications.database.read(
                lambda t: t.fetch_all(TextRow, "overdue", **key, now=self._now())
            )
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

    def _expire_if_due(self, transaction: Transaction, id: str) -> bool:
        locked, now = self.read(transaction, id), self._now()
        is_due = locked.is_due(now)
        if is_due:
            self.expire(transaction, locked, now)
        return is_due

    def expire(self, transaction: Transaction, locked: LockedAssignment, now: int) -> None:
        """Settle the default reward; void the assignment instead if its unit was not exposed."""
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
            self.expire(transaction, locked, now)
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
        return Unknown(
            f"no assignment {shown(id)} in experiment {self._replications.name!r}; use the id that assign returned"
        )


class Rewards:
    """Exposures, rewards and voids of one experiment's assignments."""

    def __init__(self, replications: OpenReplications, expiry: Expiry) -> None:
        self._replications = replications
        self._expiry = expiry
        self._settings = replications.settings
        self._bounds = replications.options.reward.bounds
        self._time_limit = replications.settings.patience

    def _write(self, work: Work[T]) -> T:
        with time_limit(self._time_limit, self._settings.breaker):
            return self._replications.write(work)

    # Exposures

    def expose(self, id: str) -> None:
        _raise(self._write(partial(self._expose, id=id)))

    def _expose(self, transaction: Transaction, id: str) -> Conflict | None:
        locked, now = self._expiry.lock(transaction, id)
        if locked.voided:
            return _voided(id)
        if locked.exposed_us is not None or locked.state == "settled":
            return None
        transaction.execute("expose", assignment=id, now=now)
        if self._expiry.explicit:
            transaction.execute("set_due", **locked.key(), due=now + self._expiry.window)
        return None

    # Rewards

    def reward(self, id: str | None, value: float) -> Receipt:
        report = self._checked_report(id, value)
        receipt = report if isinstance(report, Receipt) else self._write_alone(report)
        if isinstance(receipt, SameluckError):
            raise receipt
        return receipt

    def reward_many(self, pairs: Iterable[tuple[str | None, float]]) -> list[ReceiptOrError]:
        receipts: list[ReceiptOrError] = []
        for batch in batches_of("reward_many: pairs", pairs):
            receipts += self.reward_batch(batch)
        return receipts

    def reward_batch(self, pairs: Sequence[tuple[str | None, float]]) -> list[ReceiptOrError]:
        """Write rewards in one transaction; an invalid pair gets its error."""
        reports = [result_or_error(self._report_of_pair, pair) for pair in pairs]
        return map_valid(reports, Report, self._write_together)

    def _report_of_pair(self, pair: tuple[str | None, float]) -> Report | Receipt:
        try:
            id, value = pair
        except (TypeError, ValueError):
            raise Invalid(
                f"reward_many: a pair is the id of an assignment and its reward, got {shown(pair)}"
            ) from None
        return self._checked_report(id, value)

    def _checked_report(self, id: str | None, value: float) -> Report | Receipt:
        """Return a reward to write, or the receipt for a unit that is not enrolled."""
        binary = self._replications.definition.binary_rewards
        number = checked_reward(value, self._bounds, binary=binary)
        if id is None:
            return Receipt(applied=False, duplicate=False, value=number)
        if not isinstance(id, str) or not ASSIGNMENT_ID.fullmatch(id):
            raise self._expiry.unknown(id)
        return Report(id, number)

    def _write_together(self, reports: Sequence[Report]) -> list[ReceiptOrError]:
        try:
            with time_limit(self._time_limit, self._settings.breaker):
                # Not `replications.write`: which reward fails the experiment is only known when each is alone.
                return self._replications.database.write(
                    partial(self._reward_each, reports=reports)
                )
        except (Diverged, Unplayable):  # in one replication; the rewards of others count
            return [result_or_error(self._write_alone, report) for report in reports]

    def _write_alone(self, report: Report) -> ReceiptOrError:
        (receipt,) = self._write(partial(self._reward_each, reports=[report]))
        return receipt

    def _reward_each(
        self, transaction: Transaction, reports: Sequence[Report]
    ) -> list[ReceiptOrError]:
        """Write rewards in their order; a refused reward changes nothing, or the audit log alone."""
        # All at once, before anything is written: `lock_assignment` orders the rows of a list, so that two lists with
        # the same replications do not deadlock.
        ids: list[Values] = [{"assignment": id} for id in dict.fromkeys(id for id, _ in reports)]
        locks = transaction.find_many(LockedAssignment, "lock_assignment", ids)
        rows = {row.id: row for row in locks if row and row.experiment == self._replications.id}
        writes = PendingWrites(transaction)
        versions: dict[int, int] = {}  # of replications that this transaction has changed
        receipts: list[ReceiptOrError] = []
        for id, value in reports:
            try:
                locked = rows.pop(id, None) or self._expiry.read(transaction, id)
                if locked.policy_revision != self._replications.definition.row.revision:
                    binary = self._replications.current(transaction).binary_rewards
                    checked_reward(value, self._bounds, binary=binary)
            except (Invalid, Unknown) as error:  # before anything is written
                receipts.append(error.with_traceback(None))
                continue
            # The row was read before this transaction settled other entries of its replication.
            if locked.replication in versions:
                locked = locked._replace(version=versions[locked.replication])
            receipt, versions[locked.replication] = self._reward(writes, locked, value)
            receipts.append(receipt)
        return receipts

    def _reward(
        self, writes: PendingWrites, locked: LockedAssignment, value: float
    ) -> tuple[Receipt | Conflict, int]:
        """Write a reward; return its receipt and its replication's version."""
        # After the lock, which may have taken long: lateness is decided now.
        now = self._settings.now()
        if locked.due_us is not None and locked.due_us <= now:
            locked = self._expiry.expired(writes.transaction, locked, now)
        outcome, conflict = outcome_of(locked, value)
        writes.add("note_reward", assignment=locked.id, value=value, now=now, outcome=outcome)
        applied = outcome == "applied"
        if applied:
            self._replications.settle(writes, locked, value, "observed", now)
        return conflict or Receipt(applied, outcome == "duplicate", value), locked.version + applied

    # Voids

    def void(self, id: str) -> None:
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

    def void_if_possible(self, id: str | None) -> None:
        """Void an assignment unless its unit was exposed or rewarded; do nothing without an id."""
        if id is not None:
            with suppress(Conflict):
                self.void(id)


def checked_reward(value: object, bounds: tuple[float, float], *, binary: bool) -> float:
    """Return a reward as a float, or raise `Invalid` if a policy cannot take it; True and False are 1 and 0."""
    low, high = bounds
    if isinstance(value, bool | np.bool_) or (isinstance(value, Decimal) and value.is_finite()):
        value = float(value)
    if type(value) is not float or not low <= value <= high:  # else it needs no further check
        require_number("a reward", value, at_least=low, at_most=high)
    number = float(value) + 0.0  # type: ignore[arg-type] # SQLite does not keep -0.0
    if number not in (0, 1) and binary:
        raise Invalid(f"a reward must be 0 or 1 (a policy counts successes), got {shown(value)}")
    return number


def outcome_of(locked: LockedAssignment, value: float) -> tuple[str, Conflict | None]:
    """Return a reward's outcome, and the error to raise if the reward does not count."""
    if locked.assignment != locked.id:
        return "voided", _voided(locked.id)
    if locked.state == "assigned":
        return "applied", None
    name = f"assignment {locked.id!r}"
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
    # Raised after the commit: the transaction may have expired the assignment, which must stay.
    if conflict is not None:
        raise conflict
