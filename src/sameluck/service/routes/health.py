"""Health of the service, and its metrics."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from sameluck.service.access import ReadCaller, Service
from sameluck.service.documents import respond

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
    """Answer 200 if the store can be written, 503 otherwise. No token is needed."""
    service: Service = request.app.state.service
    await service.experiments.check_writable()
    return respond({"status": "ok"})


@router.get(
    "/metrics",
    response_class=Response,
    responses={
        200: {"content": {"text/plain": {}}, "description": "The text format of Prometheus"}
    },
)
async def metrics(request: Request, caller: ReadCaller) -> Response:
    """Return requests and the counts of every experiment in the text format of Prometheus."""
    statuses = await caller.experiments.read_store(lambda store: store.statuses())
    return Response(*request.app.state.metrics.text(statuses))
