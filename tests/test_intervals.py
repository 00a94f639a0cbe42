"""Intervals and adjustments against SciPy, published constants, literal versions and their own promises."""

import math

import numpy as np
import pytest
from scipy import optimize, stats

import budget
import sameluck as sl
from sameluck import intervals as iv
from sameluck.inference.interval_methods import INTERVALS

FROM_DIFFERENCES = sorted(name for name, method in INTERVALS.items() if not method.copies_arms)


def sample(size: int, seed: int = 1, shape: str = "normal") -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(1, 2, size) if shape == "normal" else rng.exponential(2, size) - 1


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.99, 0.9999])
def test_t_and_welch_are_scipys_to_the_last_digits(level):
    values, others = sample(17), sample(9, seed=2)
    ours, theirs = iv.t_interval(values, level), stats.ttest_1samp(values, 0)
    assert ours[:2] == pytest.approx(theirs.confidence_interval(level), rel=1e-12)
    assert ours.p_value == pytest.approx(theirs.pvalue, rel=1e-11)

    ours = iv.welch_interval(values, others, level)
    theirs = stats.ttest_ind(values, others, equal_var=False)
    assert ours[:2] == pytest.approx(theirs.confidence_interval(level), rel=1e-12)
    assert ours.p_value == pytest.approx(theirs.pvalue, rel=1e-11)


@pytest.mark.parametrize("shape", ["normal", "exponential"])
def test_the_bootstrap_interval_is_scipys_up_to_its_resamples(shape):
    """Both resample 9,999 times; their ends differ by Monte Carlo error, here under 8% of the width."""
    values = sample(40, shape=shape)
    ours = iv.bootstrap_interval(values, 0.95)
    theirs = stats.bootstrap(
        (values,), np.mean, method="BCa", n_resamples=9_999, rng=5
    ).confidence_interval
    width = theirs.high - theirs.low
    assert ours.low == pytest.approx(theirs.low, abs=0.08 * width)
    assert ours.high == pytest.approx(theirs.high, abs=0.08 * width)
    assert iv.bootstrap_interval(values, 0.95) == ours


def test_the_bootstrap_p_value_is_where_the_interval_touches_zero():
    values = sample(30) - 0.3
    p_value = iv.bootstrap_interval(values, 0.95).p_value
    inside, outside = (
        iv.bootstrap_interval(values, 1 - p_value + shift) for shift in (0.002, -0.002)
    )
    assert inside.low <= 0 <= inside.high
    assert not outside.low <= 0 <= outside.high


@pytest.mark.parametrize("name", FROM_DIFFERENCES)
def test_every_interval_holds_the_mean_and_widens_with_the_level(name):
    values = sample(30)
    narrow, wide = (INTERVALS[name].interval(values, level) for level in (0.8, 0.99))
    assert wide.low < narrow.low <= values.mean() <= narrow.high < wide.high
    assert 0 <= narrow.p_value <= 1


NOTHING_KNOWN = (-math.inf, math.inf, 1.0)


@pytest.mark.parametrize("name", FROM_DIFFERENCES)
@pytest.mark.parametrize("value", [0.0, 3.0, 0.1, -1 / 3])
def test_values_that_do_not_vary_give_no_interval(name, value):
    """Also where rounding leaves a standard deviation above 0, as with 20 times 0.1."""
    values = np.full(20, value)
    assert INTERVALS[name].interval(values, 0.95) == NOTHING_KNOWN
    assert iv.welch_interval(values, values[:7] + 1, 0.95) == NOTHING_KNOWN
    assert np.isinf(iv.anytime_half_widths(values, 0.95)).all()
    assert iv.standard_error(values) == 0


def test_equal_values_say_nothing_until_one_differs():
    values = np.array([2.0] * 12 + [3.0] + [2.0] * 12)
    assert np.isfinite(iv.anytime_half_widths(values, 0.95)).tolist() == [False] * 12 + [True] * 13


