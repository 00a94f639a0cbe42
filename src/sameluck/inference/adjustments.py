"""Less noise in a difference: take out luck whose mean is known to be zero.

`means` takes out what the arms paid more than their true means, by regression. It needs the true means, so it is
for simulations only. `exploration` takes out which arms a randomised policy's coin hit, each valued at its mean so
far. It needs policies that can state their chances, and works on real traffic too.

Both need `simulate(..., detail=True)`. Both leave the expected effect as it is: what is subtracted is a martingale
at a stopping time (the paper's corollary on moments) or a sum of martingale differences, times a coefficient that
does not depend on the replication it is applied to. Taking out *all* reward luck with coefficient 1 (comparing
pseudo-regrets) is not offered: under replay it often raises the variance, because reward luck and learning luck
cancel there.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from sameluck.arrays import Floats
from sameluck.errors import Invalid
from sameluck.runs import Runs

Pair: TypeAlias = tuple[str, str]

FOLDS = 5
REPLICATIONS_A_VARIATE = 5

adjustments = ("means", "exploration")


def adjusted(runs: Runs, pair: Pair, place: int, how: str, *, predictable: bool) -> Floats:
    """What the first of the pair earned more than the second, in each replication, less that luck.

    Args:
        runs: Played with `detail=True`.
        pair: Policy and control.
        place: Which checkpoint.
        how: `"means"` or `"exploration"`.
        predictable: Take coefficients from earlier replications only, as an anytime interval needs it; otherwise from
            the other folds of five.
    """
    columns = [runs.policies.index(name) for name in pair]
    plain = runs.rewards[:, columns[0], place] - runs.rewards[:, columns[1], place]
    if how == "exploration":
        luck = _detail(runs.luck, how)[:, columns, place]
        return plain - (luck[:, 0] - luck[:, 1])
    variates = _reward_luck(runs, columns, place)
    if predictable:
        return _without_past(plain, variates)
    return _without_folds(plain, variates[:, variates.std(axis=0) > 0])


def _detail(recorded: Any, how: str) -> Any:
    if recorded is None:
        raise Invalid(f"adjust={how!r} needs runs of simulate(..., detail=True)")
    return recorded


def known_means(runs: Runs) -> Floats | None:
    """The true means of each replication's bandit (replication, arm); None for real traffic."""
    if runs.environment is None:
        return None
    experiment = runs.experiment
    replications = range(runs.first, runs.first + runs.replications)
    return runs.environment.instance_means(experiment.seed, replications, experiment.n_arms)


def _reward_luck(runs: Runs, columns: list[int], place: int) -> Floats:
    """Each arm's rewards less their expectation, for both policies (replication, variate); their mean is zero."""
    totals = _detail(runs.totals, "means")[:, columns, place]
    means = known_means(runs)
    if means is None:
        raise Invalid(
            "adjust='means' needs true means: it is for simulations, never for real traffic"
        )
    luck = totals - means[:, None, :] * runs.pulls[:, columns, place]
    flat: Floats = luck.reshape(runs.replications, -1)
    varying = int((flat.std(axis=0) > 0).sum())
    needed = REPLICATIONS_A_VARIATE * varying
    if not (runs.replications >= needed):
        raise Invalid(
            f"adjust='means' needs {REPLICATIONS_A_VARIATE} replications for each of {varying} variates, "
            f"{needed} in all, got {runs.replications}"
        )
    return flat


def _coefficients(plain: Floats, variates: Floats) -> Floats:
    centred = variates - variates.mean(axis=0)
    return np.linalg.lstsq(centred, plain - plain.mean(), rcond=None)[0]


def _without_folds(plain: Floats, variates: Floats) -> Floats:
    """Cross-fitted, so exactly unbiased: a replication's coefficients come from the other folds."""
    result = plain.copy()
    fold = np.arange(plain.size) % FOLDS
    for one in range(FOLDS):
        here = fold == one
        result[here] -= variates[here] @ _coefficients(plain[~here], variates[~here])
    return result


def _without_past(plain: Floats, variates: Floats) -> Floats:
    """Coefficients from the replications before, refitted now and then; none while they are too few."""
    result = plain.copy()
    start = REPLICATIONS_A_VARIATE * variates.shape[1]
    refit = start
    while refit < plain.size:
        until = min(plain.size, refit + max(10, refit // 10))
        coefficients = _coefficients(plain[:refit], variates[:refit])
        result[refit:until] -= variates[refit:until] @ coefficients
        refit = until
    return result
