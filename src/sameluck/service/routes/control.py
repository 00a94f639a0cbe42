"""Operators' calls: start, pause, resume, stop, arms, reward windows, erased units. The history names the caller."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr

from sameluck.errors import Conflict
from sameluck.live.experiment import LiveExperiment
from sameluck.live.options import MAX_SECONDS
from sameluck.live.store import NOT_STARTED
from sameluck.service.access import Caller, ManageCaller
from sameluck.service.documents import (
    Name,
    Number,
    Reason,
    StatusModel,
    UnitField,
    WindowExtensionModel,
    respond,
)

router = APIRouter(prefix="/v1/experiments/{name}")

WITHOUT_REASON = Reason()


class StopRequest(Reason):
    """Ways to stop: complete the open replications, stop at once, or stop after a number of replications."""

    model_config = ConfigDict(
        json_schema_extra={
            "not": {
                "properties": {
                    "drain": {"const": False},
                    "after_replications": {"type": "integer"},
                },
                "required": ["drain", "after_replications"],
            }
        }
    )

    drain: StrictBool = True
    after_replications: Annotated[StrictInt, Field(ge=1)] | None = None


DRAIN = StopRequest()


class MoreTime(Reason):
    """Seconds to add to the window of awaited rewards."""

    seconds: Number = Field(gt=0, le=MAX_SECONDS)


class Disabling(Reason):
    """A reason, and the fallback arm from now on."""

    fallback: StrictStr | None = None


SAME_FALLBACK = Disabling()


class Erasure(Reason):
    """Unit to erase."""

    unit: UnitField


class Erased(BaseModel):
    """Number of assignments that the unit had."""

    assignments: int


async def changed(
    caller: Caller,
    name: str,
    change: Callable[[LiveExperiment], object],
    *,
    may_take_long: bool = False,
) -> Response:
    """Change an experiment; respond with its status."""

    def work(live: LiveExperiment) -> dict[str, object]:
        change(live)
        return live.status()._asdict()

    experiments = caller.experiments
    make = experiments.change if may_take_long else experiments.switch
    return respond(await make(caller.name, name, work))


@router.post("/start", response_model=StatusModel, tags=["control"])
async def start(name: Name, caller: ManageCaller) -> Response:
    """Let a new experiment enrol units. An experiment that has started is not changed."""

    def change(live: LiveExperiment) -> None:
        status = live.status()
        if (status.status, status.reason) == ("paused", NOT_STARTED):
            live.resume()
        elif status.status == "paused":
            message = f"experiment {name!r} has started and is paused; resume it"
            raise Conflict(message, "invalid_transition")

    return await changed(caller, name, change, may_take_long=True)


@router.post("/pause", response_model=StatusModel, tags=["control"])
async def pause(name: Name, caller: ManageCaller, body: Reason = WITHOUT_REASON) -> Response:
    """Enrol no unit until the experiment is resumed; rewards are still accepted."""
    return await changed(caller, name, lambda live: live.pause(body.reason))


@router.post("/resume", response_model=StatusModel, tags=["control"])
async def resume(name: Name, caller: ManageCaller, body: Reason = WITHOUT_REASON) -> Response:
    """Continue after a pause or a failure."""
    return await changed(caller, name, lambda live: live.resume(body.reason), may_take_long=True)


@router.post("/stop", response_model=StatusModel, tags=["control"])
async def stop(name: Name, caller: ManageCaller, body: StopRequest = DRAIN) -> Response:
    """End the experiment before the planned number of replications."""
    after, drain, reason = body.after_replications, body.drain, body.reason
    return await changed(
        caller, name, lambda live: live.stop(drain=drain, after_replications=after, reason=reason)
    )


@router.post("/windows", response_model=WindowExtensionModel, tags=["control"])
async def extend_windows(name: Name, body: MoreTime, caller: ManageCaller) -> Response:
    """Extend the window of all awaited rewards, after an outage for instance."""
    extension = await caller.experiments.change(
        caller.name, name, lambda live: live.extend_windows(body.seconds, reason=body.reason)
    )
    return respond(extension._asdict())


@router.post("/arms/{arm:path}/disable", response_model=StatusModel, tags=["arms"])
async def disable(
    name: Name, arm: Name, caller: ManageCaller, body: Disabling = SAME_FALLBACK
) -> Response:
    """Show an arm to nobody: no assignment that begins after this response gets it."""
    fallback, reason = body.fallback, body.reason
    return await changed(
        caller, name, lambda live: live.disable_arm(arm, fallback=fallback, reason=reason)
    )


@router.post("/arms/{arm:path}/enable", response_model=StatusModel, tags=["arms"])
async def enable(
    name: Name, arm: Name, caller: ManageCaller, body: Reason = WITHOUT_REASON
) -> Response:
    """Show a disabled arm again."""
    return await changed(caller, name, lambda live: live.enable_arm(arm, reason=body.reason))


@router.post("/erase", response_model=Erased, tags=["units"])
async def erase_unit(name: Name, body: Erasure, caller: ManageCaller) -> Response:
    """Erase a unit: nothing in the database links it to its rewards, which stay. It is safe to repeat."""
    erased = await caller.experiments.change(
        caller.name, name, lambda live: live.erase(body.unit, reason=body.reason)
    )
    return respond({"assignments": erased})


@router.post("/forget-units", response_model=StatusModel, tags=["units"])
async def forget_units(name: Name, caller: ManageCaller, body: Reason = WITHOUT_REASON) -> Response:
    """Destroy the key of the unit hashes of an experiment that has ended. It is safe to repeat."""
    return await changed(
        caller, name, lambda live: live.forget_units(reason=body.reason), may_take_long=True
    )
