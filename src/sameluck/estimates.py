"""From `Runs` to effects: what one policy earned more than another, and how sure that is.

The replication is the unit of all inference: T users in it give one dependent trajectory. Effects are differences
within a replication, so what a design shares between policies cancels. `intervals` is the one place that
knows how an interval is made; each way takes one value a replication.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from sameluck.errors import Invalid, did_you_mean, require
from sameluck.experiment import Experiment
from sameluck.runs import Runs

Floats: TypeAlias = NDArray[np.float64]


class Interval(NamedTuple):
    """Where an effect lies, at a level of confidence, and the p-value of no effect."""

    low: float
    high: float
    p_value: float


class Effect(NamedTuple):
    """How much more a policy earned than the control up to a checkpoint (theta in the paper)."""

    policy: str
    control: str
    checkpoint: int
    effect: float  # mean over replications of the difference in cumulative reward
    low: float
    high: float
    level: float
    p_value: float
    sd: float  # of one replication's difference
    reward: float  # the policy's mean cumulative reward
    control_reward: float
    replications: int
    interactions: float  # mean real users a replication, for all policies of the experiment
    naive_interactions: int  # what the naive design would have asked
    variance_ratio: float  # naive variance, Var(policy) + Var(control), over that of the difference


def t_interval(values: Floats, level: float) -> Interval:
    """Student's t interval for the mean, as in the paper: valid when the number of values was planned."""
    count = values.size
    mean, error = float(values.mean()), float(values.std(ddof=1)) / math.sqrt(count)
    reach = float(stdtrit(count - 1, 0.5 + level / 2)) * error
    if error == 0:
        return Interval(mean, mean, 1.0 if mean == 0 else 0.0)
    p_value = 2 * float(stdtr(count - 1, -abs(mean) / error))
    return Interval(mean - reach, mean + reach, p_value)


intervals: dict[str, Callable[[Floats, float], Interval]] = {"t": t_interval}


def control_pairs(names: tuple[str, ...], control: str) -> Iterator[tuple[str, str]]:
    """Every other policy against the control."""
    return ((name, control) for name in names if name != control)


def all_pairs(names: tuple[str, ...], control: str) -> Iterator[tuple[str, str]]:
    """Every two policies once, the control first among them."""
    ordered = [control, *(name for name in names if name != control)]
    return ((later, earlier) for earlier, later in itertools.combinations(ordered, 2))


pairings: dict[str, Callable[[tuple[str, ...], str], Iterator[tuple[str, str]]]] = {
    "control": control_pairs,
    "all": all_pairs,
}


def effects(
    runs: Runs, *, level: float, control: str | None, pairs: str, interval: str
) -> tuple[Effect, ...]:
    """One `Effect` for each pair of policies and checkpoint."""
    if not isinstance(runs, Runs):
        raise Invalid(f"compare takes the Runs that simulate returns, got {runs!r}")
    experiment = runs.experiment
    control = check_request(
        experiment, runs.replications, level=level, control=control, pairs=pairs, interval=interval
    )
    bad = np.argwhere(~np.isfinite(runs.rewards))
    require(bad.size == 0, f"rewards must be finite; replication {bad[:1, 0]} has one that is not")
    make_interval = intervals[interval]
    return tuple(
        _effect(runs, policy, against, place, level, make_interval)
        for policy, against in pairings[pairs](runs.policies, control)
        for place in range(runs.checkpoints.size)
    )


def _effect(
    runs: Runs,
    policy: str,
    control: str,
    place: int,
    level: float,
    make_interval: Callable[[Floats, float], Interval],
) -> Effect:
    earned = runs.rewards[:, runs.policies.index(policy), place]
    against = runs.rewards[:, runs.policies.index(control), place]
    differences = earned - against
    low, high, p_value = make_interval(differences, level)
    checkpoint = int(runs.checkpoints[place])
    return Effect(
        policy=policy,
        control=control,
        checkpoint=checkpoint,
        effect=float(differences.mean()),
        low=low,
        high=high,
        level=level,
        p_value=p_value,
        sd=float(differences.std(ddof=1)),
        reward=float(earned.mean()),
        control_reward=float(against.mean()),
        replications=runs.replications,
        interactions=float(runs.interactions[:, place].mean()),
        naive_interactions=checkpoint * len(runs.policies),
        variance_ratio=_ratio(earned, against, differences),
    )


def _ratio(earned: Floats, against: Floats, differences: Floats) -> float:
    naive, paired = float(earned.var(ddof=1) + against.var(ddof=1)), float(differences.var(ddof=1))
    if paired == 0:
        return 1.0 if naive == 0 else math.inf
    return naive / paired


def check_request(
    experiment: Experiment,
    replications: int,
    *,
    level: float = 0.95,
    control: str | None = None,
    pairs: str = "control",
    interval: str = "t",
) -> str:
    """Refuse a comparison that cannot be made, before anybody waits for its runs. Returns the control."""
    number = isinstance(level, int | float) and not isinstance(level, bool)
    require(number and 0 < level < 1, f"level must be between 0 and 1, such as 0.95, got {level!r}")
    _choice("pairs", pairs, pairings)
    _choice("interval", interval, intervals)
    control = experiment.control if control is None else control
    _choice("control", control, experiment.policies)
    require(len(experiment.policies) >= 2, "compare needs at least two policies, got one")
    require(
        replications >= 2,
        f"compare needs at least 2 replications, got {replications}: the replication is the unit of "
        "inference, however many users it has",
    )
    return control


def _choice(name: str, value: object, known: Collection[str]) -> None:
    if value not in known:
        raise Invalid(f"{name} {value!r} is not known; {did_you_mean(str(value), known)}")
