"""`mabwiser`: bandits of MABWiser."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from sameluck.adapters.adapted_maker import (
    AdaptedMaker,
    adapted_maker,
    require_arms,
    require_methods,
)
from sameluck.errors import Invalid

_SEED_IF_NONE = 123456  # MABWiser's default


class _MAB(Protocol):
    """What is called of `mabwiser.mab.MAB`."""

    arms: list[object]
    is_contextual: bool
    seed: int

    def fit(self, decisions: list[object], rewards: list[float]) -> None:
        """Observe the first rewards."""

    def partial_fit(self, decisions: list[object], rewards: list[float]) -> None:
        """Observe further rewards."""

    def predict(self) -> object:
        """The arm to play."""


class MabwiserBandit:
    """A `MAB` that plays: the arms in turn until each has a reward, then what `predict` returns.

    MABWiser leaves the first plays to its caller: `predict` needs a fitted bandit, and an arm without a reward has
    the expectation 0. Arms are those of `mab.arms`, in their order, whatever their names.
    """

    def __init__(self, make: Callable[[int], _MAB], seed: int) -> None:
        mab = make(seed)
        require_methods(mab, ("fit", "partial_fit", "predict"), "a mabwiser.mab.MAB")
        if mab.is_contextual:
            raise Invalid("a contextual MAB of MABWiser needs contexts, which experiments have not")
        if mab.seed == _SEED_IF_NONE != seed:
            raise Invalid(
                "the MAB was made without a seed, so that its random choices would be the same in every replication; "
                "write MAB(..., seed=seed)"
            )
        self.mab = mab
        self._indices = {arm: index for index, arm in enumerate(mab.arms)}
        self._unobserved = set(range(len(mab.arms)))
        self._turns = 0

    def pull(self, arms: Sequence[int]) -> int:
        """The arm to play."""
        if not self._unobserved:
            return self._indices[self.mab.predict()]
        require_arms(arms, len(self.mab.arms))
        self._turns += 1
        return (self._turns - 1) % len(arms)

    def update(self, arm: int, reward: float) -> None:
        """Observe a reward."""
        first = len(self._unobserved) == len(self.mab.arms)
        observe = self.mab.fit if first else self.mab.partial_fit
        observe([self.mab.arms[arm]], [reward])
        self._unobserved.discard(arm)


def mabwiser(make: Callable[[int], object]) -> AdaptedMaker:
    """A maker for `External` of MABWiser's bandits without contexts.

    The arms are played in turn until each has a reward; from then on MABWiser chooses.

    Args:
        make: Returns a new bandit with as many arms as the experiment, such as
            `lambda seed: MAB([0, 1, 2], LearningPolicy.UCB1(alpha=1), seed=seed)`.
    """
    return adapted_maker("mabwiser", make, MabwiserBandit)