def test_the_anytime_interval_is_the_set_of_means_its_evidence_does_not_refute():
    """The closed form against the definition: E_m(mu) crosses 1 / alpha exactly at both ends."""
    values, level = sample(25), 0.95
    c, count = iv._mixture(1 - level), 25
    low, high, _ = iv.anytime_interval(values, level)
    for mu in (low, high):
        total, squares = np.sum(values - mu), np.sum((values - mu) ** 2)
        evidence = math.sqrt(c / (count + c)) * (squares / (squares - total**2 / (count + c))) ** (
            count / 2
        )
        assert evidence == pytest.approx(1 / (1 - level), rel=1e-9)


def test_the_anytime_evidence_is_a_fair_bet():
    """E[E_m(0)] = 1 for normal values of mean zero at m = 2, 5, 12: |z| < 5, false alarm 2e-6."""
    rng = np.random.default_rng(3)
    for count in (2, 5, 12):
        c, values = iv._mixture(0.05), rng.normal(0, 3, (200_000, count))
        total, squares = values.sum(1), (values**2).sum(1)
        evidence = np.sqrt(c / (count + c)) * (squares / (squares - total**2 / (count + c))) ** (
            count / 2
        )
        assert abs(evidence.mean() - 1) < 5 * evidence.std() / math.sqrt(evidence.size)


def test_anytime_p_values_are_rarely_ever_small_without_an_effect():
    """1,500 paths of 200: ever below 0.05 with chance at most 0.05, plus 5 binomial sd (false alarm 3e-7)."""
    rng = np.random.default_rng(4)
    paths = np.array([iv.anytime_p_values(rng.normal(size=200)) for _ in range(1_500)])
    assert np.mean(paths.min(axis=1) < 0.05) < 0.05 + 5 * math.sqrt(0.05 * 0.95 / 1_500)


@pytest.mark.parametrize("level", [0.5, 0.8, 0.95, 0.999])
def test_the_anytime_p_value_and_interval_agree(level):
    """At every look: the p-value is at most 1 - level exactly when zero lies outside."""
    rng = np.random.default_rng(6)
    outside = inside = 0
    for _ in range(300):
        values = rng.normal(rng.normal(0, 0.5), 1, 60)
        mean = np.cumsum(values) / np.arange(1, 61)
        left_out = np.abs(mean) > iv.anytime_half_widths(values, level)
        assert np.array_equal(iv.anytime_p_values(values, level) < 1 - level, left_out)
        outside, inside = outside + left_out.sum(), inside + (~left_out).sum()
    assert min(outside, inside) > 500


def test_anytime_half_widths_are_those_of_each_prefix():
    values = sample(40) + 1e6  # far from zero: cancellation must not eat the spread
    widths = iv.anytime_half_widths(values, 0.9)
    for count in (10, 23, 40):
        low, high, _ = iv.anytime_interval(values[:count], 0.9)
        assert widths[count - 1] == pytest.approx((high - low) / 2, rel=1e-9)
    assert np.isinf(widths[0])


def holm_literally(p_values: list[float]) -> list[float]:
    """Sort; multiply the k-th smallest by the number of those left; never smaller than the one before; at most 1."""
    order = sorted(range(len(p_values)), key=lambda k: p_values[k])
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, k in enumerate(order):
        largest = max(largest, min(1.0, p_values[k] * (len(p_values) - rank)))
        adjusted[k] = largest
    return adjusted


def test_holm_is_the_literal_step_down():
    rng = np.random.default_rng(5)
    for size in (1, 2, 5, 20):
        p_values = rng.uniform(0, 0.2, size)
        assert iv.holm(p_values).tolist() == holm_literally(p_values.tolist())


