"""`bayesianbandits`: agents of bayesianbandits."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from sameluck.adapters.adapted_maker import (
    AdaptedMaker,
    adapted_maker,
    require_arms,
    require_methods,
)
from sameluck.arrays import Floats
from sameluck.errors import Invalid


class _Arm(Protocol):
    """An arm of an agent."""

    action_token: object


class _Agent(Protocol):
    """What is called of `bayesianbandits.Agent`."""

    arms: list[_Arm]

    def pull(self) -> list[object]:
        """The token of the arm to play, in a list."""

    def select_for_update(self, token: object) -> _Agent:
        """The agent, about to observe rewards of an arm."""

    def update(self, y: Floats) -> None:
        """Observe rewards."""


class BayesianBanditsAgent:
    """An `Agent` whose arms are numbered in the order of `agent.arms`, whatever their tokens."""

    def __init__(self, make: Callable[[int], _Agent], seed: int) -> None:
        agent = make(seed)
        require_methods(agent, ("pull", "select_for_update", "update"), "a bayesianbandits.Agent")
        required = [
            one
            for one in inspect.signature(agent.pull).parameters.values()
            if one.default is one.empty
        ]
        if required:
            name = type(agent).__name__
            raise Invalid(
                f"{name} of bayesianbandits needs a context, which experiments have not; use Agent"
            )
        self.agent = agent
        self._tokens = [arm.action_token for arm in agent.arms]
        self._indices = {token: index for index, token in enumerate(self._tokens)}

    def pull(self, arms: Sequence[int]) -> int:
        """The arm to play."""
        require_arms(arms, len(self._tokens))
        return self._indices[self.agent.pull()[0]]

    def update(self, arm: int, reward: float) -> None:
        """Observe a reward."""
        self.agent.select_for_update(self._tokens[arm]).update(np.array([reward]))


def bayesianbandits(make: Callable[[int], object]) -> AdaptedMaker:
    """A maker for `External` of agents of bayesianbandits that take no context.

    Args:
        make: Returns a new agent with as many arms as the experiment, such as
            `lambda seed: Agent([Arm(i, learner=GammaRegressor(1, 1)) for i in range(3)], ThompsonSampling(), seed)`.
    """
    return adapted_maker("bayesianbandits", make, BayesianBanditsAgent)
