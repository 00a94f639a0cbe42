"""What a careful statistician would say on seeing these runs, in words."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from sameluck.design import Naive
from sameluck.inference.effects import Effect, Request, differences, has_prior
from sameluck.runs import Runs

FEW = 10  # replications
SKEWED = 1.0
ENOUGH = 25  # replications a squared skewness for a t interval (Cochran, 1977)
WILD = 1.0  # variance of a pull count, in horizons
SCATTERED = 0.7  # its sd, in means; about 0.2 for UCB1


def cautions(runs: Runs, effects: Sequence[Effect], request: Request) -> tuple[str, ...]:
    """Sentences to read before believing an interval; none if nothing is wrong."""
    found = [
        *_peeking(runs, request),
        *_few(runs),
        *_of_pairs(runs, effects, request),
        *_wild_pull_counts(runs),
    ]
    return tuple(dict.fromkeys(found))


def on_the_way(runs: Runs) -> bool:
    """Whether these are the first replications of a live experiment that planned more."""
    return runs.environment is None and runs.replications < runs.experiment.replications


def _peeking(runs: Runs, request: Request) -> Iterator[str]:
    if on_the_way(runs) and request.interval != "anytime":
        yield (
            f"{runs.replications:,} of {runs.experiment.replications:,} planned replications: a {request.interval} "
            "interval is valid at the planned number only; looked at on the way it misses the truth far too often. "
            'interval="anytime" may be looked at as often as you like.'
        )


def _few(runs: Runs) -> Iterator[str]:
    if runs.replications < FEW:
        yield (
            f"Only {runs.replications} replications: the intervals lean on normal differences. "
            f"{FEW} or more show whether that holds."
        )


def _of_pairs(runs: Runs, effects: Sequence[Effect], request: Request) -> Iterator[str]:
    last = runs.checkpoints.size - 1
    for one in effects:
        if one.checkpoint != runs.checkpoints[last]:
            continue
        pair = (one.policy, one.control)
        columns = [runs.policies.index(name) for name in pair]
        if _never_diverge(runs, *columns):
            yield (
                f"{one.policy} and {one.control} pulled every arm equally often in every replication: "
                "they never diverge here, so this environment cannot tell them apart."
            )
        elif one.sd == 0:
            yield (
                f"The difference of {one.policy} and {one.control} is the same in every replication: "
                "an interval without width is not a certainty."
            )
        else:
            yield from _skew(differences(runs, pair, last, request), one, request.interval)


def _skew(
    values: np.ndarray[tuple[int], np.dtype[np.float64]], one: Effect, interval: str
) -> Iterator[str]:
    if values.size < 8 or values.std() == 0:
        return
    skewness = float(np.mean(((values - values.mean()) / values.std()) ** 3))
    # Sampling error of skewness is about sqrt(6 / m): what noise explains is not worth a caution.
    strong = abs(skewness) > max(SKEWED, 3 * math.sqrt(6 / values.size))
    if strong and values.size < ENOUGH * skewness**2 and interval != "bootstrap":
        remedy = (
            "its interval is only roughly right; wait for more"
            if interval == "anytime"
            else 'prefer interval="bootstrap", or run more'
        )
        yield (
            f"The differences of {one.policy} and {one.control} are skewed ({skewness:+.1f}): with "
            f"{values.size:,} replications {remedy}."
        )


def _never_diverge(runs: Runs, first: int, second: int) -> bool:
    same_pulls = np.array_equal(runs.pulls[:, first], runs.pulls[:, second])
    return same_pulls and np.array_equal(runs.rewards[:, first], runs.rewards[:, second])


def _wild_pull_counts(runs: Runs) -> Iterator[str]:
    """The case of Gaussian Thompson sampling in the paper's third example: replay still helps, but less."""
    horizon = int(runs.checkpoints[-1])
    if runs.replications < 30 or has_prior(runs):
        return
    naive = isinstance(runs.experiment.design, Naive)
    less = "" if naive else " and sharing luck lowers it less than usual"
    for column, name in enumerate(runs.policies):
        pulls = runs.pulls[:, column, -1].astype(float)  # (replication, arm)
        usual = int(pulls.mean(axis=0).argmax())
        pulls[:, usual] = 0  # what the others lose the usual arm gains: say it once
        arm = int(pulls.var(axis=0).argmax())
        mean, variance = float(pulls[:, arm].mean()), float(pulls[:, arm].var(ddof=1))
        if variance > WILD * horizon and variance > (SCATTERED * mean) ** 2:
            yield (
                f"{name}: the pull count of arm {runs.experiment.arm_names[arm]} has variance "
                f"{variance / horizon:.1f} T (mean {mean:,.0f}, sd {math.sqrt(variance):,.0f}): rare replications "
                f"dominate, so a small run understates the spread{less}."
            )
