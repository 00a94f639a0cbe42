"""`DirectRoute`: a route that calls its function without FastAPI's general dependency solver.

The calls for a user (assign, reward, exposure, void) use it. With plain FastAPI routes in its place, the service used
44% more processor time for an assignment and its reward (1.40 instead of 0.98 ms) and answered 27% fewer such pairs
per second. Measured with the loops of `benchmarks/service.py` on SQLite, 10 interleaved rounds of 3 seconds, two busy
cores. FastAPI matches and describes such a route like any other route.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, get_type_hints

from fastapi import Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from sameluck.service.access import Bearer
from sameluck.service.problems import HANDLERS, Refused, problem_of

_HANDLED = tuple(HANDLERS)


class DirectRoute(APIRoute):
    """A route whose function takes parameters of the path, `body` (a model, if any) and `caller`."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        # The caller is the only dependency; a second would be skipped silently, so it must not exist.
        (dependency,) = self.dependant.dependencies
        assert isinstance(dependency.call, Bearer)
        self._bearer, self._scopes = dependency.call, list(dependency.own_oauth_scopes or ())
        self._model: type[BaseModel] | None = get_type_hints(self.endpoint).get("body")
        self._function: Callable[..., Awaitable[Response | None]] = self.endpoint
        self.app = self._answer  # replaces the application that FastAPI has built

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            response = await self._response(scope, receive)
        except ClientDisconnect:  # nobody reads an answer, and it is no failure of the service
            return
        except _HANDLED as error:
            response = problem_of(error)
        await response(scope, receive, send)

    async def _response(self, scope: Scope, receive: Receive) -> Response:
        # The body is read first, as FastAPI does: a connection can be reused only after its body was read.
        content = await _content(receive)
        headers = dict(scope["headers"])
        authorization = headers.get(b"authorization", b"").decode("latin-1")
        arguments: dict[str, Any] = dict(scope["path_params"])
        arguments["caller"] = await self._bearer.caller(scope["app"], authorization, self._scopes)
        if self._model is not None:
            content_type = headers.get(b"content-type", b"").decode("latin-1")
            arguments["body"] = _body(content_type, self._model, content)
        response = await self._function(**arguments)
        return Response(status_code=self.status_code or 200) if response is None else response


async def _content(receive: Receive) -> bytes:
    content = b""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        content += message.get("body", b"")
        if not message.get("more_body", False):
            return content


def _body(content_type: str, model: type[BaseModel], content: bytes) -> BaseModel:
    """Return the body of a request as its model; raise as FastAPI does if it is not valid."""
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type != "application/json" and not media_type.endswith("+json"):
        detail = "send the body as JSON, with the header Content-Type: application/json"
        raise Refused(422, "invalid", detail)
    try:
        return model.model_validate_json(content)
    except ValidationError as error:
        errors = error.errors(include_url=False, include_context=False)
        located = [{**item, "loc": ("body", *item["loc"])} for item in errors]
        raise RequestValidationError(located) from None
