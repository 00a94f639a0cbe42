"""`Experiments`: the experiments of a store, for a service that runs in an event loop.

This is the only module of the service that calls a store. Its calls wait for the database in threads.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from anyio import CapacityLimiter, to_thread

from sameluck.errors import Diverged, SameluckError, Unknown, shown
from sameluck.live.databases.rows import ACTIVE
from sameluck.live.enrolment import Unit
from sameluck.live.experiment import LiveExperiment
from sameluck.live.options import Makers
from sameluck.live.records import Assignment, Receipt
from sameluck.live.settings import acting_as
from sameluck.live.store import Store

T = TypeVar("T")

SERVING_THREADS, READING_THREADS = 64, 4  # calls for users, and the others, at the same time
MOST_REMEMBERED = 100_000  # assignments whose experiment is known without a query

_log = logging.getLogger("sameluck")


class Experiments:
    """The experiments of a store by name, each loaded once.

    Args:
        store: The store.
        makers: For `External` policies: name -> function of a seed that returns the policy.
    """

    def __init__(self, store: Store, makers: Makers | None = None) -> None:
        self.store = store
        self.makers = makers
        self._loaded: dict[str, LiveExperiment] = {}
        self._loading = threading.Lock()
        self._names: dict[str, str] = {}  # of experiments, by the id of an assignment
        self._serving = CapacityLimiter(SERVING_THREADS)
        self._reading = CapacityLimiter(READING_THREADS)

    # Calls for users

    async def assign(self, name: str, unit: Unit) -> Assignment:
        """The arm to show a unit."""
        live = await self._live(name)
        answer = await self._serve(partial(live.assign, unit))
        self._remember(name, [answer])
        return answer

    async def assign_many(
        self, name: str, units: Sequence[Unit]
    ) -> list[Assignment | SameluckError]:
        """The arms to show several units, or an error in the place of one."""
        live = await self._live(name)
        answers = await self._serve(partial(live.assign_many, units))
        self._remember(name, answers)
        return answers

    async def reward(self, id: str, value: float) -> Receipt:
        """Report the reward of a unit."""
        live = await self.live_of(id)
        return await self._serve(partial(live.reward, id, value))

    async def reward_many(
        self, pairs: Sequence[tuple[str, float]]
    ) -> list[Receipt | SameluckError]:
        """Report rewards, of one experiment or several; an error stands in its place."""
        names = await self._names_of([id for id, _ in pairs])
        answers: list[Receipt | SameluckError] = [_unknown(id) for id, _ in pairs]
        for name in dict.fromkeys(name for name in names if name is not None):
            live = await self._live(name)
            places = [place for place, other in enumerate(names) if other == name]
            some = [pairs[place] for place in places]
            got = await self._serve(partial(live.reward_many, some))
            for place, answer in zip(places, got, strict=True):
                answers[place] = answer
        return answers

    async def expose(self, id: str) -> None:
        """Report that a unit has seen its arm."""
        live = await self.live_of(id)
        await self._serve(partial(live.expose, id))

    async def void(self, id: str) -> None:
        """Report that a unit never saw its arm."""
        live = await self.live_of(id)
        await self._serve(partial(live.void, id))

    async def void_units(self, name: str, units: Sequence[Unit]) -> None:
        """Void the assignments of units whose answer was lost."""
        live = await self._live(name)
        await self._serve(partial(live.void_units, units))

    # Everything else

    async def read(self, name: str, work: Callable[[LiveExperiment], T]) -> T:
        """Run what may take long on an experiment; few at a time, so that users do not wait."""
        live = await self._live(name)
        return await to_thread.run_sync(work, live, limiter=self._reading, abandon_on_cancel=True)

    async def change(self, actor: str, name: str, work: Callable[[LiveExperiment], T]) -> T:
        """Change an experiment; the history has the actor."""
        live = await self._live(name)
        return await self.change_store(actor, lambda _: work(live))

    async def change_store(self, actor: str, work: Callable[[Store], T]) -> T:
        """Change the store; the history has the actor."""

        def in_thread() -> T:
            with acting_as(actor):
                return work(self.store)

        return await to_thread.run_sync(in_thread, limiter=self._reading)

    async def read_store(self, work: Callable[[Store], T]) -> T:
        """Read the store."""
        return await to_thread.run_sync(
            work, self.store, limiter=self._reading, abandon_on_cancel=True
        )

    async def live_of(self, id: str) -> LiveExperiment:
        """The experiment of an assignment."""
        (name,) = await self._names_of([id])
        if name is None:
            raise _unknown(id)
        return await self._live(name)

    async def check_writable(self) -> None:
        """Raise `Unavailable` unless the database can be written."""
        await self._serve(partial(self.store.database.write, lambda _: None))

    def forget(self, name: str) -> None:
        """Load an experiment again when it is next used."""
        self._loaded.pop(name, None)

    def load_active(self) -> None:
        """Load the experiments that users may call for; one that cannot be loaded is logged."""
        for status in self.store.statuses():
            if status.status in ACTIVE:
                try:
                    self._load(status.name)
                except SameluckError as error:
                    _log.error("sameluck: cannot load %r: %s", status.name, error)

    async def _serve(self, call: Callable[[], T]) -> T:
        return await to_thread.run_sync(call, limiter=self._serving)

    async def _live(self, name: str) -> LiveExperiment:
        live = self._loaded.get(name)
        if live is None:
            live = await to_thread.run_sync(self._load, name, limiter=self._reading)
        return live

    def _load(self, name: str) -> LiveExperiment:
        with self._loading:
            if name not in self._loaded:
                try:
                    live = self.store.load(name, makers=self.makers)
                except Unknown:  # without the names of the others
                    raise Unknown(f"no experiment {shown(name)} in this store") from None
                except (
                    Diverged
                ):  # failed now, or of another version: its users get the fallback arm
                    live = self.store.peek(name, makers=self.makers)
                self._loaded[name] = live
            return self._loaded[name]

    async def _names_of(self, ids: Sequence[str]) -> list[str | None]:
        """The experiments of assignments; those that this process made are known without a query."""
        missing = [id for id in ids if id not in self._names]
        found: dict[str, str | None] = {}
        if missing:
            names = await self._serve(partial(self.store.experiments_of, missing))
            found = dict(zip(missing, names, strict=True))
        return [self._names.get(id) or found.get(id) for id in ids]

    def _remember(self, name: str, answers: Sequence[Assignment | SameluckError]) -> None:
        for answer in answers:
            if isinstance(answer, Assignment) and answer.id is not None:
                self._names[answer.id] = name
        while len(self._names) > MOST_REMEMBERED:
            del self._names[next(iter(self._names))]


def _unknown(id: str) -> Unknown:
    return Unknown(f"no assignment {shown(id)} in this store")
