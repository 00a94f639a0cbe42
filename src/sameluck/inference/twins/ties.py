"""Arms with equal means: draws of the means in which some or all arms are tied.

Measured means differ by noise even if the true means are equal, and draws around them differ by more noise. So
independent draws never have equal arms, and they exaggerate every effect that grows with the arms' differences. Here
the arms are divided into groups of equal means. A partition into groups is plausible by the likelihood of the rewards
and a prior: blocks of a Chinese restaurant process (Pitman, 2006), whose means have a distribution of unknown centre
and spread. Only groups of neighbours in the order of the measured means count, because others are far less likely. So
the sum over all partitions is a recursion over the arms, and a partition is drawn by following it backwards. More
than 100 arms are either all tied or all apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
import scipy

from sameluck.arrays import Floats, Ints

CONCENTRATIONS = (0.5, 2.0, 8.0, 1_000.0)  # of the process; the larger, the more groups
CENTRES, SPREADS = 9, 7  # of the groups' means, on a grid
MAX_ARMS = 100  # with all partitions: the recursion's time and memory grow with the square
_BLOCK = 4_000_000  # numbers at once, at most


class Priors(NamedTuple):
    """Prior distributions of the groups, as arrays of the same shape."""

    concentration: Floats
    centre: Floats
    spread: Floats

    def at(self, indices: Ints) -> Priors:
        """Return the priors at these indices, shaped to be combined with matrices."""
        return Priors(*(array[indices][:, None, None] for array in self))


Sums: TypeAlias = Callable[[Floats], Floats]  # of values over each group of arms


class Arms(Protocol):
    """Arms whose means were measured."""

    @property
    def means(self) -> Floats: ...

    @property
    def errors(self) -> Floats:
        """Standard errors of the means."""

    def sorted(self, order: Ints) -> Arms: ...

    def log_evidence(self, priors: Priors, sums: Sums) -> Floats:
        """Return the log-likelihood of groups of arms, their means integrated out; `sums` says which groups."""

    def group_mean(self, members: slice, prior: Priors, quantile: float) -> Floats:
        """Return a quantile of the posterior distribution of a group's mean."""


class BernoulliArms(NamedTuple):
    """Arms with rewards 0 and 1; a group's mean has a beta distribution."""

    successes: Floats
    failures: Floats

    @property
    def means(self) -> Floats:
        return (self.successes + 0.5) / (self.successes + self.failures + 1)

    @property
    def errors(self) -> Floats:
        return np.sqrt(self.means * (1 - self.means) / (self.successes + self.failures + 1))

    def sorted(self, order: Ints) -> BernoulliArms:
        return BernoulliArms(self.successes[order], self.failures[order])

    def log_evidence(self, priors: Priors, sums: Sums) -> Floats:
        wins, losses = _beta_shapes(priors)
        together = sums(self.successes) + wins, sums(self.failures) + losses
        evidence: Floats = scipy.special.betaln(*together) - scipy.special.betaln(wins, losses)
        return evidence

    def group_mean(self, members: slice, prior: Priors, quantile: float) -> Floats:
        wins, losses = _beta_shapes(prior)
        shapes = wins + self.successes[members].sum(), losses + self.failures[members].sum()
        mean: Floats = scipy.special.betaincinv(*shapes, quantile)
        return mean


def _beta_shapes(priors: Priors) -> tuple[Floats, Floats]:
    """Return the parameters of beta distributions with the priors' centres and spreads, or nearly uniform."""
    _, centre, spread = priors
    size = np.maximum(centre * (1 - centre) / spread**2 - 1, 1.0)
    return centre * size, (1 - centre) * size


class NormalArms(NamedTuple):
    """Arms whose sample means are normal with known standard errors; a group's mean is normal too."""

    means: Floats
    errors: Floats

    def sorted(self, order: Ints) -> NormalArms:
        return NormalArms(self.means[order], self.errors[order])

    def log_evidence(self, priors: Priors, sums: Sums) -> Floats:
        # Deviations from a number near the means: squares of large means would cancel.
        precisions, deviations = self.errors**-2.0, self.means - self.means.mean()
        total, linear, square = (sums(precisions * deviations**power) for power in range(3))
        _, centre, spread = priors
        centre = centre - self.means.mean()
        excess = linear - total * centre
        growth = 1 + total * spread**2
        squares = square - 2 * centre * linear + total * centre**2
        return (excess**2 * spread**2 / growth - squares - np.log(growth)) / 2

    def group_mean(self, members: slice, prior: Priors, quantile: float) -> Floats:
        _, centre, spread = prior
        precisions = self.errors[members] ** -2.0
        precision = precisions.sum() + spread**-2.0
        excess = (precisions * (self.means[members] - centre)).sum() / precision
        return centre + excess + scipy.special.ndtri(quantile) / np.sqrt(precision)


def _sums_of_neighbours(values: Floats) -> Floats:
    """Return the sums of values i to j - 1 as a matrix (i, j)."""
    cumulative = np.concatenate([[0.0], np.cumsum(values)])
    return cumulative[None, :] - cumulative[:, None]


