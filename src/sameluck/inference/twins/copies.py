"""Copies of the arms: an environment estimated from observed rewards, and draws of other plausible environments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
import scipy

from sameluck.arrays import Floats
from sameluck.environments.base import Environment
from sameluck.environments.discrete import Bernoulli
from sameluck.environments.empirical import Empirical
from sameluck.environments.normal import Gaussian
from sameluck.errors import Invalid
from sameluck.inference.twins.observed_rewards import ObservedStacks
from sameluck.inference.twins.ties import BernoulliArms, NormalArms, TiedArms
from sameluck.validation import require_one_of
from sameluck.wording import counted

MIN_UNCOMMON = 10  # rewards of an arm other than its commonest
MIN_UNCOMMON_IF_RARE = 20  # where they are fewer than half of the rewards, and decide the mean
_MAX_TILT = 1e6  # of an arm's values, in inverse standard deviations
_MIN_RELATIVE_ERROR = 1e-9
_MIN_PROBABILITY = 2.0**-53  # 1 minus this is still below 1

FAMILIES = ("bernoulli", "gaussian", "empirical")


class ArmCopy(Protocol):
    """Arms estimated within a family of distributions."""

    @property
    def environment(self) -> Environment: ...

    def draws(self, count: int, generator: np.random.Generator) -> list[Environment]:
        """Draw environments from the posterior distribution, or by resampling."""

    @property
    def freedom(self) -> float:
        """Degrees of freedom of resampled arms; infinite for draws from a posterior distribution."""

    @property
    def tied_arms(self) -> TiedArms: ...

    def with_means(self, means: Floats, generator: np.random.Generator) -> list[Environment]:
        """Draw environments that have, or nearly have, the given means (environment, arm)."""


class BernoulliCopy(NamedTuple):
    """Arms with rewards 0 and 1: means (S + 1/2) / (U + 1), posterior Beta(S + 1/2, U - S + 1/2) (Jeffreys, 1946)."""

    users: Floats  # U of each arm
    successes: Floats  # S

    @property
    def environment(self) -> Bernoulli:
        return Bernoulli(tuple(((self.successes + 0.5) / (self.users + 1)).tolist()))

    def draws(self, count: int, generator: np.random.Generator) -> list[Environment]:
        """Return a Latin hypercube sample of the posterior distribution."""
        # A stratified sample: quantiles of 200 independent draws would be far noisier.
        shapes = self.successes + 0.5, self.users - self.successes + 0.5
        grid = latin_hypercube(count, self.users.size, generator)
        return self.with_means(scipy.special.betaincinv(*shapes, grid), generator)

    @property
    def freedom(self) -> float:
        return math.inf

    @property
    def tied_arms(self) -> TiedArms:
        return TiedArms(BernoulliArms(self.successes, self.users - self.successes))

    def with_means(self, means: Floats, generator: np.random.Generator) -> list[Environment]:
        return [Bernoulli(tuple(row)) for row in means.tolist()]

    @property
    def origins(self) -> None:
        """Numbers to subtract from each arm's rewards before summing: none."""

    def coefficients(self, environments: Sequence[Environment]) -> Floats:
        """Return the log-likelihood's coefficients (environment, sum) on each arm's depth, total and squares."""
        means = np.array([environment.means for environment in environments])
        means = np.clip(means, _MIN_PROBABILITY, 1 - _MIN_PROBABILITY)
        # ln L = depth ln(1 - mean) + total (ln(mean) - ln(1 - mean)); the sum of squares does not matter.
        log_failure = np.log1p(-means)
        return np.hstack([log_failure, np.log(means) - log_failure, np.zeros_like(means)])


