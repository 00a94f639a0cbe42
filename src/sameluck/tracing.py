"""`trace`: every period of one replication, for pictures and for the curious."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sameluck import grammar
from sameluck.errors import require
from sameluck.experiment import Experiment
from sameluck.playing import Diary, Player, empty_diary
from sameluck.simulation import checked_environment, refuse_too_large
from sameluck.trajectories import Trace, Trajectory, replayed_by

Ints: TypeAlias = NDArray[np.int64]


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
        replayed = replayed_by(experiment, diary.arms, diary.positions, list(trajectories.values()))
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
