"""A policy that is added to a running experiment: what it would need, and adding it."""

from __future__ import annotations

from collections.abc import Sequence

from sameluck.errors import Invalid
from sameluck.experiment import Experiment
from sameluck.live.databases.base import Transaction
from sameluck.live.databases.rows import CurrentRow, NumberRow
from sameluck.live.options import Live, check_fit, experiment_as_run, needs_binary_rewards
from sameluck.live.records import Joining
from sameluck.live.replications import ChallengerProgress, OpenReplications
from sameluck.policies.base import Policy
from sameluck.validation import require_name


def preview(
    transaction: Transaction, replications: OpenReplications, name: str, policy: Policy | str
) -> Joining:
    """What `join` would return; nothing is changed."""
    current = transaction.one(CurrentRow, "experiment_now", experiment=replications.id)
    wider = _with_challenger(transaction, replications, current.definition, name, policy)
    users = transaction.one(NumberRow, "count_assigned", experiment=replications.id).number
    return _summary(name, replications.preview_challenger(transaction, wider.to_json()), users)


def join(
    transaction: Transaction,
    replications: OpenReplications,
    name: str,
    policy: Policy | str,
    now: int,
) -> Joining:
    """Add a policy. It reads the replications begun so far first; a complete one is opened again for it."""
    key = {"experiment": replications.id}
    definition, status, reason = transaction.one(CurrentRow, "lock_experiment", **key)
    if status == "failed":
        raise Invalid(f"cannot add a policy: the experiment's status is failed ({reason})")
    users = transaction.one(NumberRow, "count_assigned", **key).number
    wider = _with_challenger(transaction, replications, definition, name, policy)
    open_before = transaction.one(NumberRow, "count_open", **key).number
    progress = replications.add_challenger(transaction, wider.to_json(), now)
    open_now = transaction.one(NumberRow, "count_open", **key).number
    drained = status == "stopped" and not open_before  # one that was stopped at once stays stopped
    if open_now and (status == "complete" or drained):
        again = "running" if status == "complete" else "draining"
        transaction.run("set_status", **key, status=again, reason=reason)
    return _summary(name, progress, users)


def _with_challenger(
    transaction: Transaction,
    replications: OpenReplications,
    definition: str,
    name: str,
    policy: Policy | str,
) -> Experiment:
    before, live = Experiment.from_json(definition), replications.live
    require_name("a policy's name", name)
    if name in before.policies:
        raise Invalid(f"the experiment has a policy {name!r} already; choose another name")
    if live.aa:
        raise Invalid(
            "cannot add a policy to an A/A rehearsal: every policy plays the control's rule. Start another experiment"
        )
    wider = before.replace(policies={**before.policies, name: policy})
    if isinstance(live.batch, int):
        wider = experiment_as_run(wider, Live(batch={name: live.batch}))
    check_fit(wider, live)
    others = transaction.find(NumberRow, "not_binary", experiment=replications.id)
    if others and needs_binary_rewards(wider):
        raise Invalid(f"policy {name!r} needs rewards 0 and 1, but the experiment has had others")
    return wider


def _summary(name: str, progress: Sequence[ChallengerProgress], users: int) -> Joining:
    finished, replayed, wanted = map(sum, zip(*progress, strict=True))
    return Joining(name, len(progress), finished, replayed, wanted, users)
