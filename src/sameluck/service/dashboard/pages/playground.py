"""Page of the playground: policies on simulated users, without code."""

from __future__ import annotations

from anyio import to_thread
from fastapi import APIRouter, Request, Response

from sameluck.errors import SameluckError
from sameluck.service.dashboard.outcomes import outcome_of
from sameluck.service.dashboard.page_responses import PageRoute, page, unless_unchanged
from sameluck.service.dashboard.playground_settings import CHOICES, OPTIONS, Setting
from sameluck.service.dashboard.playground_simulations import Simulations
from sameluck.service.dashboard.visitors import CurrentVisitor

router = APIRouter(route_class=PageRoute)


@router.get("/playground")
async def show_playground(request: Request, visitor: CurrentVisitor) -> Response:
    """Show the form with its answer, or with the progress of the simulation."""
    setting = Setting.of(dict(request.query_params))
    simulations: Simulations = request.app.state.simulations
    problem, simulation, start_path = "", None, ""
    try:
        simulation = await simulations.ask(setting.question(visitor.service.limits))
        problem, start_path = simulation.problem, setting.start_path
    except SameluckError as error:
        problem = str(error)
    answer = simulation.answer if simulation else None
    outcome = await to_thread.run_sync(outcome_of, answer, setting.means) if answer else None
    response = page(
        "playground.html",
        visitor=visitor,
        fields=setting.fields,
        choices=CHOICES,
        options=OPTIONS,
        problem=problem,
        share=simulation.share if simulation and not simulation.has_ended else None,
        outcome=outcome,
        start_path=start_path if visitor.may_manage else "",
    )
    return unless_unchanged(request, response)
