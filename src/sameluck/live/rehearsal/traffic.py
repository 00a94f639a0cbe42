"""`Traffic`: synthetic users for a rehearsal: how often they come, when they answer, what goes wrong.

Delays and drifts are written as policies are: `exponential(3600)`, `lognormal(median=60, sigma=1.5)`,
`step(by=-0.1, after=5000, arm=1)`; a plain number is a constant delay, or a drift per 1,000 users.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from random import Random
from typing import Any, NamedTuple

from sameluck import text_forms
from sameluck.errors import Invalid, did_you_mean
from sameluck.validation import require_number

LONGEST_DELAY = 10 * 365 * 86_400.0  # seconds


class Constant(NamedTuple):
    """Every reward takes the same time, in seconds."""

    seconds: float = 0.0

    def check(self) -> None:
        """Refuse a time that is negative or has no end."""
        require_number("Constant.seconds", self.seconds, at_least=0, at_most=LONGEST_DELAY)

    def draw(self, luck: Random) -> float:  # noqa: ARG002 the same words for every law
        """One delay."""
        return self.seconds


class Exponential(NamedTuple):
    """Delays of the given mean, in seconds, most of them shorter and some several times as long."""

    mean: float = 60.0

    def check(self) -> None:
        """Refuse a mean that is not positive."""
        require_number("Exponential.mean", self.mean, above=0, at_most=LONGEST_DELAY)

    def draw(self, luck: Random) -> float:
        """One delay."""
        return luck.expovariate(1 / self.mean)


class Lognormal(NamedTuple):
    """Delays of the given median, in seconds; sigma, the sd of their logarithm, says how long the tail is."""

    median: float = 60.0
    sigma: float = 1.0

    def check(self) -> None:
        """Refuse a median that is not positive and a sigma without sense."""
        require_number("Lognormal.median", self.median, above=0, at_most=LONGEST_DELAY)
        require_number("Lognormal.sigma", self.sigma, at_least=0, at_most=10)

    def draw(self, luck: Random) -> float:
        """One delay."""
        return min(luck.lognormvariate(math.log(self.median), self.sigma), LONGEST_DELAY)


class Linear(NamedTuple):
    """The mean reward moves by so much with every 1,000 users; of one arm (name or index), or of all."""

    per_thousand: float = 0.0
    arm: str | int | None = None

    def check(self) -> None:
        """Refuse a slope that is not finite."""
        require_number("Linear.per_thousand", self.per_thousand)

    def shift(self, user: int) -> float:
        """By how much the mean has moved when the given user comes."""
        return self.per_thousand * user / 1_000


class Step(NamedTuple):
    """The mean reward moves once, after so many users; of one arm (name or index), or of all."""

    by: float = 0.0
    after: int = 1_000
    arm: str | int | None = None

    def check(self) -> None:
        """Refuse a step that is not finite."""
        require_number("Step.by", self.by)
        require_number("Step.after", self.after, at_least=0)

    def shift(self, user: int) -> float:
        """By how much the mean has moved when the given user comes."""
        return self.by if user >= self.after else 0.0


DELAYS = {text_forms.name_of(kind): kind for kind in (Constant, Exponential, Lognormal)}
DRIFTS = {text_forms.name_of(kind): kind for kind in (Linear, Step)}


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """Users for a rehearsal, and what goes wrong with them.

    Args:
        arrivals_per_day: How many calls for an arm, on average; they come independently of each other (Poisson).
        delay: Seconds from exposure to reward: a number, `exponential(mean)` or `lognormal(median, sigma)`.
        loss: The share of users who saw their arm but whose reward never comes: the default counts.
        unexposed: Under explicit exposure, the share of users who never see their arm: the lease runs out.
        duplicates: The share of rewards that are reported twice.
        returning: The share of calls by units that have called before.
        drift: How the mean reward moves: a number for each 1,000 users, `linear(per_thousand, arm)` or
            `step(by, after, arm)`. Rewards 0 and 1 stay so, others stay in the experiment's range.
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
    def from_dict(cls, values: Mapping[str, Any]) -> Traffic:
        """Traffic from plain values, as a file has them."""
        if not isinstance(values, Mapping):
            raise Invalid(f"traffic must be an object, got {values!r}")
        known = [item.name for item in fields(cls)]
        for name in values:
            if name not in known:
                hint = did_you_mean(str(name), known)
                raise Invalid(f"unknown option {name!r} in traffic; {hint}")
        return cls(**values)

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        return {
            **values,
            "delay": text_forms.write(self.delay),
            "drift": text_forms.write(self.drift),
        }


def _law(name: str, value: Any, kinds: Mapping[str, type], plain: type) -> Any:
    if isinstance(value, str):
        value = _number(value) if _number(value) is not None else value
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = plain(value)
    if isinstance(value, str):
        value = text_forms.parse(value, kinds, name)
    if type(value) not in kinds.values():
        raise Invalid(
            f"Traffic.{name} must be a number or one of {', '.join(kinds)}, got {value!r}"
        )
    value = text_forms.normal_form(value)
    value.check()
    return value


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