def sign_test_literally(values, level):
    """Every pair of order statistics from the outside in, with the chances counted by binomial coefficients."""
    count, ordered = len(values), sorted(values)
    low, high = -math.inf, math.inf
    for k in range(1, count // 2 + 1):
        outside = 2 * sum(math.comb(count, j) for j in range(k)) / 2**count
        if outside <= 1 - level:
            low, high = ordered[k - 1], ordered[count - k]
    against = min(sum(x <= 0 for x in values), sum(x >= 0 for x in values))
    p_value = 2 * sum(math.comb(count, j) for j in range(against + 1)) / 2**count
    return low, high, min(1.0, p_value)


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.999])
@pytest.mark.parametrize("count", [2, 5, 6, 11, 20, 61])
def test_the_median_interval_is_the_literal_sign_test(count, level):
    """Whole numbers, so that there are ties, also with 0; at 95% five values have no bounds and six have."""
    rng = np.random.default_rng(count)
    for shift in (0, 1, 5):
        values = rng.integers(-3, 4, count) + float(shift)
        values[:2] = (-3, 3)
        ours = iv.median_interval(values, level)
        assert ours == pytest.approx(sign_test_literally(values.tolist(), level), rel=1e-12)
        assert (ours.p_value <= 1 - level) == (not ours.low <= 0 <= ours.high)
    assert math.isfinite(iv.median_interval(np.arange(6.0), 0.95).low)
    assert iv.median_interval(np.arange(5.0), 0.95)[:2] == (-math.inf, math.inf)


@pytest.mark.slow
@pytest.mark.parametrize("count", [8, 20])
def test_the_median_interval_covers_exactly_whatever_the_law(count):
    """10,000 samples of a law whose mean a t interval misses most of the time; exact binomial at 1e-6."""
    rng = np.random.default_rng(count)
    samples = np.exp(3 * rng.normal(size=(10_000, count)))  # median 1, mean 90
    k = max(
        k
        for k in range(1, count)
        if 2 * sum(math.comb(count, j) for j in range(k)) <= 2**count / 20
    )
    chance = 1 - 2 * sum(math.comb(count, j) for j in range(k)) / 2**count
    hits = sum(low <= 1 <= high for low, high, _ in (iv.median_interval(x, 0.95) for x in samples))
    assert chance >= 0.95
    budget.assert_count(hits, 10_000, chance)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("looks", "constant"), [(1, 1.960), (2, 1.977), (3, 2.004), (5, 2.040), (10, 2.087)]
)
def test_obrien_fleming_meets_the_published_constants(looks, constant):
    """Jennison and Turnbull (2000), table 2.3, two-sided alpha 0.05."""
    plan = iv.obrien_fleming(100, looks, 0.95)
    assert [look.replications for look in plan] == [
        math.ceil(100 * k / looks) for k in range(1, looks + 1)
    ]
    assert stats.norm.ppf(0.5 + plan[-1].level / 2) == pytest.approx(constant, abs=6e-4)
    first = stats.norm.ppf(0.5 + plan[0].level / 2)
    assert first == pytest.approx(constant * math.sqrt(looks), rel=1e-3)


def test_a_plan_of_looks_that_makes_no_sense_is_refused():
    for looks in (0, 21, 2.5):
        with pytest.raises(sl.Invalid, match="looks must be a whole number from 1 to 20"):
            iv.obrien_fleming(100, looks, 0.95)
    with pytest.raises(sl.Invalid, match="replications must be a whole number >= 2, got 1"):
        iv.obrien_fleming(1, 1, 0.95)


@pytest.mark.parametrize(
    ("replications", "looks", "remedy"),
    [
        (10, 5, "plan 50 replications or 1 looks"),
        (20, 5, "plan 50 replications or 2 looks"),
        (49, 5, "plan 50 replications or 4 looks"),
        (5, 2, "plan 20 replications or 1 looks"),
    ],
)
def test_planned_looks_before_ten_replications_are_refused(replications, looks, remedy):
    """At 2 replications the first of five looks missed 12 to 40%, at 4 still 13.6%."""
    with pytest.raises(sl.Invalid, match=f"would come before 10, .*; {remedy}"):
        iv.obrien_fleming(replications, looks, 0.95)
    allowed = int(remedy.split()[1])
    assert iv.obrien_fleming(allowed, looks, 0.95)[0].replications == allowed // looks >= 10
    assert len(iv.obrien_fleming(replications, 1, 0.95)) == 1


