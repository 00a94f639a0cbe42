"""Random checks with a budget: each raises a false alarm with probability at most 1e-6.

The seed is fixed, so the result of a check never changes. The bounds are wide enough that nearly every other seed
passes too (SAMELUCK_TEST_SEED=2 takes another). A check of several numbers divides its budget among them.
"""

import os

import numpy as np
from scipy import stats

ALARM = 1e-6
SEED = int(os.environ.get("SAMELUCK_TEST_SEED", "1"))


def z_bound(looks=1):
    """Return the largest distance, in standard errors, that the largest of several normal numbers may have."""
    return float(stats.norm.isf(ALARM / looks / 2))


def standard_error(sample):
    """Return the standard error of a sample's mean."""
    return float(np.std(sample, ddof=1) / np.sqrt(len(sample)))


def assert_mean(sample, expected, looks=1):
    """Assert that the sample's mean is the expected mean."""
    z = (np.mean(sample) - expected) / standard_error(sample)

    assert abs(z) < z_bound(looks), f"mean {np.mean(sample)} instead of {expected}: z = {z:.1f}"


def assert_same_mean(first, second, looks=1):
    """Assert that two independent samples have the same mean."""
    z = (np.mean(first) - np.mean(second)) / np.hypot(standard_error(first), standard_error(second))

    assert abs(z) < z_bound(looks), f"means {np.mean(first)} and {np.mean(second)}: z = {z:.1f}"


def assert_rates(hits, trials, rate):
    """Assert that every count of an array is binomial(trials, rate)."""
    z = (np.asarray(hits) - trials * rate) / np.sqrt(trials * rate * (1 - rate))
    worst = float(np.abs(z).max())

    assert worst < z_bound(z.size), f"the worst of {z.size} rates is off by z = {worst:.1f}"


def assert_count(hits, trials, rate):
    """Assert by an exact test that a count, however small, is binomial(trials, rate)."""
    p_value = stats.binomtest(int(hits), int(trials), rate).pvalue

    assert p_value > ALARM, f"{hits} of {trials} instead of {rate * trials:.2f}: p = {p_value:.1e}"


def assert_distribution(sample, distribution_function, looks=1):
    """Assert that the sample comes from a continuous distribution (Kolmogorov and Smirnov)."""
    p_value = stats.kstest(sample, distribution_function).pvalue

    assert p_value > ALARM / looks, f"another distribution: p = {p_value:.1e}"


def assert_probabilities(counts, probabilities, looks=1):
    """Assert that counts of cells have these probabilities (chi-square; rare cells are merged)."""
    counts, expected = np.asarray(counts, float), np.asarray(probabilities) * np.sum(counts)
    rare = expected < 50
    if rare.any():
        counts = np.append(counts[~rare], counts[rare].sum())
        expected = np.append(expected[~rare], expected[rare].sum())
        if expected[-1] < 50:  # still rare: added to the next cell
            counts = np.append(counts[:-2], counts[-2:].sum())
            expected = np.append(expected[:-2], expected[-2:].sum())
    p_value = stats.chisquare(counts, expected * (counts.sum() / expected.sum())).pvalue

    assert p_value > ALARM / looks, f"other probabilities: p = {p_value:.1e}"


def assert_same_distribution(first, second, looks=1):
    """Assert that two independent samples have one distribution: chi-square on at most 20 common cells."""
    edges = np.unique(np.quantile(np.concatenate([first, second]), np.linspace(0, 1, 21)[1:-1]))
    cells = [
        np.bincount(np.searchsorted(edges, x, side="right"), minlength=edges.size + 1)
        for x in (first, second)
    ]
    table = np.array(cells)
    table = table[:, table.sum(axis=0) > 0]
    if table.shape[1] == 1:
        return
    p_value = stats.chi2_contingency(table).pvalue

    assert p_value > ALARM / looks, f"two distributions: p = {p_value:.1e}"