class GaussianCopy(NamedTuple):
    """Arms with normal rewards: sample means and standard deviations, posterior distribution by Jeffreys' prior."""

    counts: Floats
    means: Floats
    sds: Floats

    @property
    def environment(self) -> Gaussian:
        return Gaussian(tuple(self.means.tolist()), tuple(self.sds.tolist()))

    def draws(self, count: int, generator: np.random.Generator) -> list[Environment]:
        """Return a Latin hypercube sample: (n - 1) s^2 / sigma^2 is chi-square, the mean normal given sigma."""
        arms, freedom = self.counts.size, self.counts - 1
        grid = latin_hypercube(count, 2 * arms, generator)
        sds = self.sds * np.sqrt(freedom / scipy.special.chdtri(freedom, 1 - grid[:, :arms]))
        means = self.means + sds / np.sqrt(self.counts) * scipy.special.ndtri(grid[:, arms:])
        rows = zip(means.tolist(), sds.tolist(), strict=True)
        return [Gaussian(tuple(mean), tuple(sd)) for mean, sd in rows]

    @property
    def freedom(self) -> float:
        return math.inf

    @property
    def tied_arms(self) -> TiedArms:
        return TiedArms(_normal_arms(self.counts, self.means, self.sds))

    def with_means(self, means: Floats, generator: np.random.Generator) -> list[Environment]:
        """Return environments with these means and standard deviations of the posterior distribution."""
        drawn = self.draws(len(means), generator)
        return [
            Gaussian(tuple(row), environment.sd)  # type: ignore[attr-defined]
            for row, environment in zip(means.tolist(), drawn, strict=True)
        ]

    @property
    def origins(self) -> Floats:
        """Numbers to subtract from each arm's rewards; the squares of large means would cancel otherwise."""
        return self.means

    def coefficients(self, environments: Sequence[Environment]) -> Floats:
        """Return the log-likelihood's coefficients (environment, sum) on each arm's depth, total and squares."""
        parameters = np.array(
            [(environment.means, environment.sd) for environment in environments]  # type: ignore[attr-defined]
        )
        means, sds = parameters[:, 0] - self.origins, parameters[:, 1]
        # An arm that always pays the same does so in every draw, and says nothing about them.
        constant = sds == 0
        precisions = np.where(constant, 0.0, np.where(constant, 1.0, sds) ** -2.0)
        # ln L = depth (ln(precision) - mean^2 precision) / 2 + total mean precision - squares precision / 2, plus a
        # constant.
        per_reward = np.log(precisions, where=~constant, out=np.zeros_like(means)) / 2
        per_reward -= means**2 * precisions / 2
        return np.hstack([per_reward, means * precisions, -precisions / 2])


LikelihoodCopy: TypeAlias = BernoulliCopy | GaussianCopy


class EmpiricalCopy(NamedTuple):
    """Arms with any rewards: their observed values, and resamples of them with replacement.

    The values are in ascending order, so that a random number stands for the same quantile in every draw.
    """

    values: tuple[Floats, ...]

    @property
    def environment(self) -> Empirical:
        return Empirical(tuple(tuple(values.tolist()) for values in self.values))

    def draws(self, count: int, generator: np.random.Generator) -> list[Environment]:
        """Resample each arm with replacement.

        If an arm mostly pays its commonest reward, draw the share of other rewards from the posterior distribution
        of Jeffreys' prior: resamples of an arm that has rarely paid vary too little.
        """
        arms = [(values, *split_commonest(values)) for values in self.values]
        return [
            Empirical([np.sort(_resample(*arm, generator)) for arm in arms])  # type: ignore[misc]
            for _ in range(count)
        ]

    @property
    def freedom(self) -> float:
        """Rewards minus 1 of the arm with the fewest; the commonest reward does not count if others are rare."""
        arms = ((values, split_commonest(values)[1]) for values in self.values)
        counts = [
            uncommon.size if is_rare(uncommon, values) else values.size for values, uncommon in arms
        ]
        return max(1, min(counts) - 1)

    @property
    def tied_arms(self) -> TiedArms:
        return TiedArms(_normal_arms(*np.array([_normal_estimates(x) for x in self.values]).T))

    def with_means(self, means: Floats, generator: np.random.Generator) -> list[Environment]:
        """Return resamples whose values are weighted so that their means are as close to these as they can be."""
        return [
            Empirical([_tilted(*pair) for pair in zip(drawn.samples, row, strict=True)])  # type: ignore[attr-defined, misc]
            for row, drawn in zip(means, self.draws(len(means), generator), strict=True)
        ]

    def missing_rewards(self, names: Sequence[str]) -> str | None:
        """Say which arm has too few different rewards to know its distribution; None if all have enough."""
        for name, values in zip(names, self.values, strict=True):
            _, uncommon = split_commonest(values)
            needed = MIN_UNCOMMON_IF_RARE if is_rare(uncommon, values) else MIN_UNCOMMON
            if uncommon.size < needed:
                return (
                    f"arm {name} has fewer than {needed} rewards other than its commonest, too few to know its "
                    "distribution"
                )
        return None


