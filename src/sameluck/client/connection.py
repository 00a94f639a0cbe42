"""`Connection`: a service's address, token, time limit and circuit breaker; and the two ways to send a call."""

from __future__ import annotations

import asyncio
import os
import random
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from typing import Any, Protocol, TypeVar
from weakref import WeakSet

import httpx

from sameluck.client.calls import RETRY_STATUSES, Answer, Call
from sameluck.errors import Closed, Invalid, SameluckError, Unavailable, shown
from sameluck.live.calls.timing import MAX_FAILURES, CircuitBreaker, seconds_left, time_limit
from sameluck.live.users.units import Unit, is_unit
from sameluck.validation import require_number

TOKEN_VARIABLE = "SAMELUCK_TOKEN"
# Time limits of calls for an arm, of the other calls for a user, and of all other calls.
ASSIGN_SECONDS, USER_SECONDS, MAX_SECONDS = 1.0, 5.0, 35.0
# The service has not received the call.
NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
MIN_PAUSE, MAX_PAUSE = 0.05, 1.0
MAX_ITEMS = 1_000  # in one request
MAX_REMEMBERED = 10_000  # units of an experiment

T = TypeVar("T")


_in_this_process: WeakSet[Connection] = WeakSet()


def _after_fork() -> None:
    for connection in list(_in_this_process):
        connection.begin()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class NotReceived(Unavailable):
    """Error for a call that the service has not received: it cannot be reached, or was not tried."""


