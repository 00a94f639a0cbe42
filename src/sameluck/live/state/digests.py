"""Digests of ledgers: whether rewards are those that were acknowledged, and whether a ledger is still the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sameluck.errors import Diverged
from sameluck.live.databases.rows import DigestRow, EditedRow, SettledRow
from sameluck.live.engine.digest import MODULUS, entry_digest
from sameluck.live.engine.protocol import SettledEntries
from sameluck.live.state.ledger import Ledger

Digests: TypeAlias = NDArray[Any]  # of `_DIGEST`, one per replication
_DIGEST = np.dtype([(name, "i8") for name in DigestRow._fields])
NO_DIGESTS: Digests = np.empty(0, _DIGEST)


def known_digests(ledger: Ledger) -> dict[int, int]:
    """The digests of the replications that have one."""
    rows = ledger.transaction.fetch_all(DigestRow, "digests", experiment=ledger.id)
    return {row.number: row.digest for row in rows if row.is_known}


def check_digest(
    ledger: Ledger, digests: Mapping[int, int], number: int, settled: SettledEntries
) -> None:
    """Raise `Diverged` if the rewards of a replication are not those that were acknowledged."""
    if number in digests and settled.digest() != digests[number]:
        raise edited(ledger, number)


def edited(ledger: Ledger, number: int) -> Diverged:
    """The error for a replication whose rewards are not those that were acknowledged."""
    span = {"experiment": ledger.id, "first": number, "stop": number + 1}
    rows = ledger.transaction.fetch_all(EditedRow, "edited", **span)
    what = f"replication {number}: its rewards are not those that were acknowledged"
    if rows:
        what = edited_text(rows[0], ledger.engine.arm_names)
    return Diverged(f"{what}. The database was edited; restore a backup, or the value")


def edited_text(row: EditedRow, arm_names: Sequence[str]) -> str:
    """What differs between the ledger and the audit log."""
    return (
        f"replication {row.replication}: the reward at position {row.position} of arm {arm_names[row.arm]!r} is "
        f"{row.value!r} in the ledger and {row.reported!r} in the audit log (assignment {row.assignment})"
    )


def digest_after(digest: int, more: Iterable[SettledRow]) -> int:
    """A digest once more entries are settled."""
    return (digest + sum(entry_digest(*row) for row in more)) % MODULUS


def all_digests(ledger: Ledger) -> Digests:
    """The digests of all replications at this moment, for `has_grown`."""
    return np.fromiter(
        ledger.transaction.iterate(DigestRow, "digests", experiment=ledger.id), _DIGEST
    )


def has_grown(ledger: Ledger, before: Digests, now: Digests) -> bool:
    """Whether replications have every entry that they had before, and maybe more: no backup was restored since."""
    if now.size < before.size:
        return False
    now = now[: before.size]
    for number in np.flatnonzero(before != now).tolist():
        old, new = DigestRow(*before[number].tolist()), DigestRow(*now[number].tolist())
        key = {"experiment": ledger.id, "replication": number, "version": old.version}
        rows = ledger.transaction.fetch_all(SettledRow, "settled_since", **key)
        known = old.is_known and new.is_known and old.version + len(rows) == new.version
        if not known or digest_after(old.digest, rows) != new.digest:
            return False
    return True
