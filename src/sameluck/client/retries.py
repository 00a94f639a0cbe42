"""How often and how long a call is tried."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Mapping
from typing import Any

import httpx

from sameluck.client.answers import AGAIN, Answer
from sameluck.client.calls import LONGEST, Call
from sameluck.live.calls.deadline import seconds_left, time_limit

TIMEOUT, PATIENCE = 1.0, 5.0  # seconds: for an arm, and for the other calls for a user
NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout)  # the service has not received the call
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0


class Attempts:
    """The attempts of one call, until its deadline.

    A call is sent again if the service said that it may, or if it could not be reached; if its answer was lost, only
    a call for which twice is as good as once.
    """

    def __init__(self, call: Call[object], seconds: float) -> None:
        self._repeatable = call.repeatable
        self._deadline = time.monotonic() + seconds
        self._pause = FIRST_PAUSE

    @property
    def seconds_left(self) -> float:
        """Until the deadline; a little at least, so that a call can be tried."""
        return max(0.001, self._deadline - time.monotonic())

    def in_time(self) -> time_limit:
        """What is read within must come before the deadline; see `limit_reads`."""
        return time_limit(self.seconds_left)

    def content(self, chunks: Iterable[bytes]) -> bytes:
        """The content of an answer, if it comes before the deadline: httpx limits the time of each part alone."""
        content = bytearray()
        for chunk in chunks:
            content += chunk
            if time.monotonic() > self._deadline:
                raise httpx.ReadTimeout("the answer did not end in time")
        return bytes(content)

    def pause_after(self, answer: Answer | None, *, sent: bool) -> float | None:
        """Seconds to wait before the next attempt; None if there is none.

        Args:
            answer: The answer; None if there was none.
            sent: Whether the service may have received the call.
        """
        if answer is not None and answer.status not in AGAIN:
            return None
        if answer is None and sent and not self._repeatable:
            return None
        pause = self._pause * (0.5 + random.random())  # so that clients do not return together
        self._pause = min(2 * self._pause, LONGEST_PAUSE)
        return pause if pause < self._deadline - time.monotonic() else None


def limit_reads(event: str, info: Mapping[str, Any]) -> None:
    """Let every read from a new connection end at the deadline of the call that reads; for the extension `trace`.

    httpx limits the time of each read alone: an answer whose head came byte by byte would have no deadline.
    """
    if event.endswith((".connect_tcp.complete", ".start_tls.complete")):
        stream = info["return_value"]
        read = stream.read
        stream.read = lambda size, timeout: read(size, max(0.001, seconds_left(timeout)))


def seconds_for(call: Call[object], *, timeout: float, is_assign: bool) -> float:
    """The time that a call has, all its attempts together."""
    if not call.for_user:
        return max(timeout, LONGEST)
    return timeout if is_assign else max(timeout, PATIENCE)