class Connection:
    """Settings of one client, its open connections, and whether the service answered its last calls."""

    def __init__(
        self,
        url: str,
        token: str | None,
        timeout: float,
        sender_class: Callable[[str, Mapping[str, str], T], Sender],
        transport: T,
    ) -> None:
        if not _is_address(url):
            message = f"a service's address is text such as 'http://host:8321', got {shown(url)}"
            raise Invalid(message)
        require_number("timeout", timeout, above=0)
        if not isinstance(token, str | None):
            raise Invalid(f"a token is text, got a {type(token).__name__}")
        secret = token or os.environ.get(TOKEN_VARIABLE, "")
        if not secret.isascii() or not secret.isprintable():
            raise Invalid("a token is printable ASCII; it starts with sl_")
        self.url, self.timeout = url.rstrip("/"), float(timeout)
        self.headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        if secret:
            self.headers["Authorization"] = f"Bearer {secret}"
        self._make_sender = partial(sender_class, self.url, self.headers, transport)
        self.begin()
        _in_this_process.add(self)

    def begin(self) -> None:
        """Begin without connections, failures and lost answers.

        A forked process calls this. On its parent's connections it would read answers to its parent's calls, locks
        may be held by threads that it does not have, and its parent voids what was undelivered.
        """
        self._sender = self._make_sender()
        self._breaker = CircuitBreaker()
        # Units by experiment that may be enrolled although their answer was lost. They did not see the enrolled arm,
        # so their assignments are voided before the next call. Threads share the blocking client, hence the lock.
        self._undelivered: dict[str, dict[Unit, None]] = {}
        self._voiding: dict[str, set[Unit]] = {}  # units whose assignments are being voided
        # Units by experiment that saw their arm at an earlier call: if a later answer is lost, they still count.
        self._delivered: dict[str, dict[Unit, None]] = {}
        self._lock = threading.Lock()

    async def close(self) -> None:
        await self._sender.close()

    @property
    def experiments_to_void(self) -> list[str]:
        """Experiments with units whose assignments are to be voided."""
        with self._lock:
            return [name for name, units in self._undelivered.items() if units]

    def add_delivered(self, name: str, unit: Unit) -> bool:
        """Remember a unit of an experiment that got its arm; the oldest of too many is forgotten.

        Return False if another call is voiding the unit's assignment. The service may void it before or after this
        answer, so the unit must not see the arm, and its assignment is voided once more.
        """
        with self._lock:
            if unit in self._voiding.get(name, ()):
                self._undelivered.setdefault(name, {})[unit] = None
                return False
            self._undelivered.get(name, {}).pop(unit, None)
            remembered = self._delivered.setdefault(name, {})
            remembered[unit] = None
            if len(remembered) > MAX_REMEMBERED:
                del remembered[next(iter(remembered))]
        return True

    def add_undelivered(self, name: str, units: Iterable[Unit]) -> None:
        """Remember units of an experiment whose assignments are to be voided, unless too many are remembered."""
        with self._lock:
            remembered = self._undelivered.setdefault(name, {})
            if len(remembered) < MAX_REMEMBERED:
                # An invalid unit was not assigned an arm, and the service would refuse the whole list.
                valid, delivered = filter(is_unit, units), self._delivered.get(name, {})
                remembered.update(dict.fromkeys(unit for unit in valid if unit not in delivered))

    def take_undelivered(self, name: str) -> list[Unit]:
        """Return remembered units to void, at most as many as a request takes; no other call will return them."""
        with self._lock:
            remembered = self._undelivered.get(name, {})
            units = list(remembered)[:MAX_ITEMS]
            for unit in units:
                del remembered[unit]
            self._voiding.setdefault(name, set()).update(units)
        return units

    def end_voiding(self, name: str, units: Iterable[Unit], *, voided: bool) -> None:
        """Record the end of a call that voids units; units that may not be voided yet are remembered again."""
        with self._lock:
            self._voiding[name].difference_update(units)
        if not voided:
            self.add_undelivered(name, units)

    async def send(self, call: Call[T], *, is_assign: bool = False) -> T:
        """Send a call, again where that is safe; raise the embedded call's error, or `Unavailable`."""
        self._check_tried()
        # A user waits for `assign`, which has a fallback arm; a lost reward cannot be replaced and gets more time.
        seconds = self.timeout
        if not is_assign:
            seconds = max(seconds, USER_SECONDS if call.for_user else MAX_SECONDS)
        try:
            value = self._value(call, await self._answer(call, Attempts(call, seconds)))
        except SameluckError as error:
            # `Invalid` or `Conflict` are answers: only `Unavailable` counts as a failure there.
            self._breaker.end(error)
            raise
        self._breaker.end(None)
        return value

    async def _answer(self, call: Call[object], attempts: Attempts) -> Answer:
        sender, was_sent = self._sender, False
        while True:
            answer: Answer | None = None
            failure: Exception | None = None
            try:
                answer = await sender.send(call, attempts)
            except (httpx.HTTPError, TimeoutError) as error:
                failure = error
            except RuntimeError:
                if sender.is_closed:  # perhaps by another thread, during the call
                    raise Closed("the client is closed; make a new client") from None
                raise
            sent = not isinstance(failure, NOT_SENT)
            # An earlier attempt counts too: a service that is killed after its commit refuses the later attempts.
            was_sent = was_sent or sent
            # An answer such as 503 is retried too; if no time is left, it is returned as it is.
            pause = attempts.pause_after(answer, sent=sent)
            if pause is None:
                break
            await sender.sleep(pause)
        if answer is None:
            error_class = Unavailable if was_sent else NotReceived
            reason = failure if str(failure) else type(failure).__name__
            raise error_class(f"the service at {self.url} does not answer: {reason}")
        return answer

    def _check_tried(self) -> None:
        """Raise `NotReceived` if the last calls failed and it is too early to try again."""
        try:
            # After several failures in a row, one call per second tests whether the service answers again.
            if self._breaker.failures >= MAX_FAILURES:
                self._breaker.wait_for_turn()
        except Unavailable as error:
            raise NotReceived(str(error)) from None

    def _value(self, call: Call[T], answer: Answer) -> T:
        if error := answer.error:
            raise error
        # A proxy or a login page may answer with status 200 and HTML.
        if answer.content and answer.media_type != call.media_type:
            media_type = answer.media_type or "no media type"
            raise self._unexpected(answer, f"{media_type} in place of {call.media_type}")
        try:
            return call.read(answer)
        except SameluckError:
            raise
        except (ValueError, TypeError, LookupError, RecursionError):
            raise self._unexpected(answer, "an unexpected response") from None

    def _unexpected(self, answer: Answer, content: str) -> Unavailable:
        return Unavailable(
            f"the service at {self.url} answered (status {answer.status}) with {content}; check that it is sameluck, "
            "of this version, and that no proxy or login page answers in its place"
        )


