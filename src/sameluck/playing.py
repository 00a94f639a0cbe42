"""One policy through one replication, as compiled code; the loop that everything simulated runs through.

It knows nothing of other policies: what the design couples is in the addresses it reads. So what a policy does
depends neither on chunks, workers or order nor on who else plays.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sameluck.compiled import compiled, fault_in, shared, uncached
from sameluck.environments import draw
from sameluck.errors import AddressReused, Invalid, require
from sameluck.experiment import Experiment
from sameluck.selection import (
    Tally,
    as_compiled,
    body_of,
    fill_chances,
    memory_of,
    prepare,
    select,
    states_chances,
)
from sameluck.streams import DECISION, REWARD, Bits, Key, OnceKey, stream, within, word

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Owners: TypeAlias = tuple[
    Bits, Bits, Bits
]  # seed, owner of the rewards, owner of the decision noise


class Desk(NamedTuple):
    """The working arrays of one policy in one replication, wiped for the next."""

    first: NDArray[np.uint64]  # the keys of the arms' reward stacks
    second: NDArray[np.uint64]
    pulls: Ints
    totals: Floats
    means: Floats
    memory: Floats


class Sheet(NamedTuple):
    """Where results go: a row for each replication, a column for each checkpoint."""

    timed: bool
    checkpoints: Ints
    rewards: Floats  # (replication, checkpoint)
    pulls: Ints  # (replication, checkpoint, arm)


class Diary(NamedTuple):
    """Every period of one replication."""

    arms: Ints
    positions: Ints
    rewards: Floats


@shared
def _wipe(desk: Desk, seed: Bits, owner: Bits, replication: int) -> None:
    key = stream(seed, REWARD, replication, owner)
    for arm in range(desk.pulls.size):
        stack = within(key, arm)
        desk.first[arm], desk.second[arm] = stack.first, stack.second
        desk.pulls[arm] = 0
        desk.totals[arm] = 0.0
        desk.means[arm] = 0.0
    for place in range(desk.memory.size):
        desk.memory[place] = 0.0


@shared
def _play(policy: Any, law: Any, luck: Any, desk: Desk, row: int, sheet: Sheet, diary: Any) -> int:
    # Returns 0, or the period in which the policy named an arm that is not there.
    arms = desk.pulls.size
    earned = 0.0
    arm: Any = np.int64(0)
    reward = 0.0
    start = 1
    for checkpoint in range(sheet.checkpoints.size):
        stop = sheet.checkpoints[checkpoint] + 1
        for period in range(start, stop):
            tally = Tally(desk.pulls, desk.totals, desk.means, desk.memory, arm, reward)
            arm = select(policy, tally, period, luck)
            if arm < 0 or arm >= arms:
                return period
            pulled = desk.pulls[arm]
            position = period - 1 if sheet.timed else pulled
            bits = word(Key(desk.first[arm], desk.second[arm]), position)
            reward = draw(law, row, arm, bits)
            total = desk.totals[arm] + reward
            desk.pulls[arm] = pulled + 1
            desk.totals[arm] = total
            desk.means[arm] = total / (pulled + 1)
            earned += reward
            if diary is not None:
                diary.arms[period - 1] = arm
                diary.positions[period - 1] = position
                diary.rewards[period - 1] = reward
        sheet.rewards[row, checkpoint] = earned
        for each in range(arms):
            sheet.pulls[row, checkpoint, each] = desk.pulls[each]
        start = stop
    return 0


@compiled
def _play_all(
    policy: Any, law: Any, owners: Owners, first: int, desk: Desk, sheet: Sheet, diary: Any
) -> tuple[int, int]:
    seed, reward_owner, noise_owner = owners
    for row in range(sheet.rewards.shape[0]):
        replication = first + row
        _wipe(desk, seed, reward_owner, replication)
        luck = stream(seed, DECISION, replication, noise_owner)
        failed = _play(policy, law, luck, desk, row, sheet, diary)
        if failed:
            return replication, failed
    return -1, 0


@compiled
def _weigh(
    policy: Any, desk: Desk, checkpoints: Ints, diary: Diary, chances: Floats, luck: Floats
) -> None:
    # How much better than expected the coin fell, each arm valued at its mean so far.
    lucky = 0.0
    start = 0
    arm: Any = np.int64(0)
    reward = 0.0
    for checkpoint in range(checkpoints.size):
        for period in range(start, checkpoints[checkpoint]):
            tally = Tally(desk.pulls, desk.totals, desk.means, desk.memory, arm, reward)
            fill_chances(policy, tally, period + 1, chances)
            arm, reward = diary.arms[period], diary.rewards[period]
            lucky += desk.means[arm]
            for each in range(chances.size):
                lucky -= chances[each] * desk.means[each]
            desk.pulls[arm] += 1
            desk.totals[arm] += reward
            desk.means[arm] = desk.totals[arm] / desk.pulls[arm]
        luck[checkpoint] = lucky
        start = checkpoints[checkpoint]


_play_all_uncached, _weigh_uncached = uncached(_play_all), uncached(_weigh)


class Player:
    """One policy of an experiment, ready to be played through any of its replications."""

    def __init__(self, experiment: Experiment, environment: Any, name: str) -> None:
        self.experiment = experiment
        self.environment = environment
        self.name = name
        design = experiment.design
        prepared = prepare(experiment.policies[name], experiment.n_arms, experiment.horizon)
        self.memory = memory_of(prepared, experiment.n_arms)
        self.policy = as_compiled(prepared)
        self.owners: Owners = (
            np.uint64(experiment.seed),
            np.uint64(design.reward_owner(name)),
            np.uint64(design.noise_owner(name)),
        )
        self.desk = self._empty_desk()

    @property
    def _ours(self) -> bool:
        return body_of(self.policy).__module__.startswith("sameluck.")

    def play(self, replications: range, checkpoints: Ints, diary: Diary | None = None) -> Sheet:
        """The rows of some replications; a diary holds one."""
        sheet = self._empty_sheet(len(replications), checkpoints)
        law, first = self._law(replications), replications.start
        loop = _play_all if self._ours else _play_all_uncached
        with self._explained():
            where = loop(self.policy, law, self.owners, first, self.desk, sheet, diary)
        self._refuse_bad_arm(*where)
        require(
            self._ours or bool((sheet.pulls.sum(axis=-1) == checkpoints).all()),
            f"policy {self.name!r} changed its tally; a select body may write to tally.memory only",
        )
        return sheet

    def play_plainly(self, replication: int, checkpoints: Ints, diary: Diary) -> Sheet:
        """The same in plain Python, with every decision address guarded against a second read."""
        sheet = self._empty_sheet(1, checkpoints)
        seed, reward_owner, noise_owner = self.owners
        _wipe(self.desk, seed, reward_owner, replication)
        luck = OnceKey(stream(seed, DECISION, replication, noise_owner), f"policy {self.name!r}")
        law = self._law(range(replication, replication + 1))
        with self._explained():
            failed = _play(self.policy, law, luck, self.desk, 0, sheet, diary)
        self._refuse_bad_arm(replication, failed)
        return sheet

    def exploration_luck(self, checkpoints: Ints, diary: Diary) -> Floats:
        """Up to each checkpoint: how much better than expected the policy's own coin fell.

        The sum over periods of the chosen arm's mean so far minus the expected one. Its mean is zero. Zero throughout
        for a policy that tosses no coin, or does not state its chances.
        """
        luck = np.zeros(checkpoints.size)
        if states_chances(self.policy):
            chances = np.zeros(self.experiment.n_arms)
            loop = _weigh if self._ours else _weigh_uncached
            loop(self.policy, self._empty_desk(), checkpoints, diary, chances, luck)
        return luck

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """What goes wrong in a body of the user's, in words and with its line; the whole story is the cause."""
        try:
            yield
        except AddressReused:
            raise
        except Exception as error:
            if self._ours:
                raise
            kind = type(self.experiment.policies[self.name])
            where, why = fault_in(body_of(self.policy), error)
            raise Invalid(
                f"policy {self.name!r} ({kind.__name__}) cannot be played: {why} ({where}); a select "
                "body returns an arm's index and uses numbers, loops and the arrays it is given, no new arrays or "
                "Python objects"
            ) from error

    def _empty_desk(self) -> Desk:
        arms = self.experiment.n_arms
        keys = (_apart(arms, np.uint64), _apart(arms, np.uint64))
        return Desk(
            *keys,
            _apart(arms, np.int64),
            _apart(arms, float),
            _apart(arms, float),
            _apart(self.memory, float),
        )

    def _empty_sheet(self, count: int, checkpoints: Ints) -> Sheet:
        shape = (count, checkpoints.size)
        pulls = np.empty((*shape, self.experiment.n_arms), np.int64)
        return Sheet(self.experiment.design.timed, checkpoints, np.empty(shape), pulls)

    def _law(self, replications: range) -> Any:
        return self.environment.laws(self.experiment.seed, replications, self.experiment.n_arms)

    def _refuse_bad_arm(self, replication: int, period: int) -> None:
        arms = self.experiment.n_arms
        require(
            period == 0,
            f"policy {self.name!r} chose an arm outside 0..{arms - 1} in period {period} of replication "
            f"{replication}; its select body must return an arm's index",
        )


def _apart(size: int, kind: Any) -> Any:
    # Small arrays of two threads may lie in one cache line, and each write of one would then stop the other.
    return np.zeros(size + 32, kind)[16 : 16 + size]


def empty_diary(periods: int) -> Diary:
    """Room for every period of one replication."""
    return Diary(np.empty(periods, np.int64), np.empty(periods, np.int64), np.empty(periods))
