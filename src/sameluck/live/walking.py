"""One policy walking over the rewards that are known: the loop of `playing`, with a table instead of a function.

A policy chooses a batch of arms (one, unless it is batched), stops until the entries it named are known, is paid and
goes on. What it does is a function of the values it reads alone: neither of when they became known, nor of who asked
for them. The same loop plays a replication live, one reward at a time, and from the ledger, all at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from sameluck.compiled import compiled, fault_in, uncached
from sameluck.errors import Unplayable
from sameluck.experiment import Experiment
from sameluck.playing import Diary, Floats, Ints, empty_diary
from sameluck.selection import Tally, body_of, select
from sameluck.streams import DECISION, Key, stream

Maker: TypeAlias = Callable[[int], Any]  # of an external policy, from a seed
Place: TypeAlias = tuple[int, int]  # an arm and a position in its stack, both from 0

SHORTEST = 8  # values a policy keeps at hand for each arm before it asks the ledger again


class Stand(NamedTuple):
    """Where a policy stands in one replication."""

    pulls: Ints  # of each arm, as far as it has been paid
    totals: Floats
    means: Floats
    memory: Floats
    batch: Ints  # the arms it has chosen and not been paid for
    ahead: Ints  # how often each arm is among them
    marks: Ints  # periods paid, arms chosen, the last arm, checkpoints passed
    money: Floats  # the last reward, all rewards


REACH, CHOSEN, LAST, PASSED = 0, 1, 2, 3


class Shelf(NamedTuple):
    """Values known to a policy and not yet read: for each arm a ring of the positions up to `limit`."""

    values: Floats
    offset: Ints
    size: Ints
    limit: Ints


class Book(NamedTuple):
    """What to write down on the way: at some checkpoints, and of every period; either may be empty."""

    checkpoints: Ints
    rewards: Floats  # (checkpoint,)
    pulls: Ints  # (checkpoint, arm)
    diary: Diary


@compiled
def _walk(  # noqa: C901 one loop, kept whole for the compiler
    policy: Any, luck: Key, horizon: int, stand: Stand, shelf: Shelf, book: Book
) -> int:
    # Returns 0, or the period in which the policy named an arm that is not there.
    arms = stand.pulls.size
    reach, chosen, last = stand.marks[0], stand.marks[1], stand.marks[2]
    reward, earned = stand.money[0], stand.money[1]
    failed = 0
    while reach < horizon and failed == 0:
        size = min(stand.batch.size, horizon - reach)
        while chosen < size:
            tally = Tally(stand.pulls, stand.totals, stand.means, stand.memory, last, reward)
            arm = select(policy, tally, reach + chosen + 1, luck)
            if arm < 0 or arm >= arms:
                failed = reach + chosen + 1
                break
            stand.batch[chosen] = arm
            stand.ahead[arm] += 1
            chosen += 1
        known = failed == 0
        for place in range(chosen):
            arm = stand.batch[place]
            if stand.pulls[arm] + stand.ahead[arm] > shelf.limit[arm]:
                known = False
                break
        if not known:
            break
        for place in range(size):
            last = stand.batch[place]
            pulled = stand.pulls[last]
            reward = shelf.values[shelf.offset[last] + pulled % shelf.size[last]]
            total = stand.totals[last] + reward
            stand.pulls[last] = pulled + 1
            stand.totals[last] = total
            stand.means[last] = total / (pulled + 1)
            stand.ahead[last] -= 1
            earned += reward
            if book.diary.arms.size > 0:
                book.diary.arms[reach] = last
                book.diary.positions[reach] = pulled
                book.diary.rewards[reach] = reward
            reach += 1
            passed = stand.marks[3]
            if passed < book.checkpoints.size and reach == book.checkpoints[passed]:
                book.rewards[passed] = earned
                for each in range(arms):
                    book.pulls[passed, each] = stand.pulls[each]
                stand.marks[3] = passed + 1
        chosen = 0
    stand.marks[0], stand.marks[1], stand.marks[2] = reach, chosen, last
    stand.money[0], stand.money[1] = reward, earned
    return failed


_walk_uncached = uncached(_walk)


@compiled
def _decision_key(seed: np.uint64, replication: int, owner: np.uint64) -> Key:
    return stream(seed, DECISION, replication, owner)


class Walker(Protocol):
    """One policy in one replication."""

    book: Book

    @property
    def reach(self) -> int:
        """Periods it has been paid for."""

    @property
    def pulls(self) -> Ints:
        """How often it has pulled each arm in them."""

    @property
    def earned(self) -> float:
        """What it was paid."""

    def limit(self, arm: int) -> int:
        """How many positions of an arm's stack it has been handed."""

    def room(self, arm: int) -> int:
        """How many more values of an arm it can be handed before it walks on."""

    def hand(self, arm: int, values: Sequence[float] | Floats) -> None:
        """Hand it the next values of an arm's stack."""

    def offer(self, arm: int, position: int, values: Sequence[float]) -> None:
        """Hand it values that have just become known, as far as they are the next and there is room."""

    def advance(self) -> None:
        """Walk as far as the values it was handed carry."""

    def picks(self) -> list[Place]:
        """The entries it needs next, known or not; none once it has reached the horizon."""

    def keep_little(self) -> None:
        """Forget the values that it was handed and has not read; they will be handed to it again."""


