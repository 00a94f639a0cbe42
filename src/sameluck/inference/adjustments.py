"""Control variates: noise of mean zero that is subtracted from differences to lower their variance.

`means` subtracts the arms' rewards minus their true means. It needs the true means, so it is for simulations only.
The coefficients come from ridge regression, and nothing is subtracted unless that lowers the variance beyond chance.
It leaves the expected effect unchanged: it subtracts a martingale at a stopping time (the paper's corollary on
moments), times a coefficient that does not depend on the replication it is applied to.
Subtracting *all* reward noise with coefficient 1 (comparing pseudo-regrets) is a metric, not an adjustment. Under
replay it often raises the variance, because reward noise and its effect on later choices partly cancel.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np

from sameluck.arrays import Floats
from sameluck.errors import Invalid
from sameluck.inference.metrics import known_means
from sameluck.runs import Runs

Pair: TypeAlias = tuple[str, str]

FOLDS = 5
MIN_REPLICATIONS = 20
MIN_REPLICATIONS_PER_VARIATE = 4
SEPARATE_VARIATES = 100  # replications per variate; with fewer, both policies share their variates
PENALTIES = (0.001, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0)
MIN_GAIN = 2.0  # standard errors; if the squared errors fall by less, nothing is subtracted

adjustments = ("means",)


def adjusted_differences(runs: Runs, pair: Pair, index: int, *, predictable: bool) -> Floats:
    """Return the first policy's reward minus the second's in each replication, adjusted by control variates.

    `predictable` estimates coefficients from earlier replications only, as the anytime interval requires; otherwise
    they come from the other four of five folds. `index` is the checkpoint's.
    """
    columns = [runs.policies.index(name) for name in pair]
    plain = runs.rewards[:, columns[0], index] - runs.rewards[:, columns[1], index]
    noise = _reward_noise(runs, columns, index)
    needed = max(MIN_REPLICATIONS, MIN_REPLICATIONS_PER_VARIATE * noise.shape[2])
    if plain.size < needed:
        raise Invalid(
            f"adjust='means' needs {needed} replications for {runs.experiment.n_arms} arms, got {plain.size}"
        )
    if predictable:
        return _adjusted_by_past(plain, noise)
    return _adjusted_by_folds(plain, _variates(noise, plain.size))


def _reward_noise(runs: Runs, columns: list[int], index: int) -> Floats:
    """Return each arm's rewards minus their expectation (replication, policy, arm), whose mean is zero."""
    if runs.totals is None:
        raise Invalid(
            "adjust='means' needs each arm's total reward, which these runs do not hold; simulate them again"
        )
    means = known_means(runs)
    if means is None:
        raise Invalid(
            "adjust='means' needs true means: it is for simulations whose arms do not move, not for real traffic"
        )
    return runs.totals[:, columns, index] - means[:, None, :] * runs.pulls[:, columns, index]


def _variates(noise: Floats, replications: int) -> Floats:
    """Return the control variates (replication, variate) whose coefficients this many replications can estimate."""
    if replications < SEPARATE_VARIATES * noise.shape[2]:
        return noise[:, 0] - noise[:, 1]
    return noise.reshape(len(noise), -1)


def _coefficients(plain: Floats, variates: Floats) -> Floats:
    """Return ridge coefficients with the smallest leave-one-out error; 0 unless that error is clearly smaller.

    Plain regression on 20 to 50 replications raises the variance where rare replications dominate: they decide the
    coefficients and are not seen again.
    """
    count = plain.size
    scale = variates.std(axis=0)
    used = scale > 0
    centred = (variates[:, used] - variates[:, used].mean(axis=0)) / scale[used]
    # One decomposition gives the fits of all penalties, and their leave-one-out errors by the leverages.
    left, sizes, right = np.linalg.svd(centred, full_matrices=False)
    response = plain - plain.mean()
    projected = left.T @ response
    fits = []
    for penalty in PENALTIES:
        kept = sizes**2 / (sizes**2 + penalty * count)
        leverage = left**2 @ kept + 1 / count
        errors = (response - left @ (kept * projected)) / np.maximum(1 - leverage, 1e-9)
        fits.append((float(np.mean(errors**2)), penalty, errors))
    _, penalty, errors = min(fits, key=lambda fit: fit[0])
    # Against the leave-one-out errors of the plain mean.
    gains = (response * count / (count - 1)) ** 2 - errors**2
    result = np.zeros(variates.shape[1])
    if gains.mean() > MIN_GAIN * gains.std(ddof=1) / math.sqrt(count):
        weights = sizes / (sizes**2 + penalty * count) * projected
        result[used] = right.T @ weights / scale[used]
    return result


def _adjusted_by_folds(plain: Floats, variates: Floats) -> Floats:
    """Adjust by cross-fitting: a fold's coefficients come from the other folds, so the result is unbiased."""
    result = plain.copy()
    fold = np.arange(plain.size) % FOLDS
    for number in range(FOLDS):
        inside = fold == number
        result[inside] -= variates[inside] @ _coefficients(plain[~inside], variates[~inside])
    return result


def _adjusted_by_past(plain: Floats, noise: Floats) -> Floats:
    """Adjust by coefficients from earlier replications, refitted as they grow by a tenth; 0 while too few."""
    result = plain.copy()
    refit = MIN_REPLICATIONS
    while refit < plain.size:
        until = min(plain.size, refit + max(10, refit // 10))
        variates = _variates(noise, refit)
        coefficients = _coefficients(plain[:refit], variates[:refit])
        result[refit:until] -= variates[refit:until] @ coefficients
        refit = until
    return result
