"""Policies: add after a preview, remove, replace by this server's code; and repair of the ledger."""

from __future__ import annotations

from fastapi import APIRouter, Response
from pydantic import Field, StrictStr

from sameluck.live.control.policy_changes import LedgerChanges
from sameluck.live.experiment import LiveExperiment
from sameluck.live.records import AddedPolicy
from sameluck.service.access import ManageCaller, ReadCaller
from sameluck.service.documents import (
    AddedPolicyModel,
    Body,
    LedgerChangesModel,
    Name,
    QueriedReason,
    Reason,
    Text,
    respond,
)
from sameluck.service.routes.control import WITHOUT_REASON

router = APIRouter(prefix="/v1/experiments/{name}")


class NewPolicy(Body):
    """A policy in text form, such as `ucb1(alpha=2)`."""

    name: Text = Field(min_length=1)
    policy: StrictStr = Field(min_length=1, max_length=1_000)


class PolicyNames(Body):
    """Policies of an experiment."""

    policies: list[Text] = Field(min_length=1)


class PoliciesWithReason(PolicyNames, Reason):
    """Policies of an experiment, and why they are changed."""


def _respond_changes(changes: LedgerChanges) -> Response:
    differences = [difference._asdict() for difference in changes.differences]
    return respond({**changes._asdict(), "differences": differences, "sentence": str(changes)})


def _record(added: AddedPolicy) -> dict[str, object]:
    return {**added._asdict(), "sentence": str(added)}


@router.post("/policies", status_code=201, response_model=AddedPolicyModel, tags=["policies"])
async def add_policy(name: Name, body: NewPolicy, caller: ManageCaller) -> Response:
    """Add a challenger, even to a finished experiment: it replays the ledger first."""

    def work(live: LiveExperiment) -> AddedPolicy:
        caller.service.limits.check_sizes(policies=len(live.experiment.policies) + 1)
        return live.add_policy(body.name, body.policy)

    return respond(_record(await caller.experiments.change(caller.name, name, work)), 201)


@router.post("/policies/preview", response_model=AddedPolicyModel, tags=["policies"])
async def preview_policy(name: Name, body: NewPolicy, caller: ReadCaller) -> Response:
    """Return what adding a challenger would return; nothing is changed."""

    def work(live: LiveExperiment) -> AddedPolicy:
        caller.service.limits.check_sizes(policies=len(live.experiment.policies) + 1)
        return live.preview_policy(body.name, body.policy)

    return respond(_record(await caller.experiments.look(name, work, "preview", str(body))))


@router.delete("/policies/{policy:path}", response_model=LedgerChangesModel, tags=["policies"])
async def remove_policy(
    name: Name, policy: Name, caller: ManageCaller, reason: QueriedReason = ""
) -> Response:
    """Remove a policy and its results; rewards requested for it stay. The control cannot be removed."""
    changes = await caller.experiments.change(
        caller.name, name, lambda live: live.remove_policy(policy, reason=reason)
    )
    return _respond_changes(changes)


@router.post("/policies/code", response_model=LedgerChangesModel, tags=["policies"])
async def replace_policy_code(
    name: Name, body: PoliciesWithReason, caller: ManageCaller
) -> Response:
    """Continue policies with the code of this server instead of the code that the experiment was started with."""

    def work(live: LiveExperiment) -> LedgerChanges:
        return live.replace_policy_code(body.policies, confirm=True, reason=body.reason)

    return _respond_changes(await caller.experiments.change(caller.name, name, work))


@router.post("/policies/code/preview", response_model=LedgerChangesModel, tags=["policies"])
async def preview_policy_code(name: Name, body: PolicyNames, caller: ReadCaller) -> Response:
    """Return what continuing policies with this server's code would change; nothing is changed."""

    def work(live: LiveExperiment) -> LedgerChanges:
        return live.replace_policy_code(body.policies)

    return _respond_changes(await caller.experiments.look(name, work, "code", *body.policies))


@router.post("/repair", response_model=LedgerChangesModel, tags=["control"])
async def repair(name: Name, caller: ManageCaller, body: Reason = WITHOUT_REASON) -> Response:
    """Bring the ledger in line with the policies; rewards stay as they are. Resume the experiment afterwards."""
    changes = await caller.experiments.change(
        caller.name, name, lambda live: live.repair(confirm=True, reason=body.reason)
    )
    return _respond_changes(changes)


@router.post("/repair/preview", response_model=LedgerChangesModel, tags=["control"])
async def preview_repair(name: Name, caller: ReadCaller) -> Response:
    """Return what a repair would change; nothing is changed."""
    return _respond_changes(
        await caller.experiments.look(name, lambda live: live.repair(), "repair")
    )
