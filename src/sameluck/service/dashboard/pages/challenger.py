"""Page of a challenger: preview its cost, and add it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from sameluck import text_forms
from sameluck.errors import SameluckError
from sameluck.live.experiment import LiveExperiment
from sameluck.live.records import AddedPolicy
from sameluck.policies.base import POLICIES
from sameluck.service.dashboard.page_responses import PageRoute, page
from sameluck.service.dashboard.pages.controls import change
from sameluck.service.dashboard.visitors import CurrentVisitor, SentForm, Visitor
from sameluck.service.documents import Name

router = APIRouter(prefix="/experiments/{name}/challenger", route_class=PageRoute)

Text = Annotated[str, Query(max_length=1_000)]


@router.get("")
async def preview(
    name: Name, visitor: CurrentVisitor, policy_name: Text = "", policy: Text = ""
) -> Response:
    """Show the form and, once it is filled in, the cost of the challenger; nothing is changed."""
    problem, added = "", None
    if policy_name or policy:
        try:
            added = await visitor.experiments.read(
                name, lambda live: _preview(visitor, live, policy_name, policy)
            )
        except SameluckError as error:
            problem = str(error)
    else:
        await visitor.experiments.read(name, lambda _: None)  # raises `Unknown`
    examples = [text_forms.example(policy_class) for policy_class in POLICIES.values()]
    return page(
        "challenger.html",
        422 if problem else 200,
        visitor=visitor,
        name=name,
        policy_name=policy_name,
        policy=policy,
        problem=problem,
        added=added,
        examples=examples,
    )


@router.post("")
async def add(name: Name, submitted: SentForm) -> Response:
    """Add the challenger."""
    visitor, form = submitted
    policy_name, policy = form.get("policy_name", ""), form.get("policy", "")

    def work(live: LiveExperiment) -> None:
        _check_room(visitor, live)
        live.add_policy(policy_name, policy)

    return await change(visitor, name, work, f"{policy_name} was added.")


def _preview(visitor: Visitor, live: LiveExperiment, policy_name: str, policy: str) -> AddedPolicy:
    _check_room(visitor, live)
    return live.preview_policy(policy_name, policy)


def _check_room(visitor: Visitor, live: LiveExperiment) -> None:
    policies = len(live.experiment.policies) + 1
    visitor.service.limits.check_experiment(0, policies, 0, 0)
