"""Arms: disabled, so that nobody sees them, and enabled again."""

from __future__ import annotations

from fastapi import APIRouter, Response
from pydantic import StrictStr

from sameluck.service.access import ManageCaller
from sameluck.service.documents import Name, Reason, StatusModel
from sameluck.service.routes.control import WITHOUT_REASON, changed

router = APIRouter(prefix="/v1/experiments/{name}/arms/{arm:path}", tags=["arms"])


class Disabling(Reason):
    """Why, and the fallback arm from now on."""

    fallback: StrictStr | None = None


AS_IT_IS = Disabling()


@router.post("/disable", response_model=StatusModel)
async def disable(
    name: Name, arm: Name, caller: ManageCaller, body: Disabling = AS_IT_IS
) -> Response:
    """Show an arm to nobody: no call for an arm that begins after this is answered gets it."""
    fallback, reason = body.fallback, body.reason
    return await changed(
        caller, name, lambda live: live.disable_arm(arm, fallback=fallback, reason=reason)
    )


@router.post("/enable", response_model=StatusModel)
async def enable(
    name: Name, arm: Name, caller: ManageCaller, body: Reason = WITHOUT_REASON
) -> Response:
    """Show a disabled arm again."""
    return await changed(caller, name, lambda live: live.enable_arm(arm, reason=body.reason))
