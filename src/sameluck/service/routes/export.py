"""The ledger as a file: CSV, JSON Lines or Parquet."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response
from fastapi.responses import FileResponse
from starlette.background import BackgroundTask

from sameluck.live.experiment import LiveExperiment
from sameluck.live.logs.exporting import MEDIA_TYPES
from sameluck.service.access import ReadCaller
from sameluck.service.documents import Name

router = APIRouter(tags=["results"])

_FILE: dict[str, object] = {
    "description": "The file",
    "content": {kind: {} for kind in MEDIA_TYPES.values()},
}


@router.get("/v1/experiments/{name}/export", response_class=FileResponse, responses={200: _FILE})
async def export(
    name: Name,
    caller: ReadCaller,
    format: Annotated[Literal["csv", "jsonl", "parquet"], Query()] = "csv",
    what: Annotated[Literal["ledger", "rewards"], Query()] = "ledger",
) -> Response:
    """Return the ledger, or every reported reward, as a file; in CSV no text is a formula of a spreadsheet."""

    def work(live: LiveExperiment) -> str:
        handle, path = tempfile.mkstemp(suffix=f".{format}")
        os.close(handle)
        try:
            live.export(path, what=what, format=format)
        except BaseException:
            _remove(path)
            raise
        return path

    path = await caller.experiments.read(name, work)
    return FileResponse(
        path,
        media_type=MEDIA_TYPES[format],
        filename=f"{name}-{what}.{format}",
        background=BackgroundTask(_remove, path),
    )


def _remove(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)
