"""A policy that is an ordinary Python object, walking over the rewards that are known.

The object is asked twice: two are made with the same seed and told the same, and they must agree on every arm. That
is how chance that does not come from the seed is found at once rather than after a restart.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from sameluck.arrays import Floats, Ints
from sameluck.errors import Diverged, Invalid, Unplayable, did_you_mean
from sameluck.live.engine.walker import Maker, Place, PreparedPolicy, WalkResults, places
from sameluck.policies.external import External
from sameluck.randomness.streams import DECISION, stream, word


def maker_of(name: str, policy: External, makers: Mapping[str, Maker]) -> Maker:
    """The maker that an external policy names."""
    make = makers.get(policy.name)
    if make is None:
        known = did_you_mean(policy.name, makers) if makers else "none was given"
        raise Invalid(
            f"policy {name!r} is external({policy.name!r}); pass makers={{{policy.name!r}: make}} to start and to "
            f"load (--maker on the command line), where make(seed) returns the policy; {known}"
        )
    if not callable(make):
        raise Invalid(f"the maker {policy.name!r} must be a function of a seed, got {make!r}")
    return make


class ObjectWalker:
    """One external policy in one replication."""

    def __init__(self, prepared: PreparedPolicy, replication: int, results: WalkResults) -> None:
        experiment = prepared.experiment
        self.prepared = prepared
        self.results = results
        self.pulls: Ints = np.zeros(experiment.n_arms, np.int64)
        self.earned = 0.0
        self.reach = 0
        self._buffers: dict[int, deque[float]] = {}
        self._limit = np.zeros(experiment.n_arms, np.int64)
        self._chosen: list[int] = []
        self._passed = 0
        owner = experiment.design.noise_owner(prepared.name)
        seed = int(word(stream(experiment.seed, DECISION, replication, owner), 0))
        self._twins = [_Asked(prepared, seed) for _ in range(2)]

    def limit(self, arm: int) -> int:
        """How many positions of an arm's stack it has been handed."""
        return int(self._limit[arm])

    def room(self, arm: int) -> int:
        """How many more values of an arm it can be handed before it walks on."""
        return max(64, self.prepared.batch) - len(self._buffers.get(arm, ()))

    def hand(self, arm: int, values: Sequence[float] | Floats) -> None:
        """Hand it the next values of an arm's stack."""
        self._buffers.setdefault(arm, deque()).extend(map(float, values))
        self._limit[arm] += len(values)

    def offer(self, arm: int, position: int, values: Sequence[float]) -> None:
        """Hand it values that have just become known, as far as they are the next and there is room."""
        if self._limit[arm] == position and (room := self.room(arm)):
            self.hand(arm, values[:room])

    def shrink_buffers(self) -> None:
        """Forget the values that it was handed and has not read."""
        self._buffers.clear()
        self._limit[:] = self.pulls

    def advance(self) -> None:
        """Walk as far as the values it was handed carry."""
        horizon = self.prepared.experiment.horizon
        while self.reach < horizon:
            size = min(self.prepared.batch, horizon - self.reach)
            while len(self._chosen) < size:
                self._chosen.append(self._choose(self.reach + len(self._chosen) + 1))
            counts = np.bincount(self._chosen, minlength=self.pulls.size)
            if (self.pulls + counts > self._limit).any():
                return
            chosen, self._chosen = self._chosen, []
            for arm in chosen:
                self._pay(arm, self._buffers[arm].popleft())

    def _choose(self, period: int) -> int:
        first, second = (twin.choose(period) for twin in self._twins)
        if first != second:
            raise Diverged(
                f"policy {self.prepared.name!r} is not deterministic: made twice with the same seed and told the same "
                f"rewards, it chose arm {first} and arm {second} in period {period}. Take all chance from the seed"
            )
        return first

    def _pay(self, arm: int, reward: float) -> None:
        for twin in self._twins:
            twin.update(arm, reward)
        trajectory = self.results.trajectory
        if trajectory.arms.size:
            trajectory.arms[self.reach] = arm
            trajectory.positions[self.reach] = self.pulls[arm]
            trajectory.rewards[self.reach] = reward
        self.pulls[arm] += 1
        self.earned += reward
        self.reach += 1
        results, passed = self.results, self._passed
        if passed < results.checkpoints.size and self.reach == results.checkpoints[passed]:
            results.rewards[passed] = self.earned
            results.pulls[passed] = self.pulls
            self._passed += 1

    def picks(self) -> list[Place]:
        """The entries it needs next, known or not."""
        return places(self._chosen, self.pulls)


class _Asked:
    """An object of the application's, asked in its own words."""

    def __init__(self, prepared: PreparedPolicy, seed: int) -> None:
        assert prepared.make is not None
        self.name = prepared.name
        self.arms = list(range(prepared.experiment.n_arms))
        try:
            made = prepared.make(seed)
        except Exception as error:
            raise Unplayable(f"policy {self.name!r}: its maker failed: {_said(error)}") from error
        self._choose = self._way_to_choose(made)
        self._update = getattr(made, "update", None)
        if not callable(self._update):
            raise Invalid(f"policy {self.name!r}: {type(made).__name__} has no update(arm, reward)")

    def _way_to_choose(self, made: Any) -> Callable[[int], Any]:
        if callable(select := getattr(made, "select", None)):
            takes_period = len(inspect.signature(select).parameters) > 0
            return select if takes_period else lambda _: select()
        if callable(pull := getattr(made, "pull", None)):
            return lambda _: pull(list(self.arms))
        raise Invalid(
            f"policy {self.name!r}: {type(made).__name__} has neither select(period) nor pull(arms)"
        )

    def choose(self, period: int) -> int:
        try:
            chosen = self._choose(period)
        except Exception as error:
            said = f"policy {self.name!r} failed in period {period}: {_said(error)}"
            raise Unplayable(said) from error
        arm = chosen.__index__() if hasattr(chosen, "__index__") else -1
        if not 0 <= arm < len(self.arms):
            raise Unplayable(
                f"policy {self.name!r} chose {chosen!r} in period {period}; it must return an arm's index, "
                f"0 to {len(self.arms) - 1}"
            )
        return int(arm)

    def update(self, arm: int, reward: float) -> None:
        assert self._update is not None
        try:
            self._update(arm, reward)
        except Exception as error:
            raise Unplayable(
                f"policy {self.name!r} failed in update({arm}, {reward}): {_said(error)}"
            ) from error


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
