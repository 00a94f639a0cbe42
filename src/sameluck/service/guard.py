"""`Guard`: checks of a request before any route sees it, and the headers of every response.

The checks of Host and Origin protect a service on the loopback address from web pages in a browser on the same
machine (DNS rebinding, cross-site requests). They apply to every method.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sameluck.service.addresses import LOOPBACK
from sameluck.service.limits import Limits
from sameluck.service.problems import Refused, problem

HEADERS = {
    b"cache-control": b"no-store",
    b"content-security-policy": b"default-src 'none'; frame-ancestors 'none'; base-uri 'none'",
    b"referrer-policy": b"no-referrer",
    b"x-content-type-options": b"nosniff",
}

# Headers that may be sent once: of two values, a proxy and the service might read different ones.
SINGLE_HEADERS = {b"host", b"origin", b"authorization", b"content-type"}

_HOST = re.compile(r"(?:\[(?P<address>[0-9a-f:.]+)\]|(?P<name>[^:@/\[\]\s]+))(?::[0-9]{1,5})?")


class Guard:
    """An ASGI application that refuses invalid requests and passes the others on.

    Args:
        app: The application.
        hosts: Accepted host names; the names of the loopback address if None.
        limits: The size of a body, and the time of a request.
    """

    def __init__(self, app: ASGIApp, *, hosts: Iterable[str] | None, limits: Limits) -> None:
        self._app = app
        self._hosts = {host.lower() for host in hosts or LOOPBACK}
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(receive, send, self._limits.body_bytes)
        try:
            # Before the time limit and the application: a refused request costs next to nothing.
            self._check(scope["headers"])
            async with asyncio.timeout(self._limits.seconds) as exchange.timeout:
                await self._app(scope, exchange.receive, exchange.send)
        except Refused as refused:
            # Handled here, since FastAPI's handlers are inside the application that was not called.
            response = problem(refused.status, refused.code, refused.detail)
            await response(scope, receive, exchange.send)
        except TimeoutError:
            # Once the response has begun, its status is sent and cannot be changed.
            if exchange.started:
                raise
            detail = f"no answer within {self._limits.seconds:g} seconds; try again later"
            await problem(503, "timed_out", detail)(scope, receive, exchange.send)
        except asyncio.CancelledError:
            # The server ends, and its task of this request with this answer. Its own answer would be 500.
            if exchange.started:
                raise
            exchange.timeout = None  # it has ended with the cancelled call
            detail = "the service ends before it has an answer; repeat the call"
            await problem(503, "unavailable", detail)(scope, receive, exchange.send)

    def _check(self, pairs: Sequence[tuple[bytes, bytes]]) -> None:
        headers = dict(pairs)
        # `dict` keeps the last of repeated headers, so that fewer keys reveal a repetition.
        if len(headers) < len(pairs):
            names = [name for name, _ in pairs]
            for name in SINGLE_HEADERS:
                if names.count(name) > 1:
                    detail = f"the header {name.decode()} was sent more than once"
                    raise Refused(400, "malformed", detail)
        host = headers.get(b"host", b"").decode("latin-1")
        if _host_name(host) not in self._hosts:
            detail = f"this service does not answer to the host {host[:100]!r}; allow it with --allow-host"
            raise Refused(403, "host_refused", detail)
        # A browser sends Origin with every request that could change something; a program may leave it out.
        origin = headers.get(b"origin")
        if origin is not None and _host_of(origin.decode("latin-1")) != host.lower():
            raise Refused(403, "origin_refused", "pages of other sites may not call this service")
        # Refused before the body is sent; `_Exchange` counts the bytes of a body without a length.
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length) > self._limits.body_bytes:
            raise Refused(413, "body_too_large", _too_large(self._limits.body_bytes))


class _Exchange:
    """One request and its response."""

    def __init__(self, receive: Receive, send: Send, max_bytes: int) -> None:
        self._receive, self._send = receive, send
        self._max_bytes, self._bytes = max_bytes, 0
        self.timeout: asyncio.Timeout | None = None
        self.started = False

    async def receive(self) -> Message:
        message = await self._receive()
        # Counted as they arrive: a request may have no Content-Length, or a wrong one.
        self._bytes += len(message.get("body", b""))
        if self._bytes > self._max_bytes:
            raise HTTPException(413, _too_large(self._max_bytes))
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            if self.timeout is not None and not self.timeout.expired():
                self.timeout.reschedule(None)  # a slow reader may take long over a large file
            headers = message["headers"]
            names = [name for name, _ in headers]
            headers.append((b"x-request-id", os.urandom(8).hex().encode()))
            headers += [item for item in HEADERS.items() if item[0] not in names]
        await self._send(message)


@lru_cache(maxsize=64)
def _host_name(host: str) -> str:
    """Return the name or address in a Host header, without its port; empty if it is not well formed."""
    match = _HOST.fullmatch(host.lower())
    return match["address"] or match["name"] if match else ""


def _host_of(origin: str) -> str:
    """Return the host and port of an origin; empty if it has none."""
    try:
        parts = urlsplit(origin.lower())
    except ValueError:
        return ""
    return parts.netloc if parts.scheme in ("http", "https") else ""


def _too_large(max_bytes: int) -> str:
    return f"a body has at most {max_bytes:,} bytes"
