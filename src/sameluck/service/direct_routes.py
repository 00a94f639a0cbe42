"""`DirectRoute`: a route for each user, which must be fast.

FastAPI describes it as any other, but it is found and called without the general solution of dependencies, which
takes longer than an assignment: the parameters of its function are those of the path, a body, and the caller.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, get_type_hints

from fastapi import Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect
from starlette.routing import Match
from starlette.types import ASGIApp, Receive, Scope, Send

from sameluck.service.access import Bearer
from sameluck.service.problems import HANDLERS, Refused, problem_of

_HANDLED = tuple(HANDLERS)


class DirectRoute(APIRoute):
    """A route whose function takes parameters of the path, `body` (a model, if any) and `caller`."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        (dependency,) = self.dependant.dependencies
        assert isinstance(dependency.call, Bearer)
        self._bearer, self._scopes = dependency.call, list(dependency.own_oauth_scopes or ())
        self._model: type[BaseModel] | None = get_type_hints(self.endpoint).get("body")
        self._function: Callable[..., Awaitable[Response | None]] = self.endpoint
        self.app = self._answer

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            response = await self._response(scope, receive)
        except ClientDisconnect:
            return
        except _HANDLED as error:
            response = problem_of(error)
        await response(scope, receive, send)

    async def _response(self, scope: Scope, receive: Receive) -> Response:
        content = await _content(receive)
        headers = dict(scope["headers"])
        authorization = headers.get(b"authorization", b"").decode("latin-1")
        arguments: dict[str, Any] = dict(scope["path_params"])
        arguments["caller"] = await self._bearer.caller(scope["app"], authorization, self._scopes)
        if self._model is not None:
            kind = headers.get(b"content-type", b"").decode("latin-1")
            arguments["body"] = read_body(kind, self._model, content)
        response = await self._function(**arguments)
        return Response(status_code=self.status_code or 200) if response is None else response


class DirectRoutes:
    """An ASGI application that calls direct routes at once, and passes other requests on.

    A request is compared with the routes that end as its path does, or in a parameter.
    """

    def __init__(self, app: ASGIApp, *, routes: Sequence[DirectRoute]) -> None:
        self._app = app
        self._any_end = [route for route in routes if _end(route.path).startswith("{")]
        self._by_end = {
            end: [route for route in routes if _end(route.path) == end or route in self._any_end]
            for end in {_end(route.path) for route in routes}
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            for route in self._by_end.get(_end(scope["path"]), self._any_end):
                match, found = route.matches(scope)
                if match is Match.FULL:
                    scope.update(found)
                    await route.app(scope, receive, send)
                    return
        await self._app(scope, receive, send)


def _end(path: str) -> str:
    return path.rpartition("/")[2]


async def _content(receive: Receive) -> bytes:
    """The body of a request."""
    content = b""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        content += message.get("body", b"")
        if not message.get("more_body", False):
            return content


def read_body(content_type: str, model: type[BaseModel], content: bytes) -> BaseModel:
    """The body of a request; raises as FastAPI does if it is not valid."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        detail = "send the body as JSON, with the header Content-Type: application/json"
        raise Refused(422, "invalid", detail)
    try:
        return model.model_validate_json(content)
    except ValidationError as error:
        errors = error.errors(include_url=False, include_context=False)
        located = [{**one, "loc": ("body", *one["loc"])} for one in errors]
        raise RequestValidationError(located) from None
