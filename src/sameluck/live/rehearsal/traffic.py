"""`Traffic`: synthetic users of a rehearsal, with their arrivals, delays and faults.

Their rewards are the rewards of the simulation. Delays have text forms like policies: `exponential(3600)`,
`lognormal(median=60, sigma=1.5)`; a plain number is a constant delay.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from random import Random
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np

from sameluck import text_forms
from sameluck.environments.base import (
    NO_CONTEXT,
    EnvironmentLike,
    draw,
    law_at,
    prepared_parameters,
)
from sameluck.environments.registry import as_environment
from sameluck.errors import Invalid, shown
from sameluck.experiment import capabilities_of
from sameluck.live.experiment import LiveExperiment
from sameluck.live.options import MAX_SECONDS
from sameluck.live.records import AssignmentDetails
from sameluck.live.state.results import moving_caution
from sameluck.policies.base import needs_binary
from sameluck.simulation.rewards import bits_at
from sameluck.validation import is_whole, require_fields, require_number

MAX_CACHED = 10_000  # instances of a prior


class Constant(NamedTuple):
    """Constant delay, in seconds."""

    seconds: float = 0.0

    def draw(self, generator: Random) -> float:
        return self.seconds


class Exponential(NamedTuple):
    """Exponential delays with a mean in seconds."""

    mean: float = 60.0

    def draw(self, generator: Random) -> float:
        return generator.expovariate(1 / self.mean)


class Lognormal(NamedTuple):
    """Lognormal delays with a median in seconds; `sigma` is the standard deviation of their logarithm."""

    median: float = 60.0
    sigma: float = 1.0

    def draw(self, generator: Random) -> float:
        return min(generator.lognormvariate(math.log(self.median), self.sigma), MAX_SECONDS)


BOUNDS: dict[str, dict[str, float]] = {  # of the parameters of delays
    "Constant.seconds": {"at_least": 0, "at_most": MAX_SECONDS},
    "Exponential.mean": {"above": 0, "at_most": MAX_SECONDS},
    "Lognormal.median": {"above": 0, "at_most": MAX_SECONDS},
    "Lognormal.sigma": {"at_least": 0, "at_most": 10},
}

Delay: TypeAlias = Constant | Exponential | Lognormal
DELAYS = {text_forms.name_of(delay): delay for delay in (Constant, Exponential, Lognormal)}


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """Users of a rehearsal, and faults in their calls.

    Args:
        arrivals_per_day: Mean number of calls of `assign` per day; arrivals are independent (Poisson).
        delay: Seconds from exposure to reward: a number, `exponential(mean)` or `lognormal(median, sigma)`.
        loss: The share of exposed users whose reward is never reported: the default reward counts.
        unexposed: Under explicit exposure, the share of users who never see their arm: the lease ends.
        duplicates: The share of rewards that are reported twice.
        returning: The share of calls by units that have called before.
    """

    arrivals_per_day: float = 10_000.0
    delay: Any = "exponential(60)"
    loss: float = 0.0
    unexposed: float = 0.0
    duplicates: float = 0.0
    returning: float = 0.0

    def __post_init__(self) -> None:
        require_number("Traffic.arrivals_per_day", self.arrivals_per_day, above=0, at_most=1e9)
        for name in ("loss", "duplicates"):
            require_number(f"Traffic.{name}", getattr(self, name), at_least=0, at_most=1)
        for name in ("unexposed", "returning"):
            require_number(f"Traffic.{name}", getattr(self, name), at_least=0, at_most=0.99)
        object.__setattr__(self, "delay", _as_delay(self.delay))

    @classmethod
    def from_dict(cls, values: Mapping[str, object]) -> Traffic:
        """Return traffic from plain values, as in a file."""
        return cls(**require_fields("traffic", values, [item.name for item in fields(cls)]))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return vars(self) | {"delay": text_forms.write(self.delay)}


def _as_delay(value: object) -> Delay:
    """Return a delay from a delay, its text form or a number of seconds."""
    if isinstance(value, str):
        text = value
        try:
            value = float(text)
        except ValueError:
            value = text_forms.parse(text, DELAYS, "delay")
    if isinstance(value, float) or is_whole(value):
        value = Constant(value)  # type: ignore[arg-type]
    if type(value) not in DELAYS.values():
        raise Invalid(
            f"Traffic.delay must be a number or one of {', '.join(DELAYS)}, got {shown(value)}"
        )
    delay = text_forms.normal_form(cast("Delay", value))
    for field, number in delay._asdict().items():
        where = f"{type(delay).__name__}.{field}"
        require_number(where, number, **BOUNDS[where])
    return delay


class UserRewards:
    """Rewards of an environment at the simulation's addresses; in a non-stationary one a user counts as a period."""

    def __init__(self, live: LiveExperiment, environment: EnvironmentLike) -> None:
        self.experiment = live.experiment
        self.environment = as_environment(environment)
        self.environment.check(self.experiment.n_arms)
        for name, policy in self.experiment.policies.items():
            if not self.environment.binary and needs_binary(policy):
                raise Invalid(
                    f"policy {name!r} needs rewards 0 and 1, but the environment has other rewards"
                )
        self.shown = text_forms.write_short(self.environment, 160)
        moves = not capabilities_of(self.environment).is_stationary
        self.caution = moving_caution(self.experiment, self.shown) if moves else None
        self._parameters = lru_cache(MAX_CACHED)(self._parameters_of)

    def _parameters_of(self, replication: int) -> text_forms.Parameters:
        replications = range(replication, replication + 1)
        seed, n_arms = self.experiment.seed, self.experiment.n_arms
        return prepared_parameters(self.environment, seed, replications, n_arms)

    def reward(self, assignment: AssignmentDetails, user: int, generator: Random) -> float:
        """Return the reward of a user's assignment; the reward of an audit is a new draw."""
        arm, replication = assignment.arm_index, assignment.replication
        if assignment.audit:
            bits = np.uint64(generator.getrandbits(64))
        else:
            address = replication, assignment.policy, arm, assignment.position
            bits = bits_at(self.experiment, *address)
        has_instances = capabilities_of(self.environment).has_instances
        parameters = self._parameters(replication if has_instances else 0)
        return float(draw(law_at(parameters, user, NO_CONTEXT), 0, arm, bits))
