"""`smpybandits`: policies of SMPyBandits, with random numbers of their own.

They draw from the global generators of NumPy and of Python. During each of their calls, these are replaced by
generators that come from the seed of the policy, so that it is a function of its seed as every policy must be.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import numpy as np
from numpy.random.mtrand import get_bit_generator, set_bit_generator

from sameluck.adapters.adapted_maker import (
    AdaptedMaker,
    adapted_maker,
    require_arms,
    require_methods,
)

_one_at_a_time = threading.RLock()  # there is one global generator for all threads


class _Policy(Protocol):
    """What is called of a policy of SMPyBandits."""

    nbArms: int  # noqa: N815 its name there

    def startGame(self) -> None:  # noqa: N802
        """Forget everything."""

    def choice(self) -> int:
        """The arm to play."""

    def getReward(self, arm: int, reward: float) -> None:  # noqa: N802
        """Observe a reward."""


class SMPyBanditsPolicy:
    """A policy of SMPyBandits whose random numbers, those of ties included, come from its seed.

    After each call the global generators go on where they were, but for a normal number that NumPy's keeps in
    reserve. Another thread that draws from them at the same time draws from the policy's.
    """

    def __init__(self, make: Callable[[int], _Policy], seed: int) -> None:
        self._bits = np.random.MT19937(seed)
        with self._own_randomness():
            policy = make(seed)
            require_methods(policy, ("startGame", "choice", "getReward"), "a policy of SMPyBandits")
            policy.startGame()
        self.policy = policy

    def pull(self, arms: Sequence[int]) -> int:
        """The arm to play."""
        require_arms(arms, self.policy.nbArms)
        with self._own_randomness():
            return self.policy.choice()

    def update(self, arm: int, reward: float) -> None:
        """Observe a reward."""
        with self._own_randomness():
            self.policy.getReward(arm, reward)

    @contextmanager
    def _own_randomness(self) -> Iterator[None]:
        with _one_at_a_time:
            numpy_before, python_before = get_bit_generator(), random.getstate()
            set_bit_generator(self._bits)
            random.seed(int(self._bits.random_raw()))
            try:
                yield
            finally:
                set_bit_generator(numpy_before)
                random.setstate(python_before)


def smpybandits(make: Callable[[int], object]) -> AdaptedMaker:
    """A maker for `External` of policies of SMPyBandits.

    Args:
        make: Returns a new policy with as many arms as the experiment, such as
            `lambda seed: SMPyBandits.Policies.klUCB(3)`. The seed is for the random numbers that it draws.
    """
    return adapted_maker("SMPyBandits", make, SMPyBanditsPolicy)
