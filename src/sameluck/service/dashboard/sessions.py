"""Login sessions of the dashboard, by cookie.

A person logs in with a token, or with a link that `sameluck serve` prints and that works once. The cookie is
`HttpOnly` and `SameSite=Strict`; the process keeps its SHA-256. A session lasts at most twelve hours, as long as its
token is valid, and not longer than the process.
"""

from __future__ import annotations

import secrets
import time
from typing import NamedTuple

from sameluck.service.api_tokens import digest

COOKIE = "sameluck_session"
SECONDS = 12 * 3_600.0
MAX_SESSIONS = 1_000  # then the oldest ends


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
        ends_at = time.monotonic() + SECONDS
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
