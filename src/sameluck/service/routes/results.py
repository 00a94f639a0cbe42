"""Results of an experiment: comparison, runs, checks, replications, traces, history, and the ledger as a file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path as File
from typing import TYPE_CHECKING, Annotated, BinaryIO, Literal
from urllib.parse import quote

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field

from sameluck.files import to_json
from sameluck.inference.interval_methods import INTERVALS
from sameluck.live.experiment import LiveExperiment
from sameluck.live.logs.exporting import MEDIA_TYPES, write_export
from sameluck.runs import Runs
from sameluck.service.access import ReadCaller
from sameluck.service.documents import (
    ChangeModel,
    CheckModel,
    EffectModel,
    Name,
    ReplicationModel,
    StandingModel,
    StatusModel,
    respond,
    respond_text,
)
from sameluck.service.looks import StreamResponse
from sameluck.wording import counted

router = APIRouter(prefix="/v1/experiments/{name}", tags=["results"])

MAX_CHECKPOINTS = 200

_FILE: dict[str, object] = {
    "description": "The file",
    "content": {media_type: {} for media_type in MEDIA_TYPES.values()},
}


# A request computes no interval that takes long: no resamples and no simulation.
if TYPE_CHECKING:
    FastInterval = str
else:
    FastInterval = Literal[tuple(name for name, method in INTERVALS.items() if method.is_fast)]


class ResultsQuery(BaseModel):
    """Arguments of `sl.compare` and of `live.runs`."""

    model_config = {"extra": "forbid"}

    checkpoints: list[Annotated[int, Field(ge=1)]] | None = Field(None, max_length=MAX_CHECKPOINTS)
    policies: list[str] | None = None
    level: float = Field(0.95, gt=0, lt=1)
    control: str | None = None
    pairs: Literal["control", "all", "best"] = "control"
    interval: FastInterval | None = None
    simultaneous: Literal["pairs", "checkpoints", "both", "none"] | None = None
    best: bool = False

    def runs(self, live: LiveExperiment) -> Runs:
        """Return the runs of the complete replications."""
        return live.runs(self.checkpoints or None, policies=self.policies or None)


class ResultsModel(BaseModel):
    """Comparison of the policies on the complete replications, in order and without a gap."""

    digest: str
    status: StatusModel  # type: ignore[valid-type]
    replications: int  # that the results use
    effects: list[EffectModel]  # type: ignore[valid-type]
    standings: list[StandingModel]  # type: ignore[valid-type]
    verdict: str
    cautions: list[str]


class CheckList(BaseModel):
    """Every check that applies."""

    checks: list[CheckModel]  # type: ignore[valid-type]


class ReplicationList(BaseModel):
    """Every replication that has begun; with the policies' rewards at the horizon if results use it."""

    replications: list[ReplicationModel]  # type: ignore[valid-type]


class ChangeList(BaseModel):
    """History, the oldest change first."""

    changes: list[ChangeModel]  # type: ignore[valid-type]


class PeriodModel(BaseModel):
    """One period of a policy."""

    policy: str
    period: int
    arm: int
    position: int
    reward: float
    replayed: bool


class TraceModel(BaseModel):
    """Every period of one replication that each policy has completed."""

    replication: int
    interactions: int
    periods: list[PeriodModel]


@router.get("/results", response_model=ResultsModel)
async def results(
    name: Name, query: Annotated[ResultsQuery, Query()], caller: ReadCaller
) -> Response:
    """Compare the policies so far; `effects` is empty until there are two replications to compare."""

    def work(live: LiveExperiment) -> str:
        runs, status = query.runs(live), live.status()
        record: dict[str, object] = {
            "digest": runs.experiment.digest,
            "status": status._asdict(),
            "replications": runs.replications,
            "effects": [],
            "standings": [],
            "verdict": _too_early(runs),
            "cautions": list(runs.notes),
        }
        if record["verdict"]:
            return to_json(record, None)
        options = query.model_dump(exclude={"checkpoints", "policies"})
        result = caller.service.comparison_cache.compare(live, runs, options)
        record |= {
            "effects": result.to_dicts(),
            "standings": [standing._asdict() for standing in result.standings],
            "verdict": result.verdict,
            "cautions": list(result.cautions),
        }
        return to_json(record, None)

    return respond_text(await caller.experiments.look(name, work, "results", str(query)))