def _is_address(url: object) -> bool:
    try:
        return isinstance(url, str) and httpx.URL(url).scheme in ("http", "https")
    except (httpx.InvalidURL, UnicodeError):
        return False


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
        # Doubled after each attempt, so that a service under load is not kept there by repetitions.
        pause = self._pause * (0.5 + random.random())  # jitter: clients do not return together
        self._pause = min(2 * self._pause, MAX_PAUSE)
        return pause if pause < self._deadline - time.monotonic() else None


class Sender(Protocol):
    """One attempt at a call over HTTP, and the pause before the next attempt."""

    async def send(self, call: Call[object], attempts: Attempts) -> Answer:
        """Return the answer, or raise `httpx.HTTPError` or `TimeoutError`."""

    async def sleep(self, seconds: float) -> None: ...

    async def close(self) -> None: ...

    @property
    def is_closed(self) -> bool:
        """Whether it was closed; then `send` raises `RuntimeError`."""


class AsyncSender:
    """Sender for an event loop."""

    def __init__(
        self, url: str, headers: Mapping[str, str], transport: httpx.AsyncBaseTransport | None
    ) -> None:
        checked = checked_transport(transport, httpx.AsyncBaseTransport)
        self._make = partial(
            httpx.AsyncClient,
            base_url=url,
            headers=headers,
            transport=checked,
            verify=certificates(),
        )
        # A connection can be used only in the event loop that opened it; `asyncio.run` makes a loop for each call.
        self._by_loop: dict[asyncio.AbstractEventLoop, httpx.AsyncClient] = {}
        self.is_closed = False

    async def send(self, call: Call[object], attempts: Attempts) -> Answer:
        if self.is_closed:
            raise RuntimeError
        loop = asyncio.get_running_loop()
        if loop not in self._by_loop:
            still_open = {k: http for k, http in self._by_loop.items() if not k.is_closed()}
            self._by_loop = {**still_open, loop: self._make()}
        stream = self._by_loop[loop].stream
        async with (
            asyncio.timeout(attempts.seconds_left),  # of the whole answer; httpx limits each read
            stream(call.method, call.address, content=call.content, timeout=None) as response,
        ):
            content = b"" if is_compressed(response) else await response.aread()
            return Answer(response.status_code, content, media_type_of(response))

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def close(self) -> None:
        self.is_closed = True
        if http := self._by_loop.get(asyncio.get_running_loop()):
            await http.aclose()


class BlockingSender:
    """Sender that blocks the calling thread. Its coroutines never suspend; see `blocking_client.run`."""

    def __init__(
        self, url: str, headers: Mapping[str, str], transport: httpx.BaseTransport | None
    ) -> None:
        checked = checked_transport(transport, httpx.BaseTransport)
        self._http = httpx.Client(
            base_url=url, headers=headers, transport=checked, verify=certificates()
        )

    async def send(self, call: Call[object], attempts: Attempts) -> Answer:
        # httpx limits connecting, waiting and each read; the time limit is for all of them (`_limit_reads`).
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

    @property
    def is_closed(self) -> bool:
        return self._http.is_closed


def _limit_reads(event: str, info: Mapping[str, Any]) -> None:
    """Let every read from a new connection end at the deadline of the call; httpx's extension `trace` calls this.

    httpx limits the time of each read separately. Without this, an answer whose head arrives byte by byte would
    have no deadline.
    """
    if event.endswith((".connect_tcp.complete", ".start_tls.complete")):
        stream = info["return_value"]
        read = stream.read
        stream.read = lambda size, timeout: read(size, max(0.001, seconds_left(timeout)))


@cache
def certificates() -> ssl.SSLContext:
    """Return the certificates that are trusted, read once: it takes as long as several hundred calls."""
    return httpx.create_ssl_context()


def checked_transport(transport: T, transport_class: type[T]) -> T:
    """Return the transport, or raise `Invalid` unless it is a transport of httpx or None."""
    if not isinstance(transport, transport_class | None):
        message = f"transport must be an httpx.{transport_class.__name__}, got {shown(transport)}"
        raise Invalid(message)
    return transport


def media_type_of(response: httpx.Response) -> str:
    """Return the media type of an answer, without its parameters."""
    header: str = response.headers.get("content-type", "")
    return header.partition(";")[0].strip().lower()


def is_compressed(response: httpx.Response) -> bool:
    """Return whether an answer is compressed. No call asks for it: a short compressed answer may be huge."""
    encoding: str = response.headers.get("content-encoding", "identity")
    return encoding.strip().lower() != "identity"