def _values_and_total(values: Floats) -> Floats:
    return np.append(values, values.sum())[None]


class TiedArms:
    """Posterior distribution of the partition of arms into groups with equal means, and of the groups' means."""

    def __init__(self, arms: Arms) -> None:
        self.order = arms.means.argsort(kind="stable")
        self.arms = arms.sorted(self.order)
        self.priors = _priors(self.arms)
        self.sums = _sums_of_neighbours if self.order.size <= MAX_ARMS else _values_and_total
        count = self.priors.centre.size
        step = max(1, _BLOCK // self.sums(self.arms.means).size)
        blocks = [np.arange(first, min(first + step, count)) for first in range(0, count, step)]
        sums = [self._sums_over_partitions(block) for block in blocks]
        logs = np.concatenate([partitions[:, -1] for _, partitions in sums])
        weights = np.exp(logs - logs.max())
        self.weights = weights / weights.sum()  # of the priors
        one_group = [groups[:, 0, -1] + partitions[:, 0] for groups, partitions in sums]
        self.equality = float(self.weights @ np.exp(np.concatenate(one_group) - logs))

    def draws(self, count: int, generator: np.random.Generator) -> Floats:
        """Draw the means of all arms (draw, arm)."""
        # Priors are stratified, so that a small number of draws represents them well.
        points = (generator.permutation(count) + generator.random(count)) / count
        cells = np.searchsorted(np.cumsum(self.weights)[:-1], points)
        means = np.empty((count, self.order.size))
        for row, cell in zip(means, cells, strict=True):
            groups, partitions = self._sums_over_partitions(np.array([cell]))
            prior = Priors(*(array[cell] for array in self.priors))
            for first, end in _partition(groups[0], partitions[0], generator):
                quantile = generator.random()
                row[self.order[first:end]] = self.arms.group_mean(
                    slice(first, end), prior, quantile
                )
        return means

    def _sums_over_partitions(self, indices: Ints) -> tuple[Floats, Floats]:
        """Return logarithms of each group's weight (prior, i, j), and of the sums over partitions of the first arms.

        The weight of a group is its evidence times its factor in the prior. The sums (prior, j) are over all
        partitions of the first j arms, of the products of their groups' weights.
        """
        priors, count = self.priors.at(indices), self.order.size
        sizes, gammaln = self.sums(np.ones(count)), scipy.special.gammaln
        with np.errstate(divide="ignore", invalid="ignore"):
            groups = self.arms.log_evidence(priors, self.sums)
            groups += np.log(priors.concentration) + gammaln(sizes)
        concentration = priors.concentration[:, 0, 0]
        if self.sums is _values_and_total:
            return groups, _sums_over_two(groups, concentration)
        groups = np.where(sizes > 0, groups, -np.inf)
        partitions = np.empty((indices.size, count + 1))
        # The sums begin with the process's constant, so that the last sum is the evidence of the prior.
        partitions[:, 0] = gammaln(concentration) - gammaln(concentration + count)
        for end in range(1, count + 1):
            logs = partitions[:, :end] + groups[:, :end, end]
            largest = logs.max(axis=1)
            partitions[:, end] = largest + np.log(np.exp(logs - largest[:, None]).sum(axis=1))
        return groups, partitions


def _sums_over_two(groups: Floats, concentration: Floats) -> Floats:
    """Return the same sums, none and all arms, over the two partitions with all arms apart and all tied."""
    count = groups.shape[-1] - 1
    tied = np.log(concentration) + scipy.special.gammaln(count)
    constant = -np.logaddexp(count * np.log(concentration), tied)
    both = np.logaddexp(groups[:, 0, :-1].sum(axis=1), groups[:, 0, -1])
    return np.stack([constant, constant + both], axis=1)


def _priors(arms: Arms) -> Priors:
    # From half a standard error, arms that can hardly be told apart, to a prior that hardly moves the means.
    largest = max(8 * arms.errors.max(), 2 * (arms.means[-1] - arms.means[0]))
    spreads = np.geomspace(0.5 * arms.errors.min(), largest, SPREADS)
    centres = np.linspace(arms.means[0], arms.means[-1], CENTRES)
    grid = np.meshgrid(np.array(CONCENTRATIONS), centres, spreads, indexing="ij")
    return Priors(*(axis.ravel() for axis in grid))


def _partition(
    groups: Floats, partitions: Floats, generator: np.random.Generator
) -> Iterator[tuple[int, int]]:
    """Yield the groups of a drawn partition, the last first, as ranges of arms."""
    if len(groups) == 1:  # more than the largest number of arms with all partitions
        tied = np.exp(partitions[0] + groups[0, -1] - partitions[-1])
        count = groups.size - 1
        yield from [(0, count)] if generator.random() < tied else pairwise(range(count + 1))
        return
    end = partitions.size - 1
    while end > 0:
        logs = partitions[:end] + groups[:end, end]
        cumulative = np.cumsum(np.exp(logs - logs.max()))
        first = int(np.searchsorted(cumulative, generator.random() * cumulative[-1]))
        yield first, end
        end = first
