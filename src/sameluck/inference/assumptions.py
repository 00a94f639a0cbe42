"""Assumptions of the intervals that runs do not meet: facts, which `sameluck.reporting.cautions` puts into words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from sameluck import text_forms
from sameluck.arrays import Floats
from sameluck.capabilities import capabilities_of
from sameluck.environments.base import Environment
from sameluck.inference.effects import Effect, differences, has_prior
from sameluck.inference.requests import Pair, Request
from sameluck.inference.scale import ScaleMismatch, scale_mismatch
from sameluck.runs import Runs

LARGE_SKEWNESS = 1.0
REPLICATIONS_PER_SQUARED_SKEWNESS = 25  # for a t interval (Cochran, 1977)
MIN_REPLICATIONS_FOR_PULLS = 30
LARGE_VARIANCE = 1.0  # of a pull count, in horizons
LARGE_SD = 0.7  # of a pull count, in means; about 0.2 for UCB1


class Violations(NamedTuple):
    """Assumptions that the runs do not meet at the last checkpoint; empty fields where they do."""

    identical_pairs: tuple[Pair, ...] = ()  # other policies, but the same pulls and rewards
    constant_pairs: tuple[Pair, ...] = ()  # the same difference in every replication
    skewed_pairs: tuple[Pair, ...] = ()
    replications_for_skewness: int = 0  # that the most skewed pair needs
    unstable_policies: tuple[str, ...] = ()  # whose pull counts vary much between replications
    scale: ScaleMismatch | None = None


def find_violations(
    runs: Runs, measured_runs: Runs, effects: Sequence[Effect], request: Request
) -> Violations:
    """Check the differences, the pull counts and the scale of the rewards.

    Args:
        runs: The compared runs.
        measured_runs: The runs with the values of the metric in place of the rewards (`measured`).
        effects: The effects at the last checkpoint.
        request: The request of the comparison.
    """
    identical = [effect for effect in effects if _is_identical(measured_runs, effect)]
    needed = _replications_needed(measured_runs, effects, request)
    skewed = [pair for pair, count in needed.items() if count > runs.replications]
    return Violations(
        identical_pairs=_pairs(effect for effect in identical if not effect.is_same_policy),
        constant_pairs=_pairs(
            effect for effect in effects if effect.sd == 0 and effect not in identical
        ),
        skewed_pairs=tuple(skewed),
        replications_for_skewness=max(needed.values()) if skewed else 0,
        unstable_policies=tuple(name for name in runs.policies if _is_unstable(runs, name)),
        scale=scale_mismatch(measured_runs),
    )


def _pairs(effects: Iterable[Effect]) -> tuple[Pair, ...]:
    return tuple((effect.policy, effect.control) for effect in effects)


def _is_identical(runs: Runs, effect: Effect) -> bool:
    first, second = (runs.policies.index(name) for name in (effect.policy, effect.control))
    same_pulls = np.array_equal(runs.pulls[:, first], runs.pulls[:, second])
    return same_pulls and np.array_equal(runs.rewards[:, first], runs.rewards[:, second])


def _replications_needed(
    runs: Runs, effects: Sequence[Effect], request: Request
) -> dict[Pair, int]:
    """Return the replications that each pair's skewness calls for; none where intervals do not assume symmetry."""
    if not request.interval_method.is_of_the_mean or request.metric_definition.is_quantile:
        return {}
    last = runs.checkpoints.size - 1
    return {
        pair: replications_for_skewness(differences(runs, pair, last, request))
        for pair in _pairs(effects)
    }


def replications_for_skewness(values: Floats) -> int:
    """Return the replications that a t interval of such skewed values needs; 0 if the skewness may be chance."""
    if values.size < 8 or values.std() == 0:
        return 0
    # Moments, without a correction for bias: the threshold is coarse.
    skewness = float(np.mean(((values - values.mean()) / values.std()) ** 3))
    # The standard error of skewness is about sqrt(6 / m).
    if abs(skewness) <= max(LARGE_SKEWNESS, 3 * math.sqrt(6 / values.size)):
        return 0
    return math.ceil(float(f"{REPLICATIONS_PER_SQUARED_SKEWNESS * skewness**2:.1g}"))


def _is_unstable(runs: Runs, name: str) -> bool:
    """Return whether pull counts vary as much as in the paper's third example, Gaussian Thompson sampling.

    Replay reduces the variance less there.
    """
    if runs.replications < MIN_REPLICATIONS_FOR_PULLS or has_prior(runs):
        return False
    pulls = runs.pulls[:, runs.policies.index(name), -1].astype(float)  # (replication, arm)
    favourite = int(pulls.mean(axis=0).argmax())
    pulls[:, favourite] = 0  # its count mirrors the others'
    arm = int(pulls.var(axis=0).argmax())
    mean, variance = float(pulls[:, arm].mean()), float(pulls[:, arm].var(ddof=1))
    return variance > LARGE_VARIANCE * runs.checkpoints[-1] and variance > (LARGE_SD * mean) ** 2


def moving_environment(environment: Environment | None) -> str | None:
    """Return the name of an environment whose arms move with the period; None for others."""
    if environment is None or capabilities_of(environment).is_stationary:
        return None
    return text_forms.name_of(type(environment))
