"""`CallQueue`: calls of coroutines, made in threads; those that wait at the same moment are made together.

The event loop never waits for the store. What becomes of a call (answered, late, cancelled) is decided in the event
loop of its coroutine, so that an answer is either given or known not to have been given.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from sameluck.errors import Closed, Unavailable
from sameluck.live.users.batches import MAX_BATCH

T = TypeVar("T")
Item = TypeVar("Item")
Answer = TypeVar("Answer")
_in_this_process: weakref.WeakSet[CallQueue] = weakref.WeakSet()


def _after_fork() -> None:
    for each in list(_in_this_process):
        each.begin()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@dataclass(frozen=True, eq=False)
class BatchedCall(Generic[Item, Answer]):
    """Calls that can be made together."""

    # An answer or an error for each of some items.
    together: Callable[[list[Item]], Sequence[Answer | BaseException]]
    # Takes an item and its answer that no coroutine got. With it, a call that nobody waits for any more is not made.
    unheard: Callable[[Item, Answer | BaseException], None] | None = None
    # One group at a time: a second would wait for the first, and be smaller than one that comes after it.
    in_turn: bool = False


class _Call(NamedTuple):
    kind: BatchedCall[Any, Any]
    item: object
    future: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop

    @property
    def withdrawn(self) -> bool:
        return self.kind.unheard is not None and self.future.done()

    def end(self, answer: object) -> None:
        """Give the answer to the coroutine, in its event loop."""
        if self.future.done():
            self.tell_unheard(answer)
        elif isinstance(answer, BaseException):
            self.future.set_exception(answer)
        else:
            self.future.set_result(answer)

    def tell_unheard(self, answer: object) -> None:
        if self.kind.unheard is not None:
            self.kind.unheard(self.item, answer)


class CallQueue:
    """The calls of one store that wait for a thread.

    Args:
        grouping: Threads that make calls together; each takes what waits when it is free.
        others: Threads that make the other calls.
        failed: Is told when a call has no answer in time, and none was given to others meanwhile.
    """

    def __init__(
        self, grouping: int, others: int, failed: Callable[[BaseException], object]
    ) -> None:
        self._most, self._others, self._failed = grouping, others, failed
        self._closed = False
        self.begin()
        _in_this_process.add(self)

    def begin(self) -> None:
        """Begin without calls and threads, as in a forked process: those of its parent stay there."""
        self._lock = threading.Lock()
        # The kind that waits longest first.
        self._waiting: dict[BatchedCall[Any, Any], list[_Call]] = {}
        self._in_turn: set[BatchedCall[Any, Any]] = set()  # of which a group is being made
        self._running = 0  # threads that make calls together
        self._progress = 0.0  # when one of them began or made calls
        self._groups = ThreadPoolExecutor(self._most, "sameluck")
        self._threads = ThreadPoolExecutor(self._others, "sameluck")

    async def call(
        self, kind: BatchedCall[Item, Answer], item: Item, seconds: float | None
    ) -> Answer:
        """Make a call together with others; `Unavailable` if it has no answer after so many seconds."""
        loop = asyncio.get_running_loop()
        call = _Call(kind, item, loop.create_future(), loop)
        self._submit(call, seconds)
        timer = None
        if seconds is not None:
            timer = loop.call_later(seconds, self._expire, call, seconds)
        try:
            return await call.future
        except asyncio.CancelledError:
            if not call.future.cancelled() and call.future.exception() is None:
                call.tell_unheard(call.future.result())  # it came just before
            raise
        finally:
            if timer is not None:
                timer.cancel()

    async def in_thread(self, call: Callable[[], T], seconds: float | None = None) -> T:
        """Make a call in a thread; `Unavailable` if it has no answer after so many seconds."""
        with self._lock:
            self._check_open()
            made = asyncio.wrap_future(self._threads.submit(copy_context().run, call))
        try:
            async with asyncio.timeout(seconds) as timeout:
                return await made
        except TimeoutError:
            if timeout.expired():
                raise _no_answer() from None
            raise

    async def close(self, then: Callable[[], None]) -> None:
        """Make the calls that wait, and then a last one, even if this is cancelled."""
        groups, threads = self._groups, self._threads

        def finish() -> None:
            groups.shutdown()
            then()
            threads.shutdown(wait=False)

        with self._lock:
            if self._closed:
                return
            self._closed = True
            last = asyncio.wrap_future(threads.submit(finish))
        await asyncio.shield(last)

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("the store is closed")

    def _submit(self, call: _Call, seconds: float | None) -> None:
        with self._lock:
            self._check_open()
            if self._hangs(seconds):
                raise _no_answer()
            self._waiting.setdefault(call.kind, []).append(call)
            if self._running < self._most and call.kind not in self._in_turn:
                self._running += 1
                self._progress = time.monotonic()
                self._groups.submit(self._work)

    def _hangs(self, seconds: float | None) -> bool:
        """Whether no thread is free, and none was for so long."""
        if seconds is None or self._running < self._most:
            return False
        return time.monotonic() - self._progress > seconds

    def _expire(self, call: _Call, seconds: float) -> None:
        if not call.future.done():
            error = _no_answer()
            call.future.set_exception(error)
            if self._hangs(seconds):
                self._failed(error)

    def _work(self) -> None:
        """Make calls as long as any wait."""
        while calls := self._take():
            if wanted := [call for call in calls if not call.withdrawn]:
                answers = _answers(wanted)
                self._progress = time.monotonic()
                _give(wanted, answers)
            with self._lock:
                self._in_turn.discard(calls[0].kind)

    def _take(self) -> list[_Call] | None:
        with self._lock:
            kind = next((one for one in self._waiting if one not in self._in_turn), None)
            if kind is None:
                self._running -= 1
                return None
            calls = self._waiting.pop(kind)
            if kind.in_turn:
                self._in_turn.add(kind)
            if len(calls) > MAX_BATCH:
                self._waiting[kind] = calls[MAX_BATCH:]  # behind the other kinds
            return calls[:MAX_BATCH]


def _no_answer() -> Unavailable:
    return Unavailable("the store did not answer in time: it is slow, or has too many calls")


def _answers(calls: Sequence[_Call]) -> Sequence[object]:
    try:
        return calls[0].kind.together([call.item for call in calls])
    except BaseException as error:
        return [error] * len(calls)


def _give(calls: Sequence[_Call], answers: Sequence[object]) -> None:
    """Give answers to coroutines, by one call of each event loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[_Call, object]]] = {}
    for call, answer in zip(calls, answers, strict=True):
        if call.future.done():
            call.tell_unheard(answer)
        else:
            by_loop.setdefault(call.loop, []).append((call, answer))
    for loop, answered in by_loop.items():
        try:
            loop.call_soon_threadsafe(_end, answered)
        except RuntimeError:  # the loop is closed
            for call, answer in answered:
                call.tell_unheard(answer)


def _end(answered: Sequence[tuple[_Call, object]]) -> None:
    for call, answer in answered:
        call.end(answer)
