"""A policy that joins late: what it would come to, and letting it in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sameluck.errors import require
from sameluck.experiment import Experiment, check_name
from sameluck.live.answers import Joining
from sameluck.live.database import Transaction
from sameluck.live.options import Live, check_fit, only_binary, played
from sameluck.live.stage import Joined, Stage, found


def preview(transaction: Transaction, stage: Stage, challenger: str, policy: Any) -> Joining:
    """What `join` would answer; nothing is changed."""
    definition, _, _ = found(transaction.one("experiment_now", experiment=stage.id))
    wider = _with_challenger(transaction, stage, definition, challenger, policy)
    (users,) = found(transaction.one("count_assigned", experiment=stage.id))
    return _summary(challenger, stage.preview(transaction, wider.to_json()), users)


def join(transaction: Transaction, stage: Stage, challenger: str, policy: Any, now: int) -> Joining:
    """Let a challenger walk through every replication begun; one that was over goes on for it."""
    definition, status, reason = found(transaction.one("lock_experiment", experiment=stage.id))
    require(status != "failed", f"the experiment has failed ({reason}); nobody can join it")
    (users,) = found(transaction.one("count_assigned", experiment=stage.id))
    wider = _with_challenger(transaction, stage, definition, challenger, policy)
    (left_open,) = found(transaction.one("count_open", experiment=stage.id))
    joined = stage.join(transaction, wider.to_json(), now)
    (opened,) = found(transaction.one("count_open", experiment=stage.id))
    drained = status == "stopped" and not left_open  # what was stopped at once stays so
    if opened and (status == "complete" or drained):
        again = "running" if status == "complete" else "draining"
        transaction.run("set_status", experiment=stage.id, status=again, reason=reason)
    return _summary(challenger, joined, users)


def _with_challenger(
    transaction: Transaction, stage: Stage, definition: str, name: str, policy: Any
) -> Experiment:
    before, live = Experiment.from_json(definition), stage.live
    check_name("a policy's name", name)
    require(
        name not in before.policies,
        f"the experiment has a policy {name!r} already; choose another name",
    )
    require(
        not live.aa,
        "an A/A rehearsal takes no challenger: every policy plays the control's rule. Start another experiment",
    )
    wider = before.replace(policies={**before.policies, name: policy})
    if isinstance(live.batch, int):
        wider = played(wider, Live(batch={name: live.batch}))
    check_fit(wider, live)
    others = only_binary(wider) and transaction.one("not_binary", experiment=stage.id)
    require(not others, f"policy {name!r} needs rewards 0 and 1, but the experiment has had others")
    return wider


def _summary(name: str, joined: Sequence[Joined], users: int) -> Joining:
    finished = sum(one.finished for one in joined)
    replayed = sum(one.replayed for one in joined)
    wanted = sum(one.wanted for one in joined)
    return Joining(name, len(joined), finished, replayed, wanted, users)
