"""Sessions: who is logged in to the dashboard, by a cookie.

A person logs in with a token, or with a link that `sameluck serve` prints and that works once. The cookie is
`HttpOnly` and `SameSite=Strict`, and is known by its SHA-256. A session lasts for twelve hours and as long as its
token is valid, and ends with the process.
"""

from __future__ import annotations

import hmac
import secrets
import time
from typing import NamedTuple

from sameluck.service.api_tokens import digest

COOKIE = "sameluck_session"
SECONDS = 12 * 3_600.0
MOST = 1_000  # sessions at the same time; the oldest ends


class Session(NamedTuple):
    """One browser that is logged in."""

    token: str  # with which it acts
    form_key: str  # in every form: a page of another site cannot know it
    ends_at: float
    notices: list[str]  # that the next page shows

    def owns(self, form_key: str) -> bool:
        """Whether a form was made for this session."""
        return hmac.compare_digest(self.form_key.encode(), form_key.encode())


class Sessions:
    """The sessions of this process."""

    def __init__(self) -> None:
        self._sessions: dict[str, Session] = {}  # by the digest of the cookie
        self._links: dict[str, str] = {}  # token by the digest of a link's code

    def open(self, token: str) -> str:
        """Begin a session; returns its cookie."""
        cookie = secrets.token_urlsafe(32)
        ends_at = time.monotonic() + SECONDS
        self._sessions[digest(cookie)] = Session(token, secrets.token_urlsafe(32), ends_at, [])
        while len(self._sessions) > MOST:
            del self._sessions[next(iter(self._sessions))]
        return cookie

    def find(self, cookie: str) -> Session | None:
        """The session of a cookie; None if it has ended."""
        session = self._sessions.get(digest(cookie))
        return session if session is not None and time.monotonic() < session.ends_at else None

    def close(self, cookie: str) -> None:
        """End a session."""
        self._sessions.pop(digest(cookie), None)

    def create_link(self, token: str) -> str:
        """The path of a link that logs in once, with a token."""
        code = secrets.token_urlsafe(32)
        self._links[digest(code)] = token
        return f"/login/{code}"

    def use_link(self, code: str) -> str | None:
        """The token of a link, the first time; None afterwards."""
        return self._links.pop(digest(code), None)
