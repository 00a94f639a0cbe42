"""`Trace` and `Trajectory`: one replication period by period, simulated or live."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, NotRequired, TypedDict

import numpy as np

from sameluck.arrays import Bools, Floats, Ints
from sameluck.environments.base import Environment
from sameluck.experiment import Experiment
from sameluck.frames import Frames


class Trajectory(NamedTuple):
    """One policy in one replication, period by period; arms and positions count from 0."""

    arms: Ints
    positions: Ints  # which entry of the cell's stack (under TimeCoupled and with features: which period's)
    rewards: Floats
    replayed: Bools  # an earlier policy had revealed the entry; False if a real user did
    contexts: Floats | None = None  # (period, number), as in `Context.shape`; None without contexts

    def until(self, period: int) -> Trajectory:
        """Return the first periods only."""
        return Trajectory._make(None if array is None else array[:period] for array in self)


class PeriodRecord(TypedDict):
    """One period of one policy as plain values; periods count from 1, arms, levels and positions from 0.

    With features there is also a field for each: `feature_age`, or `feature_age_arm_0` if arms have their own.
    """

    policy: str
    period: int
    arm: int
    position: int
    reward: float
    replayed: bool
    level: NotRequired[int]
    state: NotRequired[int]
    step: NotRequired[int]  # in the episode
    episode: NotRequired[int]


def empty_trajectory(periods: int, experiment: Experiment | None = None) -> Trajectory:
    """Return the arrays of a trajectory, with contexts if the experiment has them."""
    arms, positions = np.empty(periods, np.int64), np.empty(periods, np.int64)
    contexts = None
    if experiment is not None and experiment.context is not None:
        contexts = np.empty((periods, math.prod(experiment.context.shape(experiment.n_arms))))
    return Trajectory(arms, positions, np.empty(periods), np.zeros(periods, bool), contexts)


@dataclass(frozen=True, eq=False, repr=False)
class Trace(Mapping[str, Trajectory], Frames):
    """Trajectories of one replication by policy, in the experiment's order: the paper's phases."""

    experiment: Experiment
    environment: Environment | None
    replication: int
    trajectories: dict[str, Trajectory]
    outstanding: tuple[tuple[int, int], ...] = ()  # live: arm and position of rewards not known yet

    _index = ("policy", "period")

    def __getitem__(self, policy: str) -> Trajectory:
        return self.trajectories[policy]

    def __iter__(self) -> Iterator[str]:
        return iter(self.trajectories)

    def __len__(self) -> int:
        return len(self.trajectories)

    @property
    def interactions(self) -> int:
        """Number of real users in this replication."""
        return sum(int((~played.replayed).sum()) for played in self.trajectories.values())

    def to_dicts(self) -> list[PeriodRecord]:
        """Return one record for each policy and period."""
        return self._records()  # type: ignore[return-value]

    def _columns(self) -> dict[str, Any]:
        sizes = [played.arms.size for played in self.trajectories.values()]
        played = self.trajectories.values()
        names = [name for name in Trajectory._fields if name != "contexts"]
        arrays = {name: np.concatenate([getattr(run, name) for run in played]) for name in names}
        return {
            "policy": np.repeat(np.array([*self.trajectories], object), sizes),
            "period": np.concatenate([np.arange(1, size + 1) for size in sizes]),
            "arm": arrays["arms"],
            "position": arrays["positions"],
            "reward": arrays["rewards"],
            "replayed": arrays["replayed"],
            **self._context_columns(),
        }

    def _context_columns(self) -> dict[str, Floats | Ints]:
        context, runs = self.experiment.context, self.trajectories.values()
        rows = [played.contexts for played in runs if played.contexts is not None]
        if context is None or not rows:
            return {}
        columns = np.concatenate(rows).T
        if not context.indexed_by_period:
            columns = columns.astype(np.int64)
        return dict(zip(context.columns(self.experiment.n_arms), columns, strict=True))

    def __repr__(self) -> str:
        periods = self.experiment.horizon
        lines = [f"replication {self.replication}: {self.interactions:,} real interactions"]
        context, noun = self.experiment.context, "arms"
        if context is not None and not context.indexed_by_period:
            noun = f"{context.columns(self.experiment.n_arms)[0]}/arm"
        for name, played in self.trajectories.items():
            first = zip(self._cells(played.until(24)), played.replayed[:24], strict=True)
            arms = " ".join(f"{cell}{'*' if replayed else ''}" for cell, replayed in first)
            more = " ..." if periods > 24 else ""
            lines.append(f"  {name}: {noun} {arms}{more}  (earned {played.rewards.sum():g})")
        return "\n".join([*lines, "  * replayed"])

    def _cells(self, played: Trajectory) -> list[str]:
        """Return the arm of each period, after the level and a slash if users have levels."""
        cells = cells_of(self.experiment, played)
        if cells is played.arms:
            return [str(arm) for arm in cells]
        arms = self.experiment.n_arms
        return [f"{cell // arms}/{cell % arms}" for cell in cells]


def replayed_by(
    experiment: Experiment, trajectory: Trajectory, earlier: Sequence[Trajectory]
) -> Bools:
    """Return which periods read an entry that an earlier policy had revealed."""
    if not earlier or not experiment.design.shares_rewards:
        return np.zeros(trajectory.arms.size, bool)
    cells = cells_of(experiment, trajectory)
    others = [cells_of(experiment, other) for other in earlier]
    if experiment.indexed_by_period:
        return np.any([other == cells for other in others], axis=0)
    # An earlier policy has read as deep as it visited the cell.
    depths = [np.bincount(other, minlength=experiment.cells) for other in others]
    return trajectory.positions < np.max(depths, axis=0)[cells]


def cells_of(experiment: Experiment, trajectory: Trajectory) -> Ints:
    """Return the cell whose stack was read in each period: the arm, or the pair of level and arm."""
    context = experiment.context
    if context is None or context.indexed_by_period or trajectory.contexts is None:
        return trajectory.arms
    levels = trajectory.contexts[:, 0].astype(np.int64)
    return levels * experiment.n_arms + trajectory.arms
