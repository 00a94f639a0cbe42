"""Intervals of the effect from simulations on draws of the arms."""

import math

import numpy as np
import pytest

from sameluck.inference.twins.intervals import copied_effect


@pytest.mark.parametrize(("noise", "kept"), [(0.0, 1.0), (0.2, 0.8), (0.5, 0.5), (5.0, 0.5)])
def test_at_most_half_of_the_variance_is_removed(noise, kept):
    """A larger share of the simulation is too uncertain to be removed."""
    draws = np.array([-1.0, 0.0, 1.0] * 6)
    draws /= draws.std(ddof=1)  # the variance is 1
    effect = copied_effect(3 + draws, noise, (0.0, 0.0), 0.95)

    assert effect.effect == pytest.approx(3)
    assert effect.interval.high - 3 == pytest.approx(draws.max() * math.sqrt(kept))
    assert 3 - effect.interval.low == pytest.approx(draws.max() * math.sqrt(kept))


def test_each_end_has_its_own_error():
    draws = np.linspace(-1, 1, 21)
    bare, effect = (copied_effect(draws, 0.0, errors, 0.95) for errors in ((0.0, 0.0), (0.1, 0.3)))

    assert bare.interval.low - effect.interval.low == pytest.approx(0.196, abs=1e-4)
    assert effect.interval.high - bare.interval.high == pytest.approx(0.588, abs=1e-4)
    assert effect.error == 0.3
