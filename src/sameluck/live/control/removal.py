"""Removal of experiments, units, and old lines of the audit log. Each removal is recorded in the history.

A long removal takes several transactions, so that users of other experiments do not wait. The database is consistent
after each of them; if the program ends in between, the same call continues.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from itertools import groupby
from operator import attrgetter

from sameluck.errors import Conflict, Invalid, shown
from sameluck.live.calls.settings import SECOND, StoreSettings
from sameluck.live.control.history import History, check_reason
from sameluck.live.databases.base import Database, SqlValue, Transaction, Values
from sameluck.live.databases.rows import (
    ENDED,
    ExperimentRow,
    LockedAssignment,
    NumberRow,
    ReplicationRow,
    RewardRow,
    TextRow,
)
from sameluck.live.engine.digest import MODULUS, entry_digest
from sameluck.live.options import MAX_SECONDS
from sameluck.live.records import moment
from sameluck.live.state.replications import OpenReplications
from sameluck.live.users.rewards import Expiry
from sameluck.validation import require_number

MAX_ENTRIES = 2_000  # in one transaction, unless a replication has more
HOUR = 3_600 * SECOND
ERASED = "erased "  # prefix of an erased unit; no hash begins with it


def delete_experiment(
    database: Database, settings: StoreSettings, row: ExperimentRow, reason: str
) -> None:
    """Delete an experiment that has ended, its last replications first, so that the rest stays consistent."""
    check_reason(reason)
    history, key = History(row.id, row.name, settings), {"experiment": row.id}

    def begin(transaction: Transaction) -> list[ReplicationRow]:
        current = transaction.find(ExperimentRow, "lock_experiment", **key)
        if current is not None and current.status not in (*ENDED, "failed"):
            raise Conflict(
                f"experiment {row.name!r} is {current.status} and cannot be deleted; call stop(drain=False) first",
                "invalid_transition",
            )
        if current is not None and current.reason != "being deleted":
            history.record(transaction, "deleted", reason=reason)
            values = {"status": "stopped", "reason": "being deleted"}
            transaction.execute("set_status", **key, **values)
            transaction.execute("set_sticky", **key, sticky=0)
        return transaction.fetch_all(ReplicationRow, "replications", **key)

    # The status is set first: from then on no unit is enrolled, and no process opens a replication.
    for first, _ in reversed(list(_spans(database.write(begin)))):
        tables = ("events", "assignments", "entries", "replications")
        database.write(partial(_delete, tables, {**key, "first": first}))
    _delete_arrivals(database, row.id)
    database.write(partial(_delete, ("answers", "disabled_arms", "experiment"), key))


def _spans(rows: Sequence[ReplicationRow]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last number of consecutive replications with few entries."""
    first, entries = 0, 0
    for row in rows:
        if entries and entries + row.version > MAX_ENTRIES:
            yield first, row.number - 1
            first, entries = row.number, 0
        entries += row.version
    if rows:
        yield first, rows[-1].number


def _delete(tables: Sequence[str], key: Values, transaction: Transaction) -> None:
    for table in tables:
        transaction.execute(f"delete_{table}", **key)


def _delete_arrivals(database: Database, experiment: int) -> None:
    def work(transaction: Transaction) -> int:
        transaction.execute("delete_arrivals", experiment=experiment, limit=MAX_ENTRIES)
        return transaction.fetch_one(NumberRow, "any_arrival", experiment=experiment).number

    while database.write(work):
        pass


