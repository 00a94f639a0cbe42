"""`Trace` and `Trajectory`: one replication period by period, simulated or live."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypedDict

import numpy as np

from sameluck.arrays import Bools, Floats, Ints
from sameluck.environments.base import Environment
from sameluck.experiment import Experiment
from sameluck.frames import Frames


class Trajectory(NamedTuple):
    """One policy in one replication, period by period; arms and positions count from 0."""

    arms: Ints
    positions: Ints  # which entry of the arm's stack (under TimeCoupled: which period's)
    rewards: Floats
    replayed: Bools  # an earlier policy had revealed the entry; False if a real user did

    def until(self, period: int) -> Trajectory:
        """The first periods only."""
        return Trajectory._make(array[:period] for array in self)


class PeriodRecord(TypedDict):
    """One period of one policy as plain values; periods count from 1, arms and positions from 0."""

    policy: str
    period: int
    arm: int
    position: int
    reward: float
    replayed: bool


def empty_trajectory(periods: int) -> Trajectory:
    """Room for a number of periods."""
    arms, positions = np.empty(periods, np.int64), np.empty(periods, np.int64)
    return Trajectory(arms, positions, np.empty(periods), np.zeros(periods, bool))


@dataclass(frozen=True, eq=False, repr=False)
class Trace(Mapping[str, Trajectory], Frames):
    """The trajectories of one replication by policy, in the experiment's order: the paper's phases."""

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
        """Real users in this replication."""
        return sum(int((~one.replayed).sum()) for one in self.trajectories.values())

    def to_dicts(self) -> list[PeriodRecord]:
        """One record for each policy and period."""
        return [
            {
                "policy": name,
                "period": period + 1,
                "arm": int(one.arms[period]),
                "position": int(one.positions[period]),
                "reward": float(one.rewards[period]),
                "replayed": bool(one.replayed[period]),
            }
            for name, one in self.trajectories.items()
            for period in range(one.arms.size)
        ]

    def _columns(self) -> dict[str, Any]:
        sizes = [one.arms.size for one in self.trajectories.values()]
        policies = np.array([*self.trajectories, None], object)[
            :-1
        ]  # of one dimension also if empty
        fields = zip(*self.trajectories.values(), strict=True)
        arrays = dict(zip(Trajectory._fields, map(np.concatenate, fields), strict=True))
        return {
            "policy": np.repeat(policies, sizes),
            "period": np.concatenate([np.arange(1, size + 1) for size in sizes]),
            "arm": arrays["arms"],
            "position": arrays["positions"],
            "reward": arrays["rewards"],
            "replayed": arrays["replayed"],
        }

    def __repr__(self) -> str:
        periods = self.experiment.horizon
        lines = [f"replication {self.replication}: {self.interactions:,} real interactions"]
        for name, one in self.trajectories.items():
            first = zip(one.arms[:24], one.replayed[:24], strict=True)
            arms = " ".join(f"{arm}{'*' if old else ''}" for arm, old in first)
            more = " ..." if periods > 24 else ""
            lines.append(f"  {name}: arms {arms}{more}  (earned {one.rewards.sum():g})")
        return "\n".join([*lines, "  * replayed"])


def replayed_by(
    experiment: Experiment, arms: Ints, positions: Ints, earlier: Sequence[Trajectory]
) -> Bools:
    """Which periods read an entry that an earlier policy had revealed."""
    if not earlier or not experiment.design.shares_rewards:
        return np.zeros(arms.size, bool)
    if experiment.design.indexed_by_period:
        return np.any([one.arms == arms for one in earlier], axis=0)
    pulls = [np.bincount(one.arms, minlength=experiment.n_arms) for one in earlier]
    return positions < np.max(pulls, axis=0)[arms]
