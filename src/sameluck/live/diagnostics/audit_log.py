"""`audit log`: the rewards of the ledger are the rewards that were reported."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice

from sameluck.live.diagnostics.check import Check, diagnostic
from sameluck.live.diagnostics.snapshot import Snapshot
from sameluck.live.state.digests import edited_text, marks_of
from sameluck.wording import counted

MAX_ROWS = 100  # of edited rewards in the details


@diagnostic("audit log")
def _audit_log(snapshot: Snapshot) -> Iterator[Check]:
    """Compare every reported reward of the ledger with its line in the audit log. There is no p-value.

    Rewards without a line are compared with the digests of the lines that were pruned or erased.
    """
    edited = chain.from_iterable(summary.edited for summary in snapshot.summaries.values())
    rows = list(islice(edited, MAX_ROWS))
    before = {mark.number: (mark.pruned, mark.pruned_digest) for mark in marks_of(snapshot.ledger)}
    missing = {number: summary.unlogged for number, summary in snapshot.summaries.items()}
    wrong = sorted(number for number, unlogged in missing.items() if before[number] != unlogged)
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
