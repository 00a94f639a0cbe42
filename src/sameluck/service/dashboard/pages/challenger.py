"""Page of a challenger: preview its cost, and add it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from sameluck.errors import SameluckError
from sameluck.live.experiment import LiveExperiment
from sameluck.live.records import AddedPolicy
from sameluck.service.dashboard.page_responses import PageRoute, page
from sameluck.service.dashboard.pages.controls import change
from sameluck.service.dashboard.visitors import CurrentVisitor, SentForm
from sameluck.service.documents import Name

router = APIRouter(prefix="/experiments/{name}/challenger", route_class=PageRoute)

Text = Annotated[str, Query(max_length=1_000)]


@router.get("")
async def preview(
    name: Name, visitor: CurrentVisitor, policy_name: Text = "", policy: Text = ""
) -> Response:
    """Show the form and, once it is filled in, the cost of the challenger; nothing is changed."""
    problem, added = "", None

    def work(live: LiveExperiment) -> AddedPolicy:
        visitor.service.limits.check_sizes(policies=len(live.experiment.policies) + 1)
        return live.preview_policy(policy_name, policy)

    if policy_name or policy:
        try:
            added = await visitor.experiments.look(name, work, "preview", policy_name, policy)
        except SameluckError as error:
            problem = str(error)
    else:
        await visitor.experiments.read(name, lambda _: None)  # raises `Unknown`
    return page(
        "challenger.html",
        422 if problem else 200,
        visitor=visitor,
        name=name,
        policy_name=policy_name,
        policy=policy,
        problem=problem,
        added=added,
    )


@router.post("")
async def add(name: Name, submitted: SentForm) -> Response:
    visitor, form = submitted
    policy_name, policy = form["policy_name"], form["policy"]

    def work(live: LiveExperiment) -> None:
        visitor.service.limits.check_sizes(policies=len(live.experiment.policies) + 1)
        live.add_policy(policy_name, policy)

    return await change(visitor, name, work, f"{policy_name} was added.")
