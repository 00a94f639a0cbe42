"""Copies of the arms: an environment estimated from a ledger, and draws of others that the ledger leaves possible."""

from __future__ import annotations

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
from sameluck.validation import require_one_of
from sameluck.wording import counted

_LEAST_CHANCE = 2.0**-53  # that also leaves room below 1

families = ("bernoulli", "gaussian", "empirical")


class ArmCopy(Protocol):
    """The arms as one family of laws estimates them."""

    @property
    def environment(self) -> Environment:
        """The estimate itself."""

    def draws(self, count: int, generator: np.random.Generator) -> Sequence[Environment]:
        """Environments from the posterior law, or resampled."""


class BernoulliCopy(NamedTuple):
    """Rewards 0 and 1: chances (S + 1/2) / (U + 1), posterior Beta(S + 1/2, U - S + 1/2) (Jeffreys, 1946)."""

    users: Floats  # U of each arm
    successes: Floats  # S

    @property
    def environment(self) -> Bernoulli:
        """The estimated chances."""
        return Bernoulli(tuple(((self.successes + 0.5) / (self.users + 1)).tolist()))

    def draws(self, count: int, generator: np.random.Generator) -> list[Environment]:
        """A Latin hypercube sample of the posterior law."""
        return [Bernoulli(tuple(row)) for row in self.chances(count, generator).tolist()]

    def chances(self, count: int, generator: np.random.Generator) -> Floats:
        """The chances of `draws` (draw, arm)."""
        shapes = self.successes + 0.5, self.users - self.successes + 0.5
        grid = latin_hypercube(count, self.users.size, generator)
        return scipy.special.betaincinv(*shapes, grid)

    @property
    def origins(self) -> None:
        """What is subtracted from the rewards of each arm before they are summed: nothing."""

    def coefficients(self, environments: Sequence[Environment]) -> Floats:
        """Of the log-likelihood, on the depth, total and sum of squares of each arm (environment, sum)."""
        chances = np.clip([one.means for one in environments], _LEAST_CHANCE, 1 - _LEAST_CHANCE)
        failures = np.log1p(-chances)
        return np.hstack([failures, np.log(chances) - failures, np.zeros_like(chances)])


class GaussianCopy(NamedTuple):
    """Normal rewards of unknown mean and variance: the usual estimates, and the posterior law of Jeffreys' prior."""

    counts: Floats
    means: Floats
    sds: Floats

    @property
    def environment(self) -> Gaussian:
        """The estimated means and standard deviations."""
        return Gaussian(tuple(self.means.tolist()), tuple(self.sds.tolist()))

    def draws(self, count: int, generator: np.random.Generator) -> list[Environment]:
        """A Latin hypercube sample: (n - 1) s^2 / sigma^2 is chi-square, the mean normal given sigma."""
        arms = self.counts.size
        grid = latin_hypercube(count, 2 * arms, generator)
        sds = self.sds * np.sqrt(
            (self.counts - 1) / scipy.special.chdtri(self.counts - 1, 1 - grid[:, :arms])
        )
        means = self.means + sds / np.sqrt(self.counts) * scipy.special.ndtri(grid[:, arms:])
        rows = zip(means.tolist(), sds.tolist(), strict=True)
        return [Gaussian(tuple(mean), tuple(sd)) for mean, sd in rows]

    @property
    def origins(self) -> Floats:
        """What is subtracted from the rewards of each arm, or squares of large means would cancel one another."""
        return self.means

    def coefficients(self, environments: Sequence[Environment]) -> Floats:
        """Of the log-likelihood, on the depth, total and sum of squares of each arm (environment, sum)."""
        laws = np.array([(one.means, one.sd) for one in environments])  # type: ignore[attr-defined]
        means, sds = laws[:, 0] - self.origins, laws[:, 1]
        known = sds == 0  # an arm that pays the same always, in every draw
        precisions = np.where(known, 0.0, np.where(known, 1.0, sds) ** -2.0)
        each = np.log(precisions, where=~known, out=np.zeros_like(means)) / 2
        each -= means**2 * precisions / 2
        return np.hstack([each, means * precisions, -precisions / 2])


LikelihoodCopy: TypeAlias = BernoulliCopy | GaussianCopy


class EmpiricalCopy(NamedTuple):
    """Any rewards: each arm's own values, and resamples of them with replacement.

    The values are in ascending order, so that one random number stands for the same quantile in every draw.
    """

    values: tuple[Floats, ...]

    @property
    def environment(self) -> Empirical:
        """The observed values."""
        return Empirical(tuple(tuple(values.tolist()) for values in self.values))

    def draws(self, count: int, generator: np.random.Generator) -> list[Environment]:
        """Resamples with replacement; of an arm that pays one reward mostly, its share is drawn as a chance is.

        Resamples of an arm that has seldom paid vary too little; the posterior law of Jeffreys' prior does not.
        """
        parts = [(one, *split_commonest(one)) for one in self.values]
        return [
            Empirical([np.sort(_resample(*one, generator)) for one in parts])  # type: ignore[misc]
            for _ in range(count)
        ]


def split_commonest(values: Floats) -> tuple[float, Floats]:
    """The commonest reward of an arm, and all that are not that."""
    found, counts = np.unique(values, return_counts=True)
    commonest = found[counts.argmax()]
    return float(commonest), values[values != commonest]


def is_seldom(others: Floats, values: Floats) -> bool:
    """Whether fewer than half of an arm's rewards are other than its commonest."""
    return 2 * others.size < values.size


def _resample(
    values: Floats, commonest: float, others: Floats, generator: np.random.Generator
) -> Floats:
    if not others.size or not is_seldom(others, values):
        return generator.choice(values, values.size)
    share = generator.beta(others.size + 0.5, values.size - others.size + 0.5)
    some = generator.choice(others, round(share * values.size))
    return np.concatenate([some, np.full(values.size - some.size, commonest)])


def copy_arms(stacks: ObservedStacks, family: str | None, names: Sequence[str]) -> ArmCopy:
    """The arms of a ledger: `"bernoulli"` if all rewards are 0 and 1, otherwise `"empirical"`, unless it is given."""
    family = family or ("bernoulli" if stacks.binary else "empirical")
    require_one_of("family", family, families)
    values = stacks.by_arm()
    if family == "bernoulli":
        if not stacks.binary:
            raise Invalid('family="bernoulli" needs rewards 0 and 1; leave it out')
        return BernoulliCopy(
            stacks.users.astype(float), np.array([float(one.sum()) for one in values])
        )
    least = 2 if family == "gaussian" else 1
    for name, one in zip(names, values, strict=True):
        if one.size < least:
            raise Invalid(
                f"arm {name} has {counted(one.size, 'reward')}, and a copy of it needs at least {least}; "
                "wait for more"
            )
    if family == "empirical":
        return EmpiricalCopy(tuple(np.sort(one) for one in values))
    return GaussianCopy(*np.array([_normal_estimates(one) for one in values]).T)


def _normal_estimates(values: Floats) -> tuple[float, float, float]:
    """Count, mean and standard deviation; exactly 0 of equal values, which rounding would leave above it."""
    if values.min() == values.max():
        return float(values.size), float(values[0]), 0.0
    return float(values.size), float(values.mean()), float(values.std(ddof=1))


def latin_hypercube(count: int, columns: int, generator: np.random.Generator) -> Floats:
    """Points of the unit cube: in every column one in each of `count` equal parts, in random order."""
    parts = np.column_stack([generator.permutation(count) for _ in range(columns)])
    return (parts + generator.random((count, columns))) / count
