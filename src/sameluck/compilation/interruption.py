"""Threads that do not outlast Ctrl-C.

Python notices Ctrl-C in its first thread, and not while that thread runs machine code. Machine code of a user's
function, which may run for ever, therefore runs in another thread while the first thread waits. The process does not
wait for these threads when it ends: they are daemons.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_WAIT_SECONDS = 0.2  # Windows notices Ctrl-C only between waits


def interruptible(function: Callable[..., Result], *arguments: object) -> Result:
    """Call a function so that Ctrl-C ends the call; the function itself runs on in its thread."""
    if threading.current_thread() is not threading.main_thread():
        return function(*arguments)
    future: Future[Result] = Future()
    _start(partial(_complete, future, function, *arguments))
    return _result(future)


def _result(future: Future[Result]) -> Result:
    while not future.done():
        with suppress(TimeoutError):
            future.result(_WAIT_SECONDS)
    return future.result()


def in_threads(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    threads: int,
    ahead: float = math.inf,
) -> Iterator[Result]:
    """Yield a function's results for items, in order; at most `ahead` results wait for the caller.

    No item is begun after the iteration has ended.
    """
    waiting: SimpleQueue[Callable[[], None] | None] = SimpleQueue()  # None ends a thread
    team = [_start(lambda: _serve(waiting)) for _ in range(min(threads, len(items)))]
    begun: deque[Future[Result]] = deque()
    try:
        for item in items:
            begun.append(Future())
            waiting.put(partial(_complete, begun[-1], function, item))
            if len(begun) > ahead:
                yield _result(begun.popleft())
        while begun:
            yield _result(begun.popleft())
    finally:
        with suppress(Empty):
            while True:
                waiting.get_nowait()
        for _ in team:
            waiting.put(None)
    for thread in team:
        thread.join()


def _serve(waiting: SimpleQueue[Callable[[], None] | None]) -> None:
    while (work := waiting.get()) is not None:
        work()


def _start(run: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=run, name="sameluck", daemon=True)
    thread.start()
    return thread


def _complete(future: Future[Result], function: Callable[..., Result], *arguments: object) -> None:
    try:
        future.set_result(function(*arguments))
    except BaseException as error:  # it is raised in the thread that waits
        future.set_exception(error)
