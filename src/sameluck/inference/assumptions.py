"""Assumptions of intervals and policies that runs do not meet: facts, which `sameluck.reporting.cautions` words.

Intervals assume differences that are not too skewed. Policies assume a scale of the rewards, because upper confidence
bounds and posteriors are wide or narrow in units of the reward: a policy that assumes too small a scale stops
exploring too soon; a policy that assumes too large a scale explores too long.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from sameluck import text_forms
from sameluck.arrays import Floats
from sameluck.environments.base import Environment, draw, prepared_parameters
from sameluck.experiment import Experiment, capabilities_of
from sameluck.inference.effects import Effect, differences, has_equal_results, has_prior
from sameluck.inference.requests import Pair, Request
from sameluck.inference.tails import quantile_interval
from sameluck.inference.unseen import Misses, excess_misses
from sameluck.policies.base import Policy, RewardScale, rescaled, reward_scale
from sameluck.randomness.streams import AUDIT, stream, word
from sameluck.runs import Runs
from sameluck.text_forms import is_parameters

LARGE_SKEWNESS = 1.0
REPLICATIONS_PER_SQUARED_SKEWNESS = 25  # for a t interval (Cochran, 1977)
MIN_REPLICATIONS_FOR_PULLS = 30
MAX_FIRST_INTERVAL = 1_000  # replications
LARGE_VARIANCE = 1.0  # of a pull count, in horizons
LARGE_SD = 0.7  # of a pull count, in means; about 0.2 for UCB1
SCALE_FACTOR = 2.0  # between scales that fit
LIVE_SCALE_FACTOR = 3.0  # where the scale of the rewards is estimated from sums
# Policies that use shared noise in opposite ways, so that sharing it raises the variance of their difference, by text
# form (benchmarks/variance.py --noise).
OPPOSED = ({"exp3", "exp3_ix"}, {"gradient_bandit", "exp3_ix"})
_MAX_ARMS, _MAX_REPLICATIONS, _DRAWS, _SEED = 5, 3, 120, 0
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


class Violations(NamedTuple):
    """Assumptions that the runs do not meet at the last checkpoint; empty fields where they do."""

    identical_pairs: tuple[Pair, ...] = ()  # other policies, but the same pulls and rewards
    constant_pairs: tuple[Pair, ...] = ()  # the same difference in every replication
    skewed_pairs: tuple[Pair, ...] = ()
    replications_for_skewness: int = 0  # that the most skewed pair needs
    misses: Misses | None = None  # of the most skewed pair, from other seeds or a copy of the arms
    replications_for_interval: int = 0  # that intervals without bounds need
    opposed_pairs: tuple[Pair, ...] = ()  # whose variance shared noise raises
    unstable_policies: tuple[str, ...] = ()  # whose pull counts vary much between replications
    scale: ScaleMismatch | None = None


def find_violations(
    runs: Runs,
    measured_runs: Runs,
    effects: Sequence[Effect],
    request: Request,
    reference: Runs | None = None,
) -> Violations:
    """Check the differences, the pull counts and the scale of the rewards, from effects at the last checkpoint.

    `measured_runs` are the runs with the values of the metric in place of the rewards (`measured`). `reference` has
    many replications on other seeds or on a copy of the arms, because few replications often lack the long tail.
    """
    identical = [effect for effect in effects if has_equal_results(measured_runs, effect[:2])]
    needed: dict[Effect, int] = {}
    # Intervals of medians and quantiles do not assume symmetry.
    if request.interval_method.is_of_the_mean and not request.metric_definition.is_quantile:
        for effect in effects:
            values = (
                differences(measured_runs, effect[:2], -1, request)
                if reference is None
                else differences(reference, effect[:2], -1)
            )
            needed[effect] = replications_for_skewness(values)
    skewed = [effect for effect, count in needed.items() if count > runs.replications]
    misses = None
    if skewed and reference is not None:
        worst = max(skewed, key=lambda effect: needed[effect])
        misses = excess_misses(differences(reference, worst[:2], -1), worst, needed[worst])
    return Violations(
        identical_pairs=_pairs(effect for effect in identical if not effect.is_same_policy),
        constant_pairs=_pairs(
            effect for effect in effects if effect.sd == 0 and effect not in identical
        ),
        skewed_pairs=_pairs(skewed),
        replications_for_skewness=max(needed.values()) if skewed else 0,
        misses=misses,
        replications_for_interval=_replications_for_interval(effects, request),
        opposed_pairs=tuple(
            pair for pair in _pairs(effects) if _are_opposed(runs.experiment, pair)
        ),
        unstable_policies=tuple(name for name in runs.policies if _is_unstable(runs, name)),
        scale=scale_mismatch(measured_runs),
    )


def _are_opposed(experiment: Experiment, pair: Pair) -> bool:
    families = {text_forms.name_of(type(experiment.policies[name])) for name in pair}
    return experiment.design.shares_noise and families in OPPOSED


def _replications_for_interval(effects: Sequence[Effect], request: Request) -> int:
    """Return the replications at which an interval has bounds, if an effect has none; 0 if all have or none will."""
    if not any(effect.sd and math.isinf(effect.high - effect.low) for effect in effects):
        return 0
    names = {name for effect in effects for name in effect[:2]}
    covered = {"best": len(names) * (len(names) - 1) // 2}.get(request.pairs, len(effects))
    together = request.simultaneous in ("pairs", "both")
    level = 1 - (1 - request.level) / (covered if together else 1)
    share = request.metric_definition.share
    for count in range(effects[0].replications + 1, MAX_FIRST_INTERVAL):
        values = np.arange(float(count))
        interval = (
            quantile_interval(values, share, level)
            if request.metric_definition.is_quantile and share is not None
            else request.interval_method.interval(values, level)
        )
        if math.isfinite(interval.high - interval.low):
            return count
    return 0


def _pairs(effects: Iterable[Effect]) -> tuple[Pair, ...]:
    return tuple((effect.policy, effect.control) for effect in effects)


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
    """Return whether pull counts vary as much as in the paper's third example, where replay saves less."""
    if runs.replications < MIN_REPLICATIONS_FOR_PULLS or has_prior(runs):
        return False
    pulls = runs.pulls[:, runs.policies.index(name), -1].astype(float)  # (replication, arm)
    pulls[:, int(pulls.mean(axis=0).argmax())] = 0  # the favourite's count mirrors the others'
    arm = int(pulls.var(axis=0).argmax())
    mean, variance = float(pulls[:, arm].mean()), float(pulls[:, arm].var(ddof=1))
    return variance > LARGE_VARIANCE * runs.checkpoints[-1] and variance > (LARGE_SD * mean) ** 2


