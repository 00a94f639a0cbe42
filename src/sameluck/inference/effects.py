"""From `Runs` to effects: what one policy earned more than another, and how sure that is.

The replication is the unit of all inference: T users in it give one dependent trajectory. Where a design shares
luck, effects are differences within a replication, so that what is shared cancels; under `naive` the policies'
replications have nothing in common and are compared as independent samples (Welch).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from scipy.special import stdtrit

from sameluck.arrays import Floats
from sameluck.design import Naive
from sameluck.errors import Invalid, did_you_mean
from sameluck.experiment import Experiment
from sameluck.inference.adjustments import adjusted, adjustments
from sameluck.intervals import (
    Interval,
    check_level,
    holm,
    intervals,
    max_t_critical,
    welch_interval,
)
from sameluck.reporting.plots import Curve
from sameluck.runs import Runs

Pair: TypeAlias = tuple[str, str]  # policy, control
Key: TypeAlias = tuple[Pair, int]  # and which checkpoint


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
    p_adjusted: float  # Holm's, over all pairs at this checkpoint
    sd: float  # of one replication's difference
    reward: float  # the policy's mean cumulative reward
    control_reward: float
    replications: int
    interactions: float  # mean real users a replication, for all policies of the experiment
    naive_interactions: int  # what the naive design would have asked
    variance_ratio: float  # naive variance, Var(policy) + Var(control), over that of the difference; nan on a prior
    ratio_low: float
    ratio_high: float
    naive_replications: float  # how many the naive design would need for this precision
    plain_effect: float  # without adjustment; the same if none was asked for
    plain_sd: float


def control_pairs(names: tuple[str, ...], control: str, best: str) -> Iterator[tuple[str, str]]:  # noqa: ARG001
    """Every other policy against the control."""
    return ((name, control) for name in names if name != control)


def all_pairs(names: tuple[str, ...], control: str, best: str) -> Iterator[tuple[str, str]]:  # noqa: ARG001
    """Every two policies once, the control first among them."""
    ordered = [control, *(name for name in names if name != control)]
    return ((later, earlier) for earlier, later in itertools.combinations(ordered, 2))


def best_pairs(names: tuple[str, ...], control: str, best: str) -> Iterator[tuple[str, str]]:  # noqa: ARG001
    """Every other policy against the one that earned most at the last checkpoint."""
    return ((name, best) for name in names if name != best)


pairings: dict[str, Callable[[tuple[str, ...], str, str], Iterator[tuple[str, str]]]] = {
    "control": control_pairs,
    "all": all_pairs,
    "best": best_pairs,
}

families = ("pairs", "checkpoints", "both")


class Request(NamedTuple):
    """What to estimate; `check_request` refuses what cannot be."""

    level: float = 0.95
    control: str | None = None
    pairs: str = "control"
    interval: str = "t"
    simultaneous: str | None = None
    adjust: str | None = None


def check_request(experiment: Experiment, replications: int, request: Request) -> Request:
    """Refuse a comparison that cannot be made, before anybody waits for its runs."""
    check_level(request.level)
    _choice("pairs", request.pairs, pairings)
    _choice("interval", request.interval, intervals)
    if request.simultaneous is not None:
        _choice("simultaneous", request.simultaneous, families)
    if request.adjust is not None:
        _choice("adjust", request.adjust, adjustments)
    control = experiment.control if request.control is None else request.control
    _choice("control", control, experiment.policies)
    if len(experiment.policies) < 2:
        raise Invalid("compare needs at least two policies, got one")
    if not (replications >= 2):
        raise Invalid(
            f"compare needs at least 2 replications, got {replications}: the replication is the unit of "
            "inference, however many users it has"
        )
    return request._replace(control=control)


def effects(runs: Runs, request: Request) -> tuple[Effect, ...]:
    """One `Effect` for each pair of policies and checkpoint, a pair's checkpoints one after another."""
    request = checked(runs, request)
    pairs = list(pairings[request.pairs](runs.policies, str(request.control), best_policy(runs)))
    found = {
        (pair, place): _interval(runs, pair, place, request)
        for pair in pairs
        for place in range(runs.checkpoints.size)
    }
    if request.simultaneous is not None:
        found = _widened(runs, found, request)
    by_holm = {
        place: holm(np.array([found[pair, place].p_value for pair in pairs]))
        for place in range(runs.checkpoints.size)
    }
    return tuple(
        _effect(runs, key, interval, by_holm[key[1]][pairs.index(key[0])], request)
        for key, interval in found.items()
    )


