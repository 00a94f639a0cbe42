"""What operators do to an experiment: start, pause, resume, stop, extend windows. The history has who did it."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import APIRouter, Response
from pydantic import Field, StrictBool, StrictInt

from sameluck.errors import Conflict
from sameluck.live.experiment import LiveExperiment
from sameluck.live.start import NOT_STARTED
from sameluck.service.access import Caller, ManageCaller
from sameluck.service.documents import (
    Name,
    Number,
    Reason,
    StatusModel,
    WindowExtensionModel,
    respond,
)

router = APIRouter(prefix="/v1/experiments/{name}", tags=["control"])

WITHOUT_REASON = Reason()


class StopRequest(Reason):
    """How to stop: complete what has begun, or at once, or after a number of replications."""

    drain: StrictBool = True
    after_replications: StrictInt | None = None


DRAINING = StopRequest()


class MoreTime(Reason):
    """By how many seconds the rewards that are awaited may come later."""

    seconds: Number = Field(gt=0)


async def changed(
    caller: Caller, name: str, change: Callable[[LiveExperiment], object]
) -> Response:
    """Change an experiment; respond with its status."""

    def work(live: LiveExperiment) -> dict[str, object]:
        change(live)
        return live.status()._asdict()

    return respond(await caller.experiments.change(caller.name, name, work))


@router.post("/start", response_model=StatusModel)
async def start(name: Name, caller: ManageCaller) -> Response:
    """Let a new experiment enrol units. On one that has started it changes nothing."""

    def change(live: LiveExperiment) -> None:
        status = live.status()
        if (status.status, status.reason) == ("paused", NOT_STARTED):
            live.resume()
        elif status.status == "paused":
            message = f"experiment {name!r} has started and is paused; resume it"
            raise Conflict(message, "invalid_transition")

    return await changed(caller, name, change)


@router.post("/pause", response_model=StatusModel)
async def pause(name: Name, caller: ManageCaller, body: Reason = WITHOUT_REASON) -> Response:
    """Enrol no unit until it is resumed; rewards are accepted."""
    return await changed(caller, name, lambda live: live.pause(body.reason))


@router.post("/resume", response_model=StatusModel)
async def resume(name: Name, caller: ManageCaller, body: Reason = WITHOUT_REASON) -> Response:
    """Continue after a pause or a failure."""
    return await changed(caller, name, lambda live: live.resume(body.reason))


@router.post("/stop", response_model=StatusModel)
async def stop(name: Name, caller: ManageCaller, body: StopRequest = DRAINING) -> Response:
    """End the experiment before the planned number of replications."""
    after, drain, reason = body.after_replications, body.drain, body.reason
    return await changed(
        caller,
        name,
        lambda live: live.stop(drain=drain, after_replications=after, reason=reason),
    )


@router.post("/windows", response_model=WindowExtensionModel)
async def extend_windows(name: Name, body: MoreTime, caller: ManageCaller) -> Response:
    """Let the rewards that are awaited now come later, after an outage for instance."""
    extension = await caller.experiments.change(
        caller.name, name, lambda live: live.extend_windows(body.seconds, reason=body.reason)
    )
    return respond(extension._asdict())
