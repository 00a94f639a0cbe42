"""Scale of the rewards against the scale that policies assume.

Upper confidence bounds and posteriors are wide or narrow in units of the reward. A policy that assumes too small a
scale stops exploring too soon; a policy that assumes too large a scale explores too long.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from sameluck.capabilities import capabilities_of
from sameluck.environments.base import Environment, draw, prepared_parameters
from sameluck.experiment import Experiment
from sameluck.policies.base import Policy, RewardScale, rescaled, reward_scale
from sameluck.randomness.streams import AUDIT, stream, word
from sameluck.runs import Runs
from sameluck.text_forms import is_parameters

FACTOR = 2.0  # between scales that fit
LIVE_FACTOR = 3.0  # where the scale of the rewards is estimated from sums
_MAX_ARMS, _MAX_REPLICATIONS, _DRAWS = 5, 3, 120
_MIN_SURPLUS = 10  # replications beyond the number of arms, to estimate from sums


class Spread(NamedTuple):
    """Rewards of the arm that varies most."""

    sd: float
    mean: float  # the largest mean of an arm, in absolute value
    fills_unit_interval: bool


class ScaleMismatch(NamedTuple):
    """Policies whose assumed scale differs from the rewards'."""

    sd: float  # of the rewards, about
    too_small: tuple[str, ...]  # policies that assume a smaller scale and explore too little
    too_large: tuple[str, ...]  # policies that assume a larger scale and explore too long
    remedies: dict[str, dict[str, float]]  # parameters to set, by policy; none: rescale the rewards


def scale_mismatch(runs: Runs) -> ScaleMismatch | None:
    """Return the policies whose assumed scale does not fit the rewards; None if all fit."""
    if runs.environment is not None:
        return simulated_scale_mismatch(runs.experiment, runs.environment)
    scales = _declared(runs.experiment)
    return _mismatch(runs.experiment, scales, _summed_spread(runs) if scales else None, LIVE_FACTOR)


def simulated_scale_mismatch(
    experiment: Experiment, environment: Environment
) -> ScaleMismatch | None:
    """Return the mismatch in an environment, before anything is run."""
    scales = _declared(experiment)
    if not scales:
        return None
    spreads = [_drawn_spread(experiment, state) for state in environment.moves_between]
    widest = Spread(
        max(spread.sd for spread in spreads),
        max(spread.mean for spread in spreads),
        all(spread.fills_unit_interval for spread in spreads),
    )
    return _mismatch(experiment, scales, widest, FACTOR)


def _declared(experiment: Experiment) -> dict[str, RewardScale]:
    scales = {name: reward_scale(policy) for name, policy in experiment.policies.items()}
    return {name: scale for name, scale in scales.items() if scale is not None}


def _mismatch(
    experiment: Experiment, declared: dict[str, RewardScale], spread: Spread | None, factor: float
) -> ScaleMismatch | None:
    if spread is None or not spread.sd > 0:
        return None
    spread = spread._replace(sd=float(f"{spread.sd:.2g}"), mean=float(f"{spread.mean:.2g}"))
    ratios = {name: _ratio(scale, spread) for name, scale in declared.items()}
    too_small = tuple(name for name, ratio in ratios.items() if ratio > factor)
    too_large = tuple(name for name, ratio in ratios.items() if ratio < 1 / factor)
    if not too_small and not too_large:
        return None
    remedies = {
        name: _remedy(experiment.policies[name], spread) for name in (*too_small, *too_large)
    }
    return ScaleMismatch(spread.sd, too_small, too_large, remedies)


def _ratio(scale: RewardScale, spread: Spread) -> float:
    """Return the rewards' standard deviation over the assumed range of it; 1 inside the range."""
    if scale.unit_interval and spread.fills_unit_interval:
        return 1.0
    if spread.sd > scale.high:
        return spread.sd / scale.high if scale.high else 1.0  # an alpha of 0 explores at no scale
    return min(1.0, spread.sd / scale.low) if scale.low else 1.0


def _remedy(policy: Policy, spread: Spread) -> dict[str, float]:
    """Return the parameters with which the policy assumes this spread; none if it has no such parameters."""
    other = rescaled(policy, spread.sd, spread.mean)
    return {} if other is None else dict(_changes(policy, other))


def _changes(policy: Policy, other: Policy) -> Iterator[tuple[str, float]]:
    after = other._asdict()
    for name, value in policy._asdict().items():
        new = after[name]
        if is_parameters(value) and is_parameters(new):  # the policy inside a batched policy
            yield from _changes(value, new)
        elif value != new:
            yield name, float(f"{new:.3g}")


def _drawn_spread(experiment: Experiment, environment: Environment) -> Spread:
    """Estimate the spread from a few draws of some arms, at addresses that no simulation reads."""
    arms = experiment.n_arms
    rows = (
        min(experiment.replications, _MAX_REPLICATIONS)
        if capabilities_of(environment).has_instances
        else 1
    )
    parameters = prepared_parameters(environment, experiment.seed, range(rows), arms)
    # AUDIT is a stream of its own: drawing from it changes no simulated reward.
    key = stream(experiment.seed, AUDIT, 0, 0)
    sampled_arms = np.unique(np.linspace(0, arms - 1, _MAX_ARMS).astype(int)).tolist()
    rewards = np.array(
        [
            [float(draw(parameters, row, arm, word(key, position))) for position in range(_DRAWS)]
            for row in range(rows)
            for arm in sampled_arms
        ]
    )
    sds, means = rewards.std(axis=1), rewards.mean(axis=1)
    if environment.binary:
        means = environment.instance_means(experiment.seed, range(rows), arms)[:, sampled_arms]
        sds = np.sqrt(means * (1 - means))
    inside = rewards.min() >= 0 and rewards.max() <= 1
    fills = environment.binary or bool(inside and np.ptp(rewards) > 1 / FACTOR)
    return Spread(float(sds.max()), float(np.abs(means).max()), fills)


def _summed_spread(runs: Runs) -> Spread | None:
    """Estimate the spread from cumulative rewards regressed on pulls, because live runs lack single rewards.

    Whole numbers with an average in [0, 1] are taken for rewards 0 and 1, whose means may drift between replications.
    """
    horizon, arms = int(runs.checkpoints[-1]), runs.experiment.n_arms
    if runs.replications < arms + _MIN_SURPLUS:
        return None
    variances = []
    for column in range(len(runs.policies)):
        rewards, pulls = runs.rewards[:, column, -1], runs.pulls[:, column, -1].astype(float)
        means, _, rank, _ = np.linalg.lstsq(pulls, rewards)
        residuals = rewards - pulls @ means
        variances.append(float(residuals @ residuals) / (rewards.size - int(rank)) / horizon)
    sd, average = math.sqrt(np.mean(variances)), runs.rewards[:, :, -1] / horizon
    fits = bool(average.min() >= 0 and average.max() <= 1)
    if fits and (runs.rewards == np.round(runs.rewards)).all():
        sd = min(sd, 0.5)
    return Spread(sd, float(np.abs(average).max()), fits and sd <= 0.5)
