"""Reasons to doubt an interval, one sentence for each kind, with what to do about it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from sameluck.arrays import Floats
from sameluck.inference.effects import Effect, Request, differences, has_prior, is_interim
from sameluck.inference.metrics import measured
from sameluck.inference.movement import movement_cautions
from sameluck.inference.scale import scale_caution
from sameluck.runs import Runs
from sameluck.wording import listed

FEW_REPLICATIONS = 10
LARGE_SKEWNESS = 1.0
REPLICATIONS_PER_SQUARED_SKEWNESS = 25  # for a t interval (Cochran, 1977)
LARGE_VARIANCE = 1.0  # of a pull count, in horizons
LARGE_SD = 0.7  # of a pull count, in means; about 0.2 for UCB1


def cautions(runs: Runs, effects: Sequence[Effect], request: Request) -> tuple[str, ...]:
    """Sentences to read before relying on an interval; none if nothing is wrong."""
    last = [one for one in effects if one.checkpoint == runs.checkpoints[-1]]
    runs = measured(runs, request.by)
    return (
        *runs.notes,
        *movement_cautions(runs.environment),
        *_interim(runs, request),
        *_few_replications(runs, request),
        *_tail_without_bounds(last, request),
        *_winner_each_alone(last, request),
        *_never_diverge(runs, last),
        *_without_variation(runs, last),
        *_skewed(runs, last, request),
        *_unstable_pull_counts(runs),
        *scale_cautions(runs),
    )


def scale_cautions(runs: Runs) -> Iterator[str]:
    """A sentence if policies assume another scale of rewards."""
    if caution := scale_caution(runs):
        yield caution


def _interim(runs: Runs, request: Request) -> Iterator[str]:
    if is_interim(runs) and request.interval != "anytime":
        yield (
            f"{runs.replications:,} of {runs.experiment.replications:,} planned replications: "
            f"{_a_kind_of(request)} interval is valid at the planned number only; at interim looks it misses the "
            "true effect far too often. "
            'interval="anytime" is valid at every look.'
        )


def _a_kind_of(request: Request) -> str:
    return f"a {request.interval}" if request.by.is_mean else "such an"


def _few_replications(runs: Runs, request: Request) -> Iterator[str]:
    if request.interval == "twin":
        yield (
            "The spread is that of a copy of the arms: it assumes that they stand still, which few replications can "
            "hardly test."
        )
    elif runs.replications < FEW_REPLICATIONS and request.interval != "median":
        yield (
            f"Only {runs.replications} replications: the intervals assume normal differences. "
            f"{FEW_REPLICATIONS} or more show whether that holds."
        )


def _tail_without_bounds(effects: Sequence[Effect], request: Request) -> Iterator[str]:
    metric = request.by
    unknown = [one for one in effects if math.isinf(one.low) or math.isinf(one.high)]
    if metric.is_quantile and any(one.sd != 0 for one in unknown):
        yield (
            f"Too few replications for the {metric.title}: with {effects[0].replications:,} an order statistic that "
            "bounds it at this level, for all comparisons together, does not exist. Run more."
        )


def _winner_each_alone(effects: Sequence[Effect], request: Request) -> Iterator[str]:
    covered = request.simultaneous
    if request.pairs == "best" and covered in ("none", "checkpoints") and len(effects) > 1:
        remedy = 'leave out simultaneous="none"' if covered == "none" else 'use simultaneous="both"'
        yield (
            f"{effects[0].control} was chosen on the same data, so intervals of each pair alone favour it; "
            f"{remedy}."
        )


def _names(effects: Sequence[Effect]) -> str:
    return listed((f"{one.policy} and {one.control}" for one in effects), at_most=3)


def _never_diverge(runs: Runs, effects: Sequence[Effect]) -> Iterator[str]:
    if same := [one for one in effects if _identical(runs, one) and not one.is_same_policy]:
        yield (
            f"{_names(same)} pulled every arm equally often in every replication: this environment cannot "
            "distinguish them. Try one in which they differ."
        )


def _identical(runs: Runs, effect: Effect) -> bool:
    first, second = (runs.policies.index(name) for name in (effect.policy, effect.control))
    same_pulls = np.array_equal(runs.pulls[:, first], runs.pulls[:, second])
    return same_pulls and np.array_equal(runs.rewards[:, first], runs.rewards[:, second])


def _without_variation(runs: Runs, effects: Sequence[Effect]) -> Iterator[str]:
    if fixed := [one for one in effects if one.sd == 0 and not _identical(runs, one)]:
        yield (
            f"The difference of {_names(fixed)} is the same in every replication: that is no proof that it always "
            "is. Run more replications."
        )


def _skewed(runs: Runs, effects: Sequence[Effect], request: Request) -> Iterator[str]:
    metric = request.by
    if request.interval == "median" or metric.is_quantile:
        return
    last = runs.checkpoints.size - 1
    needed = {
        one: replications_for_skewness(differences(runs, (one.policy, one.control), last, request))
        for one in effects
    }
    if skewed := [one for one in effects if needed[one] > runs.replications]:
        more = "wait for more" if runs.environment is None else "run more"
        other = ', or see the median with interval="median"' if metric.is_mean else ""
        yield (
            f"The differences of {_names(skewed)} are skewed: rare replications weigh heavily, and with "
            f"{runs.replications:,} the interval is only approximate; {more} (about "
            f"{max(needed.values()):,}){other}."
        )


def replications_for_skewness(values: Floats) -> int:
    """How many replications differences of this skewness need for a t interval; 0 if it may be chance."""
    if values.size < 8 or values.std() == 0:
        return 0
    skewness = float(np.mean(((values - values.mean()) / values.std()) ** 3))
    # The standard error of skewness is about sqrt(6 / m).
    if abs(skewness) <= max(LARGE_SKEWNESS, 3 * math.sqrt(6 / values.size)):
        return 0
    return math.ceil(float(f"{REPLICATIONS_PER_SQUARED_SKEWNESS * skewness**2:.1g}"))


def _unstable_pull_counts(runs: Runs) -> Iterator[str]:
    """As for Gaussian Thompson sampling in the paper's third example, where replay reduces the variance less."""
    if runs.replications < 30 or has_prior(runs):
        return
    if unstable := [name for name in runs.policies if _is_unstable(runs, name)]:
        pull = "pulls" if len(unstable) == 1 else "pull"
        yield (
            f"How often {listed(unstable)} {pull} an arm varies much between replications: rare ones dominate, and a "
            "small run understates the spread. Run more replications before relying on the interval."
        )


def _is_unstable(runs: Runs, name: str) -> bool:
    pulls = runs.pulls[:, runs.policies.index(name), -1].astype(float)  # (replication, arm)
    favourite = int(pulls.mean(axis=0).argmax())
    pulls[:, favourite] = 0  # its count mirrors the others'
    arm = int(pulls.var(axis=0).argmax())
    mean, variance = float(pulls[:, arm].mean()), float(pulls[:, arm].var(ddof=1))
    return variance > LARGE_VARIANCE * runs.checkpoints[-1] and variance > (LARGE_SD * mean) ** 2
