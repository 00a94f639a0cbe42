"""Digests of ledgers, which show whether acknowledged rewards were edited and whether a ledger has only grown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sameluck.errors import Diverged
from sameluck.live.databases.rows import DigestRow, EditedRow, ReplicationMark, SettledRow
from sameluck.live.engine.digest import MODULUS, entry_digest
from sameluck.live.engine.protocol import SettledEntries
from sameluck.live.state.ledger import Ledger

Digests: TypeAlias = NDArray[Any]  # of `_DIGEST`, one per replication
_DIGEST = np.dtype([(name, "i8") for name in DigestRow._fields])
NO_DIGESTS: Digests = np.empty(0, _DIGEST)


def marks_of(ledger: Ledger) -> list[ReplicationMark]:
    """Return the marks of all replications, in order."""
    return ledger.transaction.fetch_all(ReplicationMark, "marks", experiment=ledger.id)


def check_digest(ledger: Ledger, digest: int | None, number: int, settled: SettledEntries) -> None:
    """Raise `Diverged` if the rewards of a replication differ from the acknowledged ones, whose digest is given."""
    if digest is not None and settled.digest() != digest:
        raise edited(ledger, number)


def edited(ledger: Ledger, number: int) -> Diverged:
    """Return the error for a replication whose rewards differ from the acknowledged rewards."""
    span = {"experiment": ledger.id, "first": number, "stop": number + 1}
    rows = ledger.transaction.fetch_all(EditedRow, "edited", **span)
    difference = f"replication {number}: its rewards differ from the rewards that were acknowledged"
    if rows:
        difference = edited_text(rows[0], ledger.engine.arm_names)
    return Diverged(f"{difference}. The database was edited; restore a backup, or the value")


def edited_text(row: EditedRow, arm_names: Sequence[str]) -> str:
    """Return the difference between the ledger and the audit log as text."""
    return (
        f"replication {row.replication}: the reward at position {row.position} of arm {arm_names[row.arm]!r} is "
        f"{row.value!r} in the ledger and {row.reported!r} in the audit log (assignment {row.assignment})"
    )


def digest_after(digest: int, rows: Iterable[SettledRow]) -> int:
    """Return a digest after further entries are settled."""
    return (digest + sum(entry_digest(*row) for row in rows)) % MODULUS


def all_digests(ledger: Ledger) -> Digests:
    """Return the digests of all replications at this moment, for `has_grown`."""
    rows = ledger.transaction.iterate(DigestRow, "digests", experiment=ledger.id)
    return np.fromiter(rows, _DIGEST)


def has_grown(ledger: Ledger, before: Digests, now: Digests) -> bool:
    """Return True if every replication has the entries that it had before: no backup was restored since."""
    if now.size < before.size:
        return False
    now = now[: before.size]
    for number in np.flatnonzero(before != now).tolist():
        old, new = DigestRow(*before[number].tolist()), DigestRow(*now[number].tolist())
        key = {"experiment": ledger.id, "replication": number, "version": old.version}
        rows = ledger.transaction.fetch_all(SettledRow, "settled_since", **key)
        comparable = old.is_known and new.is_known and old.version + len(rows) == new.version
        if not comparable or digest_after(old.digest, rows) != new.digest:
            return False
    return True