def split_commonest(values: Floats) -> tuple[float, Floats]:
    """Return an arm's commonest reward, and all rewards that differ from it."""
    distinct, counts = np.unique(values, return_counts=True)
    commonest = distinct[counts.argmax()]
    return float(commonest), values[values != commonest]


def is_rare(uncommon: Floats, values: Floats) -> bool:
    """Return whether fewer than half of an arm's rewards differ from its commonest."""
    return 2 * uncommon.size < values.size


def _resample(
    values: Floats, commonest: float, uncommon: Floats, generator: np.random.Generator
) -> Floats:
    if not uncommon.size or not is_rare(uncommon, values):
        return generator.choice(values, values.size)
    share = generator.beta(uncommon.size + 0.5, values.size - uncommon.size + 0.5)
    drawn = generator.choice(uncommon, round(share * values.size))
    return np.concatenate([drawn, np.full(values.size - drawn.size, commonest)])


def _tilted(values: Floats, mean: float) -> Floats:
    """Return as many of the values, in order, as exponential weights exp(c x) with this mean give each of them.

    Weights keep the values, so that rewards stay in the range for which the policies are made.
    """
    sd = values.std()
    if sd == 0 or not values[0] < mean < values[-1]:
        return values if sd == 0 else np.full_like(values, np.clip(mean, values[0], values[-1]))
    scaled = (values - mean) / sd

    def weights(tilt: float) -> Floats:
        return np.exp(tilt * scaled - np.max(tilt * scaled))

    limit = 1.0
    while limit < _MAX_TILT and np.sign(weights(limit) @ scaled) == np.sign(
        weights(-limit) @ scaled
    ):
        limit *= 2
    low, high = -limit, limit
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if weights(middle) @ scaled > 0 else (middle, high)
    cumulative = np.cumsum(weights(low))
    points = (np.arange(values.size) + 0.5) / values.size * cumulative[-1]
    return values[np.searchsorted(cumulative, points)]


def copy_arms(stacks: ObservedStacks, family: str | None, names: Sequence[str]) -> ArmCopy:
    """Copy the arms of observed rewards, by default as `bernoulli` if all are 0 and 1, else as `empirical`."""
    family = family or ("bernoulli" if stacks.is_binary else "empirical")
    require_one_of("family", family, FAMILIES)
    by_arm = stacks.by_arm()
    if family == "bernoulli":
        if not stacks.is_binary:
            raise Invalid('family="bernoulli" needs rewards 0 and 1; leave it out')
        successes = np.array([float(values.sum()) for values in by_arm])
        return BernoulliCopy(stacks.users.astype(float), successes)
    needed = 2 if family == "gaussian" else 1
    for name, values in zip(names, by_arm, strict=True):
        if values.size < needed:
            raise Invalid(
                f"arm {name} has {counted(values.size, 'reward')}, and a copy of it needs at least {needed}; "
                "wait for more"
            )
    if family == "empirical":
        return EmpiricalCopy(tuple(np.sort(values) for values in by_arm))
    return GaussianCopy(*np.array([_normal_estimates(values) for values in by_arm]).T)


def _normal_estimates(values: Floats) -> tuple[float, float, float]:
    """Return count, mean and standard deviation, which is exactly 0 for equal values despite rounding."""
    if values.min() == values.max():
        return float(values.size), float(values[0]), 0.0
    return float(values.size), float(values.mean()), float(values.std(ddof=1))


def _normal_arms(counts: Floats, means: Floats, sds: Floats) -> NormalArms:
    """Return the arms' means with their standard errors, positive also for arms that always pay the same."""
    smallest = max(_MIN_RELATIVE_ERROR * float(np.abs(means).max()), np.finfo(float).tiny ** 0.25)
    return NormalArms(means, np.maximum(sds / np.sqrt(counts), smallest))


def latin_hypercube(count: int, columns: int, generator: np.random.Generator) -> Floats:
    """Return points of the unit cube: in every column one point in each of `count` equal cells, in random order."""
    cells = np.column_stack([generator.permutation(count) for _ in range(columns)])
    return (cells + generator.random((count, columns))) / count
