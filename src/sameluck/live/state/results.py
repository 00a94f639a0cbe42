"""Results of a live experiment so far, read from its ledger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sameluck.live.databases.rows import NumberRow
from sameluck.live.state.digests import NO_DIGESTS, Digests, all_digests, has_grown
from sameluck.live.state.ledger import Ledger, same_question
from sameluck.live.state.replications import OpenReplications
from sameluck.live.state.result_notes import notes
from sameluck.runs import Runs
from sameluck.trajectories import Trace

MAX_REMEMBERED = 8  # runs, each of other policies or checkpoints


class Results:
    """Runs and traces of one experiment.

    Complete replications do not change, so that earlier runs are continued instead of derived again. They are
    forgotten if default rewards were taken back, if the policies were changed, or if a backup was restored.
    """

    def __init__(self, replications: OpenReplications) -> None:
        self._replications = replications
        self._runs: tuple[Runs, ...] = ()  # the last ones returned
        self._changes = (
            0,
            0,
        )  # taken-back defaults and changes of policies, when they were returned
        self._digests: Digests = NO_DIGESTS  # of the ledger, when they were returned

    def runs(self, checkpoints: Sequence[int] | None, policies: Sequence[str] | None) -> Runs:
        """Return the runs of the complete prefix; see `LiveExperiment.runs`."""
        now = self._replications.settings.now()

        def work(ledger: Ledger) -> Runs:
            key = {"experiment": ledger.id}
            taken_back = ledger.transaction.fetch_one(NumberRow, "count_taken_back", **key).number
            changes = taken_back, self._replications.current(ledger.transaction).row.revision
            digests = all_digests(ledger)
            before = self._runs if changes == self._changes else ()
            longest = max((runs.replications for runs in before), default=0)
            if not has_grown(ledger, self._digests[:longest], digests):
                before = ()
            runs = ledger.runs(checkpoints, policies, before)
            earlier = [remembered for remembered in before if not same_question(remembered, runs)]
            self._runs = (runs, *earlier[: MAX_REMEMBERED - 1])
            self._changes, self._digests = changes, digests
            return replace(runs, notes=notes(ledger, runs.replications, now))

        return self._replications.read(work, needs=policies)

    def trace(self, replication: int) -> Trace:
        """Return every period of one replication; see `LiveExperiment.trace`."""
        return self._replications.read(lambda ledger: ledger.trace(replication))
