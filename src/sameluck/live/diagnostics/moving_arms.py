"""`moving arms`: a rehearsal on arms that drift or switch."""

from __future__ import annotations

from collections.abc import Iterator

from sameluck.live.databases.rows import TextRow
from sameluck.live.diagnostics.check import Check, diagnostic
from sameluck.live.diagnostics.snapshot import Snapshot
from sameluck.live.state.result_notes import moving_caution


@diagnostic("moving arms")
def _moving_arms(snapshot: Snapshot) -> Iterator[Check]:
    """Read the history of rehearsals. There is no p-value; `drift` tests the arms of real users."""
    rehearsed = [*dict.fromkeys(row.text for row in snapshot.rows(TextRow, "rehearsed_on"))]
    if rehearsed:
        sentence = " ".join(
            moving_caution(snapshot.experiment, environment) for environment in rehearsed
        )
        yield Check("moving arms", "alarm", sentence, None, {"environments": rehearsed})
