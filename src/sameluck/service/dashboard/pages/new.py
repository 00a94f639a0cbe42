"""A new experiment: its form, a preview of its plan, and creating it."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from pydantic import ValidationError

from sameluck import text_forms
from sameluck.errors import SameluckError
from sameluck.inference import Plan
from sameluck.policies.base import POLICIES
from sameluck.service.access import Caller
from sameluck.service.dashboard.drafts import Draft
from sameluck.service.dashboard.page_responses import PageRoute, page, unless_known
from sameluck.service.dashboard.visitors import Changing, Visitor, Watching, path_of, see
from sameluck.service.routes.experiments import NewExperiment, create_experiment

router = APIRouter(route_class=PageRoute)


@router.get("/new")
async def show_new(request: Request, visitor: Watching) -> Response:
    """The form; once it was sent, or while it is filled in, what the experiment would take."""
    draft = Draft.of(dict(request.query_params))
    problem, found = "", None
    if request.query_params:
        try:
            found = await visitor.experiments.read_store(
                lambda _: draft.plan(visitor.service.limits)
            )
        except SameluckError as error:
            problem = str(error)
    return unless_known(request, _page(visitor, draft, found, problem))


@router.post("/new")
async def create(sent: Changing) -> Response:
    """Create the experiment; it enrols nobody until it is started on its page."""
    visitor, form = sent
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
        visitor.session.notices.append("Created. It enrols nobody until you start it, below.")
        return see(path_of(body.name))
    return _page(visitor, draft, None, problem, 422)


def _page(
    visitor: Visitor, draft: Draft, found: Plan | None, problem: str, status: int = 200
) -> Response:
    return page(
        "new.html",
        status,
        visitor=visitor,
        fields=draft.fields,
        problem=problem,
        plan=found,
        naive=next((row for row in found.rows if row.design == "naive"), None) if found else None,
        examples=[text_forms.example(kind) for kind in POLICIES.values()],
    )
