"""`trace`: every period of one replication, for pictures and for the curious."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sameluck import grammar
from sameluck.errors import require
from sameluck.experiment import Experiment
from sameluck.playing import Diary, Player, empty_diary
from sameluck.simulation import checked_environment, refuse_too_large

Ints: TypeAlias = NDArray[np.int64]


class Trajectory(NamedTuple):
    """One policy in one replication, period by period; arms and positions count from 0."""

    arms: Ints
    positions: Ints  # which entry of the arm's stack (under TimeCoupled: which period's)
    rewards: NDArray[np.float64]
    replayed: NDArray[
        np.bool_
    ]  # an earlier policy had revealed it; False where a real user was asked


@dataclass(frozen=True, eq=False, repr=False)
class Trace(Mapping[str, Trajectory]):
    """The trajectories of one replication by policy, in the experiment's order: the paper's phases."""

    experiment: Experiment
    environment: str | None
    replication: int
    trajectories: dict[str, Trajectory]

    def __getitem__(self, policy: str) -> Trajectory:
        return self.trajectories[policy]

    def __iter__(self) -> Iterator[str]:
        return iter(self.trajectories)

    def __len__(self) -> int:
        return len(self.trajectories)

    @property
    def interactions(self) -> int:
        """Real users asked in this replication."""
        return sum(int((~one.replayed).sum()) for one in self.trajectories.values())

    def to_dicts(self) -> list[dict[str, Any]]:
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

    def __repr__(self) -> str:
        periods = self.experiment.horizon
        lines = [f"replication {self.replication}: {self.interactions:,} real interactions"]
        for name, one in self.trajectories.items():
            shown = " ".join(
                f"{arm}{'*' if old else ''}"
                for arm, old in zip(one.arms[:24], one.replayed[:24], strict=True)
            )
            more = " ..." if periods > 24 else ""
            lines.append(f"  {name}: arms {shown}{more}  (earned {one.rewards.sum():g})")
        return "\n".join([*lines, "  * replayed"])


def trace(
    experiment: Experiment, environment: Any, replication: int = 0, *, guard: bool = False
) -> Trace:
    """Every period of one replication: arm, position, reward, replayed or real.

    Args:
        experiment: What to run.
        environment: Where rewards come from, or its text form.
        replication: Which one, from 0; the same bits `simulate` plays.
        guard: Play in plain Python as well; raise `AddressReused` if a policy reads the same luck twice and `Invalid`
            if it plays otherwise than compiled. The check to run on a policy of your own.
    """
    environment = checked_environment(experiment, environment)
    whole = isinstance(replication, int | np.integer) and not isinstance(replication, bool)
    require(
        whole and 0 <= replication < experiment.replications,
        f"replication must be from 0 to {experiment.replications - 1:,}, got {replication!r}",
    )
    refuse_too_large(experiment, 1, np.arange(1))
    trajectories: dict[str, Trajectory] = {}
    for name in experiment.policies:
        diary = empty_diary(experiment.horizon)
        player = Player(experiment, environment, name)
        end = np.array([experiment.horizon])
        player.play(range(int(replication), int(replication) + 1), end, diary)
        if guard:
            plainly = empty_diary(experiment.horizon)
            player.play_plainly(int(replication), end, plainly)
            _refuse_difference(name, diary, plainly)
        replayed = _replayed(experiment, diary, list(trajectories.values()))
        trajectories[name] = Trajectory(diary.arms, diary.positions, diary.rewards, replayed)
    return Trace(experiment, grammar.write(environment), int(replication), trajectories)


def _first(periods: Ints) -> int:
    return int(periods[0]) + 1 if periods.size else 0


def _refuse_difference(name: str, compiled: Diary, plainly: Diary) -> None:
    differing = np.flatnonzero(compiled.arms != plainly.arms)
    require(
        differing.size == 0,
        f"policy {name!r} plays otherwise when compiled, first in period {_first(differing)}: its body must use "
        "nothing but its arguments and constants, and write to nothing but tally.memory",
    )


def _replayed(
    experiment: Experiment, diary: Diary, earlier: Sequence[Trajectory]
) -> NDArray[np.bool_]:
    replayed = np.zeros(diary.arms.size, bool)
    design = experiment.design
    if design.timed:
        for one in earlier:
            replayed |= one.arms == diary.arms
    elif design.reward_owner("a") == design.reward_owner("b"):
        revealed = np.zeros(experiment.n_arms, np.int64)
        for one in earlier:
            pulls = np.bincount(one.arms, minlength=experiment.n_arms)
            revealed = np.maximum(revealed, pulls)
        replayed = diary.positions < revealed[diary.arms]
    return replayed