def _too_early(runs: Runs) -> str:
    """Return why there is nothing to compare yet; empty if there is."""
    if len(runs.policies) < 2:
        return "The experiment has one policy; a comparison needs two."
    if runs.replications < 2:
        have = counted(runs.replications, "replication has", "replications have")
        periods = counted(int(runs.checkpoints[-1]), "period")
        return f"{have} reached {periods}; a comparison needs 2."
    return ""


@router.get(
    "/runs",
    response_class=Response,
    responses={
        200: {"content": {"application/octet-stream": {}}, "description": "A file of `Runs.save`"}
    },
)
async def runs_file(
    name: Name, query: Annotated[ResultsQuery, Query()], caller: ReadCaller
) -> Response:
    """Return the runs of the complete replications as a file for `sl.Runs.load`."""

    def work(live: LiveExperiment) -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            path = File(folder) / "runs.npz"
            query.runs(live).save(path)
            return path.read_bytes()

    content = await caller.experiments.look(name, work, "runs", str(query))
    return Response(content, media_type="application/octet-stream")


@router.get("/diagnostics", response_model=CheckList)
async def diagnostics(name: Name, caller: ReadCaller, *, silence_is_zero: bool = False) -> Response:
    """Check the assumptions of the experiment against its data."""

    def work(live: LiveExperiment) -> str:
        checks = live.diagnostics(silence_is_zero=silence_is_zero)
        return to_json({"checks": [check._asdict() for check in checks]}, None)

    return respond_text(await caller.experiments.look(name, work, "diagnostics", silence_is_zero))


def _list_text(rows: Iterable[Mapping[str, object]]) -> str:
    """Return JSON of a long list, row by row: as a whole it would keep the interpreter from a switch for seconds."""
    return f"[{', '.join(to_json(row, None) for row in rows)}]"


@router.get("/replications", response_model=ReplicationList)
async def replications(name: Name, caller: ReadCaller) -> Response:
    """Return the progress of every replication, with the policies' rewards where results use them."""

    def work(live: LiveExperiment) -> str:
        runs = live.runs()
        rewards = runs.rewards[:, :, -1].tolist()
        rows = [
            {
                **replication._asdict(),
                "rewards": dict(zip(runs.policies, rewards[index], strict=True))
                if index < runs.replications
                else None,
            }
            for index, replication in enumerate(live.replications())
        ]
        return f'{{"replications": {_list_text(rows)}}}'

    return respond_text(await caller.experiments.look(name, work, "replications"))


@router.get("/trace", response_model=TraceModel)
async def trace(
    name: Name, caller: ReadCaller, replication: Annotated[int, Query(ge=0)] = 0
) -> Response:
    """Return one replication period by period."""

    def work(live: LiveExperiment) -> str:
        traced = live.trace(replication)
        record = {"replication": traced.replication, "interactions": traced.interactions}
        return f'{to_json(record, None)[:-1]}, "periods": {_list_text(traced.to_dicts())}}}'

    return respond_text(await caller.experiments.look(name, work, "trace", replication))


@router.get("/history", response_model=ChangeList)
async def history(name: Name, caller: ReadCaller) -> Response:
    """Return every change of the experiment with its time, actor and reason."""
    changes = await caller.experiments.read(name, lambda live: live.history())
    return respond({"changes": [change._asdict() for change in changes]})


@router.get("/export", response_class=Response, responses={200: _FILE})
async def export(
    name: Name,
    caller: ReadCaller,
    format: Annotated[Literal["csv", "jsonl", "parquet"], Query()] = "csv",
    what: Annotated[Literal["ledger", "rewards"], Query()] = "ledger",
) -> Response:
    """Return the ledger, or every reported reward, as a file; in CSV no text is a spreadsheet formula."""

    def write(live: LiveExperiment, file: BinaryIO) -> None:
        write_export(live.open_replications, file, what=what, format=format)

    stream = await caller.experiments.stream(name, write)
    file_name = f"{name}-{what}.{format}"
    quoted = quote(file_name)
    is_plain = quoted == file_name
    field = f'filename="{file_name}"' if is_plain else f"filename*=utf-8''{quoted}"
    headers = {"Content-Disposition": f"attachment; {field}"}
    return StreamResponse(stream, media_type=MEDIA_TYPES[format], headers=headers)
