"""Verification of a ledger against its policies' requests and the acknowledged rewards."""

from __future__ import annotations

from functools import partial

from sameluck.errors import Diverged, OtherVersion, Unplayable
from sameluck.live.databases.base import Transaction
from sameluck.live.databases.rows import DigestRow, ExperimentRow, ReplicationMark
from sameluck.live.state.digests import check_digest, marks_of
from sameluck.live.state.ledger import Ledger
from sameluck.live.state.replications import OpenReplications


def verify(ledger: Ledger, verified: dict[int, ReplicationMark] | None = None) -> int:
    """Rebuild and check every replication, compare its rewards with their digest, and return their number.

    `verified` are the marks of complete replications that agreed before. They are left out while their marks are the
    same; the other complete replications are added.
    """
    marks = {mark.number: mark for mark in marks_of(ledger)}
    verified = {} if verified is None else verified
    numbers = [number for number in ledger.numbers if verified.get(number) != marks[number]]
    for number, settled, outstanding in ledger._replace(numbers=numbers).entries():
        check_digest(ledger, marks[number].known_digest, number, settled)
        ledger.check(ledger.engine.rebuild(number, settled, outstanding))
        if marks[number].state == "complete" and not outstanding and not ledger.partial:
            verified[number] = marks[number]
    return len(ledger.numbers)


def verify_or_fail(replications: OpenReplications) -> None:
    """Verify a ledger when an experiment is loaded; a difference sets the status to failed.

    Digests and policy versions that older versions of sameluck did not store are stored. A process with another
    version of a policy raises and changes nothing. A process without the code of policies that were added later does
    not raise: it serves users, and leaves running the policies to other processes.
    """
    database = replications.database
    definition = database.read(replications.current)
    all_added = all(definition.records[name].added for name in definition.missing)
    if definition.refusal is not None and not (all_added and definition.other_version is None):
        raise type(definition.refusal)(str(definition.refusal))
    try:
        replications.read(partial(verify, verified=replications.verified), needs=())
    except (Diverged, Unplayable) as error:
        if not database.read_only:
            replications.fail(str(error))
        raise
    if database.read_only:
        return
    rows = database.read(lambda t: t.fetch_all(DigestRow, "digests", experiment=replications.id))
    # A transaction for each: a long ledger of an old version must not block users.
    for number in [row.number for row in rows if not row.is_known]:
        database.write(partial(_add_digest, replications=replications, number=number))
    if definition.with_versions() != definition.row:
        database.write(partial(_record_versions, replications=replications))
    replications.advance_lagging()


def _record_versions(transaction: Transaction, replications: OpenReplications) -> None:
    """Store the versions of policies that have none; another process may have stored them before."""
    transaction.fetch_one(ExperimentRow, "lock_experiment", experiment=replications.id)
    definition = replications.current(transaction)
    after = definition.with_versions()
    if after != definition.row:
        transaction.execute("set_definition", experiment=replications.id, **after._asdict())
        replications.history.record(transaction, "policy versions recorded")
    if definition.other_version is not None:
        raise OtherVersion(str(definition.other_version))


def _add_digest(transaction: Transaction, replications: OpenReplications, number: int) -> None:
    key = {"experiment": replications.id, "replication": number}
    if not transaction.fetch_one(DigestRow, "lock_digest", **key).is_known:
        ledger = replications.ledger(transaction, replications.definition.playable)
        ((_, settled, _),) = ledger._replace(numbers=[number]).entries()
        transaction.execute("set_digest", **key, digest=settled.digest())
