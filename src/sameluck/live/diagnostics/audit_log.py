"""`audit log`: the rewards of the ledger are the rewards that were reported."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import attrgetter

from sameluck.live.databases.rows import EditedRow, PrunedRow, RewardRow
from sameluck.live.diagnostics.check import Check, diagnostic
from sameluck.live.diagnostics.snapshot import Snapshot
from sameluck.live.engine.digest import MODULUS, entry_digest
from sameluck.live.state.digests import edited_text
from sameluck.wording import counted


@diagnostic("audit log")
def _audit_log(snapshot: Snapshot) -> Iterator[Check]:
    """Compare every reported reward of the ledger with its line in the audit log. There is no p-value.

    Rewards without a line are compared with the digests of the lines that were pruned or erased.
    """
    rows = snapshot.rows(EditedRow, "edited", first=0, stop=len(snapshot.ledger.numbers))
    before = {row.number: row[1:] for row in snapshot.rows(PrunedRow, "pruned") if row.pruned}
    missing = _unlogged(snapshot)
    wrong = sorted(n for n in {*before, *missing} if before.get(n) != missing.get(n))
    pruned = sum(count for count, _ in before.values())
    details = {"edited": len(rows), "pruned": pruned, "wrong": wrong}
    if not rows and not wrong:
        gone = f" ({counted(pruned, 'line')} of it pruned or erased)" if pruned else ""
        sentence = f"Every reported reward in the ledger agrees with the audit log{gone}."
        yield Check("audit log", "fine", sentence, None, details)
        return
    if rows:
        more = f" ({len(rows)} such rewards or more)" if len(rows) > 1 else ""
        first = edited_text(rows[0], snapshot.experiment.arm_names) + more
    else:
        first = f"replication {wrong[0]}: its rewards differ from the lines that left the audit log"
    sentence = (
        f"{first[0].upper()}{first[1:]}. The database was edited; restore a backup, or the value."
    )
    details |= {"entries": [row._asdict() for row in rows]}
    yield Check("audit log", "alarm", sentence, None, details)


def _unlogged(snapshot: Snapshot) -> dict[int, tuple[int, int]]:
    """Return per replication the number and the digest of reported rewards without a line in the audit log."""
    rows = snapshot.ledger.transaction.iterate(RewardRow, "unlogged", experiment=snapshot.ledger.id)
    unlogged = {}
    for number, group in groupby(rows, attrgetter("replication")):
        count = digest = 0
        for row in group:
            count, digest = count + 1, (digest + entry_digest(*row[1:])) % MODULUS
        unlogged[number] = (count, digest)
    return unlogged