def checked(runs: Runs, request: Request) -> Request:
    """The request made whole, or a message that says why these runs cannot answer it."""
    if not isinstance(runs, Runs):
        raise Invalid(f"compare takes the Runs that simulate returns, got {runs!r}")
    request = check_request(runs.experiment, runs.replications, request)
    bad = np.argwhere(~np.isfinite(runs.rewards))
    if bad.size != 0:
        raise Invalid(f"rewards must be finite; replication {bad[:1, 0]} has one that is not")
    return request


def best_policy(runs: Runs) -> str:
    """The policy with the highest mean reward at the last checkpoint; the first of several."""
    return runs.policies[int(np.argmax(runs.rewards[:, :, -1].mean(axis=0)))]


def paired(runs: Runs) -> bool:
    """Whether the policies of a replication have anything in common: a stack, a table or an instance."""
    if not isinstance(runs.experiment.design, Naive):
        return True
    return has_prior(runs)


def has_prior(runs: Runs) -> bool:
    """Whether each replication drew a bandit of its own."""
    return runs.environment is not None and runs.environment.is_prior


def differences(runs: Runs, pair: Pair, place: int, request: Request | None = None) -> Floats:
    """What the first of the pair earned more than the second, in each replication, adjusted if asked for."""
    if request is not None and request.adjust is not None:
        predictable = request.interval == "anytime"
        return adjusted(runs, pair, place, request.adjust, predictable=predictable)
    earned, against = _earned(runs, pair, place)
    return earned - against


def _earned(runs: Runs, pair: Pair, place: int) -> tuple[Floats, Floats]:
    first, second = (runs.rewards[:, runs.policies.index(name), place] for name in pair)
    return first, second


def _interval(runs: Runs, pair: Pair, place: int, request: Request) -> Interval:
    if request.interval == "t" and not paired(runs) and request.adjust is None:
        return welch_interval(*_earned(runs, pair, place), request.level)
    return intervals[request.interval](differences(runs, pair, place, request), request.level)


def _widened(runs: Runs, found: dict[Key, Interval], request: Request) -> dict[Key, Interval]:
    """Intervals that hold together over pairs, over checkpoints, or over both."""
    wide: dict[Key, Interval] = {}
    for family in _families(list(found), str(request.simultaneous)):
        if request.interval == "t":
            wide |= _max_t(runs, family, found, request)
        else:
            shared_out = request._replace(level=1 - (1 - request.level) / len(family))
            for key in family:
                interval = _interval(runs, *key, shared_out)
                wide[key] = interval._replace(p_value=found[key].p_value)
    return {key: wide[key] for key in found}


def _families(keys: list[Key], kind: str) -> list[list[Key]]:
    if kind == "both":
        return [keys]
    which = 1 if kind == "pairs" else 0
    together = dict.fromkeys(key[which] for key in keys)
    return [[key for key in keys if key[which] == one] for one in together]


def _max_t(
    runs: Runs, family: list[Key], found: dict[Key, Interval], request: Request
) -> dict[Key, Interval]:
    columns = np.column_stack([differences(runs, *key, request) for key in family])
    # Scaling the single interval keeps Welch's standard error where the policies are independent.
    single = float(stdtrit(runs.replications - 1, 0.5 + request.level / 2))
    factor = max(1.0, max_t_critical(columns, request.level) / single)
    wide = {}
    for key in family:
        middle = (found[key].low + found[key].high) / 2
        reach = (found[key].high - found[key].low) / 2 * factor
        wide[key] = found[key]._replace(low=middle - reach, high=middle + reach)
    return wide


