"""Health of the service, and its metrics."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from pydantic import BaseModel, Field

from sameluck.service.access import ReadCaller, Service
from sameluck.service.documents import respond
from sameluck.service.prometheus import read_metrics

router = APIRouter(tags=["health"])


class Health(BaseModel):
    """State of the service."""

    status: str


@router.get("/healthz", response_model=Health)
async def healthz() -> Response:
    """Answer while the process runs. No token is needed."""
    return respond({"status": "ok"})


@router.get("/readyz", response_model=Health)
async def readyz(request: Request) -> Response:
    """Answer 200 if the store can be written, 503 otherwise. No token is needed.

    The status is "degraded" while an experiment is failed: its users get the fallback arm, here as on every server.
    """
    service: Service = request.app.state.service
    await service.experiments.check_writable()
    return respond({"status": "degraded" if request.app.state.metrics.any_failed else "ok"})


@router.get(
    "/metrics",
    response_class=Response,
    responses={
        200: {"content": {"text/plain": {}}, "description": "The text format of Prometheus"}
    },
)
async def metrics(
    request: Request,
    caller: ReadCaller,
    experiment: Annotated[list[Annotated[str, Field(max_length=200)]] | None, Query()] = None,
) -> Response:
    """Return metrics in the text format of Prometheus.

    Without a name: requests, errors, the statuses of active experiments, and the counts of the newest 20 of them.
    With `experiment`, which may be repeated: all metrics of these experiments, and no others. While the database is
    unavailable, the counts are left out and `sameluck_database_up` is 0.
    """
    text = await read_metrics(caller.experiments, request.app.state.metrics, experiment or ())
    return Response(text, media_type=CONTENT_TYPE_LATEST)
