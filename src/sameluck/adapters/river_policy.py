"""`river`: policies of river's module `bandit`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Protocol

from sameluck.adapters.adapted_maker import AdaptedMaker, adapted_maker, require_methods
from sameluck.errors import Invalid


class _RiverPolicy(Protocol):
    """What is called of a policy of river."""

    def pull(self, arm_ids: list[int]) -> int:
        """The arm to play."""

    def update(self, arm_id: int, reward: float) -> object:
        """Observe a reward."""


def river(make: Callable[[int], object]) -> AdaptedMaker:
    """A maker for `External` of `river.bandit` policies that take no context.

    Args:
        make: Returns a new policy that has all its randomness from the seed, such as
            `lambda seed: bandit.UCB(delta=1, seed=seed)`.
    """
    return adapted_maker("river", make, _checked)


def _checked(make: Callable[[int], _RiverPolicy], seed: int) -> _RiverPolicy:
    policy = make(seed)
    require_methods(policy, ("pull", "update"), "a policy of river.bandit")
    if "context" in inspect.signature(policy.update).parameters:
        raise Invalid(
            f"{type(policy).__name__} of river needs a context, which experiments have not"
        )
    return policy
