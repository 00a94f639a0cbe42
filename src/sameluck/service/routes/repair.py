"""Repair: the ledger is brought in line with the policies again, after an experiment has failed."""

from __future__ import annotations

from fastapi import APIRouter, Response

from sameluck.service.access import ManageCaller, ReadCaller
from sameluck.service.documents import LedgerChangesModel, Name, Reason, respond
from sameluck.service.routes.control import WITHOUT_REASON
from sameluck.service.routes.policies import rederivation_record

router = APIRouter(prefix="/v1/experiments/{name}/repair", tags=["control"])


@router.post("", response_model=LedgerChangesModel)
async def repair(name: Name, caller: ManageCaller, body: Reason = WITHOUT_REASON) -> Response:
    """Bring the ledger in line with the policies; rewards stay as they are. Resume the experiment afterwards."""
    done = await caller.experiments.change(
        caller.name, name, lambda live: live.repair(confirm=True, reason=body.reason)
    )
    return respond(rederivation_record(done))


@router.post("/preview", response_model=LedgerChangesModel)
async def preview_repair(name: Name, caller: ReadCaller) -> Response:
    """Return what a repair would change; nothing is changed."""
    shown = await caller.experiments.read(name, lambda live: live.repair())
    return respond(rederivation_record(shown))
