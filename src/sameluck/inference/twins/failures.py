"""Rare failures: replications on a copy of the arms in which one policy ends far behind the other."""

from __future__ import annotations

import numpy as np

from sameluck.arrays import Bools, Floats
from sameluck.inference.twins.records import Failure

FAR = 5.0  # robust standard deviations from the median


def far_draws(star: Floats, half_reward: float) -> Bools:
    """Which draws are far from the median: rare ones that hold over half of the sum of squares about it, or none.

    With median m and s = max(1.4826 MAD, (q84 - q16) / 2, half a reward), a draw is far if |D - m| > 5 s. Of the two
    sides the one that weighs more counts.
    """
    distances = star - np.median(star)
    low, high = np.quantile(star, [0.16, 0.84])
    scale = max(1.4826 * np.median(np.abs(distances)), (high - low) / 2, half_reward)
    squares = distances**2
    far = np.abs(distances) > FAR * scale
    if not squares[far].sum() > squares.sum() / 2:
        return np.zeros_like(far)
    behind, ahead = far & (distances < 0), far & (distances > 0)
    return behind if squares[behind].sum() >= squares[ahead].sum() else ahead


def failure_of(
    names: tuple[str, str], checkpoint: int, star: Floats, seen: Floats, half_reward: float
) -> Failure | None:
    """The rare failure of one of two policies; `seen` are the observed differences, first minus second.

    Of all losses x of the far draws, the one that explains most of the mean loss: x times the share of draws that
    lose at least x is largest.
    """
    far = far_draws(star, half_reward)
    sign = -1.0 if star[far].sum() < np.median(star) * far.sum() else 1.0
    losses = np.sort(sign * star[far])[::-1]
    if losses.size == 0 or losses[0] <= 0:
        return None
    loss = float(losses[np.argmax(losses * np.arange(1, losses.size + 1))])
    policy, control = names if sign < 0 else names[::-1]
    one_in = star.size / int(np.sum(sign * star >= loss))
    met = int(np.sum(sign * seen >= loss))
    return Failure(policy, control, checkpoint, loss, one_in, met, seen.size)