def erase_unit(replications: OpenReplications, expiry: Expiry, unit_hash: str, reason: str) -> int:
    check_reason(reason)
    key: Values = {"experiment": replications.id, "unit": unit_hash}

    def work(transaction: Transaction) -> int:
        now = replications.settings.now()
        transaction.lock([unit_hash])  # as `assign` does
        ids = [row.text for row in transaction.fetch_all(TextRow, "assignments_of", **key)]
        for id in ids:
            locked = transaction.fetch_one(LockedAssignment, "lock_assignment", assignment=id)
            if locked.state == "assigned" and not locked.voided:
                expiry.expire(transaction, locked, now)  # no reward can come any more
            rows = transaction.fetch_all(RewardRow, "applied_reward", assignment=id)
            _note_pruned(transaction, replications.id, rows)
            transaction.execute("erase_events", assignment=id)
            # Random, and not derived from the old id: nobody who knows the old id finds the new one.
            new, unit = f"asg_{secrets.token_hex(16)}", f"{ERASED}{secrets.token_hex(16)}"
            transaction.execute("erase_entry", **locked.key(), assignment=id, new=new, hour=HOUR)
            transaction.execute("erase_assignment", assignment=id, new=new, unit=unit, hour=HOUR)
        if ids or transaction.find(NumberRow, "arrived", **key) is not None:
            transaction.execute("erase_arrival", **key)
            replications.history.record(transaction, "unit erased", reason=reason)
        return len(ids)

    return replications.write(work)


def _note_pruned(transaction: Transaction, experiment: SqlValue, rows: Iterable[RewardRow]) -> None:
    """Keep the digests of applied rewards that leave the audit log."""
    for number, group in groupby(rows, attrgetter("replication")):
        digests = [entry_digest(*row[1:]) for row in group]
        values = {"pruned": len(digests), "digest": sum(digests) % MODULUS}
        transaction.execute("note_pruned", experiment=experiment, replication=number, **values)


def forget_units(replications: OpenReplications, reason: str) -> None:
    check_reason(reason)
    key = {"experiment": replications.id}

    def work(transaction: Transaction) -> None:
        row = transaction.fetch_one(ExperimentRow, "lock_experiment", **key)
        if row.status not in ENDED:
            message = (
                f"experiment {row.name!r} is {row.status}, and its units may return; stop it first"
            )
            raise Conflict(message, "invalid_transition")
        if row.salt:
            transaction.execute("set_salt", **key, salt="")
            transaction.execute("set_sticky", **key, sticky=0)
            replications.history.record(transaction, "units forgotten", reason=reason)

    replications.write(work)


def prune(
    database: Database, settings: StoreSettings, older_than: float | timedelta, reason: str
) -> int:
    """Remove old lines of the audit log of complete replications and return their number."""
    check_reason(reason)
    seconds = older_than.total_seconds() if isinstance(older_than, timedelta) else older_than
    if not isinstance(seconds, int | float):
        raise Invalid(f"older_than must be seconds or a timedelta, got {shown(older_than)}")
    require_number("older_than", seconds, at_least=0, at_most=MAX_SECONDS)
    before = settings.now() - round(seconds * SECOND)
    names = [row.text for row in database.read(lambda t: t.fetch_all(TextRow, "names"))]
    return sum(_prune_experiment(database, settings, name, before, reason) for name in names)


def _prune_experiment(
    database: Database, settings: StoreSettings, name: str, before: int, reason: str
) -> int:
    row = database.read(lambda t: t.find(ExperimentRow, "experiment", name=name))
    if row is None:  # deleted meanwhile
        return 0
    key: Values = {"experiment": row.id}
    rows = database.read(lambda t: t.fetch_all(ReplicationRow, "replications", **key))
    removed = 0
    for first, last in _spans(rows):
        span = {**key, "first": first, "last": last}
        removed += database.write(partial(_prune_span, span=span, before=before))
    last_change = database.read(lambda t: t.fetch_one(NumberRow, "last_change", **key).number)
    if row.status in ENDED and last_change < before:
        _delete_arrivals(database, row.id)
    if removed:
        subject = f"{removed:,} rewards reported before {moment(before)}"
        record = partial(History(row.id, name, settings).record, what="audit log pruned")
        database.write(partial(record, subject=subject, reason=reason))
    return removed


def _prune_span(transaction: Transaction, span: Values, before: int) -> int:
    # A reward of these replications must not be reported between the sums and the deletion.
    transaction.fetch_all(NumberRow, "lock_span", **span)
    removed = transaction.fetch_one(NumberRow, "count_old_events", **span, before=before).number
    if removed:
        rows = transaction.fetch_all(RewardRow, "old_rewards", **span, before=before)
        _note_pruned(transaction, span["experiment"], rows)
        transaction.execute("delete_old_events", **span, before=before)
    return removed
