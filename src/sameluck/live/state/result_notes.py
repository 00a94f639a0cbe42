"""What is to be known about the results of a live experiment: what they wait for, arms that moved; in sentences."""

from __future__ import annotations

from sameluck.experiment import Experiment
from sameluck.live.databases.rows import NumberRow, TextRow, WaitingRow
from sameluck.live.records import moment
from sameluck.live.state.ledger import Ledger
from sameluck.wording import counted


def notes(ledger: Ledger, complete: int, now: int) -> tuple[str, ...]:
    """Why results use no more than the first `complete` replications, at a time in microseconds."""
    key = {"experiment": ledger.id, "replication": complete}
    later = ledger.transaction.fetch_one(NumberRow, "count_complete_after", **key).number
    names = ledger.engine.arm_names
    disabled = ledger.transaction.fetch_all(NumberRow, "disabled_arms", experiment=ledger.id)
    moving = ledger.transaction.fetch_all(TextRow, "rehearsed_on", experiment=ledger.id)
    sentences = [moving_caution(ledger.engine.experiment, *one) for one in dict.fromkeys(moving)]
    if later:
        row = ledger.transaction.fetch_one(WaitingRow, "waiting", **key)
        sentences.append(
            f"Results use the first {counted(complete, 'replication')} and wait for replication {complete}, although "
            f"{counted(later, 'later one is', 'later ones are')} complete: {_waits(row, now)}."
        )
    if disabled:
        arms = ", ".join(names[arm] for (arm,) in disabled)
        sentences.append(
            f"Disabled: {arms}. Replications that need a disabled arm do not end, and the complete prefix stays "
            "short; its anytime interval is valid, its mean slightly biased as after a plain stop."
        )
    return tuple(sentences)


def moving_caution(experiment: Experiment, environment: str) -> str:
    """What falls in an experiment that was rehearsed on arms that move, such as `drifting(...)`."""
    said = f"The rewards of an arm are not i.i.d.: {environment} changed them from user to user"
    if not experiment.design.shares_rewards:
        return (
            f"{said}. Later replications met other arms: effects are averages over this course, and it does not hold "
            "that replications have one law, nor that the runs equal those of `simulate`."
        )
    return (
        f"{said}, and a reward that is replayed comes from another time than the period that reads it. It does not "
        "hold that each policy has the law it has alone, that effects are unbiased, that intervals and p-values keep "
        "their level, and that the runs equal those of `simulate`."
    )


def _waits(row: WaitingRow, now: int) -> str:
    """What a replication waits for."""
    parts = []
    if row.rewards:
        by = "" if row.due_us is None else f", by {moment(row.due_us)} at the latest"
        if row.due_us is not None and row.due_us <= now:
            by = ", whose time is over: `tick`, or the next call of `assign`, records the default"
        parts.append(f"it awaits {counted(row.rewards, 'reward')}{by}")
    if row.users - row.held:
        parts.append(f"it needs {counted(row.users - row.held, 'user')}")
    if row.held:
        parts.append(f"{counted(row.held, 'entry waits', 'entries wait')} for a disabled arm")
    return " and ".join(parts) or "a policy has not passed the last checkpoint"
