"""Units: one erased, or all forgotten, so that nothing leads from a user to the rewards."""

from __future__ import annotations

from fastapi import APIRouter, Response
from pydantic import BaseModel

from sameluck.service.access import ManageCaller
from sameluck.service.documents import Name, Reason, StatusModel, UnitField, respond
from sameluck.service.routes.control import WITHOUT_REASON, changed

router = APIRouter(prefix="/v1/experiments/{name}", tags=["units"])


class Erasure(Reason):
    """The unit to erase."""

    unit: UnitField


class Erased(BaseModel):
    """How many assignments the unit had."""

    assignments: int


@router.post("/erase", response_model=Erased)
async def erase_unit(name: Name, body: Erasure, caller: ManageCaller) -> Response:
    """Erase a unit: nothing in the database leads from it to its rewards, which stay. It is safe to repeat."""
    erased = await caller.experiments.change(
        caller.name, name, lambda live: live.erase(body.unit, reason=body.reason)
    )
    return respond({"assignments": erased})


@router.post("/forget-units", response_model=StatusModel)
async def forget_units(name: Name, caller: ManageCaller, body: Reason = WITHOUT_REASON) -> Response:
    """Destroy the key of the hashes of the units of an experiment that has ended. It is safe to repeat."""
    return await changed(caller, name, lambda live: live.forget_units(reason=body.reason))
