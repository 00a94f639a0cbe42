"""The interval of the effect from simulations on draws of the arms, on the luck of the long run."""

import math

import numpy as np
import pytest

from sameluck.inference.twins.shared_luck import shrunk_effect


@pytest.mark.parametrize(("interaction", "kept"), [(0.0, 1.0), (3.6, 0.8), (9.0, 0.5), (90.0, 0.5)])
def test_at_most_half_of_the_variance_is_taken_out(interaction, kept):
    """If simulation explains more, its part is not known well enough to be taken out."""
    effects = np.array([-1.0, 0.0, 1.0] * 6)
    effects /= effects.std(ddof=1)  # the variance is 1
    still = np.zeros(18)  # no error of the mean
    found = shrunk_effect(still, effects, still, interaction, 0.95)

    assert found.effect == pytest.approx(0)
    assert found.interval.high == pytest.approx(effects.max() * math.sqrt(kept))
    assert found.interval.low == -found.interval.high