def literal_bca(values, level):
    """Efron (1987), with all resamples at once and the jackknife written out."""
    rng = np.random.Generator(np.random.PCG64(20_240_229))
    means = np.sort(values[rng.integers(values.size, size=(9_999, values.size))].mean(axis=1))
    below = np.mean(means < values.mean()) / 2 + np.mean(means <= values.mean()) / 2
    without = np.array([np.delete(values, left_out).mean() for left_out in range(values.size)])
    gaps = without.mean() - without
    acceleration = np.sum(gaps**3) / (6 * np.sum(gaps**2) ** 1.5)
    z0, ends = stats.norm.ppf(below), stats.norm.ppf([0.5 - level / 2, 0.5 + level / 2])
    shifted = z0 + (z0 + ends) / (1 - acceleration * (z0 + ends))
    return np.quantile(means, stats.norm.cdf(shifted))


@pytest.mark.slow
@pytest.mark.parametrize("count", [12, 450])
def test_the_bootstrap_interval_is_the_literal_one(count):
    """450 values are resampled in two blocks; the law is skewed, so that bias and acceleration count."""
    values = np.random.default_rng(count).exponential(size=count) ** 2
    for level in (0.5, 0.95):
        found = iv.bootstrap_interval(values, level)
        assert found[:2] == pytest.approx(literal_bca(values, level), rel=1e-9)


def test_the_bootstrap_p_value_has_a_least_value():
    values = np.random.default_rng(2).normal(size=15)
    far, near = values - values.mean() + 50, values - values.mean() + 0.01
    assert iv.bootstrap_interval(far, 0.95).p_value == iv.bootstrap_interval(-far, 0.95).p_value
    assert iv.bootstrap_interval(far, 0.95).p_value == 1 / 9_999
    assert iv.bootstrap_interval(near, 0.95).p_value > 0.9


@pytest.mark.parametrize("level", [0.8, 0.95, 0.999])
def test_the_anytime_interval_is_tuned_for_30_values(level):
    """c = 30 / s with s - log(1 + s) = 2 log(1 / alpha): a normal mixture is shortest there."""
    shape = optimize.brentq(lambda s: s - math.log1p(s) + 2 * math.log(1 - level), 1e-6, 100)
    assert iv._mixture(1 - level) == pytest.approx(30 / shape, rel=1e-9)


@pytest.mark.parametrize("level", [0.8, 0.95, 0.999])
def test_two_planned_looks_have_the_level_of_the_bivariate_normal_law(level):
    """The chance that neither of two correlated normal numbers leaves its bounds, from SciPy's own integration."""
    plan = iv.obrien_fleming(40, 2, level)
    first, second = (stats.norm.ppf(0.5 + look.level / 2) for look in plan)
    law = stats.multivariate_normal(cov=[[1, math.sqrt(0.5)], [math.sqrt(0.5), 1]])
    inside = law.cdf([first, second], lower_limit=[-first, -second])
    assert inside == pytest.approx(level, abs=2e-5)
    assert first == pytest.approx(second * math.sqrt(2), rel=1e-9)
    assert [look.replications for look in plan] == [20, 40]


def test_a_bootstrap_beyond_its_resamples_is_refused():
    """Its p-value cannot be below 1 in 9,999, so an interval of such a level would contradict it."""
    values = sample(20) + 100
    with pytest.raises(sl.Invalid, match=r"9,999 resamples, too few for a level of 0\.9999 per"):
        iv.bootstrap_interval(values, 0.9999)
    assert iv.bootstrap_interval(values, 0.9997).p_value < 0.0003


def test_planned_looks_have_levels_that_an_interval_takes():
    for look in iv.obrien_fleming(200, 20, 0.95):
        iv.check_level(look.level)


@pytest.mark.parametrize("level", [0, 1, 1 - 2**-53, "0.95", None])
def test_a_level_that_is_1_but_for_rounding_is_refused(level):
    with pytest.raises(sl.Invalid, match="level must be between 0 and 1"):
        iv.check_level(level)
