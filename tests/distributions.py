"""Environments that the pairs of `cases` leave out, with three arms, and the distribution of each arm by SciPy."""

import numpy as np
from scipy import stats

import sameluck as sl
from budget import SEED


class Mixed:
    """A mixture of two distributions."""

    def __init__(self, weight, first, second):
        self.weight, self.first, self.second = weight, first, second

    def cdf(self, x):
        return self.weight * self.first.cdf(x) + (1 - self.weight) * self.second.cdf(x)

    def mean(self):
        return self.weight * self.first.mean() + (1 - self.weight) * self.second.mean()

    def std(self):
        squares = [part.var() + part.mean() ** 2 for part in (self.first, self.second)]
        weighted = self.weight * squares[0] + (1 - self.weight) * squares[1]
        return np.sqrt(weighted - self.mean() ** 2)

    def var(self):
        return self.std() ** 2


def lognormal(mean, sigma):
    return stats.lognorm(sigma, scale=mean * np.exp(-(sigma**2) / 2))


def truncated(mu, sd, low, high):
    return stats.truncnorm((low - mu) / sd, (high - mu) / sd, mu, sd)


def ratings(chances, values=(1, 2, 3, 4)):
    return stats.rv_discrete(values=(values, chances))


ZERO = stats.uniform(
    -1e-9, 1e-9
)  # the test spreads rewards of 0 over this interval, to have no ties
CHANCES = ((0.1, 0.2, 0.3, 0.4), (0.0, 0.5, 0.5, 0.0), (1.0, 0.0, 0.0, 0.0))
DISTRIBUTIONS = {
    sl.Beta((0.2, 0.5, 0.9), concentration=(5.0, 2.0, 4.0)): [
        stats.beta(1, 4),
        stats.uniform(),
        stats.beta(3.6, 0.4),
    ],
    sl.ContinuousUniform((0.2, -3.0, 0.0), high=(1.0, -1.0, 7.5)): [
        stats.uniform(0.2, 0.8),
        stats.uniform(-3, 2),
        stats.uniform(0, 7.5),
    ],
    sl.Exponential((0.5, 1.0, 30.0)): [stats.expon(scale=mean) for mean in (0.5, 1, 30)],
    sl.Poisson((0.5, 3.0, 40.0)): [stats.poisson(mean) for mean in (0.5, 3, 40)],
    sl.Lognormal((1.0, 2.0, 20.0), sigma=(1.0, 0.5, 2.0)): [
        lognormal(1, 1),
        lognormal(2, 0.5),
        lognormal(20, 2),
    ],
    sl.ZeroInflatedLognormal((0.5, 0.3, 1.0), amount=60.0, sigma=(1.0, 0.5, 0.7)): [
        Mixed(0.5, lognormal(60, 1), ZERO),
        Mixed(0.3, lognormal(60, 0.5), ZERO),
        lognormal(60, 0.7),
    ],
    sl.StudentT((0.0, -1.0, 3.0), scale=(1.0, 0.5, 2.0), df=(3.0, 2.01, 40.0)): [
        stats.t(3),
        stats.t(2.01, -1, 0.5),
        stats.t(40, 3, 2),
    ],
    sl.TruncatedGaussian((0.7, -2.0, 9.0), sd=(0.2, 0.5, 1.0)): [
        truncated(0.7, 0.2, 0, 1),
        truncated(-2, 0.5, 0, 1),
        truncated(9, 1, 0, 1),
    ],
    sl.PoissonPrior(a=(2.0, 0.5, 30.0), b=(1.0, 2.0, 0.5)): [
        stats.poisson(mean)
        for mean in sl.PoissonPrior(a=(2.0, 0.5, 30.0), b=(1.0, 2.0, 0.5))
        .instance(SEED, 0, 3)
        .means
    ],
    sl.ByFamily((sl.Bernoulli((0.25, 0.5)), sl.Lognormal((2.0,), sigma=0.5))): [
        stats.bernoulli(0.25),
        stats.bernoulli(0.5),
        lognormal(2, 0.5),
    ],
    sl.Switching((sl.Bernoulli((0.25, 0.5, 1.0)), sl.Poisson((3.0, 0.5, 1.0))), every=1): [
        stats.bernoulli(0.25),
        stats.bernoulli(0.5),
        stats.bernoulli(1.0),
    ],
    sl.Drifting((sl.Lognormal((2.0, 1.0, 3.0), sigma=0.5), sl.Exponential((1.0,) * 3)), over=9): [
        lognormal(2, 0.5),
        lognormal(1, 0.5),
        lognormal(3, 0.5),
    ],
    sl.Categorical(CHANCES): [ratings(chances) for chances in CHANCES],
    sl.GaussianMixture(
        ((0.0, 5.0), (1.0, 1.0), (-3.0, 2.0)), 0.5, ((0.9, 0.1), (0.5, 0.5), (0.25, 0.75))
    ): [
        Mixed(0.9, stats.norm(0, 0.5), stats.norm(5, 0.5)),
        stats.norm(1, 0.5),
        Mixed(0.25, stats.norm(-3, 0.5), stats.norm(2, 0.5)),
    ],
}
