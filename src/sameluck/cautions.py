"""What a careful statistician would say on seeing these runs, in words."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from sameluck.estimates import Effect, differences, paired
from sameluck.runs import Runs

FEW = 10  # replications
SKEWED = 1.0
ENOUGH = 25  # replications a squared skewness for a t interval (Cochran, 1977)
NEARLY_LINEAR = 0.9  # growth exponent of a pull count's variance


def cautions(runs: Runs, effects: Sequence[Effect], interval: str) -> tuple[str, ...]:
    """Sentences to read before believing an interval; none if nothing is wrong."""
    found = [*_few(runs), *_of_pairs(runs, effects, interval), *_growing_pull_counts(runs)]
    return tuple(dict.fromkeys(found))


def _few(runs: Runs) -> Iterator[str]:
    if runs.replications < FEW:
        yield (
            f"Only {runs.replications} replications: the intervals lean on normal differences. "
            f"{FEW} or more show whether that holds."
        )


def _of_pairs(runs: Runs, effects: Sequence[Effect], interval: str) -> Iterator[str]:
    last = runs.checkpoints.size - 1
    for one in effects:
        if one.checkpoint != runs.checkpoints[last]:
            continue
        pair = (one.policy, one.control)
        columns = [runs.policies.index(name) for name in pair]
        if paired(runs) and np.array_equal(runs.pulls[:, columns[0]], runs.pulls[:, columns[1]]):
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
            yield from _skew(differences(runs, pair, last), one, interval)


def _skew(
    values: np.ndarray[tuple[int], np.dtype[np.float64]], one: Effect, interval: str
) -> Iterator[str]:
    if values.size < 8 or values.std() == 0:
        return
    skewness = float(np.mean(((values - values.mean()) / values.std()) ** 3))
    # Sampling error of skewness is about sqrt(6 / m): what noise explains is not worth a caution.
    strong = abs(skewness) > max(SKEWED, 3 * math.sqrt(6 / values.size))
    if strong and values.size < ENOUGH * skewness**2 and interval != "bootstrap":
        yield (
            f"The differences of {one.policy} and {one.control} are skewed ({skewness:+.1f}): with "
            f'{values.size:,} replications prefer interval="bootstrap", or run more.'
        )


def _growing_pull_counts(runs: Runs) -> Iterator[str]:
    """The case of Gaussian Thompson sampling in the paper's third example: replay still helps, but less."""
    horizons = runs.checkpoints
    late = horizons >= horizons[-1] / 10
    if late.sum() < 3 or runs.replications < 30:
        return
    for column, name in enumerate(runs.policies):
        pulls = runs.pulls[:, column]  # (replication, checkpoint, arm)
        usual = int(pulls[:, -1].mean(axis=0).argmax())
        variances = pulls.var(axis=0, ddof=1)
        variances[:, usual] = 0  # what the others lose the usual arm gains: say it once
        arm = int(variances[-1].argmax())
        series = variances[late, arm]
        if np.any(series <= 0) or series[-1] < horizons[-1]:
            continue
        slope = float(np.polyfit(np.log(horizons[late]), np.log(series), 1)[0])
        if slope > NEARLY_LINEAR:
            yield (
                f"{name}: the variance of arm {runs.experiment.arm_names[arm]}'s pull count grows like "
                f"T^{slope:.1f}: rare replications dominate, so replay lowers the variance less than usual "
                "and a small run understates it."
            )
