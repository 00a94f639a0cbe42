"""Experiments: create, list, show, delete."""

from __future__ import annotations

import re
import warnings
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field, StrictBool, StrictInt, StrictStr

from sameluck.errors import Invalid
from sameluck.experiment import Experiment
from sameluck.live.experiment import LiveExperiment
from sameluck.live.options import LiveOptions
from sameluck.live.store import Store
from sameluck.service.access import ManageCaller, ReadCaller
from sameluck.service.documents import (
    Body,
    ExperimentModel,
    Name,
    QueriedReason,
    StatusModel,
    Text,
    respond,
)

router = APIRouter(tags=["experiments"])


# Characters that change the direction or the line of the text after a name on a page.
_MISLEADING = r"\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
NAME_PATTERN = rf"^(?!\.{{1,2}}$)(?=.*\S)[^\x00-\x1f\x7f/{_MISLEADING}]*$"  # as `_check_name`


class NewExperiment(Body):
    """Fields of `sl.Experiment` with policies in text form, a name, and the fields of `sl.LiveOptions`."""

    name: Text = Field(min_length=1, json_schema_extra={"pattern": NAME_PATTERN})
    policies: dict[str, StrictStr] = Field(min_length=1)
    arms: Annotated[StrictInt, Field(ge=2)] | Annotated[list[Text], Field(min_length=2)]
    horizon: Annotated[StrictInt, Field(ge=1)]
    replications: Annotated[StrictInt, Field(ge=1)]
    design: StrictStr | None = None
    control: StrictStr | None = None
    seed: StrictInt | None = None
    live: dict[str, object] = Field(default_factory=dict)
    start: StrictBool = False  # otherwise it enrols nobody until `/start`

    def experiment(self) -> Experiment:
        values = self.model_dump(exclude={"name", "live", "start"}, exclude_none=True)
        return Experiment.from_dict(values)


class ExperimentList(BaseModel):
    """Statuses of all experiments, the oldest first."""

    experiments: list[StatusModel]  # type: ignore[valid-type]


def record_of(live: LiveExperiment) -> dict[str, object]:
    return {
        "name": live.name,
        "started_at": live.started_at,
        "digest": live.experiment.digest,
        "experiment": live.experiment.to_dict(),
        "live": live.options.to_dict(),
        "fallback": live.fallback_arm(),
        "status": live.status()._asdict(),
    }


@router.post(
    "/v1/experiments",
    status_code=201,
    response_model=ExperimentModel,
    responses={200: {"model": ExperimentModel, "description": "It exists with the same settings"}},
)
async def create_experiment(body: NewExperiment, caller: ManageCaller) -> Response:
    """Create an experiment: 201, or 200 if it exists with the same settings. It is safe to repeat."""
    _check_name(body.name)
    live = LiveOptions.from_dict(body.live)
    caller.service.limits.check_sizes(
        arms=body.arms if isinstance(body.arms, int) else len(body.arms),
        policies=len(body.policies),
        horizon=body.horizon,
        replications=body.replications,
        open_replications=live.open_replications or 0,
    )
    experiments = caller.experiments
    # Only for the status code; `start` itself decides atomically whether the experiment exists.
    before = body.name in await experiments.read_store(lambda store: store.names())

    def work(store: Store) -> dict[str, object]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # cautions about long plans
            started = store.start(
                body.name,
                body.experiment(),
                options=live,
                makers=experiments.makers,
                exist_ok=True,
                paused=not body.start,
            )
        return record_of(started)

    record = await experiments.change_store(caller.name, work)
    response = respond(record, 200 if before else 201)
    response.headers["Location"] = f"/v1/experiments/{quote(body.name, safe='')}"
    return response


def _check_name(name: str) -> None:
    if "/" in name or name in (".", ".."):
        message = f"the name of an experiment of the service has no slash and is not . or .., got {name!r}"
        raise Invalid(message)
    if not name.strip() or re.search(f"[{_MISLEADING}]", name):
        raise Invalid(
            "the name of an experiment of the service has a visible character, and no character that changes the "
            f"direction of text, got {name!r}"
        )


@router.get("/v1/experiments", response_model=ExperimentList)
async def list_experiments(caller: ReadCaller) -> Response:
    """Return the statuses of all experiments, the oldest first."""
    statuses = await caller.experiments.read_store(lambda store: store.statuses())
    return respond({"experiments": [status._asdict() for status in statuses]})


@router.get("/v1/experiments/{name}", response_model=ExperimentModel)
async def get_experiment(name: Name, caller: ReadCaller) -> Response:
    """Return an experiment: its definition, its options and its status."""
    return respond(await caller.experiments.read(name, record_of))


@router.delete("/v1/experiments/{name}", status_code=204)
async def delete_experiment(name: Name, caller: ManageCaller, reason: QueriedReason = "") -> None:
    """Delete an experiment that has ended, with its ledger; its history stays."""
    await caller.experiments.delete(caller.name, name, reason)
