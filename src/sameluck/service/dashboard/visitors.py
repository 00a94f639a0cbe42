"""`Visitor`: the person of a request, by the session cookie; and the fields of a submitted form."""

from __future__ import annotations

import hmac
from collections import defaultdict
from typing import Annotated, NamedTuple, TypeAlias
from urllib.parse import parse_qs, quote

from fastapi import Depends, Request, Response
from starlette.responses import RedirectResponse

from sameluck.service.access import Service
from sameluck.service.dashboard.overview import Overviews
from sameluck.service.dashboard.page_responses import HEADERS
from sameluck.service.dashboard.sessions import COOKIE, Session
from sameluck.service.loaded_experiments import LoadedExperiments
from sameluck.service.problems import Refused

MAX_FIELDS = 50

Form: TypeAlias = defaultdict[str, str]  # a missing field is empty


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
    """Return the path of an experiment's page."""
    return f"/experiments/{quote(name, safe='')}"


CurrentVisitor: TypeAlias = Annotated[Visitor, Depends(visitor)]
SentForm: TypeAlias = Annotated[tuple[Visitor, Form], Depends(manager)]
