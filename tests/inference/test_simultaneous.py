"""Intervals that hold together: against a literal law, published constants and their own promises."""

import math

import numpy as np
import pytest
from scipy import stats

import budget
from sameluck.inference import simultaneous

NOTHING_KNOWN = (-math.inf, math.inf, 1.0)


@pytest.mark.parametrize("value", [0.0, 3.0, 0.1, -1 / 3])
def test_a_column_that_does_not_vary_has_no_interval(value):
    """Also where rounding leaves a standard deviation above 0, as with 20 times 0.1."""
    others = np.random.default_rng(1).normal(1, 2, 20)
    found = simultaneous.max_t_intervals(np.column_stack([np.full(20, value), others]), 0.95)
    assert found[0] == NOTHING_KNOWN


def rotated_literally(values, count, seed):
    """The t of each column's residuals after a random rotation of the replications (rotation, column)."""
    rng, size = np.random.default_rng(seed), len(values)
    residuals = values - values.mean(axis=0)
    found = []
    for _ in range(count):
        rotated = stats.ortho_group.rvs(size, random_state=rng) @ residuals
        found.append(rotated.mean(axis=0) / (rotated.std(axis=0, ddof=1) / math.sqrt(size)))
    return np.array(found)


def correlated(count, columns, seed=6):
    """Columns with a common part and each its own scale."""
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(count, 1)) + rng.normal(size=(count, columns))) * 10.0 ** np.arange(
        columns
    )


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(12, 3), (5, 7)])
@pytest.mark.parametrize("one_sided", [False, True])
def test_the_law_of_the_largest_t_is_that_of_rotated_residuals(shape, one_sided):
    """Two-sample Kolmogorov and Smirnov at 1e-6 against 4,000 rotation matrices; also with more columns than rows."""
    values = correlated(*shape)
    literal = rotated_literally(values, 4_000, seed=1)
    literal = (literal if one_sided else np.abs(literal)).max(axis=1)
    ours = simultaneous._largest_rotated_t(values, 0.95, one_sided=one_sided)
    assert ours.size == simultaneous.ROTATIONS
    assert (np.diff(ours) >= 0).all()
    assert stats.ks_2samp(ours, literal).pvalue > budget.ALARM


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95])
def test_simultaneous_intervals_and_p_values_are_those_of_the_largest_t(level):
    """Quantile and share counted one by one, between Student's and Bonferroni's with SciPy's t."""
    values = correlated(11, 4) + np.array([1.5, 0.0, 30.0, -2_500.0])
    values = np.column_stack(
        [values, np.full(11, 7.0)]
    )  # a column that does not vary counts for Bonferroni
    law = sorted(simultaneous._largest_rotated_t(values[:, :4], level).tolist())
    alone, bonferroni = (stats.t.isf((1 - level) / 2 / size, 10) for size in (1, 5))
    critical = sorted([alone, law[math.ceil(level * len(law)) - 1], bonferroni])[1]
    for column, one in zip(values.T[:4], simultaneous.max_t_intervals(values, level), strict=False):
        error = stats.sem(column)
        statistic = abs(column.mean()) / error
        share = max(1, sum(t >= statistic for t in law)) / len(law)
        single = stats.ttest_1samp(column, 0).pvalue
        expected = sorted([single, share, 5 * single])[1]
        half = critical * error
        assert one == pytest.approx((column.mean() - half, column.mean() + half, expected))
        assert (one.p_value <= 1 - level) == (not one.low <= 0 <= one.high)
    assert simultaneous.max_t_intervals(values, level)[4] == NOTHING_KNOWN


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95])
def test_one_sided_bounds_are_those_of_the_largest_t_without_its_sign(level):
    values = correlated(9, 3)
    law = simultaneous._largest_rotated_t(values, level, one_sided=True).tolist()
    expected = min(law[math.ceil(level * len(law)) - 1], stats.t.isf((1 - level) / 3, 8))
    with_constant = np.column_stack([values, np.zeros(9)])
    expected = max(expected, stats.t.ppf(level, 8))
    assert simultaneous.one_sided_max_t(values, level) == pytest.approx(expected)
    assert simultaneous.one_sided_max_t(with_constant, level) >= simultaneous.one_sided_max_t(
        values, level
    )


