"""Policies: added to an experiment after a preview, removed, or continued with the code of this server."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import Field, StrictStr

from sameluck.live.control.policy_migration import LedgerChanges
from sameluck.live.experiment import LiveExperiment
from sameluck.live.records import AddedPolicy
from sameluck.service.access import Caller, ManageCaller, ReadCaller
from sameluck.service.documents import (
    AddedPolicyModel,
    Body,
    LedgerChangesModel,
    Name,
    Reason,
    Text,
    respond,
)

router = APIRouter(prefix="/v1/experiments/{name}/policies", tags=["policies"])


class NewPolicy(Body):
    """A policy in text form, such as `ucb1(alpha=2)`."""

    name: Text = Field(min_length=1)
    policy: StrictStr = Field(min_length=1, max_length=1_000)


class PolicyNames(Body):
    """Policies of an experiment."""

    policies: list[Text] = Field(min_length=1)


class PoliciesWithReason(PolicyNames, Reason):
    """Policies of an experiment, and why they are changed."""


def rederivation_record(done: LedgerChanges) -> dict[str, object]:
    """What deriving a ledger again changes, as a document."""
    differences = [one._asdict() for one in done.differences]
    return {**done._asdict(), "differences": differences, "sentence": str(done)}


def _record(joining: AddedPolicy) -> dict[str, object]:
    return {**joining._asdict(), "sentence": str(joining)}


def _check(caller: Caller, live: LiveExperiment) -> None:
    policies = len(live.experiment.policies) + 1
    caller.service.limits.check_experiment(0, policies, 0, 0)


@router.post("", status_code=201, response_model=AddedPolicyModel)
async def add_policy(name: Name, body: NewPolicy, caller: ManageCaller) -> Response:
    """Add a challenger, even to a finished experiment: it replays the ledger first."""

    def work(live: LiveExperiment) -> AddedPolicy:
        _check(caller, live)
        return live.add_policy(body.name, body.policy)

    joining = await caller.experiments.change(caller.name, name, work)
    return respond(_record(joining), 201)


@router.post("/preview", response_model=AddedPolicyModel)
async def preview_policy(name: Name, body: NewPolicy, caller: ReadCaller) -> Response:
    """Return what adding a challenger would return; nothing is changed."""

    def work(live: LiveExperiment) -> AddedPolicy:
        _check(caller, live)
        return live.preview_policy(body.name, body.policy)

    return respond(_record(await caller.experiments.read(name, work)))


@router.delete("/{policy:path}", response_model=LedgerChangesModel)
async def remove_policy(
    name: Name,
    policy: Name,
    caller: ManageCaller,
    reason: Annotated[str, Query(max_length=200)] = "",
) -> Response:
    """Remove a policy: its results go, the rewards that were requested for it stay. The control cannot be removed."""
    done = await caller.experiments.change(
        caller.name, name, lambda live: live.remove_policy(policy, reason=reason)
    )
    return respond(rederivation_record(done))


@router.post("/code", response_model=LedgerChangesModel)
async def replace_policy_code(
    name: Name, body: PoliciesWithReason, caller: ManageCaller
) -> Response:
    """Continue with the code that this server has for some policies, in place of the experiment's."""

    def work(live: LiveExperiment) -> LedgerChanges:
        return live.replace_policy_code(body.policies, confirm=True, reason=body.reason)

    return respond(rederivation_record(await caller.experiments.change(caller.name, name, work)))


@router.post("/code/preview", response_model=LedgerChangesModel)
async def preview_policy_code(name: Name, body: PolicyNames, caller: ReadCaller) -> Response:
    """Return what continuing with this server's code of some policies would change; nothing is changed."""
    shown = await caller.experiments.read(
        name, lambda live: live.replace_policy_code(body.policies)
    )
    return respond(rederivation_record(shown))
