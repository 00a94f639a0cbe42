"""`LoadedExperiments`: the experiments of a store, for a service that runs in an event loop.

This is the only module of the service that calls a store. Calls for users that wait at the same moment share a
transaction; the others wait for the database in threads, few at a time, so that users do not wait for them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from anyio import CapacityLimiter, to_thread

from sameluck.errors import Diverged, SameluckError, Unavailable, Unknown, shown
from sameluck.live.async_store import AsyncLiveExperiment, AsyncStore
from sameluck.live.calls.deadline import time_limit
from sameluck.live.calls.settings import acting_as
from sameluck.live.databases.rows import ACTIVE
from sameluck.live.experiment import LiveExperiment
from sameluck.live.options import Makers
from sameluck.live.records import NOT_RUNNING, UNAVAILABLE, Assignment, AssignmentDetails, Receipt
from sameluck.live.store import Store
from sameluck.live.users.enrolment import Unit

T = TypeVar("T")

THREADS = 4  # for the calls that are not for users
CHECK_SECONDS = 1.0  # that the database has to be written, and for which the outcome holds
MOST_REMEMBERED = 100_000  # assignments whose experiment is known without a query

_log = logging.getLogger("sameluck")


class Loaded(NamedTuple):
    """An experiment, for threads and for coroutines."""

    live: LiveExperiment
    awaited: AsyncLiveExperiment


class LoadedExperiments:
    """The experiments of a store by name, each loaded once.

    Args:
        store: The store.
        makers: For `External` policies: name -> function of a seed that returns the policy.
    """

    def __init__(self, store: Store, makers: Makers | None = None) -> None:
        self.store = store
        self.makers = makers
        self.loads = 0  # how many were loaded so far
        self._awaited = AsyncStore(store)
        self._loaded: dict[str, Loaded] = {}
        self._loading = threading.Lock()
        self._loads: dict[str, asyncio.Task[Loaded]] = {}  # that have begun
        self._asked: dict[str, float] = {}  # when an experiment may be looked for again
        self._names: dict[str, str] = {}  # of experiments, by the id of an assignment
        self._threads = CapacityLimiter(THREADS)
        self._checking = asyncio.Lock()
        self._checked = -CHECK_SECONDS
        self._writable = True

    # Calls for users

    async def assign(self, name: str, unit: Unit) -> Assignment:
        """The arm to show a unit: the fallback arm while the experiment takes long to load."""
        try:
            loaded = await self._experiment(name, self.store._settings.timeout)
        except TimeoutError:
            return await self._not_loaded(name)
        answer = await loaded.awaited.assign(unit)
        if answer.reason == NOT_RUNNING and await self._is_replaced(name, loaded):
            return await self.assign(name, unit)
        self._remember(name, [answer])
        return answer

    async def assign_many(
        self, name: str, units: Sequence[Unit]
    ) -> list[Assignment | SameluckError]:
        """The arms to show several units, or an error in the place of one."""
        try:
            loaded = await self._experiment(name, self.store._settings.timeout)
        except TimeoutError:
            return [await self._not_loaded(name)] * len(units)
        answers = await loaded.awaited.assign_many(units)
        if any(_is_not_running(one) for one in answers) and await self._is_replaced(name, loaded):
            return await self.assign_many(name, units)
        self._remember(name, answers)
        return answers

    async def reward(self, id: str, value: float) -> Receipt:
        """Report the reward of a unit."""
        return await self._for_assignment(id, lambda loaded: loaded.awaited.reward(id, value))

    async def reward_many(
        self, pairs: Sequence[tuple[str, float]]
    ) -> list[Receipt | SameluckError]:
        """Report rewards, of one experiment or several; an error stands in its place."""
        names = await self._names_of([id for id, _ in pairs])
        answers: list[Receipt | SameluckError] = [_unknown(id) for id, _ in pairs]
        for name in dict.fromkeys(name for name in names if name is not None):
            places = [place for place, other in enumerate(names) if other == name]
            got = await self._reward_those_of(name, [pairs[place] for place in places])
            for place, answer in zip(places, got, strict=True):
                answers[place] = answer
        return answers

    async def _reward_those_of(
        self, name: str, pairs: Sequence[tuple[str, float]]
    ) -> Sequence[Receipt | SameluckError]:
        """As `reward_many` for one experiment; if it was deleted, say, the rewards of others count."""
        try:
            loaded = await self._experiment(name)
            got = await loaded.awaited.reward_many(pairs)
            if any(isinstance(one, Unknown) for one in got) and await self._is_stale(name, loaded):
                loaded = await self._experiment(name)
                got = await loaded.awaited.reward_many(pairs)
        except Unavailable:
            raise
        except SameluckError as error:
            return [error] * len(pairs)
        return got

    async def expose(self, id: str) -> None:
        """Report that a unit has seen its arm."""
        await self._for_assignment(id, lambda loaded: loaded.awaited.expose(id))

    async def void(self, id: str) -> None:
        """Report that a unit never saw its arm."""
        await self._for_assignment(id, lambda loaded: loaded.awaited.void(id))

    async def void_units(self, name: str, units: Sequence[Unit]) -> None:
        """Void the assignments of units whose answer was lost."""
        loaded = await self._experiment(name)
        try:
            await self._in_thread(lambda: loaded.live.void_units(units))
        except Unknown:
            if not await self._is_stale(name, loaded):
                raise
            await self.void_units(name, units)

    # Everything else

    async def read(self, name: str, work: Callable[[LiveExperiment], T]) -> T:
        """Run what may take long on an experiment."""
        loaded = await self._experiment(name)
        try:
            return await self._in_thread(lambda: work(loaded.live), given_up=True)
        except Unknown:
            if not await self._is_replaced(name, loaded):
                raise
        return await self.read(name, work)

    async def change(self, actor: str, name: str, work: Callable[[LiveExperiment], T]) -> T:
        """Change an experiment; the history has the actor."""
        loaded = await self._experiment(name)
        try:
            return await self.change_store(actor, lambda _: work(loaded.live))
        except Unknown:
            if not await self._is_stale(name, loaded):
                raise
        return await self.change(actor, name, work)

    async def change_store(self, actor: str, work: Callable[[Store], T]) -> T:
        """Change the store; the history has the actor."""

        def change() -> T:
            with acting_as(actor):
                return work(self.store)

        return await self._in_thread(change)

    async def read_store(self, work: Callable[[Store], T]) -> T:
        """Read the store."""
        return await self._in_thread(lambda: work(self.store), given_up=True)

    async def describe(self, id: str) -> AssignmentDetails:
        """Everything about an assignment."""
        return await self._for_assignment(
            id,
            lambda loaded: self._in_thread(lambda: loaded.live.describe(id), given_up=True),
        )

    async def check_writable(self) -> None:
        """Raise `Unavailable` unless the database can be written; it is tried once a second, however many ask."""
        async with self._checking:
            if time.monotonic() >= self._checked + CHECK_SECONDS:
                self._writable = await self._write_nothing()
                self._checked = time.monotonic()
        if not self._writable:
            raise Unavailable(
                "the database cannot be written; the log of the service has the reason"
            )

    async def _write_nothing(self) -> bool:
        def write() -> None:
            with time_limit(CHECK_SECONDS):
                self.store.database.write(lambda _: None)

        try:
            # Not behind the calls that may take long.
            await self._awaited._calls.in_thread(write, CHECK_SECONDS)
        except Unavailable as error:
            if self._writable:
                _log.error("sameluck: the database cannot be written: %s", error)
            return False
        return True

    async def expire_each_second(self) -> None:
        """Record default rewards and offer entries again when their time is over, also while nobody calls."""
        while True:
            await asyncio.sleep(1)
            for loaded in list(self._loaded.values()):
                with contextlib.suppress(SameluckError):  # a later call reports it
                    await self._in_thread(loaded.live.tick, given_up=True)

    async def close(self) -> None:
        """Answer the calls that wait, and close the store."""
        await self._awaited.close()

    async def delete(self, actor: str, name: str, reason: str) -> None:
        """Delete an experiment that has ended."""
        try:
            await self.change_store(actor, lambda store: store.delete(name, reason=reason))
        except Unknown:
            raise _no_experiment(name) from None
        self._loaded.pop(name, None)

    def load_active(self) -> None:
        """Load the experiments that users may call for; one that cannot be loaded is logged."""
        for status in self.store.statuses():
            if status.status in ACTIVE:
                try:
                    self._load(status.name)
                except SameluckError as error:
                    _log.error("sameluck: cannot load %r: %s", status.name, error)

    async def _in_thread(self, call: Callable[[], T], *, given_up: bool = False) -> T:
        """Make a call in a thread; if `given_up`, nobody waits for it any more once the request has ended."""
        return await to_thread.run_sync(call, limiter=self._threads, abandon_on_cancel=given_up)

    async def _experiment(self, name: str, seconds: float | None = None) -> Loaded:
        """An experiment; raises `TimeoutError` if loading it takes longer, which goes on."""
        if name in self._loaded:
            return self._loaded[name]
        if name not in self._loads:
            load = self._in_thread(lambda: self._load(name), given_up=True)
            self._loads[name] = asyncio.create_task(load)
            self._loads[name].add_done_callback(partial(self._end_load, name))
        return await asyncio.wait_for(asyncio.shield(self._loads[name]), seconds)

    def _end_load(self, name: str, load: asyncio.Task[Loaded]) -> None:
        del self._loads[name]
        if not load.cancelled():
            load.exception()  # of which those who waited to the end were told

    async def _not_loaded(self, name: str) -> Assignment:
        """The answer to a unit before the experiment is loaded: its settings are read at once, its ledger is not."""
        peek = partial(self.store.peek, name, makers=self.makers)
        live = await self._awaited._calls.in_thread(peek)
        return live._enrolment.not_enrolled(UNAVAILABLE)

    async def _for_assignment(self, id: str, work: Callable[[Loaded], Awaitable[T]]) -> T:
        """Make a call to the experiment of an assignment."""
        (name,) = await self._names_of([id])
        if name is None:
            raise _unknown(id)
        loaded = await self._experiment(name)
        try:
            return await work(loaded)
        except Unknown:
            if not await self._is_stale(name, loaded):
                raise
        return await work(await self._experiment(name))

    async def _is_replaced(self, name: str, loaded: Loaded) -> bool:
        """Whether another process has deleted the experiment, and there is a new one of its name.

        Asked once a second; raises `Unknown` if there is none.
        """
        now = time.monotonic()
        if now < self._asked.get(name, 0.0):
            return False
        self._asked[name] = now + 1
        return await self._is_stale(name, loaded)

    async def _is_stale(self, name: str, loaded: Loaded) -> bool:
        """As `_is_replaced`, asked now."""
        try:
            there = await self._in_thread(lambda: self.store.peek(name, makers=self.makers))
        except Unknown:
            self._loaded.pop(name, None)
            raise _no_experiment(name) from None
        if there._id != loaded.live._id:
            self._loaded.pop(name, None)
        return there._id != loaded.live._id

    def _load(self, name: str) -> Loaded:
        with self._loading:
            if name not in self._loaded:
                try:
                    live = self.store.load(name, makers=self.makers)
                except Unknown:  # without the names of the others
                    raise _no_experiment(name) from None
                except Diverged:  # it has failed, or another version: users get the fallback arm
                    live = self.store.peek(name, makers=self.makers)
                awaited = AsyncLiveExperiment(live, self._awaited)
                self._loaded[name] = Loaded(live, awaited)
                self.loads += 1
            return self._loaded[name]

    async def _names_of(self, ids: Sequence[str]) -> list[str | None]:
        """The experiments of assignments; those that this process made are known without a query."""
        missing = [id for id in ids if id not in self._names]
        found: dict[str, str | None] = {}
        if missing:
            # A user waits: not behind the calls that may take long.
            find = partial(self.store.experiments_of, missing)
            names = await self._awaited._calls.in_thread(find)
            found = dict(zip(missing, names, strict=True))
        return [self._names.get(id) or found.get(id) for id in ids]

    def _remember(self, name: str, answers: Sequence[Assignment | SameluckError]) -> None:
        for answer in answers:
            if isinstance(answer, Assignment) and answer.id is not None:
                self._names[answer.id] = name
        while len(self._names) > MOST_REMEMBERED:
            del self._names[next(iter(self._names))]


def _is_not_running(answer: Assignment | SameluckError) -> bool:
    return isinstance(answer, Assignment) and answer.reason == NOT_RUNNING


def _no_experiment(name: str) -> Unknown:
    return Unknown(f"no experiment {shown(name)} in this store")


def _unknown(id: str) -> Unknown:
    return Unknown(f"no assignment {shown(id)} in this store")