def test_max_t_of_one_comparison_is_students_and_of_equal_ones_no_more():
    """40,000 rotations: 5 standard errors of the quantile are 2.8%, one-sided 3.4% (false alarm 6e-7); never less."""
    values, single = np.random.default_rng(1).normal(1, 2, 12)[:, None], stats.t.ppf(0.975, 11)
    for columns in (values, np.hstack([values] * 5), np.hstack([values, -3 * values])):
        low, high, _ = simultaneous.max_t_intervals(columns, 0.95)[0]
        assert (high - low) / 2 / stats.sem(values[:, 0]) == pytest.approx(single, rel=0.028)
        assert (high - low) / 2 >= single * stats.sem(values[:, 0]) * (1 - 1e-12)
    one_sided = simultaneous.one_sided_max_t(np.hstack([values] * 5), 0.95)
    assert one_sided == pytest.approx(stats.t.ppf(0.95, 11), rel=0.034)


def test_max_t_of_independent_comparisons_meets_the_studentised_maximum():
    """Each of 4 columns with its own scale and 20 degrees of freedom: as independent t's (Sidak), within 2.5%."""
    values = np.random.default_rng(6).normal(size=(21, 4))
    values -= values.mean(0)
    independent = np.linalg.qr(values)[0]  # columns exactly uncorrelated
    low, high, _ = simultaneous.max_t_intervals(independent, 0.95)[0]
    expected = stats.t.isf((1 - 0.95 ** (1 / 4)) / 2, 20)
    assert (high - low) / 2 / stats.sem(independent[:, 0]) == pytest.approx(expected, rel=0.025)


def test_few_rotations_leave_bonferronis_method():
    """A level that 40,000 rotations cannot tell."""
    values, level = correlated(30, 3), 0.9999
    half = stats.t.isf((1 - level) / 6, 29) * stats.sem(values[:, 0])
    low, high, p_value = simultaneous.max_t_intervals(values, level)[0]
    assert (high - low) / 2 == pytest.approx(half)
    alone = stats.ttest_1samp(values[:, 0], 0).pvalue
    assert p_value == pytest.approx(min(1, 3 * alone))
    assert simultaneous.one_sided_max_t(values, level) == pytest.approx(
        stats.t.isf((1 - level) / 3, 29)
    )


@pytest.mark.slow
def test_45_independent_comparisons_keep_their_level_at_10_replications(monkeypatch):
    """1,000 normal samples, each column with its own scale: 5% plus the exact binomial bound at 1e-6 (sees 11%).

    With a scale common to all columns, 11 to 16% of samples had a finding.
    """
    monkeypatch.setattr(simultaneous, "ROTATIONS", 2_000)
    samples = np.random.default_rng(10).normal(size=(1_000, 10, 45)) * 1.5 ** np.arange(45)
    missed = sum(
        any(interval.p_value <= 0.05 for interval in simultaneous.max_t_intervals(x, 0.95))
        for x in samples
    )
    assert stats.binom.sf(missed - 1, 1_000, 0.05) > budget.ALARM
    assert missed > 15  # not merely wide


def test_one_sided_levels_halve_the_misses():
    assert simultaneous.one_sided_level(0.95, 1) == pytest.approx(0.9)
    assert simultaneous.one_sided_level(0.95, 4) == pytest.approx(0.975)
    assert simultaneous.one_sided_level(0.3, 1) == 0.01


@pytest.mark.slow
def test_many_comparisons_have_the_law_of_the_largest_t_of_their_span():
    """All pairs of 16 policies: 120 columns of rank 15, with 12 and with 200 rows."""
    for rows in (12, 200):
        rewards = np.random.default_rng(1).normal(1, 2, rows * 16).reshape(rows, 16) * np.arange(
            1, 17
        )
        first, second = np.triu_indices(16, 1)
        values = rewards[:, first] - rewards[:, second]
        assert simultaneous._span_coordinates(values).shape == (min(rows, 15), 120)
        law = simultaneous._largest_rotated_t(values, 0.95)
        assert law.size == simultaneous.FEWER_ROTATIONS
        literal = rotated_literally(values, 1_000, seed=1)
        assert stats.ks_2samp(law, np.abs(literal).max(axis=1)).pvalue > 1e-4
