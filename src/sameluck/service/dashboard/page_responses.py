"""Responses with pages, made from templates, with security headers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Coroutine
from datetime import datetime
from functools import cache
from urllib.parse import quote

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from jinja2 import Environment

from sameluck import text_forms
from sameluck.errors import SameluckError
from sameluck.policies.base import POLICIES, usable_contexts
from sameluck.reporting.pages.rendering import environment
from sameluck.service.problems import Refused, status_of

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "Referrer-Policy": "same-origin",  # under no-referrer a form would be sent with the origin null
}


@cache
def templates() -> Environment:
    """Return the templates of the dashboard and of reports; every value is escaped."""
    result = environment("sameluck.service.dashboard")
    result.filters["in_path"] = lambda text: quote(text, safe="")
    result.filters["day"] = lambda at: datetime.fromisoformat(at).strftime("%a %-d %b %H:%M")
    result.globals["policy_examples"] = _policy_examples
    return result


def _policy_examples() -> list[str]:
    """Return a text form of each policy, without policies that need contexts, which no page offers."""
    examples = [text_forms.example(policy_class) for policy_class in POLICIES.values()]
    return [
        text for text in examples if not usable_contexts(text_forms.parse(text, POLICIES, "policy"))
    ]


def render(template: str, /, **values: object) -> str:
    return templates().get_template(template).render(**values)


def page(template: str, status: int = 200, /, **values: object) -> Response:
    return respond_page(render(template, **values), status)


def respond_page(text: str, status: int = 200) -> Response:
    """Return a page with an ETag, so that a browser can ask for changes only."""
    headers = {**HEADERS, "ETag": f'"{hashlib.sha256(text.encode()).hexdigest()[:32]}"'}
    return Response(text, status, headers, media_type="text/html")


def unless_unchanged(request: Request, response: Response) -> Response:
    """Return the page, or 304 without a body if the browser has it."""
    if request.headers.get("if-none-match") == response.headers["ETag"]:
        return Response(status_code=304, headers=HEADERS | {"ETag": response.headers["ETag"]})
    return response


class PageRoute(APIRoute):
    """A route whose errors are pages."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[object, None, Response]]:
        answer = super().get_route_handler()

        async def answer_with_pages(request: Request) -> Response:
            try:
                return await answer(request)
            except SameluckError as error:
                return page("error.html", status_of(error), detail=str(error))
            except Refused as error:
                return page("error.html", error.status, detail=error.detail)
            except RequestValidationError:
                return page("error.html", 422, detail="the address of this page is not valid")

        return answer_with_pages
