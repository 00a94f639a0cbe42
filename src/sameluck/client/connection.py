"""`Connection`: a service's address, token, time limit and circuit breaker, for both clients."""

from __future__ import annotations

import os
from typing import TypeVar

import httpx

from sameluck.client.attempts import NOT_SENT, Attempts, Sender, seconds_for
from sameluck.client.calls import Call
from sameluck.client.decoding import Answer
from sameluck.errors import Invalid, SameluckError, Unavailable, shown
from sameluck.live.calls.timing import MAX_FAILURES, CircuitBreaker
from sameluck.validation import require_number

TOKEN_VARIABLE = "SAMELUCK_TOKEN"

T = TypeVar("T")


class NotReceived(Unavailable):
    """Error for a call that the service has not received: it cannot be reached, or was not tried."""


class Connection:
    """Settings of one client, and whether the service answered its last calls."""

    def __init__(self, url: str, token: str | None, timeout: float) -> None:
        if not _is_address(url):
            raise Invalid(
                f"a service's address is text such as 'http://host:8321', got {shown(url)}"
            )
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
        self._breaker = CircuitBreaker()

    async def send(self, sender: Sender, call: Call[T], *, is_assign: bool) -> T:
        """Send a call, again where that is safe, and return the value of its answer."""
        self._check_tried()
        seconds = seconds_for(call, timeout=self.timeout, is_assign=is_assign)
        try:
            value = self._value(call, await self._answer(sender, call, Attempts(call, seconds)))
        except SameluckError as error:
            self._breaker.end(error)
            raise
        self._breaker.end(None)
        return value

    async def _answer(self, sender: Sender, call: Call[object], attempts: Attempts) -> Answer:
        while True:
            answer: Answer | None = None
            failure: Exception | None = None
            try:
                answer = await sender.send(call, attempts)
            except (httpx.HTTPError, TimeoutError) as error:
                failure = error
            sent = not isinstance(failure, NOT_SENT)
            # An answer such as 503 is retried too; if no time is left, it is returned as it is.
            pause = attempts.pause_after(answer, sent=sent)
            if pause is None:
                break
            await sender.sleep(pause)
        if answer is None:
            error_class = Unavailable if sent else NotReceived
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
        except (ValueError, TypeError, LookupError):
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
