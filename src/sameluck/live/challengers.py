"""A policy that joins late: what it would come to, and letting it in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sameluck.errors import Invalid
from sameluck.experiment import Experiment
from sameluck.live.databases.base import Transaction
from sameluck.live.options import Live, check_fit, only_binary, played
from sameluck.live.records import Joining
from sameluck.live.replications import ChallengerProgress, OpenReplications, found
from sameluck.validation import require_name


def preview(
    transaction: Transaction, replications: OpenReplications, challenger: str, policy: Any
) -> Joining:
    """What `join` would answer; nothing is changed."""
    definition, _, _ = found(transaction.one("experiment_now", experiment=replications.id))
    wider = _with_challenger(transaction, replications, definition, challenger, policy)
    (users,) = found(transaction.one("count_assigned", experiment=replications.id))
    return _summary(challenger, replications.preview(transaction, wider.to_json()), users)


def join(
    transaction: Transaction, replications: OpenReplications, challenger: str, policy: Any, now: int
) -> Joining:
    """Let a challenger walk through every replication begun; one that was over goes on for it."""
    definition, status, reason = found(
        transaction.one("lock_experiment", experiment=replications.id)
    )
    if status == "failed":
        raise Invalid(f"the experiment has failed ({reason}); nobody can join it")
    (users,) = found(transaction.one("count_assigned", experiment=replications.id))
    wider = _with_challenger(transaction, replications, definition, challenger, policy)
    (left_open,) = found(transaction.one("count_open", experiment=replications.id))
    progress = replications.join(transaction, wider.to_json(), now)
    (opened,) = found(transaction.one("count_open", experiment=replications.id))
    drained = status == "stopped" and not left_open  # what was stopped at once stays so
    if opened and (status == "complete" or drained):
        again = "running" if status == "complete" else "draining"
        transaction.run("set_status", experiment=replications.id, status=again, reason=reason)
    return _summary(challenger, progress, users)


def _with_challenger(
    transaction: Transaction,
    replications: OpenReplications,
    definition: str,
    name: str,
    policy: Any,
) -> Experiment:
    before, live = Experiment.from_json(definition), replications.live
    require_name("a policy's name", name)
    if name in before.policies:
        raise Invalid(f"the experiment has a policy {name!r} already; choose another name")
    if live.aa:
        raise Invalid(
            "an A/A rehearsal takes no challenger: every policy plays the control's rule. Start another experiment"
        )
    wider = before.replace(policies={**before.policies, name: policy})
    if isinstance(live.batch, int):
        wider = played(wider, Live(batch={name: live.batch}))
    check_fit(wider, live)
    others = only_binary(wider) and transaction.one("not_binary", experiment=replications.id)
    if others:
        raise Invalid(f"policy {name!r} needs rewards 0 and 1, but the experiment has had others")
    return wider


def _summary(name: str, progress: Sequence[ChallengerProgress], users: int) -> Joining:
    finished = sum(one.finished for one in progress)
    replayed = sum(one.replayed for one in progress)
    wanted = sum(one.wanted for one in progress)
    return Joining(name, len(progress), finished, replayed, wanted, users)
