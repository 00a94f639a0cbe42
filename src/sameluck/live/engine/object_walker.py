"""A policy that is an ordinary Python object, run over the settled entries of one replication.

Two objects are made with the same seed and given the same rewards; they must choose the same arms. A policy that uses
randomness other than its seed is so detected at once rather than after a restart.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable, Sequence

import numpy as np

from sameluck.arrays import Floats, Ints
from sameluck.errors import Diverged, Invalid, Unplayable, did_you_mean
from sameluck.live.engine.walker import ArmPosition, PreparedPolicy, WalkResults, entries_of
from sameluck.live.options import Maker, Makers
from sameluck.policies.external import External
from sameluck.randomness.streams import DECISION, stream, word

BUFFER = 64  # rewards per arm


def maker_of(name: str, policy: External, makers: Makers) -> Maker:
    """The maker that an external policy names."""
    make = makers.get(policy.name)
    if make is None:
        known = did_you_mean(policy.name, makers) if makers else "none was given"
        raise Invalid(
            f"policy {name!r} is external({policy.name!r}); pass makers={{{policy.name!r}: make}} to start and to "
            f"load (--maker on the command line), where make(seed) returns the policy; {known}"
        )
    return make


class ObjectWalker:
    """One external policy in one replication, with the methods of `CompiledWalker`."""

    def __init__(self, prepared: PreparedPolicy, replication: int, results: WalkResults) -> None:
        experiment = prepared.experiment
        self.prepared = prepared
        self.results = results
        self.pulls: Ints = np.zeros(experiment.n_arms, np.int64)
        self.total_reward = 0.0
        self.periods_done = 0
        self._buffers: dict[int, deque[float]] = {}
        self._end = np.zeros(experiment.n_arms, np.int64)
        self._batch: list[int] = []
        self._checkpoints_passed = 0
        owner = experiment.design.noise_owner(prepared.name)
        seed = int(word(stream(experiment.seed, DECISION, replication, owner), 0))
        self._twins = [_ObjectPolicy(prepared, seed) for _ in range(2)]

    def buffer_end(self, arm: int) -> int:  # noqa: D102
        return int(self._end[arm])

    def buffer_room(self, arm: int) -> int:  # noqa: D102
        return max(BUFFER, self.prepared.batch) - len(self._buffers.get(arm, ()))

    def push(self, arm: int, values: Sequence[float] | Floats) -> None:  # noqa: D102
        self._buffers.setdefault(arm, deque()).extend(map(float, values))
        self._end[arm] += len(values)

    def push_if_next(self, arm: int, position: int, values: Sequence[float]) -> None:  # noqa: D102
        if self._end[arm] == position and (room := self.buffer_room(arm)):
            self.push(arm, values[:room])

    def shrink_buffers(self) -> None:  # noqa: D102
        self._buffers.clear()
        self._end[:] = self.pulls

    def advance(self) -> None:  # noqa: D102
        horizon = self.prepared.experiment.horizon
        while self.periods_done < horizon:
            size = min(self.prepared.batch, horizon - self.periods_done)
            while len(self._batch) < size:
                self._batch.append(self._choose(self.periods_done + len(self._batch) + 1))
            counts = np.bincount(self._batch, minlength=self.pulls.size)
            if (self.pulls + counts > self._end).any():
                return
            batch, self._batch = self._batch, []
            for arm in batch:
                self._observe(arm, self._buffers[arm].popleft())

    def _choose(self, period: int) -> int:
        first, second = (twin.choose(period) for twin in self._twins)
        if first != second:
            raise Diverged(
                f"policy {self.prepared.name!r} is not deterministic: made twice with the same seed and given the "
                f"same rewards, it chose arm {first} and arm {second} in period {period}. Derive all randomness from "
                "the seed"
            )
        return first

    def _observe(self, arm: int, reward: float) -> None:
        for twin in self._twins:
            twin.update(arm, reward)
        trajectory = self.results.trajectory
        if trajectory.arms.size:
            trajectory.arms[self.periods_done] = arm
            trajectory.positions[self.periods_done] = self.pulls[arm]
            trajectory.rewards[self.periods_done] = reward
        self.pulls[arm] += 1
        self.total_reward += reward
        self.periods_done += 1
        results, passed = self.results, self._checkpoints_passed
        if passed < results.checkpoints.size and self.periods_done == results.checkpoints[passed]:
            results.rewards[passed] = self.total_reward
            results.pulls[passed] = self.pulls
            self._checkpoints_passed += 1

    def next_entries(self) -> list[ArmPosition]:  # noqa: D102
        return entries_of(self._batch, self.pulls)


class _ObjectPolicy:
    """The application's object, called through its own methods."""

    def __init__(self, prepared: PreparedPolicy, seed: int) -> None:
        assert prepared.make is not None
        self.name = prepared.name
        self.arms = list(range(prepared.experiment.n_arms))
        policy = self._call(": its maker failed", prepared.make, seed)
        self._choose = self._choose_method(policy)
        update = getattr(policy, "update", None)
        if not callable(update):
            raise Invalid(
                f"policy {self.name!r}: {type(policy).__name__} has no update(arm, reward)"
            )
        self._update: Callable[[int, float], object] = update

    def _choose_method(self, policy: object) -> Callable[[int], object]:
        if callable(select := getattr(policy, "select", None)):
            takes_period = len(inspect.signature(select).parameters) > 0
            return select if takes_period else lambda _: select()
        if callable(pull := getattr(policy, "pull", None)):
            return lambda _: pull(list(self.arms))
        raise Invalid(
            f"policy {self.name!r}: {type(policy).__name__} has neither select(period) nor pull(arms)"
        )

    def choose(self, period: int) -> int:
        answer = self._call(" failed in period {}", self._choose, period)
        arm = answer.__index__() if hasattr(answer, "__index__") else -1
        if not 0 <= arm < len(self.arms):
            raise Unplayable(
                f"policy {self.name!r} chose {answer!r} in period {period}; it must return an arm's index, "
                f"0 to {len(self.arms) - 1}"
            )
        return int(arm)

    def update(self, arm: int, reward: float) -> None:
        self._call(" failed in update({}, {})", self._update, arm, reward)

    def _call(self, failed: str, function: Callable[..., object], *arguments: float) -> object:
        try:
            return function(*arguments)
        except Exception as error:
            where = f"policy {self.name!r}{failed.format(*arguments)}"
            raise Unplayable(f"{where}: {type(error).__name__}: {error}") from error
