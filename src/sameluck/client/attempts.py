"""Attempts at a call: how often and how long it is tried, and the two ways to send it."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterable, Mapping
from typing import Any, Protocol, TypeVar

import httpx

from sameluck.client.calls import MAX_SECONDS, Call
from sameluck.client.decoding import RETRY_STATUSES, Answer
from sameluck.errors import Invalid, shown
from sameluck.live.calls.timing import seconds_left, time_limit

ASSIGN_SECONDS, USER_SECONDS = 1.0, 5.0  # for an arm, and for the other calls for a user
NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout)  # the service has not received the call
MIN_PAUSE, MAX_PAUSE = 0.05, 1.0

T = TypeVar("T")


class Attempts:
    """Attempts at one call, until its deadline.

    A call is sent again if the service asks for a repetition or cannot be reached. If the answer was lost, only a
    call that is safe to repeat is sent again.
    """

    def __init__(self, call: Call[object], seconds: float) -> None:
        self._repeatable = call.repeatable
        self._deadline = time.monotonic() + seconds
        self._pause = MIN_PAUSE

    @property
    def seconds_left(self) -> float:
        """Seconds until the deadline, at least 1 ms, so that every call is tried once."""
        return max(0.001, self._deadline - time.monotonic())

    def content(self, chunks: Iterable[bytes]) -> bytes:
        """Join the chunks of an answer; raise `httpx.ReadTimeout` if they do not end before the deadline."""
        content = bytearray()
        for chunk in chunks:
            content += chunk
            if time.monotonic() > self._deadline:
                raise httpx.ReadTimeout("the answer did not end in time")
        return bytes(content)

    def pause_after(self, answer: Answer | None, *, sent: bool) -> float | None:
        """Return the seconds to wait before the next attempt; None to give up.

        Args:
            answer: The answer; None if there was none.
            sent: Whether the service may have received the call.
        """
        if answer is not None and answer.status not in RETRY_STATUSES:
            return None
        if answer is None and sent and not self._repeatable:
            return None
        pause = self._pause * (0.5 + random.random())  # jitter: clients do not return together
        self._pause = min(2 * self._pause, MAX_PAUSE)
        return pause if pause < self._deadline - time.monotonic() else None


def seconds_for(call: Call[object], *, timeout: float, is_assign: bool) -> float:
    """Return the time limit of a call, all its attempts together."""
    if not call.for_user:
        return max(timeout, MAX_SECONDS)
    return timeout if is_assign else max(timeout, USER_SECONDS)


class Sender(Protocol):
    """One attempt at a call over HTTP, and the pause before the next attempt."""

    async def send(self, call: Call[object], attempts: Attempts) -> Answer:
        """Return the answer, or raise `httpx.HTTPError` or `TimeoutError`."""

    async def sleep(self, seconds: float) -> None: ...

    async def close(self) -> None: ...


class AsyncSender:
    """Sender for an event loop."""

    def __init__(
        self, url: str, headers: Mapping[str, str], transport: httpx.AsyncBaseTransport | None
    ) -> None:
        checked = checked_transport(transport, httpx.AsyncBaseTransport)
        self._http = httpx.AsyncClient(base_url=url, headers=headers, transport=checked)

    async def send(self, call: Call[object], attempts: Attempts) -> Answer:
        async with (
            asyncio.timeout(attempts.seconds_left),  # of the whole answer; httpx limits each read
            self._http.stream(
                call.method, call.address, content=call.content, timeout=None
            ) as response,
        ):
            content = b"" if is_compressed(response) else await response.aread()
            return Answer(response.status_code, content, media_type_of(response))

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def close(self) -> None:
        await self._http.aclose()


class BlockingSender:
    """Sender that blocks the calling thread. Its coroutines never suspend; see `blocking_client.run`."""

    def __init__(
        self, url: str, headers: Mapping[str, str], transport: httpx.BaseTransport | None
    ) -> None:
        checked = checked_transport(transport, httpx.BaseTransport)
        self._http = httpx.Client(base_url=url, headers=headers, transport=checked)

    async def send(self, call: Call[object], attempts: Attempts) -> Answer:
        with (
            time_limit(attempts.seconds_left),
            self._http.stream(
                call.method,
                call.address,
                content=call.content,
                timeout=attempts.seconds_left,
                extensions={"trace": _limit_reads},
            ) as response,
        ):
            chunks = () if is_compressed(response) else response.iter_bytes()
            return Answer(response.status_code, attempts.content(chunks), media_type_of(response))

    async def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    async def close(self) -> None:
        self._http.close()


def _limit_reads(event: str, info: Mapping[str, Any]) -> None:
    """Let every read from a new connection end at the deadline of the call; httpx's extension `trace` calls this.

    httpx limits the time of each read separately. Without this, an answer whose head arrives byte by byte would
    have no deadline.
    """
    if event.endswith((".connect_tcp.complete", ".start_tls.complete")):
        stream = info["return_value"]
        read = stream.read
        stream.read = lambda size, timeout: read(size, max(0.001, seconds_left(timeout)))


def checked_transport(transport: T, transport_class: type[T]) -> T:
    """Return the transport, or raise `Invalid` unless it is a transport of httpx or None."""
    if not isinstance(transport, transport_class | None):
        raise Invalid(
            f"transport must be an httpx.{transport_class.__name__}, got {shown(transport)}"
        )
    return transport


def media_type_of(response: httpx.Response) -> str:
    """Return the media type of an answer, without its parameters."""
    header: str = response.headers.get("content-type", "")
    return header.partition(";")[0].strip().lower()


def is_compressed(response: httpx.Response) -> bool:
    """Return whether an answer is compressed. No call asks for it: a short compressed answer may be huge."""
    encoding: str = response.headers.get("content-encoding", "identity")
    return encoding.strip().lower() != "identity"
