"""Page of a new experiment: its form, a preview of its plan, and its creation."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from pydantic import ValidationError

from sameluck.errors import SameluckError
from sameluck.inference import Plan
from sameluck.service.access import Caller
from sameluck.service.dashboard.drafts import Draft
from sameluck.service.dashboard.page_responses import PageRoute, page, unless_unchanged
from sameluck.service.dashboard.visitors import CurrentVisitor, SentForm, Visitor, path_of, redirect
from sameluck.service.routes.experiments import NewExperiment, create_experiment

router = APIRouter(route_class=PageRoute)


@router.get("/new")
async def show_new(request: Request, visitor: CurrentVisitor) -> Response:
    """Show the form and, when it is filled in, the plan of the experiment."""
    draft = Draft.of(dict(request.query_params))
    problem, previewed = "", None
    if request.query_params:
        try:
            limits = visitor.service.limits
            previewed = await visitor.experiments.compute(
                lambda: draft.plan(limits), str(draft.fields)
            )
        except SameluckError as error:
            problem = str(error)
    return unless_unchanged(request, _page(visitor, draft, previewed, problem))


@router.post("/new")
async def create(submitted: SentForm) -> Response:
    """Create the experiment; it enrols no unit until it is started on its page."""
    visitor, form = submitted
    draft = Draft.of(form)
    try:
        body = NewExperiment(**draft.document())
        await create_experiment(body, Caller(visitor.name, visitor.service))
    except ValidationError as error:
        first = error.errors()[0]
        problem = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    except SameluckError as error:
        problem = str(error)
    else:
        visitor.session.notices.append("Created. It enrols no users until you start it below.")
        return redirect(path_of(body.name))
    return _page(visitor, draft, None, problem, 422)


def _page(
    visitor: Visitor, draft: Draft, plan: Plan | None, problem: str, status: int = 200
) -> Response:
    return page(
        "new.html",
        status,
        visitor=visitor,
        fields=draft.fields,
        problem=problem,
        plan=plan,
        naive=next((row for row in plan.rows if row.design == "naive"), None) if plan else None,
    )
