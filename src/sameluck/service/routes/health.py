"""Health of the service, and its metrics."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

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
async def metrics(request: Request, caller: ReadCaller) -> Response:
    """Return requests, errors and the counts of every experiment in the text format of Prometheus.

    While the database is unavailable, the counts are left out and `sameluck_database_up` is 0.
    """
    return Response(*await read_metrics(caller.experiments, request.app.state.metrics))
