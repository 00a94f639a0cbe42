"""`CallQueue`: calls of coroutines, made in threads; calls that wait at the same moment are made as one batch.

The event loop never waits for the store. A call's outcome (answered, late, cancelled) is decided in the event loop of
its coroutine, so that an answer is either delivered or known to be undelivered.

Why a queue, beside SQLite's group commit and `PendingWrites`: a batch of calls is one transaction with one pass over
the statements. Without it, each call in a thread of its own, 100 coroutines on SQLite served 824 users per second
instead of 1,809 (medians of three interleaved runs on two busy cores).
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from sameluck.errors import Closed, Conflict, Diverged, Invalid, SameluckError, Unavailable, Unknown
from sameluck.validation import require_list

T = TypeVar("T")
S = TypeVar("S")
Item = TypeVar("Item")
Answer = TypeVar("Answer")

MAX_BATCH = 100  # items in one transaction: more would keep other callers waiting

_in_this_process: weakref.WeakSet[CallQueue] = weakref.WeakSet()


def _after_fork() -> None:
    for queue in list(_in_this_process):
        queue.begin()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@dataclass(frozen=True, eq=False)
class BatchedCall(Generic[Item, Answer]):
    """A function that can be called for a batch of items.

    Attributes:
        together: Returns an answer or an error for each item.
        undelivered: Takes an item and its answer that no coroutine got. With it, a call that nobody waits for any
            more is not made.
        in_turn: Make one batch at a time. A second batch would wait for the rows that the first has locked, and would
            be smaller than a batch made after it.
    """

    together: Callable[[list[Item]], Sequence[Answer | BaseException]]
    undelivered: Callable[[Item, Answer | BaseException], None] | None = None
    in_turn: bool = False


class _Call(NamedTuple):
    function: BatchedCall[Any, Any]
    item: object
    future: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop

    @property
    def withdrawn(self) -> bool:
        return self.function.undelivered is not None and self.future.done()

    def end(self, answer: object) -> None:
        """Deliver the answer to the coroutine; called in its event loop."""
        if self.future.done():
            self.report_undelivered(answer)
        elif isinstance(answer, BaseException):
            self.future.set_exception(answer)
        else:
            self.future.set_result(answer)

    def report_undelivered(self, answer: object) -> None:
        if self.function.undelivered is not None:
            self.function.undelivered(self.item, answer)


class CallQueue:
    """Calls of one store that wait for a thread.

    Args:
        batch_threads: Threads that make batches; each takes the waiting calls when it is free.
        single_threads: Threads that make all other calls.
        failed: Called with the error when a call has no answer in time, and no other call got one meanwhile.
    """

    def __init__(
        self, batch_threads: int, single_threads: int, failed: Callable[[BaseException], object]
    ) -> None:
        self._batch_threads, self._single_threads = batch_threads, single_threads
        self._failed = failed
        self._closed = False
        self.begin()
        _in_this_process.add(self)

    def begin(self) -> None:
        """Begin without calls and threads; a forked process calls this, since its parent keeps them."""
        # Guards the waiting calls and the counts below; it is never held while a call is made.
        self._lock = threading.Lock()
        # By function, the one that waits longest first.
        self._waiting: dict[BatchedCall[Any, Any], list[_Call]] = {}
        self._in_turn: set[BatchedCall[Any, Any]] = set()  # whose batch is being made
        self._running = 0  # threads that make batches
        self._progress = 0.0  # when one of them began or finished a batch
        self._batches = ThreadPoolExecutor(self._batch_threads, "sameluck")
        self._threads = ThreadPoolExecutor(self._single_threads, "sameluck")

    async def call(
        self, function: BatchedCall[Item, Answer], item: Item, seconds: float | None
    ) -> Answer:
        """Make a call in a batch with others; raise `Unavailable` if it has no answer after some seconds."""
        loop = asyncio.get_running_loop()
        call = _Call(function, item, loop.create_future(), loop)
        self._submit(call, seconds)
        timer = None
        if seconds is not None:
            timer = loop.call_later(seconds, self._expire, call, seconds)
        try:
            return await call.future
        except asyncio.CancelledError:
            if not call.future.cancelled() and call.future.exception() is None:
                # It arrived just before the cancellation.
                call.report_undelivered(call.future.result())
            raise
        finally:
            if timer is not None:
                timer.cancel()

    async def in_thread(self, call: Callable[[], T], seconds: float | None = None) -> T:
        """Make a call in a thread; raise `Unavailable` if it has no answer after some seconds."""
        with self._lock:
            self._check_open()
            # The deadline and the actor of a call are context variables, which a thread does not inherit.
            made = asyncio.wrap_future(self._threads.submit(copy_context().run, call))
        try:
            # The thread finishes its call in any case; only the coroutine stops waiting.
            async with asyncio.timeout(seconds) as timeout:
                return await made
        except TimeoutError:
            if timeout.expired():
                raise _no_answer() from None
            raise

    async def close(self, then: Callable[[], None]) -> None:
        """Make the calls that wait, and then a last one, even if the awaiting task is cancelled."""
        batches, threads = self._batches, self._threads

        def finish() -> None:
            batches.shutdown()
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
            self._waiting.setdefault(call.function, []).append(call)
            # A running thread takes this call with its next batch. Another thread is started only if it could make
            # a batch at once.
            if self._running < self._batch_threads and call.function not in self._in_turn:
                self._running += 1
                self._progress = time.monotonic()
                self._batches.submit(self._work)

    def _hangs(self, seconds: float | None) -> bool:
        """Return True if no thread is free, and none has been for some seconds."""
        if seconds is None or self._running < self._batch_threads:
            return False
        return time.monotonic() - self._progress > seconds

    def _expire(self, call: _Call, seconds: float) -> None:
        # Runs in the call's event loop, as `_Call.end` does, so that either of them decides, never both.
        if not call.future.done():
            error = _no_answer()
            call.future.set_exception(error)
            if self._hangs(seconds):
                self._failed(error)

    def _work(self) -> None:
        """Make batches as long as calls wait; runs in a thread."""
        while calls := self._take():
            if batch := [call for call in calls if not call.withdrawn]:
                answers = _answers(batch)
                self._progress = time.monotonic()  # without the lock: any recent value will do
                _deliver(batch, answers)
            with self._lock:
                self._in_turn.discard(calls[0].function)

    def _take(self) -> list[_Call] | None:
        with self._lock:
            ready = (function for function in self._waiting if function not in self._in_turn)
            function = next(ready, None)
            if function is None:
                self._running -= 1
                return None
            calls = self._waiting.pop(function)
            if function.in_turn:
                self._in_turn.add(function)
            if len(calls) > MAX_BATCH:
                self._waiting[function] = calls[MAX_BATCH:]  # behind the other functions
            return calls[:MAX_BATCH]


def _no_answer() -> Unavailable:
    return Unavailable("the store did not answer in time: it is slow, or has too many calls")


def _answers(calls: Sequence[_Call]) -> Sequence[object]:
    try:
        return calls[0].function.together([call.item for call in calls])
    except BaseException as error:
        return [error] * len(calls)


def _deliver(calls: Sequence[_Call], answers: Sequence[object]) -> None:
    """Deliver answers to coroutines, with one call of each event loop, since waking a loop is slow."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[_Call, object]]] = {}
    for call, answer in zip(calls, answers, strict=True):
        # Only a hint in this thread: `_Call.end` decides in the event loop.
        if call.future.done():
            call.report_undelivered(answer)
        else:
            by_loop.setdefault(call.loop, []).append((call, answer))
    for loop, answered in by_loop.items():
        try:
            loop.call_soon_threadsafe(_end, answered)
        except RuntimeError:  # the loop is closed
            for call, answer in answered:
                call.report_undelivered(answer)


def _end(answered: Sequence[tuple[_Call, object]]) -> None:
    for call, answer in answered:
        call.end(answer)


def batches_of(name: str, items: Iterable[T]) -> Iterator[list[T]]:
    """Yield the items of a list in batches for one transaction each."""
    checked = require_list(name, items)
    for first in range(0, len(checked), MAX_BATCH):
        yield checked[first : first + MAX_BATCH]


def result_or_error(call: Callable[..., T], *arguments: object) -> T | SameluckError:
    """Return the result of a call, or the error that it raises because of its arguments."""
    try:
        return call(*arguments)
    except (Conflict, Diverged, Invalid, Unknown) as error:
        return error.with_traceback(None)


def map_valid(
    items: Sequence[T | S], valid_class: type[S], call: Callable[[list[S]], Sequence[T]]
) -> list[T]:
    """Return the items, those of the valid class replaced by their results, which one call returns."""
    valid = [item for item in items if isinstance(item, valid_class)]
    results = iter(call(valid) if valid else ())
    if len(valid) == len(items):
        return list(results)
    return [
        next(results) if isinstance(item, valid_class) else item  # type: ignore[misc]  # T is not S
        for item in items
    ]
