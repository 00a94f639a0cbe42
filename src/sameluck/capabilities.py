"""`Capabilities`: what may be asked of the rewards of an environment under a design.

Metrics, adjustments, twins, plans and live experiments ask here, and nowhere else compare kinds of environments or
designs.
"""

from __future__ import annotations

from typing import NamedTuple

from sameluck.design import Design
from sameluck.environments.base import Environment


class Capabilities(NamedTuple):
    """Properties of rewards that decide which questions have an answer."""

    is_simulated: (
        bool  # the environment is known, so that its rewards can be read and simulated again
    )
    has_arm_means: bool  # each arm has one true mean in a replication, and it is known
    has_instances: bool  # each replication has its own arms, drawn from a prior
    is_stationary: (
        bool  # an arm's distribution does not move with the period; assumed of real users
    )
    has_stacks: bool  # the k-th reward of an arm is one entry, in whatever period it is read

    @property
    def is_iid(self) -> bool:
        """Return whether the rewards of an arm are i.i.d. over periods and replications."""
        return self.is_stationary and not self.has_instances


def capabilities_of(environment: Environment | None, design: Design | None = None) -> Capabilities:
    """Return the capabilities of an environment, None for real users, under a design."""
    is_stationary = environment is None or not environment.is_moving
    return Capabilities(
        is_simulated=environment is not None,
        has_arm_means=environment is not None and is_stationary,
        has_instances=environment is not None and environment.is_prior,
        is_stationary=is_stationary,
        has_stacks=design is None or not design.indexed_by_period,
    )
