"""The interval of the effect from simulations on draws of the arms."""

import math

import numpy as np
import pytest

from sameluck.inference.twins.intervals import copied_effect


@pytest.mark.parametrize(("noise", "kept"), [(0.0, 1.0), (0.2, 0.8), (0.5, 0.5), (5.0, 0.5)])
def test_at_most_half_of_the_variance_is_taken_out(noise, kept):
    """If simulation explains more, its part is not known well enough to be taken out."""
    draws = np.array([-1.0, 0.0, 1.0] * 6)
    draws /= draws.std(ddof=1)  # the variance is 1
    found = copied_effect(3 + draws, noise, (0.0, 0.0), 0.95)

    assert found.effect == pytest.approx(3)
    assert found.interval.high - 3 == pytest.approx(draws.max() * math.sqrt(kept))
    assert 3 - found.interval.low == pytest.approx(draws.max() * math.sqrt(kept))


def test_each_end_has_its_own_error():
    draws = np.linspace(-1, 1, 21)
    bare, found = (copied_effect(draws, 0.0, errors, 0.95) for errors in ((0.0, 0.0), (0.1, 0.3)))

    assert bare.interval.low - found.interval.low == pytest.approx(0.196, abs=1e-4)
    assert found.interval.high - bare.interval.high == pytest.approx(0.588, abs=1e-4)
    assert found.error == 0.3
