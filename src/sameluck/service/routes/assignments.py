"""Assignments: an arm for an arriving unit; exposure, void and details of an assignment."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from fastapi import APIRouter, Response
from pydantic import BaseModel
from starlette.types import Receive, Scope, Send

from sameluck.live.records import ASSIGNED
from sameluck.service.access import ReadCaller, ServeCaller
from sameluck.service.direct_route import DirectRoute
from sameluck.service.documents import (
    AssignmentDetailsModel,
    AssignmentModel,
    Body,
    Id,
    Name,
    UnitField,
    item_of,
    respond,
    respond_record,
)
from sameluck.service.problems import ItemError

router = APIRouter(tags=["assignments"], route_class=DirectRoute)


class Arrival(Body):
    """A unit that has arrived."""

    unit: UnitField


class Arrivals(Body):
    """Units that have arrived."""

    units: list[Any]  # an invalid unit gets an error in its place


class Units(Body):
    """Units whose arm was not delivered."""

    units: list[UnitField]


class Delivery(Response):
    """A response that is sent unless its client has gone, which is then reported.

    A request may wait long before it is read, while a service starts for instance. Its client gives up, and asks to
    void the assignment before it is made.
    """

    def __init__(self, response: Response, undelivered: Callable[[], None]) -> None:
        self._response, self._undelivered = response, undelivered

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if is_gone(receive):
            self._undelivered()
        else:
            await self._response(scope, receive, send)


def is_gone(receive: Receive) -> bool:
    """Return whether the client has closed its connection, after the whole request was received."""
    waiting = receive().__await__()
    try:
        # Without a task, which would cost more than the rest of the response: if it must wait, the client is there.
        next(waiting)
    except StopIteration as end:
        return bool(end.value["type"] == "http.disconnect")
    waiting.close()
    return False


class AssignmentList(BaseModel):
    """An answer for each unit, in the same order."""

    answers: list[AssignmentModel | ItemError]  # type: ignore[valid-type]


@router.post(
    "/v1/experiments/{name}/assignments",
    status_code=201,
    response_model=AssignmentModel,
    responses={
        200: {"model": AssignmentModel, "description": "The same arm again, or the fallback arm"}
    },
)
async def assign(name: Name, body: Arrival, caller: ServeCaller) -> Response:
    """Return the arm to show a unit: 201 if it was enrolled by this call, 200 otherwise. It is safe to repeat."""
    experiments = caller.experiments
    answer = await experiments.assign(name, body.unit)
    response = respond_record(answer, 201 if answer.reason == ASSIGNED else 200)
    return Delivery(response, partial(experiments.mark_undelivered, name, [body.unit], [answer]))


@router.post("/v1/experiments/{name}/assignments/batch", response_model=AssignmentList)
async def assign_batch(name: Name, body: Arrivals, caller: ServeCaller) -> Response:
    """Return the arms to show several units; an error takes the place of its answer."""
    caller.service.limits.check_items("units", len(body.units))
    experiments = caller.experiments
    answers = await experiments.assign_many(name, body.units)
    response = respond({"answers": [item_of(answer) for answer in answers]})
    return Delivery(response, partial(experiments.mark_undelivered, name, body.units, answers))


@router.post("/v1/experiments/{name}/assignments/void", status_code=204)
async def void_units(name: Name, body: Units, caller: ServeCaller) -> None:
    """Void the assignments of units whose arm was not delivered because the answer was lost. It is safe to repeat."""
    caller.service.limits.check_items("units", len(body.units))
    await caller.experiments.void_units(name, body.units)


@router.post("/v1/assignments/{id}/exposure", status_code=204)
async def expose(id: Id, caller: ServeCaller) -> None:
    """Report that the unit has seen its arm. It is safe to repeat."""
    await caller.experiments.expose(id)


@router.post("/v1/assignments/{id}/void", status_code=204)
async def void(id: Id, caller: ServeCaller) -> None:
    """Report that the unit never saw its arm, so that another unit gets its entry. It is safe to repeat."""
    await caller.experiments.void(id)


@router.get("/v1/assignments/{id}", response_model=AssignmentDetailsModel)
async def describe(id: Id, caller: ReadCaller) -> Response:
    """Return all details of an assignment, for the analyst."""
    return respond((await caller.experiments.describe(id))._asdict())
