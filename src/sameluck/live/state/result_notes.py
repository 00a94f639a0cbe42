"""Notes on the results of a live experiment: what they wait for, disabled arms, and arms that moved."""

from __future__ import annotations

from sameluck.experiment import Experiment
from sameluck.live.databases.rows import NumberRow, TextRow, WaitingRow
from sameluck.live.records import moment
from sameluck.live.state.ledger import Ledger
from sameluck.wording import counted


def notes(ledger: Ledger, complete: int, now: int) -> tuple[str, ...]:
    """Return sentences on results that use the first `complete` replications, at a time in microseconds."""
    key = {"experiment": ledger.id, "replication": complete}
    later = ledger.transaction.fetch_one(NumberRow, "count_complete_after", **key).number
    names = ledger.engine.arm_names
    disabled = ledger.transaction.fetch_all(NumberRow, "disabled_arms", experiment=ledger.id)
    moving = ledger.transaction.fetch_all(TextRow, "rehearsed_on", experiment=ledger.id)
    sentences = [
        moving_caution(ledger.engine.experiment, row.text) for row in dict.fromkeys(moving)
    ]
    if later:
        row = ledger.transaction.fetch_one(WaitingRow, "waiting", **key)
        sentences.append(
            f"Results use the first {counted(complete, 'replication')} and wait for replication {complete}, although "
            f"{counted(later, 'later replication is', 'later replications are')} complete: {_waits(row, now)}."
        )
    if disabled:
        arms = ", ".join(names[arm] for (arm,) in disabled)
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
