"""Priors: environments whose arms' means are drawn anew in each replication, the same for all policies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple, TypeAlias

import numpy as np

from sameluck.arrays import Floats
from sameluck.compilation.decorators import compiled
from sameluck.environments.base import Environment, draws
from sameluck.environments.checks import MAX_REWARD, REWARD_LIMITS, check_each, per_arm
from sameluck.environments.discrete import Bernoulli, CompiledBernoulli, Poisson, compiled_bernoulli
from sameluck.environments.normal import CompiledGaussian, Gaussian
from sameluck.randomness.samplers import beta, gamma, normal, poisson
from sameluck.randomness.streams import ALL_POLICIES, INSTANCE, Bits, stream, word
from sameluck.validation import is_listed

Hyperparameter: TypeAlias = float | Sequence[float]  # of all arms, or one per arm


# Each loop reads one word per arm at an address that no policy enters, so all policies meet the same bandit.


@compiled
def _draw_gammas(seed: Bits, first: int, a: Floats, b: Floats, means: Floats) -> None:
    for row in range(means.shape[0]):
        key = stream(seed, INSTANCE, first + row, ALL_POLICIES)
        for arm in range(means.shape[1]):
            means[row, arm] = gamma(word(key, arm), a[arm]) / b[arm]


@compiled
def _draw_probabilities(
    seed: Bits, first: int, a: Floats, b: Floats, probabilities: Floats
) -> None:
    for row in range(probabilities.shape[0]):
        key = stream(seed, INSTANCE, first + row, ALL_POLICIES)
        for arm in range(probabilities.shape[1]):
            probabilities[row, arm] = beta(word(key, arm), a[arm], b[arm])


@compiled
def _draw_means(seed: Bits, first: int, mean: Floats, sd: Floats, means: Floats) -> None:
    for row in range(means.shape[0]):
        key = stream(seed, INSTANCE, first + row, ALL_POLICIES)
        for arm in range(means.shape[1]):
            means[row, arm] = mean[arm] + sd[arm] * normal(word(key, arm))


class _Prior(Environment):
    __slots__ = ()
    is_prior = True
    _draw: ClassVar[Callable[..., None]]  # of the means, by the first two fields

    @property
    def arms(self) -> int | None:
        values = self._asdict().values()
        return next((len(value) for value in values if is_listed(value)), None)

    def instance_means(self, seed: int, replications: range, arms: int) -> Floats:
        """Return the means in each replication (replication, arm)."""
        means = np.empty((len(replications), arms))
        first, second, *_ = (per_arm(value, arms) for value in self._asdict().values())
        self._draw(np.uint64(seed), replications.start, first, second, means)
        return means


class _BernoulliPriorFields(NamedTuple):
    a: Hyperparameter = 1.0
    b: Hyperparameter = 1.0


class BernoulliPrior(_BernoulliPriorFields, _Prior):
    """Bernoulli rewards whose success probabilities are drawn from Beta(a, b) in each replication.

    `a` and `b` are one number, or one per arm. `means` are the prior means; `instance` returns the bandit of a
    replication.
    """

    __slots__ = ()
    _draw = staticmethod(_draw_probabilities)
    binary = True

    @property
    def means(self) -> tuple[float, ...]:
        """Prior mean of each arm; a single mean if all arms have the same prior."""
        a, b = np.asarray(self.a), np.asarray(self.b)
        return tuple(np.atleast_1d(a / (a + b)).tolist())

    @property
    def standard_deviations(self) -> Floats:
        a, b = np.asarray(self.a, float), np.asarray(self.b, float)
        return np.atleast_1d(np.sqrt(a * b / (a + b) / (a + b + 1)))

    def check(self, arms: int) -> None:
        check_each("BernoulliPrior.a", self.a, arms, above=0)
        check_each("BernoulliPrior.b", self.b, arms, above=0)

    def compiled_parameters(self, seed: int, replications: range, arms: int) -> CompiledBernoulli:
        return compiled_bernoulli(self.instance_means(seed, replications, arms))

    def instance(self, seed: int, replication: int, arms: int) -> Bernoulli:
        """Return the bandit of a replication."""
        (means,) = self.instance_means(seed, range(replication, replication + 1), arms)
        return Bernoulli(tuple(means.tolist()))


class _GaussianPriorFields(NamedTuple):
    mean: Hyperparameter = 0.0
    sd: Hyperparameter = 1.0
    noise_sd: Hyperparameter = 1.0


class GaussianPrior(_GaussianPriorFields, _Prior):
    """Normal rewards with standard deviation `noise_sd`, whose means are drawn from Normal(mean, sd) per replication.

    Each parameter is one number, or one per arm. `means` are the prior means; `instance` returns the bandit of a
    replication.
    """

    __slots__ = ()
    _draw = staticmethod(_draw_means)

    @property
    def means(self) -> tuple[float, ...]:
        """Prior mean of each arm; a single mean if all arms have the same prior."""
        return tuple(np.atleast_1d(np.asarray(self.mean, float)).tolist())

    @property
    def standard_deviations(self) -> Floats:
        return np.atleast_1d(np.asarray(self.noise_sd, float))

    def check(self, arms: int) -> None:
        check_each("GaussianPrior.mean", self.mean, arms, **REWARD_LIMITS)
        check_each("GaussianPrior.sd", self.sd, arms, at_least=0, at_most=MAX_REWARD)
        check_each("GaussianPrior.noise_sd", self.noise_sd, arms, at_least=0, at_most=MAX_REWARD)

    def compiled_parameters(self, seed: int, replications: range, arms: int) -> CompiledGaussian:
        means = self.instance_means(seed, replications, arms)
        return CompiledGaussian(means, per_arm(self.noise_sd, arms))

    def instance(self, seed: int, replication: int, arms: int) -> Gaussian:
        """Return the bandit of a replication."""
        parameters = self.compiled_parameters(seed, range(replication, replication + 1), arms)
        return Gaussian(tuple(parameters.mean[0].tolist()), tuple(parameters.sd.tolist()))


class _PoissonPriorFields(NamedTuple):
    a: Hyperparameter = 2.0
    b: Hyperparameter = 1.0


class PoissonPrior(_PoissonPriorFields, _Prior):
    """Poisson rewards whose means are drawn from a gamma distribution, with shape `a` and rate `b`, per replication.

    `a` and `b` are one number, or one per arm: the prior of `ThompsonPoisson`. `means` are the prior means, a / b;
    `instance` returns the bandit of a replication.
    """

    __slots__ = ()
    _draw = staticmethod(_draw_gammas)

    @property
    def means(self) -> tuple[float, ...]:
        """Prior mean of each arm; a single mean if all arms have the same prior."""
        return tuple(np.atleast_1d(np.asarray(self.a) / np.asarray(self.b)).tolist())

    @property
    def standard_deviations(self) -> Floats:
        return np.sqrt(self.means)

    def check(self, arms: int) -> None:
        check_each("PoissonPrior.a", self.a, arms, above=0, at_most=1e4)
        check_each("PoissonPrior.b", self.b, arms, at_least=0.01, at_most=1e6)

    def compiled_parameters(
        self, seed: int, replications: range, arms: int
    ) -> CompiledPoissonPrior:
        return CompiledPoissonPrior(self.instance_means(seed, replications, arms))

    def instance(self, seed: int, replication: int, arms: int) -> Poisson:
        """Return the bandit of a replication."""
        (means,) = self.instance_means(seed, range(replication, replication + 1), arms)
        return Poisson(tuple(means.tolist()))


class CompiledPoissonPrior(NamedTuple):
    """Means of counts (replication, arm)."""

    mean: Floats


@draws(CompiledPoissonPrior)
def _poisson(parameters: CompiledPoissonPrior, row: int, arm: int, bits: Bits) -> float:
    return poisson(bits, parameters.mean[row, arm])
