"""The check of a Python object before it is simulated: is it a function of its seed and of its rewards?

The first periods are run three times: by two objects at once, which must choose the same arms (`ObjectPair`, as in a
live experiment) although the clock of the second is ahead (`OtherClock`), and again by a new object after another
replication. An object is checked when its maker is first used in a process with a number of arms, for about
`SECONDS`; what a step took decides how the work is cut.
"""

from __future__ import annotations

import math
import time
from weakref import WeakKeyDictionary

import numpy as np

from sameluck.errors import Diverged, Invalid
from sameluck.experiment import Experiment
from sameluck.policies.baselines import Uniform
from sameluck.policies.external import External, Maker
from sameluck.simulation.object_runner import ObjectRunner
from sameluck.trajectories import empty_trajectory

SECONDS = 0.2
PERIODS = 250

# Maker -> (arms, periods) -> seconds per step.
_checked: WeakKeyDictionary[Maker, dict[tuple[int, int], float]] = WeakKeyDictionary()


def with_bodies(experiment: Experiment) -> Experiment:
    """The experiment with a compiled policy in place of each object, to check the body of the environment."""
    objects = [name for name, one in experiment.policies.items() if isinstance(one, External)]
    if not objects:
        return experiment
    bodies = dict.fromkeys(objects, Uniform())
    return experiment.replace(policies={**experiment.policies, **bodies})


def check_object(runner: ObjectRunner) -> float:
    """Seconds that a step takes; raise `Invalid` unless the object repeats itself."""
    experiment = runner.experiment
    size = (experiment.n_arms, min(PERIODS, experiment.horizon))
    try:
        known = _checked.setdefault(runner.make, {})
    except TypeError:  # not hashable, or no weak reference to it is possible
        known = {}
    if size not in known:
        known[size] = _seconds_per_step(runner, size[1])
    return known[size]


def _seconds_per_step(runner: ObjectRunner, periods: int) -> float:
    first = run_pair(runner, 0, periods, SECONDS / 2)
    end, trajectory, seconds = np.array([len(first)]), empty_trajectory(len(first)), math.inf
    for replication in (1, 0):
        begin = time.perf_counter()
        runner.run(range(replication, replication + 1), end, trajectory)
        seconds = min(seconds, time.perf_counter() - begin)
    check_repeated(runner.name, first, trajectory.arms.tolist())
    return seconds / len(first)


def run_pair(
    runner: ObjectRunner, replication: int, periods: int, seconds: float = math.inf
) -> list[int]:
    """The arms that two objects with the same seed both choose; raise `Invalid` if they differ."""
    try:
        return runner.run_pair(replication, periods, seconds)
    except Diverged as error:
        raise Invalid(str(error)) from None


def check_repeated(name: str, first: list[int], again: list[int]) -> None:
    """Raise `Invalid` if a replication was not the same when it was run again."""
    for period, (one, other) in enumerate(zip(first, again, strict=True), start=1):
        if one != other:
            raise Invalid(
                f"policy {name!r} chose arm {one} in period {period}, and arm {other} when the replication was run "
                "again: something outlives a replication. Keep all state in the object that make(seed) returns"
            )
