"""`Traffic`: synthetic users for a rehearsal: how often they arrive, how long rewards take, what goes wrong.

Their rewards are those of the simulation, changed by drift. Delays and drifts have text forms as policies have:
`exponential(3600)`, `lognormal(median=60, sigma=1.5)`, `step(by=-0.1, after=5000, arm=1)`; a plain number is a
constant delay, or a drift per 1,000 users. A drift applies to the user who is asked: a policy that replays the reward
later gets the one of that time.
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
from sameluck.environments.base import EnvironmentLike, compiled_law, draw
from sameluck.environments.registry import as_environment
from sameluck.errors import Invalid, did_you_mean, shown
from sameluck.experiment import Experiment
from sameluck.live.experiment import LiveExperiment
from sameluck.live.records import Description
from sameluck.policies.base import needs_binary
from sameluck.simulation.rewards import bits_at
from sameluck.validation import is_whole, require_fields, require_number

LONGEST = 10 * 365 * 86_400.0  # seconds of a delay
CACHED = 10_000  # instances of a prior


class Constant(NamedTuple):
    """Every reward takes the same time, in seconds."""

    seconds: float = 0.0

    def draw(self, generator: Random) -> float:  # noqa: ARG002 as the others
        """One delay."""
        return self.seconds


class Exponential(NamedTuple):
    """Exponential delays of the given mean, in seconds."""

    mean: float = 60.0

    def draw(self, generator: Random) -> float:
        """One delay."""
        return generator.expovariate(1 / self.mean)


class Lognormal(NamedTuple):
    """Lognormal delays of the given median, in seconds; `sigma` is the sd of their logarithm."""

    median: float = 60.0
    sigma: float = 1.0

    def draw(self, generator: Random) -> float:
        """One delay."""
        return min(generator.lognormvariate(math.log(self.median), self.sigma), LONGEST)


class Linear(NamedTuple):
    """The mean reward changes linearly, per 1,000 users; that of one arm (name or index) or of all."""

    per_thousand: float = 0.0
    arm: str | int | None = None

    def shift(self, user: int) -> float:
        """The change of the mean at the given user."""
        return self.per_thousand * user / 1_000


class Step(NamedTuple):
    """The mean reward changes once, after a number of users; that of one arm (name or index) or of all."""

    by: float = 0.0
    after: int = 1_000
    arm: str | int | None = None

    def shift(self, user: int) -> float:
        """The change of the mean at the given user."""
        return self.by if user >= self.after else 0.0


class Switching(NamedTuple):
    """The mean reward switches between two values, after every so many users; that of one arm or of all."""

    by: float = 0.0
    every: int = 1_000
    arm: str | int | None = None

    def shift(self, user: int) -> float:
        """The change of the mean at the given user: none for the first so many, `by` for the next, and so on."""
        return self.by if max(user - 1, 0) // self.every % 2 else 0.0


BOUNDS: dict[str, dict[str, float]] = {  # of every number of a delay or drift
    "Constant.seconds": {"at_least": 0, "at_most": LONGEST},
    "Exponential.mean": {"above": 0, "at_most": LONGEST},
    "Lognormal.median": {"above": 0, "at_most": LONGEST},
    "Lognormal.sigma": {"at_least": 0, "at_most": 10},
    "Linear.per_thousand": {},
    "Step.by": {},
    "Step.after": {"at_least": 0},
    "Switching.by": {},
    "Switching.every": {"at_least": 1},
}

Delay: TypeAlias = Constant | Exponential | Lognormal
Drift: TypeAlias = Linear | Step | Switching
DELAYS = {text_forms.name_of(kind): kind for kind in (Constant, Exponential, Lognormal)}
DRIFTS = {text_forms.name_of(kind): kind for kind in (Linear, Step, Switching)}


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """The users of a rehearsal and what goes wrong with them.

    Args:
        arrivals_per_day: Mean number of calls of `assign` per day; arrivals are independent (Poisson).
        delay: Seconds from exposure to reward: a number, `exponential(mean)` or `lognormal(median, sigma)`.
        loss: The share of exposed users whose reward is never reported: the default reward counts.
        unexposed: Under explicit exposure, the share of users who never see their arm: the lease ends.
        duplicates: The share of rewards that are reported twice.
        returning: The share of calls by units that have called before.
        drift: Change of the mean reward: a number per 1,000 users, `linear(per_thousand, arm)`,
            `step(by, after, arm)` or `switching(by, every, arm)`. Rewards of 0 and 1 stay 0 and 1, others stay in the
            experiment's range.
    """

    arrivals_per_day: float = 10_000.0
    delay: Any = "exponential(60)"
    loss: float = 0.0
    unexposed: float = 0.0
    duplicates: float = 0.0
    returning: float = 0.0
    drift: Any = 0.0

    def __post_init__(self) -> None:
        """Check every number and read every text form."""
        require_number("Traffic.arrivals_per_day", self.arrivals_per_day, above=0, at_most=1e9)
        for name in ("loss", "duplicates"):
            require_number(f"Traffic.{name}", getattr(self, name), at_least=0, at_most=1)
        for name in ("unexposed", "returning"):
            require_number(f"Traffic.{name}", getattr(self, name), at_least=0, at_most=0.99)
        object.__setattr__(self, "delay", _law("delay", self.delay, DELAYS, Constant))
        object.__setattr__(self, "drift", _law("drift", self.drift, DRIFTS, Linear))

    @classmethod
    def from_dict(cls, values: Mapping[str, object]) -> Traffic:
        """Traffic from plain values, as a file has them."""
        return cls(**require_fields("traffic", values, [item.name for item in fields(cls)]))

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        texts = {name: text_forms.write(getattr(self, name)) for name in ("delay", "drift")}
        return vars(self) | texts


def _law(name: str, value: object, kinds: Mapping[str, type], plain: type) -> Delay | Drift:
    """A delay or drift from itself, its text form or a number, which is one of class `plain`."""
    if isinstance(value, str):
        text = value
        try:
            value = float(text)
        except ValueError:
            value = text_forms.parse(text, kinds, name)
    if isinstance(value, float) or is_whole(value):
        value = plain(value)
    if type(value) not in kinds.values():
        raise Invalid(
            f"Traffic.{name} must be a number or one of {', '.join(kinds)}, got {shown(value)}"
        )
    law = text_forms.normal_form(cast("Delay | Drift", value))
    for field, number in law._asdict().items():
        where = f"{type(law).__name__}.{field}"
        if where in BOUNDS:
            require_number(where, number, **BOUNDS[where])
    return law


class UserRewards:
    """The rewards of an environment at the simulation's addresses; `drift` changes them with the number of users."""

    def __init__(self, live: LiveExperiment, environment: EnvironmentLike, drift: Drift) -> None:
        self.experiment = live.experiment
        self.environment = as_environment(environment)
        self.environment.check(self.experiment.n_arms)
        for name, policy in self.experiment.policies.items():
            if not self.environment.binary and needs_binary(policy):
                raise Invalid(
                    f"policy {name!r} needs rewards 0 and 1, but the environment has others"
                )
        self.bounds = live.live.reward.bounds
        self.drift = drift
        self.drifted = 0  # rewards whose mean was another than the environment's
        self.drifting_arm = _arm_index(self.experiment, drift.arm)
        self._law = lru_cache(CACHED)(self._law_of)

    def _law_of(self, replication: int) -> text_forms.Parameters:
        replications = range(replication, replication + 1)
        experiment = self.experiment
        return compiled_law(self.environment, experiment.seed, replications, experiment.n_arms)

    def reward(self, assignment: Description, user: int, generator: Random) -> float:
        """The reward of one assignment; that of an audit is a new draw."""
        arm, replication = assignment.arm_index, assignment.replication
        if assignment.audit:
            bits = np.uint64(generator.getrandbits(64))
        else:
            address = replication, assignment.policy, arm, assignment.position
            bits = bits_at(self.experiment, *address)
        law = self._law(replication if self.environment.is_prior else 0)
        value, shift = float(draw(law, 0, arm, bits)), self.drift.shift(user)
        if shift == 0 or self.drifting_arm not in (None, arm):
            return value
        self.drifted += 1
        if self.environment.binary:
            return self._shifted_binary(value, shift, assignment, generator)
        low, high = self.bounds
        return min(max(value + shift, low), high)

    def _shifted_binary(
        self, value: float, shift: float, assignment: Description, generator: Random
    ) -> float:
        """A reward of 0 or 1, flipped with the probability that moves the arm's mean by the shift."""
        replications = range(assignment.replication, assignment.replication + 1)
        means = self.environment.instance_means(
            self.experiment.seed, replications, self.experiment.n_arms
        )
        before = float(means[0, assignment.arm_index])
        after = min(max(before + shift, 0.0), 1.0)
        may_flip = value == 0 if after > before else value == 1
        share = 1 - before if after > before else before
        flips = may_flip and generator.random() * share < abs(after - before)
        return 1 - value if flips else value


def _arm_index(experiment: Experiment, arm: str | int | None) -> int | None:
    names = experiment.arm_names
    if arm is None or (isinstance(arm, int) and 0 <= arm < len(names)):
        return arm
    if str(arm) in names:
        return names.index(str(arm))
    raise Invalid(f"drift: no arm {arm!r}; {did_you_mean(str(arm), names[:50])}")
