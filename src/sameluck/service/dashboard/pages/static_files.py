"""Static files: the stylesheet, the script and the icon."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from fastapi import APIRouter, Response

from sameluck.reporting.pages.rendering import stylesheet
from sameluck.service.dashboard.page_responses import PageRoute, page

router = APIRouter(route_class=PageRoute)

TYPES = {
    "sameluck.css": "text/css",  # shared with reports
    "dashboard.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}


@cache
def _content(name: str) -> bytes:
    if name == "sameluck.css":
        return stylesheet().encode()
    return files("sameluck.service.dashboard").joinpath("static", name).read_bytes()


@router.get("/static/{name}")
async def static(name: str) -> Response:
    """Return a file; no session is needed."""
    if name not in TYPES:
        return page("error.html", 404, detail="no such file")
    return Response(_content(name), 200, {"Cache-Control": "no-cache"}, TYPES[name])
