"""Draws with tied arms: the probability of partitions, and the means of their groups."""

import itertools

import numpy as np
import pytest
from scipy import special, stats

import sameluck as sl
from sameluck.inference.twins.copies import EmpiricalCopy, GaussianCopy
from sameluck.inference.twins.ties import BernoulliArms, NormalArms, TiedArms


def generator():
    return np.random.Generator(np.random.PCG64(5))


def bernoulli_evidence(arms, centre, spread):
    size = max(centre * (1 - centre) / spread**2 - 1, 1.0)
    wins, losses = centre * size, (1 - centre) * size
    together = wins + arms.successes.sum(), losses + arms.failures.sum()
    return special.betaln(*together) - special.betaln(wins, losses)


def normal_evidence(arms, centre, spread):
    """Return the log-density of correlated means, minus its part that every partition has."""
    covariance = np.diag(arms.errors**2) + spread**2
    density = stats.multivariate_normal(np.full(arms.means.size, centre), covariance)
    return density.logpdf(arms.means) - stats.norm(0, arms.errors).logpdf(0).sum()


BERNOULLI = BernoulliArms(np.array([9.0, 3.0, 5.0]), np.array([12.0, 17.0, 14.0]))
NORMAL = NormalArms(np.array([101.0, 99.5, 100.2]), np.array([0.6, 0.5, 0.9]))


@pytest.mark.parametrize(
    ("arms", "evidence"), [(BERNOULLI, bernoulli_evidence), (NORMAL, normal_evidence)]
)
def test_the_probability_of_equal_arms_is_a_sum_over_partitions(arms, evidence):
    """All partitions of three arms into neighbours, weighted by a Chinese restaurant process, are enumerated."""
    tied = TiedArms(arms)
    ordered = arms.sorted(arms.means.argsort())
    total = equal = 0.0
    for concentration, centre, spread in zip(*tied.priors, strict=True):
        for cuts in itertools.product([False, True], repeat=2):
            ends = [0, *(place for place, cut in enumerate(cuts, 1) if cut), 3]
            groups = list(itertools.pairwise(ends))
            # Arms sit at tables one by one: with chance concentration / (concentration + seated) at a new table.
            log_weight = -np.log(concentration + np.arange(3)).sum()
            for first, end in groups:
                log_weight += np.log(concentration) + special.gammaln(end - first)
                members = ordered.sorted(np.arange(first, end))
                log_weight += evidence(members, centre, spread)
            total += np.exp(log_weight + 50)
            equal += np.exp(log_weight + 50) * (len(groups) == 1)

    assert tied.equality == pytest.approx(equal / total, rel=1e-9)


@pytest.mark.parametrize("arms", [BERNOULLI, NORMAL])
def test_drawn_arms_are_equal_with_their_probability(arms):
    """The share of 2,000 draws is within five standard errors (false alarm below 1e-6)."""
    tied = TiedArms(arms)
    draws = tied.draws(2_000, generator())
    equal = np.ptp(draws, axis=1) == 0
    error = np.sqrt(tied.equality * (1 - tied.equality) / 2_000)

    assert abs(equal.mean() - tied.equality) < 5 * error
    # Tied arms have the mean of all rewards, or nearly.
    weights = arms.errors**-2.0
    pooled, sd = (arms.means @ weights) / weights.sum(), weights.sum() ** -0.5
    assert draws[equal][:, 0].mean() == pytest.approx(pooled, abs=sd)
    assert draws[equal][:, 0].std() == pytest.approx(sd, rel=0.3)


def test_clearly_different_arms_are_hardly_ever_tied():
    users = np.array([400.0, 400.0, 400.0])
    arms = BernoulliArms(users * [0.8, 0.5, 0.2], users * [0.2, 0.5, 0.8])
    tied = TiedArms(arms)
    draws = tied.draws(200, generator())

    assert tied.equality < 1e-9
    np.testing.assert_allclose(draws.mean(axis=0), arms.means, atol=0.01)
    np.testing.assert_allclose(draws.std(axis=0), arms.errors, rtol=0.3)


def test_equal_arms_are_hardly_ever_ruled_out():
    """Of 300 ledgers of equal arms, at most 5% rule them out; over 9.3% is a false alarm of 1e-3 then.

    Draws without ties would rule out every one: two estimates are never equal.
    """
    random = generator()
    ruled_out = 0
    for arms in (2, 3, 10):
        for _ in range(100):
            successes = random.binomial(60, 0.3, arms).astype(float)
            ruled_out += TiedArms(BernoulliArms(successes, 60 - successes)).equality < 0.05

    assert ruled_out <= stats.binom.isf(1e-3, 300, 0.05)


def test_copies_take_the_means_of_tied_arms():
    """Weights move the mean of observed values within their range; Gaussian arms are shifted."""
    values = tuple(np.sort(generator().exponential(size, 300)) for size in (1.0, 1.2, 0.8))
    empirical = EmpiricalCopy(values)
    means = empirical.tied_arms.draws(20, generator())
    drawn = empirical.with_means(means, generator())
    gaussian = GaussianCopy(np.full(3, 50.0), np.array([1.0, 1.2, 0.8]), np.ones(3))
    shifted = gaussian.with_means(means, generator())

    np.testing.assert_allclose([draw.means for draw in drawn], means, atol=0.05)
    assert all(
        set(samples) <= set(observed)
        for draw in drawn
        for samples, observed in zip(draw.samples, values, strict=True)
    )
    assert all(list(samples) == sorted(samples) for draw in drawn for samples in draw.samples)
    assert [draw.means for draw in shifted] == [tuple(row) for row in means.tolist()]
    assert all(isinstance(draw, sl.Gaussian) and min(draw.sd) > 0 for draw in shifted)


@pytest.mark.parametrize(("mean", "expected"), [(-1.0, 0.0), (0.0, 0.0), (7.0, 5.0)])
def test_a_mean_outside_the_observed_values_is_the_nearest_of_them(mean, expected):
    copy = EmpiricalCopy((np.array([0.0, 1.0, 5.0]),) * 2)
    drawn = copy.with_means(np.full((5, 2), mean), generator())

    for draw in drawn:
        for samples in draw.samples:
            low, high = min(samples), max(samples)
            assert np.mean(samples) == np.clip(mean, low, high) or low == high
    assert any(draw.means[0] == expected for draw in drawn)


def test_arms_that_always_pay_the_same():
    copy = GaussianCopy(np.full(2, 9.0), np.array([2.0, 3.0]), np.zeros(2))

    assert copy.tied_arms.equality == 0
    np.testing.assert_allclose(copy.tied_arms.draws(5, generator()), [[2.0, 3.0]] * 5, atol=1e-6)


@pytest.mark.parametrize(("spread", "equal"), [(0.0, True), (0.3, False)])
def test_very_many_arms_are_tied_all_or_not_at_all(spread, equal):
    """Time and memory are bounded; equal arms are admitted, and arms that differ clearly are not."""
    means = np.linspace(0.5 - spread, 0.5 + spread, 2_000)
    successes = generator().binomial(40, means).astype(float)
    tied = TiedArms(BernoulliArms(successes, 40 - successes))
    draws = tied.draws(10, generator())

    assert (tied.equality > 0.05) == equal
    assert {np.unique(row).size for row in draws} <= ({1, 2_000} if equal else {2_000})
    # Draws of arms that differ do not exaggerate their differences: measured means have a spread of 0.19.
    assert equal or draws.std(axis=1).mean() == pytest.approx(means.std(), rel=0.15)