def moving_environment(environment: Environment | None) -> str | None:
    """Return the name of an environment whose arms move with the period; None for others."""
    if environment is None or capabilities_of(environment).is_stationary:
        return None
    return text_forms.name_of(type(environment))


# The scale of the rewards.


def scale_mismatch(runs: Runs) -> ScaleMismatch | None:
    """Return the policies whose assumed scale does not fit the rewards; None if all fit."""
    if runs.environment is not None:
        return simulated_scale_mismatch(runs.experiment, runs.environment)
    spread = _summed_spread(runs) if (scales := _declared(runs.experiment)) else None
    return _mismatch(runs.experiment, scales, spread, LIVE_SCALE_FACTOR)


def simulated_scale_mismatch(
    experiment: Experiment, environment: Environment
) -> ScaleMismatch | None:
    """Return the mismatch in an environment, before anything is run."""
    scales = _declared(experiment)
    if not scales or capabilities_of(environment).has_contexts:
        return None
    spreads = [_spread(experiment, state) for state in environment.moves_between]
    widest = Spread(
        max(spread.sd for spread in spreads),
        max(spread.mean for spread in spreads),
        all(spread.fills_unit_interval for spread in spreads),
    )
    return _mismatch(experiment, scales, widest, SCALE_FACTOR)


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
    policies = {name: experiment.policies[name] for name in (*too_small, *too_large)}
    remedies = {name: _remedy(policy, spread) for name, policy in policies.items()}
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


def _spread(experiment: Experiment, environment: Environment) -> Spread:
    """Return the spread of the arms: exact where the environment knows it, else from a few draws."""
    arms = experiment.n_arms
    rows = _MAX_REPLICATIONS if capabilities_of(environment).has_instances else 1
    # A seed of its own: a caution that changed with the experiment's seed could not be followed.
    means = environment.instance_means(_SEED, range(rows), arms)
    mean = float(np.abs(means).max())
    if environment.binary:
        return Spread(float(np.sqrt(means * (1 - means)).max()), mean, fills_unit_interval=True)
    parameters = prepared_parameters(environment, _SEED, range(rows), arms)
    # AUDIT is a stream of its own: drawing from it changes no simulated reward.
    key = stream(_SEED, AUDIT, 0, 0)
    rewards = np.array(
        [
            [
                float(draw(parameters, row, None, arm, word(key, position)))
                for position in range(_DRAWS)
            ]
            for row in range(rows)
            for arm in np.unique(np.linspace(0, arms - 1, _MAX_ARMS).astype(int)).tolist()
        ]
    )
    inside = bool(rewards.min() >= 0 and rewards.max() <= 1)
    fills = inside and bool(np.ptp(rewards) > 1 / SCALE_FACTOR)
    exact = environment.standard_deviations
    return Spread(float((rewards.std(axis=1) if exact is None else exact).max()), mean, fills)


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
