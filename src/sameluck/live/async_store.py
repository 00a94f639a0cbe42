"""`open_async`: a store of live experiments for coroutines, with the methods of `Store`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial, wraps
from typing import Concatenate, Generic, ParamSpec, TypeVar

from sameluck.errors import Closed, Unavailable
from sameluck.experiment import Experiment
from sameluck.live.calls.call_queue import BatchedCall, CallQueue
from sameluck.live.experiment import LiveExperiment
from sameluck.live.options import MAX_SECONDS, Clock
from sameluck.live.records import Assignment, Receipt
from sameluck.live.store import Store
from sameluck.live.store import open as open_store
from sameluck.live.users.units import Unit
from sameluck.validation import require_flag, require_number

P = ParamSpec("P")
S_co = TypeVar("S_co", bound="Store | LiveExperiment", covariant=True)
T = TypeVar("T")

THREADS = 8  # for calls that are not batched
# Threads for batches of assignments and of rewards. SQLite makes one commit for two batches that wait at the same
# moment; PostgreSQL runs the statements of one batch while another waits for the disk.
BATCH_THREADS = {"sqlite": 2, "postgresql": 3}


def open_async(
    url: str,
    *,
    read_only: bool = False,
    clock: Clock = time.time,
    connections: int = 8,
    actor: str | None = None,
    timeout: float | None = None,
) -> Opening:
    """Open a store for coroutines: `async with sl.open_async(url) as store`, or `await` it and close it yourself.

    The arguments are the arguments of `open`. The event loop never waits for the store, and calls of `assign` and of
    `reward` that wait at the same moment share a transaction.
    """
    return Opening(
        partial(
            open_store,
            url,
            read_only=read_only,
            clock=clock,
            connections=connections,
            actor=actor,
            timeout=timeout,
        )
    )


class Opening:
    """Store that is being opened, for `await` or for `async with`, which closes it."""

    def __init__(self, open_store: Callable[[], Store]) -> None:
        self._open_store = open_store

    def __await__(self) -> Generator[object, None, AsyncStore]:
        return self._opened().__await__()

    async def __aenter__(self) -> AsyncStore:
        self._store = await self._opened()
        return self._store

    async def __aexit__(self, *_: object) -> None:
        await self._store.close()

    async def _opened(self) -> AsyncStore:
        # Connecting and migrating may take seconds, and there is no call queue before there is a store.
        thread = ThreadPoolExecutor(1, "sameluck")
        opening = thread.submit(self._open_store)
        thread.shutdown(wait=False)
        try:
            return AsyncStore(await asyncio.shield(asyncio.wrap_future(opening)))
        except asyncio.CancelledError:  # nobody else would close the store
            opening.add_done_callback(_close_opened)
            raise


def _close_opened(opening: Future[Store]) -> None:
    if opening.exception() is None:
        opening.result().close()


class _Awaited(Generic[S_co]):
    """Object whose methods are awaited."""

    def __init__(self, synchronous: S_co, calls: CallQueue) -> None:
        self.synchronous, self.calls = synchronous, calls


def _awaited(
    method: Callable[Concatenate[S_co, P], T], *, for_user: bool = False
) -> Callable[Concatenate[_Awaited[S_co], P], Coroutine[object, None, T]]:
    """Return a coroutine that calls a method in a thread.

    A call for a user ends at its deadline even if no thread is free.
    """

    @wraps(method)
    async def call(self: _Awaited[S_co], /, *arguments: P.args, **named: P.kwargs) -> T:
        made = partial(method, self.synchronous, *arguments, **named)
        seconds = self.synchronous.settings.patience if for_user else None
        return await self.calls.in_thread(made, seconds)

    return call


def _loaded(
    method: Callable[Concatenate[Store, P], LiveExperiment],
) -> Callable[Concatenate[AsyncStore, P], Coroutine[object, None, AsyncLiveExperiment]]:

    @wraps(method)
    async def call(
        self: AsyncStore, /, *arguments: P.args, **named: P.kwargs
    ) -> AsyncLiveExperiment:
        load = partial(method, self.synchronous, *arguments, **named)
        return AsyncLiveExperiment(await self.calls.in_thread(load), self)

    return call


class AsyncLiveExperiment(_Awaited[LiveExperiment]):
    """A `LiveExperiment` for coroutines: the same attributes, and the same methods, awaited."""

    def __init__(self, synchronous: LiveExperiment, store: AsyncStore) -> None:
        super().__init__(synchronous, store.calls)
        self.id, self.name = synchronous.id, synchronous.name
        self.options, self.started_at = synchronous.options, synchronous.started_at
        assign = synchronous.enrolment.assign_batch
        self._assigning: dict[bool, BatchedCall[Unit, Assignment]] = {
            strict: BatchedCall(
                partial(assign, strict=strict), synchronous.enrolment.mark_answer_undelivered
            )
            for strict in (False, True)
        }
        self._rewarding: BatchedCall[tuple[str | None, float], Receipt] = BatchedCall(
            synchronous.rewards.reward_batch,
            # Rewards that come at the same time belong to few replications, whose rows the first batch locks.
            in_turn=True,
        )

    def __repr__(self) -> str:
        return repr(self.synchronous).replace("<", "<Async", 1)

    @property
    def fallback_assignment(self) -> Assignment:
        """Answer to a unit while the store is unavailable, without a call to the store."""
        return self.synchronous.fallback_assignment

    @property
    def experiment(self) -> Experiment:
        """Experiment with the policies that were added."""
        return self.synchronous.experiment

    async def assign(self, unit: Unit, *, strict: bool = False) -> Assignment:
        """Return the arm to show a unit that has just arrived, as `LiveExperiment.assign` does.

        If the awaiting task is cancelled, the unit is not enrolled, or its assignment is voided.
        """
        require_flag("strict", strict)
        live = self.synchronous
        try:
            batched = self._assigning[bool(strict)]
            answer = await self.calls.call(batched, unit, live.settings.timeout)
        except Closed:
            raise
        except Unavailable:
            if strict:
                raise
            answer = live.fallback_assignment
        live.enrolment.count([answer])
        return answer

    async def reward(self, id: str | None, value: float) -> Receipt:
        """Report the reward of a unit, as `LiveExperiment.reward` does.

        It is reported even if the awaiting task is cancelled.
        """
        patience = self.synchronous.settings.patience
        return await self.calls.call(self._rewarding, (id, value), patience)

    fallback_arm = _awaited(LiveExperiment.fallback_arm)
    assign_many = _awaited(LiveExperiment.assign_many)
    reward_many = _awaited(LiveExperiment.reward_many)
    expose = _awaited(LiveExperiment.expose, for_user=True)
    void = _awaited(LiveExperiment.void, for_user=True)
    void_units = _awaited(LiveExperiment.void_units, for_user=True)
    tick = _awaited(LiveExperiment.tick)
    describe = _awaited(LiveExperiment.describe)
    pause = _awaited(LiveExperiment.pause)
    resume = _awaited(LiveExperiment.resume)
    stop = _awaited(LiveExperiment.stop)
    disable_arm = _awaited(LiveExperiment.disable_arm)
    enable_arm = _awaited(LiveExperiment.enable_arm)
    extend_windows = _awaited(LiveExperiment.extend_windows)
    erase = _awaited(LiveExperiment.erase)
    forget_units = _awaited(LiveExperiment.forget_units)
    history = _awaited(LiveExperiment.history)
    add_policy = _awaited(LiveExperiment.add_policy)
    preview_policy = _awaited(LiveExperiment.preview_policy)
    remove_policy = _awaited(LiveExperiment.remove_policy)
    replace_policy_code = _awaited(LiveExperiment.replace_policy_code)
    repair = _awaited(LiveExperiment.repair)
    status = _awaited(LiveExperiment.status)
    diagnostics = _awaited(LiveExperiment.diagnostics)
    export = _awaited(LiveExperiment.export)
    replications = _awaited(LiveExperiment.replications)
    runs = _awaited(LiveExperiment.runs)
    trace = _awaited(LiveExperiment.trace)
    verify = _awaited(LiveExperiment.verify)
    twin = _awaited(LiveExperiment.twin)


class AsyncStore(_Awaited[Store]):
    """A `Store` for coroutines: the same methods, awaited."""

    def __init__(self, synchronous: Store) -> None:
        # A database of another package may lack `kind`: its batches are made one at a time.
        batch_threads = BATCH_THREADS.get(getattr(synchronous.database, "kind", ""), 1)
        super().__init__(synchronous, CallQueue(batch_threads, THREADS, self._record_failure))

    def _record_failure(self, error: BaseException) -> None:
        self.synchronous.settings.breaker.end(error)

    async def __aenter__(self) -> AsyncStore:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Answer the calls of `assign` and `reward` that wait, and close the store as `Store.close` does."""
        await self.calls.close(self.synchronous.close)

    @property
    def timeout(self) -> float | None:
        """Seconds that `assign` may take; None for no deadline."""
        return self.synchronous.timeout

    async def check_writable(self, seconds: float = 1.0) -> None:
        """Raise `Unavailable` unless the database accepts a write within some seconds, even if no thread is free."""
        require_number("seconds", seconds, above=0, at_most=MAX_SECONDS)
        await self.calls.in_thread(partial(self.synchronous.check_writable, seconds), seconds)

    names = _awaited(Store.names)
    statuses = _awaited(Store.statuses)
    experiments_of = _awaited(Store.experiments_of)
    backup = _awaited(Store.backup)
    history = _awaited(Store.history)
    delete = _awaited(Store.delete)
    erase = _awaited(Store.erase)
    prune = _awaited(Store.prune)
    start = _loaded(Store.start)
    load = _loaded(Store.load)
    peek = _loaded(Store.peek)
    import_log = _awaited(Store.import_log)
