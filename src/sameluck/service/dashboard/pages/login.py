"""Login by a token or by a link that works once, and logout."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from sameluck.service.access import Service
from sameluck.service.dashboard.page_responses import PageRoute, page
from sameluck.service.dashboard.visitors import (
    COOKIE,
    SESSION_SECONDS,
    CurrentVisitor,
    Sessions,
    check_form,
    form_of,
    redirect,
)

router = APIRouter(route_class=PageRoute)


@router.get("/login")
async def show_login() -> Response:
    return page("login.html", problem="")


@router.post("/login")
async def log_in(request: Request) -> Response:
    token = (await form_of(request))["token"].strip()
    service: Service = request.app.state.service
    holder = await service.holder(token)
    if holder is None:
        return page("login.html", 401, problem="This token is not valid.")
    if "read" not in holder.scopes:
        return page("login.html", 403, problem="The dashboard needs a token with the scope read.")
    return _with_session(request, token)


@router.get("/login/{code}")
async def follow_link(request: Request, code: str) -> Response:
    """Begin a session with a link, once."""
    sessions: Sessions = request.app.state.sessions
    token = sessions.use_link(code)
    if token is None:
        problem = "This link was used before, or the service has restarted. Log in with a token."
        return page("login.html", 401, problem=problem)
    return _with_session(request, token)


@router.post("/logout")
async def log_out(request: Request, visitor: CurrentVisitor) -> Response:
    check_form(visitor.session, await form_of(request))
    sessions: Sessions = request.app.state.sessions
    sessions.close(request.cookies.get(COOKIE, ""))
    response = redirect("/login")
    response.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return response


def _with_session(request: Request, token: str) -> Response:
    sessions: Sessions = request.app.state.sessions
    response = redirect("/")
    response.set_cookie(
        COOKIE,
        sessions.open(token),
        max_age=int(SESSION_SECONDS),
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return response