class _Ratio(NamedTuple):
    value: float
    low: float
    high: float


def _effect(
    runs: Runs, key: Key, interval: Interval, p_adjusted: float, request: Request
) -> Effect:
    pair, place = key
    earned, against = _earned(runs, pair, place)
    if paired(runs):
        variance = (earned - against).var(ddof=1)
        ratio = _ratio(runs, earned, against, request.level)
    else:
        variance = earned.var(ddof=1) + against.var(ddof=1)
        ratio = _Ratio(1.0, 1.0, 1.0)
    checkpoint = int(runs.checkpoints[place])
    plain = float((earned - against).mean())
    values = differences(runs, pair, place, request)
    return Effect(
        policy=pair[0],
        control=pair[1],
        checkpoint=checkpoint,
        effect=float(values.mean()),
        low=interval.low,
        high=interval.high,
        level=request.level,
        p_value=interval.p_value,
        p_adjusted=float(p_adjusted),
        sd=math.sqrt(variance) if request.adjust is None else float(values.std(ddof=1)),
        reward=float(earned.mean()),
        control_reward=float(against.mean()),
        replications=runs.replications,
        interactions=float(runs.interactions[:, place].mean()),
        naive_interactions=checkpoint * len(runs.policies),
        variance_ratio=ratio.value,
        ratio_low=ratio.low,
        ratio_high=ratio.high,
        naive_replications=_ceiling(runs.replications * ratio.value),
        plain_effect=plain,
        plain_sd=math.sqrt(variance),
    )


def _ratio(runs: Runs, earned: Floats, against: Floats, level: float) -> _Ratio:
    if has_prior(runs):
        # The naive design would meet the same bandit: Var(policy) and Var(control) count its luck, twice.
        return _Ratio(math.nan, math.nan, math.nan)
    return variance_ratio(earned, against, level)


def _ceiling(value: float) -> float:
    return math.ceil(value) if math.isfinite(value) else value


def variance_ratio(earned: Floats, against: Floats, level: float) -> _Ratio:
    """Var(policy) + Var(control) over the variance of their difference, with a jackknife interval of its log."""
    paired_variance = float((earned - against).var(ddof=1))
    naive_variance = float(earned.var(ddof=1) + against.var(ddof=1))
    if paired_variance == 0:
        value = 1.0 if naive_variance == 0 else math.inf
        return _Ratio(value, value, value)
    value, many = naive_variance / paired_variance, earned.size
    if many < 4:
        return _Ratio(value, 0.0, math.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        naive_without = _variances_without_each(earned) + _variances_without_each(against)
        logs = np.log(naive_without / _variances_without_each(earned - against))
    if not np.all(np.isfinite(logs)):
        return _Ratio(value, 0.0, math.inf)
    error = math.sqrt((many - 1) / many * float(np.sum((logs - logs.mean()) ** 2)))
    reach = math.exp(min(700.0, float(stdtrit(many - 1, 0.5 + level / 2)) * error))
    return _Ratio(value, value / reach, value * reach)


def _variances_without_each(values: Floats) -> Floats:
    many, deviations = values.size, values - values.mean()
    return (np.sum(deviations**2) - many / (many - 1) * deviations**2) / (many - 2)


def _choice(name: str, value: object, known: Collection[str]) -> None:
    if not isinstance(value, str) or value not in known:
        raise Invalid(f"{name} {value!r} is not known; {did_you_mean(str(value), known)}")


def effect_curves(effects: Sequence[Effect]) -> list[Curve]:
    """One curve for each pair of policies."""
    pairs = dict.fromkeys((one.policy, one.control) for one in effects)
    curves = []
    for policy, control in pairs:
        points = [one for one in effects if (one.policy, one.control) == (policy, control)]
        curves.append(
            Curve(
                f"{policy} minus {control}",
                tuple(one.checkpoint for one in points),
                tuple(one.effect for one in points),
                tuple(one.low for one in points),
                tuple(one.high for one in points),
            )
        )
    return curves
