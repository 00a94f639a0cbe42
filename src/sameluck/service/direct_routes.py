"""`DirectRoute`: a route for each user, which must be fast.

FastAPI describes it as any other, but its function is called without the general solution of dependencies, which
takes longer than an assignment: its parameters are those of the path, a body, and the caller.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, get_type_hints

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from fastapi.security import SecurityScopes
from pydantic import BaseModel, ValidationError
from starlette.types import Receive, Scope, Send

from sameluck.service.access import Bearer
from sameluck.service.problems import Refused


class DirectRoute(APIRoute):
    """A route whose function takes parameters of the path, `body` (a model, if any) and `caller`."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        answer = self.get_route_handler()

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            response = await answer(Request(scope, receive))
            await response(scope, receive, send)

        self.app = app  # without the stacks of contexts that dependencies may need

    def get_route_handler(self) -> Callable[[Request], Awaitable[Response]]:  # type: ignore[override]
        """A function that answers a request."""
        endpoint: Callable[..., Awaitable[Response | None]] = self.endpoint
        (dependency,) = self.dependant.dependencies
        bearer, scopes = dependency.call, SecurityScopes(list(dependency.own_oauth_scopes or ()))
        assert isinstance(bearer, Bearer)
        model = get_type_hints(endpoint).get("body")
        empty = self.status_code or 200

        async def answer(request: Request) -> Response:
            arguments: dict[str, Any] = dict(request.path_params)
            content = await request.body()
            arguments["caller"] = await bearer(request, scopes)
            if model is not None:
                arguments["body"] = read_body(request, model, content)
            response = await endpoint(**arguments)
            return Response(status_code=empty) if response is None else response

        return answer


def read_body(request: Request, model: type[BaseModel], content: bytes) -> BaseModel:
    """The body of a request; raises as FastAPI does if it is not valid."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        detail = "send the body as JSON, with the header Content-Type: application/json"
        raise Refused(422, "invalid", detail)
    try:
        return model.model_validate_json(content)
    except ValidationError as error:
        errors = error.errors(include_url=False, include_context=False)
        located = [{**one, "loc": ("body", *one["loc"])} for one in errors]
        raise RequestValidationError(located) from None
