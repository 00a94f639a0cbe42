"""The effects on draws of the arms, simulated until the error of that is small."""

from __future__ import annotations

from sameluck.inference.twins.copies import LikelihoodCopy
from sameluck.inference.twins.intervals import CopiedEffect
from sameluck.inference.twins.long_run import LongRun
from sameluck.inference.twins.shared_luck import EffectsOnSharedLuck
from sameluck.inference.twins.simulations import Effort
from sameluck.inference.twins.weighting import WeightedEffects


def drawn_effects(long: LongRun, effort: Effort, level: float) -> list[list[CopiedEffect]]:
    """The effect on the copy and its interval, of each pair at each checkpoint.

    Simulates more where the error at the last checkpoint is not small.
    """
    drawn, count = _on_draws(long, effort)
    long.copies.expect(effort.draws * (count - effort.weighted))
    drawn.extend(count)
    for _ in range(effort.raises):
        results = drawn.effects(level)
        if max(row[-1].imprecision for row in results) <= 1:
            return results
        long.copies.expect(effort.draws * count)
        drawn.extend(count)
        count *= 2
    return drawn.effects(level)


def _on_draws(long: LongRun, effort: Effort) -> tuple[WeightedEffects | EffectsOnSharedLuck, int]:
    """What estimates the effects, and how many replications on each draw it begins with."""
    if isinstance(long.copy, LikelihoodCopy):
        return WeightedEffects(long, long.copy, effort), effort.weighted
    return EffectsOnSharedLuck(long, effort.draws), effort.draw_replications
