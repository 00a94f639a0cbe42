"""Results of a live experiment so far, and notes: what they wait for, disabled arms, and arms that moved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from sameluck.experiment import Experiment
from sameluck.live.databases.rows import NumberRow, TextRow, WaitingRow
from sameluck.live.records import moment
from sameluck.live.state.definition import arms_of
from sameluck.live.state.digests import NO_DIGESTS, Digests, all_digests, has_grown
from sameluck.live.state.ledger import Ledger, same_question
from sameluck.live.state.replications import OpenReplications
from sameluck.runs import Runs
from sameluck.wording import counted

MAX_BYTES = 1 << 27  # of remembered runs, each of other policies or checkpoints


class Results:
    """Runs of one experiment.

    Complete replications do not change, so that earlier runs are continued instead of derived again. They are
    forgotten if default rewards were taken back, if the policies were changed, or if a backup was restored.
    """

    def __init__(self, replications: OpenReplications) -> None:
        self._replications = replications
        # The last runs returned; taken-back defaults and changes of policies, and the ledger's digests, at that time
        self._remembered: tuple[tuple[Runs, ...], tuple[int, int], Digests] = (
            (),
            (0, 0),
            NO_DIGESTS,
        )

    def runs(self, checkpoints: Sequence[int] | None, policies: Sequence[str] | None) -> Runs:
        now = self._replications.settings.now()

        def work(ledger: Ledger) -> Runs:
            runs = self.runs_of(ledger, checkpoints, policies)
            return replace(runs, notes=notes(ledger, runs.replications, now))

        return self._replications.read(work, needs=policies)

    def runs_of(
        self, ledger: Ledger, checkpoints: Sequence[int] | None, policies: Sequence[str] | None
    ) -> Runs:
        """Return the runs on one state of the ledger, without notes."""
        key = {"experiment": ledger.id}
        taken_back = ledger.transaction.fetch_one(NumberRow, "count_taken_back", **key).number
        changes = taken_back, self._replications.current(ledger.transaction).row.revision
        digests = all_digests(ledger)
        # Once: another thread may replace them.
        remembered, changes_before, digests_before = self._remembered
        before = remembered if changes == changes_before else ()
        longest = max((runs.replications for runs in before), default=0)
        if not has_grown(ledger, digests_before[:longest], digests):
            before = ()
        runs = ledger.runs(checkpoints, policies, before)
        earlier = (other for other in before if not same_question(other, runs))
        self._remembered = tuple(_newest(runs, earlier)), changes, digests
        return runs


def _newest(runs: Runs, earlier: Iterable[Runs]) -> Iterator[Runs]:
    """Yield runs and earlier ones, as many as may be remembered."""
    left = MAX_BYTES
    for remembered in (runs, *earlier):
        arrays = (remembered.pulls, remembered.rewards, remembered.observed)
        left -= sum(array.nbytes for array in arrays if array is not None)
        if left < 0 and remembered is not runs:
            return
        yield remembered


def notes(ledger: Ledger, complete: int, now: int) -> tuple[str, ...]:
    """Return sentences on results that use the first `complete` replications, at a time in microseconds."""
    key = {"experiment": ledger.id, "replication": complete}
    later = ledger.transaction.fetch_one(NumberRow, "count_complete_after", **key).number
    names = ledger.engine.arm_names
    cells = ledger.transaction.fetch_all(NumberRow, "disabled_arms", experiment=ledger.id)
    moving = ledger.transaction.fetch_all(TextRow, "rehearsed_on", experiment=ledger.id)
    experiment = ledger.engine.experiment
    disabled = arms_of(experiment, (row.number for row in cells))
    sentences = [moving_caution(experiment, row.text) for row in dict.fromkeys(moving)]
    if later:
        row = ledger.transaction.fetch_one(WaitingRow, "waiting", **key)
        sentences.append(
            f"Results use the first {counted(complete, 'replication')} and wait for replication {complete}, although "
            f"{counted(later, 'later replication is', 'later replications are')} complete: {_waits(row, now)}."
        )
    if disabled:
        arms = ", ".join(names[arm] for arm in disabled)
        sentences.append(
            f"Disabled: {arms}. Replications that need a disabled arm do not end, and the complete prefix stays "
            "short. Its anytime interval is valid; its mean is slightly biased, as after a plain stop."
        )
    return tuple(sentences)


def moving_caution(experiment: Experiment, environment: str) -> str:
    """Return the claims that do not hold after a rehearsal on non-stationary arms, such as `drifting(...)`."""
    cause = f"The rewards of an arm are not i.i.d.: {environment} changed them from user to user"
    if not experiment.design.shares_rewards:
        return (
            f"{cause}. Later replications met other arms, and effects are averages over this course. Replications do "
            "not have the same distribution, and the runs do not equal the runs of `simulate`."
        )
    return (
        f"{cause}, and a replayed reward comes from another time than the period that reads it. A policy does not "
        "have the distribution of a solo run, effects are not unbiased, intervals and p-values do not keep their "
        "level, and the runs do not equal the runs of `simulate`."
    )


def _waits(row: WaitingRow, now: int) -> str:
    """Return what a replication waits for, as text."""
    reasons = []
    if row.rewards:
        by = "" if row.due_us is None else f", by {moment(row.due_us)} at the latest"
        if row.due_us is not None and row.due_us <= now:
            by = ", whose time is over: `tick`, or the next call of `assign`, records the default"
        reasons.append(f"it awaits {counted(row.rewards, 'reward')}{by}")
    if row.users - row.held:
        reasons.append(f"it needs {counted(row.users - row.held, 'user')}")
    if row.held:
        reasons.append(f"{counted(row.held, 'entry waits', 'entries wait')} for a disabled arm")
    return " and ".join(reasons) or "a policy has not passed the last checkpoint"
