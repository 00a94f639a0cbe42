"""Visitors of the dashboard: their login sessions, by cookie, and the fields of their forms.

A person logs in with a token, or with a link that `sameluck serve` prints and that works once. The cookie is
`HttpOnly` and `SameSite=Strict`; the process keeps its SHA-256. A session lasts at most twelve hours, as long as its
token is valid, and not longer than the process.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections import defaultdict
from typing import Annotated, NamedTuple, TypeAlias
from urllib.parse import parse_qs, quote

from fastapi import Depends, Request, Response
from starlette.responses import RedirectResponse

from sameluck.service.access import Service
from sameluck.service.api_tokens import digest
from sameluck.service.dashboard.overview import Overviews
from sameluck.service.dashboard.page_responses import HEADERS
from sameluck.service.loaded_experiments import LoadedExperiments
from sameluck.service.problems import Refused

COOKIE = "sameluck_session"
SESSION_SECONDS = 12 * 3_600.0
MAX_SESSIONS = 1_000  # then the oldest ends
MAX_FIELDS = 50  # of a form

Form: TypeAlias = defaultdict[str, str]  # a missing field is empty


class Session(NamedTuple):
    """A browser that is logged in."""

    token: str
    form_key: str  # in every form; a page of another site cannot know it
    ends_at: float
    notices: list[str]  # for the next page


class Sessions:
    """Sessions of this process."""

    def __init__(self) -> None:
        self._sessions: dict[str, Session] = {}  # by the digest of the cookie
        self._links: dict[str, str] = {}  # token by the digest of a link's code

    def open(self, token: str) -> str:
        """Begin a session and return its cookie."""
        cookie = secrets.token_urlsafe(32)
        ends_at = time.monotonic() + SESSION_SECONDS
        self._sessions[digest(cookie)] = Session(token, secrets.token_urlsafe(32), ends_at, [])
        # Repeated logins must not fill the memory.
        while len(self._sessions) > MAX_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        return cookie

    def find(self, cookie: str) -> Session | None:
        """Return the session of a cookie; None if it has ended."""
        session = self._sessions.get(digest(cookie))
        return session if session is not None and time.monotonic() < session.ends_at else None

    def close(self, cookie: str) -> None:
        self._sessions.pop(digest(cookie), None)

    def create_link(self, token: str) -> str:
        """Return the path of a link that logs in once, with a token."""
        code = secrets.token_urlsafe(32)
        self._links[digest(code)] = token
        return f"/login/{code}"

    def use_link(self, code: str) -> str | None:
        """Return the token of a link the first time; None afterwards."""
        return self._links.pop(digest(code), None)


class Visitor(NamedTuple):
    """A person with a session, and the objects that pages use."""

    name: str
    may_manage: bool
    session: Session
    service: Service
    overviews: Overviews

    @property
    def experiments(self) -> LoadedExperiments:
        return self.service.experiments


class LoginNeeded(Exception):
    """Request without a session, to which the login page is shown."""


async def visitor(request: Request) -> Visitor:
    """Return the visitor of a page; raise `LoginNeeded` without a session, `Refused` if the token may not read."""
    state = request.app.state
    session: Session | None = state.sessions.find(request.cookies.get(COOKIE, ""))
    holder = await state.service.holder(session.token) if session is not None else None
    if session is None or holder is None:
        raise LoginNeeded
    if "read" not in holder.scopes:
        raise Refused(403, "wrong_scope", "the dashboard needs a token with the scope 'read'")
    may_manage = "manage" in holder.scopes
    return Visitor(holder.name, may_manage, session, state.service, state.overviews)


async def form_of(request: Request) -> Form:
    body = (await request.body()).decode("utf-8", "replace")
    try:
        fields = parse_qs(body, keep_blank_values=True, max_num_fields=MAX_FIELDS)
    except ValueError:
        raise Refused(422, "invalid", f"a form has at most {MAX_FIELDS} fields") from None
    return defaultdict(str, {name: values[-1] for name, values in fields.items()})


def check_form(session: Session, form: Form) -> None:
    """Raise `Refused` for a form that was made for another session."""
    if not hmac.compare_digest(session.form_key.encode(), form["form_key"].encode()):
        detail = "this form belongs to another session; reload the page and send it again"
        raise Refused(403, "form_refused", detail)


async def manager(request: Request) -> tuple[Visitor, Form]:
    """Return the sender and the fields of a form; raise `Refused` for another session's form or without the scope."""
    sender, form = await visitor(request), await form_of(request)
    check_form(sender.session, form)
    if not sender.may_manage:
        raise Refused(403, "wrong_scope", "changes need a token with the scope 'manage'")
    return sender, form


def redirect(path: str) -> Response:
    return RedirectResponse(path, 303, HEADERS)


def path_of(name: str) -> str:
    return f"/experiments/{quote(name, safe='')}"


CurrentVisitor: TypeAlias = Annotated[Visitor, Depends(visitor)]
SentForm: TypeAlias = Annotated[tuple[Visitor, Form], Depends(manager)]
