"""`LoadedExperiments`: the experiments of a store, for a service that runs in an event loop.

No other module of the service calls the store. Calls for users that wait at the same moment share a transaction. All
other calls wait for the database in threads, and each lane has threads of its own: operators' switches, status and
history (`read`, `switch`) never wait for changes of a whole ledger (`change`) or for viewers (`look`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Hashable, Sequence
from functools import partial
from typing import BinaryIO, NamedTuple, TypeVar

from anyio import CapacityLimiter, to_thread

from sameluck.errors import Diverged, SameluckError, Unavailable, Unknown, shown
from sameluck.live.async_store import AsyncLiveExperiment, AsyncStore
from sameluck.live.calls.settings import acting_as
from sameluck.live.calls.timing import looking, time_limit
from sameluck.live.databases.rows import ACTIVE, StateRow
from sameluck.live.experiment import LiveExperiment
from sameluck.live.options import Makers
from sameluck.live.records import NOT_RUNNING, Assignment, AssignmentDetails, Receipt
from sameluck.live.store import Store
from sameluck.live.users.units import Unit
from sameluck.service.looks import Looks, Stream, Streams

S = TypeVar("S", LiveExperiment, Store)
T = TypeVar("T")

# Threads of the lanes. A look is mostly computation, and two threads use two cores.
QUICK_THREADS, CHANGE_THREADS, LOOK_THREADS, STREAM_THREADS = 4, 2, 2, 4
CHECK_SECONDS = 1.0  # for a write that tests the database, and between two such tests
RECHECK_SECONDS = 1.0  # between two looks for an experiment of the same name
MAX_REMEMBERED = 100_000  # assignments whose experiment is known without a query

_log = logging.getLogger("sameluck")


class Loaded(NamedTuple):
    """An experiment, for threads and for coroutines."""

    live: LiveExperiment
    coroutines: AsyncLiveExperiment


class LoadedExperiments:
    """Experiments of a store by name, each loaded once.

    Args:
        store: The store.
        makers: For `External` policies: name -> function of a seed that returns the policy.
    """

    def __init__(self, store: Store, makers: Makers | None = None) -> None:
        self.store = store
        self.makers = makers
        self._is_loading = False  # the active experiments, at the start
        self.loads = 0  # since the start, for `Server.exempt_loaded`
        self._async_store = AsyncStore(store)
        self._loaded: dict[str, Loaded] = {}
        self._load_lock = threading.Lock()
        self._loads_under_way: dict[str, asyncio.Task[Loaded]] = {}
        self._recheck_at: dict[str, float] = {}  # by experiment, in monotonic seconds
        self._names: dict[str, str] = {}  # of experiments, by the id of an assignment
        # When this process last accepted a reward, by experiment; in seconds since 1970.
        self.rewarded_at: dict[str, float] = {}
        self._quick, self._changes = CapacityLimiter(QUICK_THREADS), CapacityLimiter(CHANGE_THREADS)
        self._looks, self._streams = Looks(LOOK_THREADS), Streams(STREAM_THREADS)
        self._check_lock = asyncio.Lock()
        self._checked_at = -CHECK_SECONDS
        self._writable = True

    # Calls for users

    async def assign(self, name: str, unit: Unit) -> Assignment:
        """Return the arm to show a unit; the fallback arm if loading the experiment takes too long."""
        try:
            loaded = await self._experiment(name, self.store.timeout)
        except TimeoutError:
            return await self._fallback_assignment(name)
        answer = await loaded.coroutines.assign(unit)
        # A stopped experiment may have been deleted and started again by another process.
        if answer.reason == NOT_RUNNING and await self._is_replaced(name, loaded):
            return await self.assign(name, unit)
        self._remember(name, [answer])
        return answer

    async def assign_many(
        self, name: str, units: Sequence[Unit]
    ) -> list[Assignment | SameluckError]:
        """Return the arms to show several units; an error takes the place of its answer."""
        try:
            loaded = await self._experiment(name, self.store.timeout)
        except TimeoutError:
            return [await self._fallback_assignment(name)] * len(units)
        answers = await loaded.coroutines.assign_many(units)
        reasons = [answer.reason for answer in answers if isinstance(answer, Assignment)]
        if NOT_RUNNING in reasons and await self._is_replaced(name, loaded):
            return await self.assign_many(name, units)
        self._remember(name, answers)
        return answers

    def mark_undelivered(
        self, name: str, units: Sequence[Unit], answers: Sequence[Assignment | SameluckError]
    ) -> None:
        """Let the next transactions void new assignments of units whose client has gone."""
        if loaded := self._loaded.get(name):
            enrolment = loaded.coroutines.synchronous.enrolment
            for unit, answer in zip(units, answers, strict=True):
                enrolment.mark_answer_undelivered(unit, answer)

    async def reward(self, id: str, value: float) -> Receipt:
        async def reward(loaded: Loaded) -> Receipt:
            receipt = await loaded.coroutines.reward(id, value)
            self.rewarded_at[loaded.live.name] = time.time()
            return receipt

        return await self._for_assignment(id, reward)

    async def reward_many(
        self, pairs: Sequence[tuple[str, float]]
    ) -> list[Receipt | SameluckError]:
        """Report rewards of one experiment or several; an error takes the place of its receipt."""
        names = await self._names_of([id for id, _ in pairs])
        answers: list[Receipt | SameluckError] = [_unknown(id) for id, _ in pairs]
        for name in dict.fromkeys(name for name in names if name is not None):
            indices = [index for index, other in enumerate(names) if other == name]
            receipts = await self._reward_in(name, [pairs[index] for index in indices])
            for index, receipt in zip(indices, receipts, strict=True):
                answers[index] = receipt
        return answers

    async def _reward_in(
        self, name: str, pairs: Sequence[tuple[str, float]]
    ) -> Sequence[Receipt | SameluckError]:
        """Report rewards of one experiment. If it was deleted, rewards of other experiments still count."""
        try:
            loaded = await self._experiment(name)
            receipts = await loaded.coroutines.reward_many(pairs)
            any_unknown = any(isinstance(receipt, Unknown) for receipt in receipts)
            # An unknown assignment may belong to a newer experiment of the same name.
            if any_unknown and await self._is_stale(name, loaded):
                loaded = await self._experiment(name)
                receipts = await loaded.coroutines.reward_many(pairs)
        except Unavailable:
            raise  # the whole call may be repeated
        except SameluckError as error:
            return [error] * len(pairs)
        if any(isinstance(receipt, Receipt) for receipt in receipts):
            self.rewarded_at[name] = time.time()
        return receipts

    async def expose(self, id: str) -> None:
        await self._for_assignment(id, lambda loaded: loaded.coroutines.expose(id))

    async def void(self, id: str) -> None:
        await self._for_assignment(id, lambda loaded: loaded.coroutines.void(id))

    async def void_units(self, name: str, units: Sequence[Unit]) -> None:
        """Void the assignments of units whose answer was lost."""
        await self._for_experiment(name, lambda loaded: loaded.coroutines.void_units(units))

    # Other calls

    async def read(self, name: str, work: Callable[[LiveExperiment], T]) -> T:
        """Run quick work on an experiment, such as its status; the experiment need not be loaded."""
        return await self._at_once(name, work, abandon=True)

    async def switch(self, actor: str, name: str, work: Callable[[LiveExperiment], T]) -> T:
        """Make a quick change, such as disabling an arm, which waits for no look; the history names the actor."""
        return await self._at_once(name, partial(_as_actor, actor, work))

    async def change(self, actor: str, name: str, work: Callable[[LiveExperiment], T]) -> T:
        """Make a change that may take long, such as adding a policy; the history names the actor."""
        return await self._for_experiment(
            name, lambda loaded: self.change_store(actor, lambda _: work(loaded.live))
        )

    async def look(self, name: str, work: Callable[[LiveExperiment], T], *key: Hashable) -> T:
        """Run work that may take long on an experiment; viewers with the same key share it."""

        def look(live: LiveExperiment) -> T:
            with looking():
                return work(live)

        return await self._for_experiment(
            name,
            lambda loaded: self._looks.make((loaded.live.id, *key), partial(look, loaded.live)),
        )

    async def stream(
        self, name: str, write: Callable[[LiveExperiment, BinaryIO], object]
    ) -> Stream:
        """Return a file that is written as it is read."""

        def write_file(live: LiveExperiment, file: BinaryIO) -> None:
            with looking():
                write(live, file)

        return await self._for_experiment(
            name, lambda loaded: self._streams.begin(partial(write_file, loaded.live))
        )

    async def compute(self, work: Callable[[], T], *key: Hashable) -> T:
        """Run work that may take long and uses no experiment, such as making a page."""
        return await self._looks.make(key, work)

    async def change_store(self, actor: str, work: Callable[[Store], T]) -> T:
        return await self._in_thread(partial(_as_actor, actor, work, self.store), self._changes)

    async def read_store(self, work: Callable[[Store], T]) -> T:
        """Run quick work on the store."""
        return await self._in_thread(lambda: work(self.store), self._quick, abandon=True)

    async def states(self, seconds: float) -> list[StateRow]:
        """Return the name, the status and its reason of every experiment, within some seconds."""

        def read(store: Store) -> list[StateRow]:
            with time_limit(seconds):
                return store.database.read(lambda t: t.fetch_all(StateRow, "experiment_states"))

        return await self.read_store(read)

    async def describe(self, id: str) -> AssignmentDetails:
        return await self._for_assignment(
            id,
            lambda loaded: self._in_thread(
                lambda: loaded.live.describe(id), self._quick, abandon=True
            ),
        )

    async def check_writable(self) -> None:
        """Raise `Unavailable` while experiments are loaded at the start, and unless the database can be written.

        It is tested once a second at most.
        """
        if self._is_loading:
            raise Unavailable("the experiments are being loaded")
        # One test at a time: probes of a load balancer must not pile up on a slow database.
        async with self._check_lock:
            if time.monotonic() >= self._checked_at + CHECK_SECONDS:
                self._writable = await self._test_write()
                self._checked_at = time.monotonic()
        if not self._writable:
            message = "the database cannot be written; the log of the service has the reason"
            raise Unavailable(message)

    async def _test_write(self) -> bool:
        try:
            await self._async_store.check_writable(CHECK_SECONDS)
        except Unavailable as error:
            if self._writable:
                _log.error("sameluck: the database cannot be written: %s", error)
            return False
        return True

    async def expire_each_second(self) -> None:
        """Expire due assignments of every loaded experiment each second, also while nobody calls."""
        while True:
            await asyncio.sleep(1)
            for loaded in list(self._loaded.values()):
                with contextlib.suppress(SameluckError):  # a later call reports it
                    await self._in_thread(loaded.live.tick, None, abandon=True)

    async def close(self) -> None:
        """Answer the calls that wait, and close the store."""
        await self._async_store.close()

    async def delete(self, actor: str, name: str, reason: str) -> None:
        try:
            await self.change_store(actor, lambda store: store.delete(name, reason=reason))
        except Unknown:
            raise no_experiment(name) from None
        self._loaded.pop(name, None)

    # Loading

    def load_active(self) -> None:
        """Load the experiments that enrol users or await rewards; log an experiment that cannot be loaded."""
        self._is_loading = True
        try:
            for status in self.store.statuses():
                if status.status in ACTIVE:
                    try:
                        self._load(status.name)
                    except SameluckError as error:
                        _log.error("sameluck: cannot load %r: %s", status.name, error)
        finally:
            self._is_loading = False

    async def _in_thread(
        self, call: Callable[[], T], lane: CapacityLimiter | None, *, abandon: bool = False
    ) -> T:
        """Make a call in a thread of a lane; with `abandon`, stop waiting for it when the request is cancelled."""
        return await to_thread.run_sync(call, limiter=lane, abandon_on_cancel=abandon)

    async def _at_once(
        self, name: str, work: Callable[[LiveExperiment], T], *, abandon: bool = False
    ) -> T:
        """Run quick work on an experiment; if it is not loaded, it is opened without a check of its ledger."""

        def on_opened() -> T:
            try:
                live = self.store.peek(name, makers=self.makers)
            except Unknown:
                raise no_experiment(name) from None
            return work(live)

        if name not in self._loaded:
            return await self._in_thread(on_opened, self._quick, abandon=abandon)
        return await self._for_experiment(
            name,
            lambda loaded: self._in_thread(lambda: work(loaded.live), self._quick, abandon=abandon),
        )

    async def _experiment(self, name: str, seconds: float | None = None) -> Loaded:
        """Return an experiment; raise `TimeoutError` after some seconds, while loading goes on.

        All requests for an experiment wait for one load. The shield keeps a cancelled request from cancelling it.
        """
        if name in self._loaded:
            return self._loaded[name]
        if name not in self._loads_under_way:
            load = self._in_thread(lambda: self._load(name), None, abandon=True)
            self._loads_under_way[name] = asyncio.create_task(load)
            self._loads_under_way[name].add_done_callback(partial(self._end_load, name))
        return await asyncio.wait_for(asyncio.shield(self._loads_under_way[name]), seconds)

    def _end_load(self, name: str, load: asyncio.Task[Loaded]) -> None:
        del self._loads_under_way[name]
        if not load.cancelled():
            load.exception()  # retrieved, or asyncio would log it although the requests raised it

    async def _fallback_assignment(self, name: str) -> Assignment:
        """Answer a unit before the experiment is loaded: reading its settings is quick, its ledger is not."""
        return (await self._async_store.peek(name, makers=self.makers)).fallback_assignment

    async def _for_assignment(self, id: str, work: Callable[[Loaded], Awaitable[T]]) -> T:
        (name,) = await self._names_of([id])
        if name is None:
            raise _unknown(id)
        return await self._for_experiment(name, work)

    async def _for_experiment(self, name: str, work: Callable[[Loaded], Awaitable[T]]) -> T:
        """Make a call to an experiment, again if another process has replaced the experiment by a new one."""
        loaded = await self._experiment(name)
        try:
            return await work(loaded)
        except Unknown:
            if not await self._is_stale(name, loaded):
                raise
        return await self._for_experiment(name, work)

    async def _is_replaced(self, name: str, loaded: Loaded) -> bool:
        """Return whether another process has replaced the experiment by a new one of its name.

        The store is asked once a second at most. Raise `Unknown` if the experiment was deleted and not replaced.
        """
        now = time.monotonic()
        if now < self._recheck_at.get(name, 0.0):
            return False
        self._recheck_at[name] = now + RECHECK_SECONDS
        return await self._is_stale(name, loaded)

    async def _is_stale(self, name: str, loaded: Loaded) -> bool:
        """Return what `_is_replaced` returns, and ask the store now."""
        try:
            current = await self._async_store.peek(name, makers=self.makers)
        except Unknown:
            self._loaded.pop(name, None)
            raise no_experiment(name) from None
        if current.id != loaded.live.id:
            self._loaded.pop(name, None)
        return current.id != loaded.live.id

    def _load(self, name: str) -> Loaded:
        # Two threads may load at once, at the start and for a request. The second finds the first one's result.
        with self._load_lock:
            if name not in self._loaded:
                try:
                    live = self.store.load(name, makers=self.makers)
                except Unknown:  # whose message would name the other experiments
                    raise no_experiment(name) from None
                except Diverged:  # failed, or run by other code: users get the fallback arm
                    live = self.store.peek(name, makers=self.makers)
                self._loaded[name] = Loaded(live, AsyncLiveExperiment(live, self._async_store))
                self.loads += 1
            return self._loaded[name]

    async def _names_of(self, ids: Sequence[str]) -> list[str | None]:
        """Return the experiments of assignments; a query is needed only for assignments of other processes."""
        missing = [id for id in ids if id not in self._names]
        queried: dict[str, str | None] = {}
        if missing:
            names = await self._async_store.experiments_of(missing)
            queried = dict(zip(missing, names, strict=True))
        return [self._names.get(id) or queried.get(id) for id in ids]

    def _remember(self, name: str, answers: Sequence[Assignment | SameluckError]) -> None:
        for answer in answers:
            if isinstance(answer, Assignment) and answer.id is not None:
                self._names[answer.id] = name
        # Dictionaries keep the order of insertion, so that the oldest assignment is forgotten first.
        while len(self._names) > MAX_REMEMBERED:
            del self._names[next(iter(self._names))]


def _as_actor(actor: str, work: Callable[[S], T], subject: S) -> T:
    with acting_as(actor):
        return work(subject)


def no_experiment(name: str) -> Unknown:
    return Unknown(f"no experiment {shown(name)} in this store")


def _unknown(id: str) -> Unknown:
    return Unknown(f"no assignment {shown(id)} in this store")
