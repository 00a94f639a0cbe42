"""Whether a ledger is what its policies request and holds the rewards that were acknowledged."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from sameluck.errors import Diverged, Unplayable
from sameluck.live.databases.base import Transaction
from sameluck.live.databases.rows import DigestRow, EditedRow
from sameluck.live.engine.replication import check_ledger, rebuild
from sameluck.live.ledger import Ledger
from sameluck.live.replications import OpenReplications


def verify(ledger: Ledger) -> int:
    """Rebuild and check every replication and compare its rewards with their digest; returns how many there are."""
    rows = ledger.transaction.all(DigestRow, "digests", experiment=ledger.id)
    digests = {row.number: row.digest for row in rows if row.is_known}
    for number, settled, outstanding in ledger.entries():
        if number in digests and settled.digest() != digests[number]:
            raise _edited(ledger, number)
        check_ledger(rebuild(ledger.scheduler, number, settled, outstanding))
    return len(ledger.numbers)


def _edited(ledger: Ledger, number: int) -> Diverged:
    span = {"experiment": ledger.id, "first": number, "stop": number + 1}
    rows = ledger.transaction.all(EditedRow, "edited", **span)
    what = f"replication {number}: its rewards are not those that were acknowledged"
    if rows:
        what = edited_text(rows[0], ledger.scheduler.arm_names)
    return Diverged(f"{what}. The database was edited; restore a backup, or the value")


def edited_text(row: EditedRow, arm_names: Sequence[str]) -> str:
    """What differs between the ledger and the audit log."""
    return (
        f"replication {row.replication}: the reward at position {row.position} of arm {arm_names[row.arm]!r} is "
        f"{row.value!r} in the ledger and {row.reported!r} in the audit log (assignment {row.assignment})"
    )


def verify_or_fail(replications: OpenReplications) -> None:
    """As `verify`; a difference sets the status to failed, and replications without a digest get one.

    Those are replications of a log, and of a schema before version 2.
    """
    database = replications.database
    try:
        replications.read(verify)
    except (Diverged, Unplayable) as error:
        if not database.read_only:
            replications.fail(str(error))
        raise
    if not database.read_only:
        rows = database.read(lambda t: t.all(DigestRow, "digests", experiment=replications.id))
        for number in [row.number for row in rows if not row.is_known]:
            database.write(partial(_add_digest, replications=replications, number=number))


def _add_digest(transaction: Transaction, replications: OpenReplications, number: int) -> None:
    key = {"experiment": replications.id, "replication": number}
    if not transaction.one(DigestRow, "lock_digest", **key).is_known:
        ledger = replications.ledger(transaction, replications.scheduler)
        ((_, settled, _),) = ledger._replace(numbers=[number]).entries()
        transaction.run("set_digest", **key, digest=settled.digest())
