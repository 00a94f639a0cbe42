"""Errors as problem documents (RFC 9457): one table maps the errors of sameluck to HTTP status codes.

A document has `type`, `title`, `status`, `detail` and `code`, the stable reason for a program. It contains no stack
trace: an unexpected error is logged on the server, and its document says only `internal_error`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import cache, partial
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict
from starlette.exceptions import HTTPException
from starlette.routing import Match

from sameluck import errors
from sameluck.errors import SameluckError, shown
from sameluck.files import to_json

MEDIA_TYPE = "application/problem+json"
RETRY_SECONDS = 1

STATUSES: dict[type[SameluckError], int] = {
    errors.Invalid: 422,
    errors.Unknown: 404,
    errors.Conflict: 409,
    errors.Missing: 501,
    errors.Unavailable: 503,
    errors.Interrupted: 503,
    errors.Diverged: 500,
    errors.AddressReused: 500,
}

_CODES = {  # of errors raised by FastAPI, by status
    400: "malformed",
    404: "no_such_route",
    405: "method_not_allowed",
    413: "body_too_large",
}

_log = logging.getLogger("sameluck")


class ItemError(BaseModel):
    """A problem document in the place of an item of a list."""

    type: str
    title: str
    status: int
    code: str
    detail: str


class Problem(ItemError):
    """A problem document."""

    model_config = ConfigDict(extra="forbid")


class Refused(Exception):
    """A request that is refused before it reaches an experiment."""

    def __init__(
        self, status: int, code: str, detail: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.status, self.code, self.detail, self.headers = status, code, detail, headers


def status_of(error: SameluckError) -> int:
    """Return the HTTP status code of an error, by its nearest class in the table."""
    return next((STATUSES[base] for base in type(error).__mro__ if base in STATUSES), 500)


def document(status: int, code: str, detail: str) -> dict[str, object]:
    title, urn = HTTPStatus(status).phrase, f"urn:sameluck:problem:{code}"
    return {"type": urn, "title": title, "status": status, "code": code, "detail": detail}


def document_of(error: SameluckError) -> dict[str, object]:
    return document(status_of(error), error.code, str(error))


def problem(
    status: int, code: str, detail: str, headers: Mapping[str, str] | None = None
) -> Response:
    sent = dict(headers or {})
    if status in (429, 503):
        sent.setdefault("Retry-After", str(RETRY_SECONDS))
    content = to_json(document(status, code, detail), None)
    return Response(content, status_code=status, headers=sent, media_type=MEDIA_TYPE)


def _invalid_request(error: RequestValidationError) -> Response:
    first, *further = error.errors()
    if first["type"] == "json_invalid":
        return problem(400, "malformed", "the body is not valid JSON")
    field = ".".join(map(str, first["loc"]))
    count = f" (and {len(further)} more)" if further else ""
    detail = f"{shown(field)[1:-1]}: {first['msg']}{count}"
    # FastAPI passes the raw bytes on if the content type is not JSON.
    if first["loc"] == ("body",) and isinstance(first.get("input"), bytes):
        detail = "send the body as JSON, with the header Content-Type: application/json"
    return problem(422, "invalid", detail)


HANDLERS: dict[type[Exception], Callable[[Any], Response]] = {
    Refused: lambda error: problem(error.status, error.code, error.detail, error.headers),
    SameluckError: lambda error: problem(status_of(error), error.code, str(error)),
    HTTPException: lambda error: problem(
        error.status_code, _CODES.get(error.status_code, "refused"), error.detail, error.headers
    ),
    RequestValidationError: _invalid_request,
}


def problem_of(error: Exception) -> Response:
    return next(handle(error) for base, handle in HANDLERS.items() if isinstance(error, base))


def _unexpected(request: Request, error: Exception) -> Response:
    _log.error("sameluck: %s %s failed", request.method, request.url.path, exc_info=error)
    return problem(500, "internal_error", "the service failed unexpectedly; its log has the reason")


def _method_not_allowed(request: Request, error: Exception) -> Response:
    """Answer with the methods of all routes that match the path; Starlette names those of the first one."""
    matching = (
        route
        for route in request.app.router.routes
        if route.matches(request.scope)[0] is not Match.NONE
    )
    methods = {method for route in matching for method in getattr(route, "methods", None) or ()}
    detail = str(getattr(error, "detail", "Method Not Allowed"))
    return problem(405, _CODES[405], detail, {"Allow": ", ".join(sorted(methods))})


def add_problem_documents(app: FastAPI) -> None:
    """Answer every error of an application with a problem document, and describe that in its OpenAPI document."""
    for error_class in HANDLERS:
        app.add_exception_handler(error_class, lambda _, error: problem_of(error))
    app.add_exception_handler(405, _method_not_allowed)
    app.add_exception_handler(Exception, _unexpected)
    app.openapi = cache(partial(_described, app.openapi))  # type: ignore[method-assign]


def _described(describe: Callable[[], dict[str, Any]]) -> dict[str, object]:
    """Return the OpenAPI document, in which every error is a problem document instead of FastAPI's own."""
    schema = describe()
    reference = {"$ref": "#/components/schemas/Problem"}
    response = {"description": "A problem", "content": {MEDIA_TYPE: {"schema": reference}}}
    for operations in schema["paths"].values():
        for operation in operations.values():
            operation["responses"].pop("422", None)
            operation["responses"]["default"] = response
    schemas = schema["components"]["schemas"]
    # FastAPI's own models of errors are no longer referenced.
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    schemas["Problem"] = Problem.model_json_schema()
    return schema
