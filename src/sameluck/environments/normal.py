"""Normal rewards and their relatives: `Gaussian`, `GaussianMixture`, `TruncatedGaussian` and `StudentT`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy

from sameluck.arrays import Floats
from sameluck.environments.base import Environment, draws
from sameluck.environments.checks import (
    MAX_REWARD,
    REWARD_LIMITS,
    check_each,
    check_list,
    check_order,
    check_probabilities,
    check_table,
    per_arm,
)
from sameluck.errors import Invalid
from sameluck.randomness.samplers import discrete, normal, normal_quantile, student_t, uniform
from sameluck.randomness.streams import Bits, again
from sameluck.validation import require_number


class _GaussianFields(NamedTuple):
    means: Sequence[float]
    sd: float | Sequence[float] = 1.0


class Gaussian(_GaussianFields, Environment):
    """Normal distribution with mean `means[arm]`; `sd` is one number, or one per arm."""

    __slots__ = ()
    sample = "gaussian(1.0, 0.8, sd=1.0)"

    @property
    def standard_deviations(self) -> Floats:
        return per_arm(self.sd, len(self.means))

    def check(self, arms: int) -> None:
        check_list("Gaussian.means", self.means, arms, **REWARD_LIMITS)
        check_each("Gaussian.sd", self.sd, arms, at_least=0, at_most=MAX_REWARD)

    def compiled_parameters(self, seed: int, replications: range, arms: int) -> CompiledGaussian:
        means = self.instance_means(seed, replications, arms)
        return CompiledGaussian(means, per_arm(self.sd, arms))


class CompiledGaussian(NamedTuple):
    """Means and standard deviations of normal rewards."""

    mean: Floats  # (replication, arm)
    sd: Floats  # (arm,)


@draws(CompiledGaussian)
def _gaussian(parameters: CompiledGaussian, row: int, arm: int, bits: Bits) -> float:
    return parameters.mean[row, arm] + parameters.sd[arm] * normal(bits)


_WITHIN_COMPONENT = np.uint64(1 << 60)  # the bits themselves choose the component


class _GaussianMixtureFields(NamedTuple):
    components: Sequence[Sequence[float]]
    sd: float = 1.0
    weights: Sequence[Sequence[float]] | None = None


class GaussianMixture(_GaussianMixtureFields, Environment):
    """Mixture of normal distributions, as from several groups of users.

    A reward is normal with mean `components[arm][i]` and standard deviation `sd`, where i is drawn with probability
    `weights[arm][i]`. Without weights all components of an arm are equally likely.
    """

    __slots__ = ()
    sample = "gaussian_mixture([0, 5], [1, 2], sd=0.5, weights=[[0.9, 0.1], [0.5, 0.5]])"

    @property
    def arms(self) -> int | None:
        return len(self.components)

    @property
    def means(self) -> tuple[float, ...]:
        weights = self._weights()
        return tuple(((weights * self.components).sum(axis=1) / weights.sum(axis=1)).tolist())

    @property
    def standard_deviations(self) -> Floats:
        weights = self._weights()
        deviations = np.asarray(self.components, float) - np.array(self.means)[:, None]
        return np.sqrt(self.sd**2 + (weights * deviations**2).sum(axis=1) / weights.sum(axis=1))

    def _weights(self) -> Floats:
        if self.weights is not None:
            return np.asarray(self.weights, float)
        count = len(self.components[0])
        return np.full((len(self.components), count), 1 / count)

    def check(self, arms: int) -> None:
        name = "GaussianMixture"
        count = check_table(f"{name}.components", self.components, arms, None, **REWARD_LIMITS)
        require_number(f"{name}.sd", self.sd, at_least=0, at_most=MAX_REWARD)
        if self.weights is not None:
            check_probabilities(f"{name}.weights", self.weights, arms, columns=count)

    def compiled_parameters(
        self, seed: int, replications: range, arms: int
    ) -> CompiledGaussianMixture:
        components = np.asarray(self.components, float)
        return CompiledGaussianMixture(np.cumsum(self._weights(), axis=1), components, self.sd)


class CompiledGaussianMixture(NamedTuple):
    """Cumulative weights and means of each arm's components, and their standard deviation."""

    cumulative: Floats  # (arm, component)
    mean: Floats  # (arm, component)
    sd: float


@draws(CompiledGaussianMixture)
def _gaussian_mixture(parameters: CompiledGaussianMixture, row: int, arm: int, bits: Bits) -> float:
    component = discrete(bits, parameters.cumulative[arm])
    # Other bits, because the component depends on these.
    deviation = parameters.sd * normal(again(bits, _WITHIN_COMPONENT))
    return parameters.mean[arm, component] + deviation


_MIN_PROBABILITY = 1e-290  # of the interval before truncation


class _TruncatedGaussianFields(NamedTuple):
    mu: Sequence[float]
    sd: float | Sequence[float] = 1.0
    low: float | Sequence[float] = 0.0
    high: float | Sequence[float] = 1.0


