"""Reasons to doubt an interval, as sentences: interim looks, few replications, skewness, unstable pull counts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from sameluck.arrays import Floats
from sameluck.design import Naive
from sameluck.inference.effects import Effect, Request, differences, has_prior
from sameluck.runs import Runs

FEW_REPLICATIONS = 10
LARGE_SKEWNESS = 1.0
REPLICATIONS_PER_SQUARED_SKEWNESS = 25  # for a t interval (Cochran, 1977)
LARGE_VARIANCE = 1.0  # of a pull count, in horizons
LARGE_SD = 0.7  # of a pull count, in means; about 0.2 for UCB1


def cautions(runs: Runs, effects: Sequence[Effect], request: Request) -> tuple[str, ...]:
    """Sentences to read before relying on an interval; none if nothing is wrong."""
    sentences = [
        *_interim(runs, request),
        *_few_replications(runs),
        *_of_pairs(runs, effects, request),
        *_unstable_pull_counts(runs),
    ]
    return tuple(dict.fromkeys(sentences))


def is_interim(runs: Runs) -> bool:
    """Whether a live experiment has planned more replications than these."""
    return runs.environment is None and runs.replications < runs.experiment.replications


def _interim(runs: Runs, request: Request) -> Iterator[str]:
    if is_interim(runs) and request.interval != "anytime":
        yield (
            f"{runs.replications:,} of {runs.experiment.replications:,} planned replications: a {request.interval} "
            "interval is valid at the planned number only; at interim looks it misses the true effect far too often. "
            'interval="anytime" is valid at every look.'
        )


def _few_replications(runs: Runs) -> Iterator[str]:
    if runs.replications < FEW_REPLICATIONS:
        yield (
            f"Only {runs.replications} replications: the intervals assume normal differences. "
            f"{FEW_REPLICATIONS} or more show whether that holds."
        )


def _of_pairs(runs: Runs, effects: Sequence[Effect], request: Request) -> Iterator[str]:
    last = runs.checkpoints.size - 1
    for effect in effects:
        if effect.checkpoint != runs.checkpoints[last]:
            continue
        pair = (effect.policy, effect.control)
        columns = [runs.policies.index(name) for name in pair]
        if _never_diverge(runs, *columns):
            yield (
                f"{effect.policy} and {effect.control} pulled every arm equally often in every replication: "
                "they never diverge here, so this environment cannot distinguish them."
            )
        elif effect.sd == 0:
            yield (
                f"The difference of {effect.policy} and {effect.control} is the same in every replication: "
                "an interval of width 0 is no proof that it always is."
            )
        else:
            yield from _skew(differences(runs, pair, last, request), effect, request.interval)


def _skew(values: Floats, effect: Effect, interval: str) -> Iterator[str]:
    if values.size < 8 or values.std() == 0:
        return
    skewness = float(np.mean(((values - values.mean()) / values.std()) ** 3))
    # The standard error of skewness is about sqrt(6 / m): within it no caution.
    strong = abs(skewness) > max(LARGE_SKEWNESS, 3 * math.sqrt(6 / values.size))
    few = values.size < REPLICATIONS_PER_SQUARED_SKEWNESS * skewness**2
    if strong and few and interval != "bootstrap":
        remedy = (
            "its interval is only approximate; wait for more"
            if interval == "anytime"
            else 'prefer interval="bootstrap", or run more'
        )
        yield (
            f"The differences of {effect.policy} and {effect.control} are skewed ({skewness:+.1f}): with "
            f"{values.size:,} replications {remedy}."
        )


def _never_diverge(runs: Runs, first: int, second: int) -> bool:
    same_pulls = np.array_equal(runs.pulls[:, first], runs.pulls[:, second])
    return same_pulls and np.array_equal(runs.rewards[:, first], runs.rewards[:, second])


def _unstable_pull_counts(runs: Runs) -> Iterator[str]:
    """As for Gaussian Thompson sampling in the paper's third example, where replay reduces the variance less."""
    horizon = int(runs.checkpoints[-1])
    if runs.replications < 30 or has_prior(runs):
        return
    naive = isinstance(runs.experiment.design, Naive)
    less = "" if naive else " and sharing rewards lowers it less than usual"
    for column, name in enumerate(runs.policies):
        pulls = runs.pulls[:, column, -1].astype(float)  # (replication, arm)
        favourite = int(pulls.mean(axis=0).argmax())
        pulls[:, favourite] = 0  # its count mirrors the others': one caution is enough
        arm = int(pulls.var(axis=0).argmax())
        mean, variance = float(pulls[:, arm].mean()), float(pulls[:, arm].var(ddof=1))
        if variance > LARGE_VARIANCE * horizon and variance > (LARGE_SD * mean) ** 2:
            yield (
                f"{name}: the pull count of arm {runs.experiment.arm_names[arm]} has variance "
                f"{variance / horizon:.1f} T (mean {mean:,.0f}, sd {math.sqrt(variance):,.0f}): rare replications "
                f"dominate, so a small run understates the spread{less}."
            )
