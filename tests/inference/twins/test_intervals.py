"""Intervals of the effect from simulations on draws of the arms."""

import math

import numpy as np
import pytest

from sameluck.inference.twins.intervals import DrawnEffects, copied_effect, ends_of_draws


def drawn_effects(
    independent, *, tied=None, on_copy=None, equality=0.0, noise=0.0, errors=(0.0, 0.0)
):
    on_copy = independent.mean() if on_copy is None else on_copy
    return DrawnEffects(
        np.array(on_copy),
        independent,
        np.full(3, independent.mean()) if tied is None else np.array(tied, float),
        equality,
        np.array(noise),
        np.array(errors),
    )


@pytest.mark.parametrize(("noise", "kept"), [(0.0, 1.0), (0.2, 0.8), (0.5, 0.5), (5.0, 0.5)])
def test_at_most_half_of_the_variance_is_removed(noise, kept):
    """A larger share of the simulation is too uncertain to be removed."""
    draws = np.array([-1.0, 0.0, 1.0] * 6)
    draws /= draws.std(ddof=1)  # the variance is 1
    effect = copied_effect(drawn_effects(3 + draws, noise=noise), 0.95)

    assert effect.effect == pytest.approx(3)
    assert effect.interval.high - 3 == pytest.approx(draws.max() * math.sqrt(kept))
    assert 3 - effect.interval.low == pytest.approx(draws.max() * math.sqrt(kept))


def test_each_end_has_its_own_error():
    draws = np.linspace(-1, 1, 21)
    bare, effect = (
        copied_effect(drawn_effects(draws, errors=errors), 0.95)
        for errors in ((0.0, 0.0), (0.1, 0.3))
    )

    assert bare.interval.low - effect.interval.low == pytest.approx(0.196, abs=1e-4)
    assert effect.interval.high - bare.interval.high == pytest.approx(0.588, abs=1e-4)
    assert effect.error == 0.3


def test_the_interval_holds_both_kinds_of_draws():
    """It holds 95% of the independent draws and 90% of the others, from which no noise is removed."""
    independent, tied = np.linspace(4, 6, 101), np.concatenate([np.zeros(7), np.linspace(1, 7, 93)])
    effect = copied_effect(drawn_effects(independent, tied=tied), 0.95)
    noisy = copied_effect(drawn_effects(independent, tied=tied, noise=0.1), 0.95)

    assert effect.interval.low == noisy.interval.low == 0
    assert effect.interval.high == pytest.approx(np.quantile(tied, 0.95, method="weibull"))
    assert copied_effect(drawn_effects(independent, tied=tied), 0.93).interval.low > 0
    assert 0.06 < effect.interval.p_value < 0.08


def test_draws_with_tied_arms_never_narrow_the_interval():
    independent = np.linspace(4, 6, 101)
    effect = copied_effect(drawn_effects(independent, tied=np.full(50, 5.0)), 0.95)

    # At ranks 2.55 and 99.45 of 101 draws
    assert effect.interval[:2] == pytest.approx((4.031, 5.969))


def test_the_expected_share_of_draws_beyond_an_end_is_its_tail():
    """The ends of 100 uniform draws leave out 2.5% each on average; NumPy's default quantile leaves out 3.4%.

    The mean of 2,000 shares has a standard error of 0.03%, so a correct end fails with probability 10^-6.
    """
    draws = np.random.default_rng(1).random((100, 2_000))
    low, high = ends_of_draws(draws, np.full_like(draws, 0.5), 0.95)

    assert low.mean() == pytest.approx(0.025, abs=0.0017)
    assert 1 - high.mean() == pytest.approx(0.025, abs=0.0017)


def test_the_bias_of_the_copy_is_removed():
    """Draws differ from the copy by +2 on average, so the copy differs from the true arms by about +2."""
    independent = np.linspace(4, 8, 101)
    effect = copied_effect(drawn_effects(independent, tied=np.zeros(100), on_copy=4.0), 0.95)
    within = copied_effect(drawn_effects(independent, tied=np.ones(100), on_copy=3.0), 0.95)

    assert effect.effect == pytest.approx(2)
    assert within.effect == within.interval.low == 1  # never outside its interval


@pytest.mark.parametrize(("equality", "low"), [(0.049, 1.0), (0.051, 0.0)])
def test_equal_arms_within_the_level_admit_0(equality, low):
    """No drawn arms are equal here, although they have this probability."""
    ones = np.ones(20)
    effect = copied_effect(drawn_effects(ones, tied=ones, equality=equality), 0.95)

    assert effect.interval.low == low
    assert (effect.interval.p_value < 0.05) == (low > 0)
