"""Looks: computations for viewers, each made once for all who wait; streams of long files; kept comparisons."""

from __future__ import annotations

import asyncio
import io
import threading
from collections.abc import AsyncGenerator, Callable, Hashable, Mapping
from dataclasses import replace
from typing import Any, BinaryIO, TypeAlias, TypeVar

from anyio import CapacityLimiter, to_thread
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from sameluck.inference import Comparison, compare
from sameluck.live.experiment import LiveExperiment
from sameluck.runs import Runs

T = TypeVar("T")

MAX_COMPARISONS = 100  # of all experiments together
PIECE_BYTES, MAX_PIECES = 1 << 16, 8  # of a stream; so many pieces wait for its reader
STALLED_SECONDS = 60.0  # without a byte read, after which a stream ends

# What determines a comparison: experiment, definition, complete replications, checkpoints and arguments.
ComparisonKey: TypeAlias = tuple[int, str, int, tuple[int, ...], str]


class Looks:
    """Computations in a few threads of their own, the same computation one at a time.

    A viewer joins a computation that has not begun, and never one that has: its result would not show what the
    viewer's own calls have changed since.
    """

    def __init__(self, threads: int) -> None:
        self._threads = CapacityLimiter(threads)
        self._turns = asyncio.Semaphore(threads)
        self._waiting: dict[Hashable, asyncio.Task[Any]] = {}
        self._running: dict[Hashable, asyncio.Task[Any]] = {}

    async def make(self, key: Hashable, work: Callable[[], T]) -> T:
        """Return the result of work in a thread; all who wait for the key share it."""
        if key not in self._waiting:
            self._waiting[key] = asyncio.create_task(self._make(key, work))
            self._waiting[key].add_done_callback(_retrieve)
        # The shield keeps a viewer who leaves from cancelling the computation of the others.
        return await asyncio.shield(self._waiting[key])

    async def _make(self, key: Hashable, work: Callable[[], T]) -> T:
        if key in self._running:
            await asyncio.wait([self._running[key]])
        async with self._turns:
            self._running[key] = self._waiting.pop(key)
            try:
                return await to_thread.run_sync(work, limiter=self._threads, abandon_on_cancel=True)
            finally:
                del self._running[key]


def _retrieve(task: asyncio.Task[T]) -> None:
    if not task.cancelled():
        task.exception()  # or asyncio would log it after every viewer has left


class Stream(io.RawIOBase):
    """File that a thread writes and a coroutine sends, in pieces.

    The thread waits for a slow reader, and its next `write` raises `BrokenPipeError` once the reader has gone.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._pieces: asyncio.Queue[bytes | BaseException | None] = asyncio.Queue()
        self._room = threading.Semaphore(MAX_PIECES)
        self._first: bytes | None = None
        self._gone = False
        self._bytes = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._bytes

    def write(self, data: Any, /) -> int:
        piece = bytes(data)
        # Asked twice: the reader may leave while the thread waits, and the thread may flush after that.
        if self._gone or not self._room.acquire(timeout=STALLED_SECONDS) or self._gone:
            self._gone = True
            raise BrokenPipeError
        self._loop.call_soon_threadsafe(self._pieces.put_nowait, piece)
        self._bytes += len(piece)
        return len(piece)

    def end(self, error: BaseException | None = None) -> None:
        """End the file, or let its reader raise an error; called in the thread."""
        self._loop.call_soon_threadsafe(self._pieces.put_nowait, error)

    def leave(self) -> None:
        """Let the thread end, since nobody reads any more."""
        self._gone = True
        self._room.release()

    async def wait(self) -> None:
        """Wait for the first piece; raise an error that came before it."""
        self._first = await self._read()

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        piece = self._first
        while piece is not None:
            yield piece
            piece = await self._read()

    async def _read(self) -> bytes | None:
        piece = await self._pieces.get()
        if isinstance(piece, BaseException):
            raise piece
        self._room.release()
        return piece


class StreamResponse(StreamingResponse):
    """Response with the bytes of a stream, which ends when the client goes."""

    def __init__(self, stream: Stream, **options: Any) -> None:
        super().__init__(stream, **options)
        self._stream = stream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._stream.leave()


class Streams:
    """Long files for viewers, written in a few threads of their own."""

    def __init__(self, threads: int) -> None:
        self._threads = CapacityLimiter(threads)

    async def begin(self, write: Callable[[BinaryIO], object]) -> Stream:
        """Return a file that is being written, once there is a first piece; raise an earlier error."""
        stream = Stream()

        def work() -> None:
            try:
                with io.BufferedWriter(stream, PIECE_BYTES) as file:
                    write(file)
                stream.end()
            except BrokenPipeError:
                pass
            except BaseException as error:
                stream.end(error)

        writing = asyncio.create_task(
            to_thread.run_sync(work, limiter=self._threads, abandon_on_cancel=True)
        )
        writing.add_done_callback(_retrieve)
        try:
            await stream.wait()
        except BaseException:
            writing.cancel()  # if it has not begun
            stream.leave()
            raise
        return stream


class ComparisonCache:
    """Comparisons that were used last. Complete replications never change, so that no comparison gets stale."""

    def __init__(self) -> None:
        self._comparisons: dict[ComparisonKey, Comparison] = {}

    def compare(self, live: LiveExperiment, runs: Runs, options: Mapping[str, Any]) -> Comparison:
        """Return what `sl.compare` returns for the runs of an experiment, with the notes of these runs."""
        checkpoints = tuple(runs.checkpoints.tolist())
        arguments = repr(sorted(options.items()))
        key = live.id, runs.experiment.digest, runs.replications, checkpoints, arguments
        # Threads share the cache. `pop` and assignment are atomic; at worst a comparison is computed twice.
        result = self._comparisons.pop(key, None)
        if result is None:
            result = compare(runs, **options)
        self._comparisons[key] = result  # at the end, since the first is dropped first
        while len(self._comparisons) > MAX_COMPARISONS:
            self._comparisons.pop(next(iter(self._comparisons)), None)
        return replace(result, runs=runs)