class Script(NamedTuple):
    """One policy of an experiment, made ready once for all replications."""

    experiment: Experiment
    name: str
    policy: Any
    memory: int
    batch: int
    make: Maker | None = None


def empty_book(
    experiment: Experiment, checkpoints: Ints | None = None, *, diary: bool = False
) -> Book:
    """Room for some checkpoints, and for every period if asked for."""
    horizons = np.empty(0, np.int64) if checkpoints is None else checkpoints
    shape = (horizons.size, experiment.n_arms)
    periods = experiment.horizon if diary else 0
    return Book(horizons, np.zeros(horizons.size), np.zeros(shape, np.int64), empty_diary(periods))


class CompiledWalker:
    """A policy with a compiled body in one replication."""

    def __init__(self, script: Script, replication: int, counts: Ints | None, book: Book) -> None:
        experiment = script.experiment
        arms = experiment.n_arms
        self.script = script
        self.book = book
        owner = experiment.design.noise_owner(script.name)
        key = _decision_key(np.uint64(experiment.seed), replication, np.uint64(owner))
        self.luck = Key(*map(np.uint64, key))  # machine code hands out plain integers
        self.stand = Stand(
            np.zeros(arms, np.int64),
            np.zeros(arms),
            np.zeros(arms),
            np.zeros(script.memory),
            np.zeros(script.batch, np.int64),
            np.zeros(arms, np.int64),
            np.zeros(4, np.int64),
            np.zeros(2),
        )
        self.shelf = _empty_shelf(arms, script.batch, counts)
        self._ring = 0 if counts is not None else int(self.shelf.size[0])
        ours = body_of(script.policy).__module__.startswith("sameluck.")
        self._loop = _walk if ours else _walk_uncached

    @property
    def reach(self) -> int:
        """Periods it has been paid for."""
        return int(self.stand.marks[REACH])

    @property
    def pulls(self) -> Ints:
        """How often it has pulled each arm in them."""
        return self.stand.pulls

    @property
    def earned(self) -> float:
        """What it was paid."""
        return float(self.stand.money[1])

    def limit(self, arm: int) -> int:
        """How many positions of an arm's stack it has been handed."""
        return int(self.shelf.limit[arm])

    def room(self, arm: int) -> int:
        """How many more values of an arm it can be handed before it walks on."""
        shelf = self.shelf
        return int(shelf.size[arm] - (shelf.limit[arm] - self.stand.pulls[arm]))

    def hand(self, arm: int, values: Sequence[float] | Floats) -> None:
        """Hand it the next values of an arm's stack."""
        shelf = self.shelf
        first, size, offset = int(shelf.limit[arm]), int(shelf.size[arm]), int(shelf.offset[arm])
        if len(values) == 1:
            shelf.values[offset + first % size] = values[0]
        else:
            shelf.values[offset + np.arange(first, first + len(values)) % size] = values
        shelf.limit[arm] = first + len(values)

    def offer(self, arm: int, position: int, values: Sequence[float]) -> None:
        """Hand it values that have just become known, as far as they are the next and there is room."""
        if self.shelf.limit[arm] != position:
            return
        if len(values) == 1 and self._ring:  # one value, as usual: without further ado
            if position - self.stand.pulls[arm] < self._ring:
                self.shelf.values[arm * self._ring + position % self._ring] = values[0]
                self.shelf.limit[arm] = position + 1
        elif room := self.room(arm):
            self.hand(arm, values[:room])

    def advance(self) -> None:
        """Walk as far as the values it was handed carry."""
        script = self.script
        horizon = script.experiment.horizon
        try:
            failed = self._loop(
                script.policy, self.luck, horizon, self.stand, self.shelf, self.book
            )
        except Exception as error:
            where, why = fault_in(body_of(script.policy), error)
            message = f"policy {script.name!r} cannot be played: {why} ({where})"
            raise Unplayable(message) from error
        if failed:
            raise Unplayable(
                f"policy {script.name!r} chose an arm outside 0..{self.stand.pulls.size - 1} in period {failed}; "
                "its select body must return an arm's index"
            )

    def keep_little(self) -> None:
        """Forget the values that it was handed and has not read; they will be handed to it again."""
        shelf = _empty_shelf(self.stand.pulls.size, self.script.batch, None)
        shelf.limit[:] = self.stand.pulls
        self.shelf, self._ring = shelf, int(shelf.size[0])

    def picks(self) -> list[Place]:
        """The entries it needs next, known or not; none once it has reached the horizon."""
        chosen = int(self.stand.marks[CHOSEN])
        if chosen == 1:
            arm = int(self.stand.batch[0])
            return [(arm, int(self.stand.pulls[arm]))]
        return places(self.stand.batch[:chosen].tolist(), self.stand.pulls)


def places(chosen: Sequence[int], pulls: Ints) -> list[Place]:
    """The entries that a batch of arms stands for, on top of the pulls so far."""
    following: dict[int, int] = {}
    found = []
    for arm in chosen:
        position = following.get(arm, int(pulls[arm]))
        following[arm] = position + 1
        found.append((arm, position))
    return found


def _empty_shelf(arms: int, batch: int, counts: Ints | None) -> Shelf:
    size = (
        np.full(arms, max(SHORTEST, batch), np.int64) if counts is None else np.maximum(counts, 1)
    )
    offset = np.concatenate([[0], np.cumsum(size)[:-1]])
    return Shelf(np.zeros(int(size.sum())), offset, size, np.zeros(arms, np.int64))
