"""`Results`: what a live experiment has found so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sameluck.live.assignments import Assignments
from sameluck.live.databases.rows import NumberRow
from sameluck.live.state.digests import NO_DIGESTS, Digests, all_digests, has_grown
from sameluck.live.state.ledger import Ledger, same_question
from sameluck.live.state.result_notes import notes
from sameluck.live.state.verification import verify, verify_or_fail
from sameluck.policies.external import makers_for
from sameluck.runs import Runs
from sameluck.trajectories import Trace

if TYPE_CHECKING:
    from sameluck.inference import Twin

REMEMBERED_RUNS = 8  # of other policies or checkpoints


class Results(Assignments):
    """The methods of a live experiment that read its ledger."""

    _runs: tuple[Runs, ...] = ()  # the last ones returned, each of other policies or checkpoints
    _changes = (0, 0)  # until then: how often defaults were taken back, and the policies changed
    _digests: Digests = NO_DIGESTS  # of the ledger then

    def runs(
        self, checkpoints: Sequence[int] | None = None, *, policies: Sequence[str] | None = None
    ) -> Runs:
        """The results so far, for `compare`.

        They hold the complete prefix of replications, never "those finished so far": how long a replication takes
        depends on its rewards. Their `notes` say what the prefix waits for if later replications are complete.

        Args:
            checkpoints: Horizons to report; a replication counts once every policy has passed the last of them. The
                experiment's horizon if not given.
            policies: Only these; others need not have passed it.
        """
        now = self._settings.now()

        def work(ledger: Ledger) -> Runs:
            taken_back = ledger.transaction.fetch_one(
                NumberRow, "count_taken_back", experiment=ledger.id
            ).number
            changes = taken_back, self._replications.current(ledger.transaction).row.revision
            digests = all_digests(ledger)
            before = self._runs if changes == self._changes else ()
            most = max((one.replications for one in before), default=0)
            if not has_grown(ledger, self._digests[:most], digests):
                before = ()
            runs = ledger.runs(checkpoints, policies, before)
            others = [one for one in before if not same_question(one, runs)]
            self._runs, self._changes = (runs, *others[: REMEMBERED_RUNS - 1]), changes
            self._digests = digests
            return replace(runs, notes=notes(ledger, runs.replications, now))

        return self._replications.read(work, needs=policies)

    def trace(self, replication: int = 0) -> Trace:
        """Every period of one replication that each policy has done."""
        return self._replications.read(lambda ledger: ledger.trace(replication))

    def verify(self) -> int:
        """Derive every replication from its ledger again; returns how many there are.

        Raises `Diverged` if the entries that the policies need differ from those that were requested.
        """
        return self._replications.read(verify)

    def _verify_or_fail(self) -> None:
        verify_or_fail(self._replications)

    def twin(
        self,
        /,
        checkpoints: Sequence[int] | None = None,
        *,
        policies: Sequence[str] | None = None,
        **options: Any,
    ) -> Twin:
        """The policies on a copy of the arms as measured so far: `sameluck.twin` of `runs`.

        Args:
            checkpoints: As for `runs`; an earlier horizon is known sooner.
            policies: As for `runs`.
            options: Those of `sameluck.twin`.
        """
        from sameluck.inference import twin

        runs = self.runs(checkpoints, policies=policies)
        makers = makers_for(runs.experiment.policies, self._replications.makers)
        return twin(runs, **{"makers": makers, **options})
