"""A policy that is a Python object, in one replication.

Two objects are made with the same seed and given the same rewards (`ObjectPair`); they must choose the same arms.
This detects a policy that uses randomness other than its seed at once, not only after a restart.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np

from sameluck.arrays import Floats, Ints
from sameluck.live.engine.walker import CellPosition, PreparedPolicy, WalkResults, entries_of
from sameluck.policies.external import ObjectPair, object_seed
from sameluck.policies.observations import cell_of

MIN_BUFFER = 64  # rewards per cell


class ObjectWalker:
    """An external policy in one replication, with the methods of `CompiledWalker`."""

    def __init__(self, prepared: PreparedPolicy, replication: int, results: WalkResults) -> None:
        experiment = prepared.experiment
        self.prepared = prepared
        self.results = results
        self.pulls: Ints = np.zeros(experiment.n_arms, np.int64)
        self.reads: Ints = np.zeros(experiment.n_arms, np.int64)  # by cell
        self.total_reward = 0.0
        self.periods_done = 0
        self._buffers: dict[int, deque[float]] = {}
        self._end = np.zeros(experiment.n_arms, np.int64)
        self._batch: list[int] = []
        self._checkpoints_passed = 0
        stream_owner = experiment.design.noise_owner(prepared.name)
        seed = object_seed(experiment.seed, replication, stream_owner)
        assert prepared.make is not None
        self._pair = ObjectPair(prepared.name, prepared.make, experiment.n_arms, seed)

    def buffer_end(self, cell: int) -> int:
        return int(self._end[cell])

    def buffer_room(self, cell: int) -> int:
        return max(MIN_BUFFER, self.prepared.batch) - len(self._buffers.get(cell, ()))

    def push(self, cell: int, values: Sequence[float] | Floats) -> None:
        self._buffers.setdefault(cell, deque()).extend(map(float, values))
        self._end[cell] += len(values)

    def push_if_next(self, cell: int, position: int, values: Sequence[float]) -> None:
        if self._end[cell] == position and (room := self.buffer_room(cell)):
            self.push(cell, values[:room])

    def shrink_buffers(self) -> None:
        self._buffers.clear()
        self._end[:] = self.reads

    def advance(self) -> None:
        horizon = self.prepared.experiment.horizon
        while self.periods_done < horizon:
            size = min(self.prepared.batch, horizon - self.periods_done)
            while len(self._batch) < size:
                self._batch.append(self._pair.choose(self.periods_done + len(self._batch) + 1))
            counts = np.bincount(self._cells(), minlength=self.reads.size)
            if (self.reads + counts > self._end).any():
                return
            batch, self._batch = self._batch, []
            for arm in batch:
                cell = cell_of(arm)
                self._observe(cell, arm, self._buffers[cell].popleft())

    def _cells(self) -> list[int]:
        return [cell_of(arm) for arm in self._batch]

    def _observe(self, cell: int, arm: int, reward: float) -> None:
        self._pair.observe(arm, reward)
        trajectory = self.results.trajectory
        if trajectory.arms.size:
            trajectory.arms[self.periods_done] = arm
            trajectory.positions[self.periods_done] = self.reads[cell]
            trajectory.rewards[self.periods_done] = reward
        self.reads[cell] += 1
        self.pulls[arm] += 1
        self.total_reward += reward
        self.periods_done += 1
        results, passed = self.results, self._checkpoints_passed
        if passed < results.checkpoints.size and self.periods_done == results.checkpoints[passed]:
            results.rewards[passed] = self.total_reward
            results.pulls[passed] = self.pulls
            self._checkpoints_passed += 1

    def next_entries(self) -> list[CellPosition]:
        return entries_of(self._cells(), self.reads)