class TruncatedGaussian(_TruncatedGaussianFields, Environment):
    """Normal distribution truncated to the interval from `low` to `high`.

    `mu[arm]` and `sd` are mean and standard deviation before truncation; `means` are the rewards' means after it.
    `sd`, `low` and `high` are one number, or one per arm. Rewards are drawn by inverting the distribution function.
    """

    __slots__ = ()
    sample = "truncated_gaussian(0.7, 0.5, sd=0.2, low=0, high=1)"

    @property
    def means(self) -> tuple[float, ...]:
        parameters = self.compiled_parameters(0, range(1), len(self.mu))
        density = np.exp(-0.5 * _standard_bounds(parameters) ** 2) / np.sqrt(2 * np.pi)
        means = parameters.mu + parameters.scale * (density[0] - density[1]) / parameters.inside
        return tuple(np.clip(means, parameters.low, parameters.high).tolist())

    @property
    def standard_deviations(self) -> Floats:
        parameters = self.compiled_parameters(0, range(1), len(self.mu))
        bounds = _standard_bounds(parameters)
        density = np.exp(-0.5 * bounds**2) / np.sqrt(2 * np.pi)
        slope = (bounds[0] * density[0] - bounds[1] * density[1]) / parameters.inside
        shift = (density[0] - density[1]) / parameters.inside
        return np.abs(parameters.scale) * np.sqrt(np.maximum(1 + slope - shift**2, 0))

    def check(self, arms: int) -> None:
        name = "TruncatedGaussian"
        check_list(f"{name}.mu", self.mu, arms, **REWARD_LIMITS)
        check_each(f"{name}.sd", self.sd, arms, at_least=1e-50, at_most=1e50)
        check_each(f"{name}.low", self.low, arms, **REWARD_LIMITS)
        check_each(f"{name}.high", self.high, arms, **REWARD_LIMITS)
        check_order(name, self.low, self.high, arms)
        for arm, inside in enumerate(self.compiled_parameters(0, range(1), arms).inside):
            if inside < _MIN_PROBABILITY:
                raise Invalid(
                    f"{name}: arm {arm} lies within its bounds with probability 0; widen low and high"
                )

    def compiled_parameters(
        self, seed: int, replications: range, arms: int
    ) -> CompiledTruncatedGaussian:
        mu, sd, low, high = (per_arm(field, arms) for field in self)
        # Small probabilities are exact in the lower tail only, so bounds above the mean are reflected.
        scale = np.where((low - mu) + (high - mu) > 0, -sd, sd)
        parameters = CompiledTruncatedGaussian(mu, scale, low, high, mu, mu)
        below, until = scipy.special.ndtr(_standard_bounds(parameters))
        return parameters._replace(below=below, inside=until - below)


class CompiledTruncatedGaussian(NamedTuple):
    """Parameters of each arm (arm,); `scale` is negative where the reflected distribution is inverted."""

    mu: Floats
    scale: Floats
    low: Floats
    high: Floats
    below: Floats  # probability below the lower bound
    inside: Floats  # probability between the bounds


def _standard_bounds(parameters: CompiledTruncatedGaussian) -> Floats:
    """Return the bounds of the standard normal variable (bound, arm)."""
    bounds = np.array([parameters.low, parameters.high])
    return np.sort((bounds - parameters.mu) / parameters.scale, axis=0)


@draws(CompiledTruncatedGaussian)
def _truncated_gaussian(
    parameters: CompiledTruncatedGaussian, row: int, arm: int, bits: Bits
) -> float:
    quantile = normal_quantile(parameters.below[arm] + parameters.inside[arm] * uniform(bits))
    reward = parameters.mu[arm] + parameters.scale[arm] * quantile
    return min(max(reward, parameters.low[arm]), parameters.high[arm])  # the quantile is rounded


class _StudentTFields(NamedTuple):
    means: Sequence[float]
    scale: float | Sequence[float] = 1.0
    df: float | Sequence[float] = 3.0


class StudentT(_StudentTFields, Environment):
    """Student t distribution with heavy tails: means[arm] + scale * t, with `df` degrees of freedom.

    `scale` and `df` are one number, or one per arm. The variance, scale^2 df / (df - 2), must be finite because
    intervals of a mean assume it: df > 2. For df <= 4 there is no fourth moment, so estimated variances are
    unstable.
    """

    __slots__ = ()
    sample = "student_t(0.3, 0, scale=1, df=3)"

    @property
    def standard_deviations(self) -> Floats:
        df = per_arm(self.df, len(self.means))
        return per_arm(self.scale, len(self.means)) * np.sqrt(df / (df - 2))

    def check(self, arms: int) -> None:
        check_list("StudentT.means", self.means, arms, **REWARD_LIMITS)
        check_each("StudentT.scale", self.scale, arms, at_least=0, at_most=1e30)
        check_each("StudentT.df", self.df, arms, above=2, at_most=1e9)

    def compiled_parameters(self, seed: int, replications: range, arms: int) -> CompiledStudentT:
        return CompiledStudentT(*(per_arm(field, arms) for field in self))


class CompiledStudentT(NamedTuple):
    """Mean, scale and degrees of freedom of each arm (arm,)."""

    mean: Floats
    scale: Floats
    df: Floats


@draws(CompiledStudentT)
def _student_t(parameters: CompiledStudentT, row: int, arm: int, bits: Bits) -> float:
    return parameters.mean[arm] + parameters.scale[arm] * student_t(bits, parameters.df[arm])
