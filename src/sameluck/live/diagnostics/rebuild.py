"""`rebuild`: whether every replication is what the policies do with its ledger."""

from __future__ import annotations

from collections.abc import Iterator

from sameluck.live.diagnostics.check import Check
from sameluck.live.diagnostics.registry import diagnostic
from sameluck.live.diagnostics.snapshot import Snapshot
from sameluck.reporting.wording import counted, sentence


@diagnostic(order=10)
def _rebuild(snapshot: Snapshot) -> Iterator[Check]:
    begun = len(snapshot.numbers)
    details = {"replications": begun}
    if snapshot.divergence is not None:
        yield Check("rebuild", "alarm", sentence(snapshot.divergence), None, details)
    else:
        text = f"{counted(begun, 'replication')} begun and derived from the ledger again: nothing differs."
        yield Check("rebuild", "fine", text, None, details)
