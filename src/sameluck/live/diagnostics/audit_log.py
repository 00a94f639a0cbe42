"""`audit log`: whether the rewards of the ledger are those that were reported."""

from __future__ import annotations

from collections.abc import Iterator

from sameluck.live.databases.rows import EditedRow
from sameluck.live.diagnostics.check import Check, diagnostic
from sameluck.live.diagnostics.snapshot import Snapshot
from sameluck.live.verification import edited_text


@diagnostic(order=15)
def _audit_log(snapshot: Snapshot) -> Iterator[Check]:
    """Every reward of the ledger that was reported, against its line in the audit log. There is no p-value."""
    rows = snapshot.rows(EditedRow, "edited", first=0, stop=len(snapshot.ledger.numbers))
    if not rows:
        sentence = "Every reported reward in the ledger is that of the audit log."
        yield Check("audit log", "fine", sentence, None, {"edited": 0})
        return
    more = f" ({len(rows)} such rewards or more)" if len(rows) > 1 else ""
    first = edited_text(rows[0], snapshot.experiment.arm_names)
    sentence = f"{first[0].upper()}{first[1:]}{more}. The database was edited; restore a backup, or the value."
    details = {"edited": len(rows), "entries": [row._asdict() for row in rows]}
    yield Check("audit log", "alarm", sentence, None, details)
