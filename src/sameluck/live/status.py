"""Answers about an experiment that change nothing: where an assignment stands, how far everything has come."""

from __future__ import annotations

from collections import Counter

from sameluck.experiment import Experiment
from sameluck.live.databases.base import Row, Transaction
from sameluck.live.engine.scheduler import AUDITED
from sameluck.live.records import Description, Status, moment
from sameluck.live.replications import found


def description(id: str, name: str, experiment: Experiment, row: Row) -> Description:
    """An assignment's row, in words."""
    _, replication, owner, arm, position, assigned, exposed, voided, state, *rest = row
    value, source, settled, due = rest
    status = "exposed" if exposed is not None and state == "assigned" else state
    if voided is not None:
        status, value, source, settled, due = "voided", None, None, None, None
    return Description(
        id=id,
        experiment=name,
        replication=replication,
        policy=tuple(experiment.policies)[owner - 1] if owner > 0 else None,
        arm=experiment.arm_names[arm],
        arm_index=arm,
        position=position,
        status=status,
        value=value,
        source=source,
        audit=owner == AUDITED,
        assigned_at=str(moment(assigned)),
        exposed_at=moment(exposed),
        settled_at=moment(settled),
        due_at=moment(due),
    )


def status(transaction: Transaction, id: int, name: str) -> Status:
    """Counts of everything."""
    definition, state, reason = found(transaction.one("experiment_now", experiment=id))
    experiment = Experiment.from_json(definition)
    replications = transaction.all("replications", experiment=id)
    complete = [number for number, state, _, _ in replications if state == "complete"]
    entries: Counter[str] = Counter()
    for kind, source, count in transaction.all("count_entries", experiment=id):
        entries[kind] += count
        entries[source or ""] += count
    (users,) = found(transaction.one("count_assigned", experiment=id))
    (voided,) = found(transaction.one("count_voided", experiment=id))
    return Status(
        name=name,
        status=state,
        reason=reason,
        planned=experiment.replications,
        opened=len(replications),
        complete=len(complete),
        prefix=next((n for n, number in enumerate(complete) if n != number), len(complete)),
        horizon=experiment.horizon,
        users=users,
        settled=entries["settled"] - entries["imported"],
        defaulted=entries["default"],
        imported=entries["imported"],
        waiting=entries["assigned"],
        wanted=entries["wanted"],
        voided=voided,
        answers=dict(map(tuple, transaction.all("answers", experiment=id))),
    )
