"""`rehearse`: a live experiment on synthetic users and a virtual clock, event by event.

The experiment runs on the same engine and store as with real users, called as an application calls it. Rewards come
from an environment at the simulation's addresses. Without loss and late rewards, the runs therefore equal the runs of
`simulate` bit for bit, whatever the traffic. In a non-stationary environment, such as `Drifting`, a reward has the
distribution of the moment at which its user took part, and a policy that replays it later gets the same reward.

Delays have text forms like policies: `exponential(3600)`, `lognormal(median=60, sigma=1.5)`; a plain number is a
constant delay.
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache, partial
from itertools import count
from random import Random
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np

from sameluck import text_forms
from sameluck.environments.base import (
    EnvironmentLike,
    draw,
    law_at,
    prepared_parameters,
)
from sameluck.environments.registry import as_environment
from sameluck.errors import Conflict, Invalid, shown
from sameluck.experiment import capabilities_of
from sameluck.live.databases.rows import ACTIVE
from sameluck.live.experiment import LiveExperiment
from sameluck.live.options import DAY, MAX_SECONDS
from sameluck.live.records import ASSIGNED, NOT_RUNNING, AssignmentDetails, Status
from sameluck.live.state.results import moving_caution
from sameluck.policies.base import needs_binary
from sameluck.simulation.rewards import bits_at
from sameluck.validation import (
    is_whole,
    require_callable,
    require_fields,
    require_number,
    require_whole,
)

MAX_CACHED = 10_000  # instances of a prior
REPORT_SECONDS = 0.2  # of real time, between two calls of `progress`


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
        return float(draw(law_at(parameters, user), 0, None, arm, bits))


class VirtualClock:
    """Clock that changes only when it is advanced: `sl.open(url, clock=sl.VirtualClock())` for `rehearse`."""

    def __init__(self, start: float = 0.0) -> None:
        require_number("VirtualClock.start", start, at_least=0)
        self.seconds = float(start)

    def __call__(self) -> float:
        """Return the seconds since 1970."""
        return self.seconds

    def advance(self, seconds: float) -> None:
        """Advance the clock."""
        require_number("the time to pass", seconds, at_least=0)
        self.seconds += seconds


class Rehearsal(NamedTuple):
    """Result of a rehearsal, or its state so far."""

    days: float  # of virtual time
    calls: int  # of `assign`
    units: int  # distinct units that called
    turned_away: int  # calls that got the fallback arm
    late: int  # rewards reported after their window
    duplicates: int  # rewards reported again
    status: Status
    effects: dict[str, float]  # mean differences to the control; empty until the end
    caution: str | None = None  # claims that do not hold, if the environment is non-stationary

    @property
    def finished(self) -> bool:
        """True if the experiment has ended."""
        return self.status.status not in ACTIVE

    @property
    def turned_away_share(self) -> float:
        """Share of calls that got the fallback arm."""
        return self.turned_away / max(self.calls, 1)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        more = {"finished": self.finished, "turned_away_share": self.turned_away_share}
        return {**self._asdict(), "status": self.status._asdict(), **more}

    def __str__(self) -> str:
        share = self.turned_away_share
        percent = f"{share:.1%}" if share < 0.9995 or share == 1 else ">99.9%"
        end = "until the experiment ended" if self.finished else "and the experiment has not ended"
        lines = [
            f"rehearsed {days_text(self.days)} {end}",
            f"  calls    {self.calls:,} by {self.units:,} units, {percent} of them not enrolled",
            f"  users    {self.status.users:,} took part",
            f"  rewards  {self.status.settled - self.status.defaulted:,} observed, "
            f"{self.status.defaulted:,} by default, {self.late:,} came late, {self.duplicates:,} came again",
        ]
        lines += [f"  effect   {name}: {effect:+.4g}" for name, effect in self.effects.items()]
        lines += [f"  caution  {self.caution}"] if self.caution else []
        return "\n".join(lines)


def days_text(days: float) -> str:
    """Return a virtual time as text, in days, hours, minutes or seconds."""
    for unit, size in (("days", 1.0), ("hours", 1 / 24), ("minutes", 1 / 1440)):
        if days >= 2 * size:
            return f"{days / size:,.1f} {unit}"
    return f"{days * DAY:,.0f} seconds"


def rehearse(
    live: LiveExperiment,
    environment: EnvironmentLike,
    *,
    traffic: Traffic | Mapping[str, object] | None = None,
    days: float | None = None,
    seed: int = 0,
    progress: Callable[[Rehearsal], object] | None = None,
) -> Rehearsal:
    """Run a live experiment on synthetic users until it ends.

    The store must have been opened with a `VirtualClock`: months of traffic pass in seconds.

    Args:
        live: The experiment, running.
        environment: Where rewards come from, as for `simulate`. In a non-stationary environment every user who takes
            part counts as a period; the history and the results then say so.
        traffic: Arrivals, delays and faults; `Traffic()` if not given.
        days: Stop after this virtual time even if the experiment has not ended. Rewards that are outstanding then
            are never reported; another call of `rehearse` continues with other users.
        seed: The seed of arrivals, delays and losses. Rewards follow the experiment's seed.
        progress: Called about five times per second with the state so far.
    """
    if not isinstance(live, LiveExperiment):
        raise Invalid(f"rehearse needs a live experiment first, got {shown(live)}")
    clock = live.settings.clock
    if not isinstance(clock, VirtualClock):
        raise Invalid("a rehearsal needs a virtual clock: sl.open(url, clock=sl.VirtualClock())")
    if days is not None:
        require_number("days", days, above=0)
    generator = Random(require_whole("seed", seed, 0))
    require_callable("progress", progress)
    if not isinstance(traffic, Traffic):
        traffic = Traffic.from_dict({} if traffic is None else traffic)
    if live.options.exposure != "explicit" and traffic.unexposed != 0:
        raise Invalid(
            "Traffic.unexposed needs LiveOptions(exposure='explicit'): otherwise an assigned unit counts as exposed"
        )
    status = live.status().status
    if status not in ACTIVE:
        name = f"experiment {live.name!r}"
        raise Invalid(f"{name} is {status}; only a running experiment can be rehearsed")
    rewards = UserRewards(live, environment)
    if rewards.caution is not None:
        replications = live.open_replications
        record = partial(replications.history.record, what="rehearsed on", subject=rewards.shown)
        replications.database.write(record)
    loop = _EventLoop(live, clock, rewards, traffic, generator)
    loop.run(math.inf if days is None else days, progress)
    return loop.summary(_effects(live))


def _effects(live: LiveExperiment) -> dict[str, float]:
    runs = live.runs()
    if not runs.replications:
        return {}
    means = dict(zip(runs.experiment.policies, runs.rewards[:, :, -1].mean(axis=0), strict=True))
    control = means.pop(runs.experiment.control)
    return {name: float(mean - control) for name, mean in means.items()}


Event: TypeAlias = tuple[float, int, Callable[[], object]]  # its time, its number, what to call


class _EventLoop:
    """Arrivals and rewards in order of time."""

    def __init__(
        self,
        live: LiveExperiment,
        clock: VirtualClock,
        rewards: UserRewards,
        traffic: Traffic,
        generator: Random,
    ) -> None:
        self.live, self.clock, self.rewards = live, clock, rewards
        self.traffic, self.generator = traffic, generator
        self.explicit = live.options.exposure == "explicit"
        self.began = clock()
        self.events: list[Event] = []
        self.numbers = count()
        self.prefix = f"{generator.getrandbits(32):08x}"  # another seed brings other units
        self.calls = self.units = self.turned_away = self.late = self.duplicates = 0
        self.users = live.status().users

    def run(self, days: float, progress: Callable[[Rehearsal], object] | None) -> None:
        reported = time.monotonic()
        self.schedule_arrival()
        for act in self.due(self.began + days * DAY):
            act()
            if progress is not None and time.monotonic() - reported >= REPORT_SECONDS:
                progress(self.summary({}))
                reported = time.monotonic()

    def due(self, until: float) -> Iterator[Callable[[], object]]:
        """Yield the events up to a time, with the clock set to each event's time."""
        while self.events:
            moment, _, act = heapq.heappop(self.events)
            self.clock.advance(max(0.0, min(moment, until) - self.clock()))
            if moment > until:
                return
            yield act

    def schedule(self, seconds: float, act: Callable[[], object]) -> None:
        heapq.heappush(self.events, (self.clock() + seconds, next(self.numbers), act))

    def schedule_arrival(self) -> None:
        rate = self.traffic.arrivals_per_day / DAY
        self.schedule(self.generator.expovariate(rate), self.arrive)

    def arrive(self) -> None:
        assignment = self.live.assign(self.unit(), strict=True)
        self.calls += 1
        self.turned_away += assignment.id is None
        if assignment.reason == NOT_RUNNING:
            return
        self.schedule_arrival()
        if assignment.id is not None and assignment.reason == ASSIGNED:
            self.take_part(assignment.id)

    def unit(self) -> str:
        returns = self.units > 0 and self.generator.random() < self.traffic.returning
        number = self.generator.randrange(self.units) if returns else self.units
        self.units += not returns
        return f"{self.prefix}-{number}"

    def take_part(self, id: str) -> None:
        self.users += 1
        if self.generator.random() < self.traffic.unexposed:
            return
        if self.explicit:
            self.live.expose(id)
        if self.generator.random() < self.traffic.loss:
            return
        value = self.rewards.reward(self.live.describe(id), self.users, self.generator)
        self.schedule(self.traffic.delay.draw(self.generator), partial(self.report, id, value))

    def report(self, id: str, value: float, *, again: bool = False) -> None:
        try:
            self.duplicates += self.live.reward(id, value).duplicate
        except Conflict as conflict:
            if conflict.code != "reward_late":
                raise
            self.late += not again
        if not again and self.generator.random() < self.traffic.duplicates:
            delay = self.traffic.delay.draw(self.generator)
            self.schedule(delay, partial(self.report, id, value, again=True))

    def summary(self, effects: dict[str, float]) -> Rehearsal:
        counts = self.calls, self.units, self.turned_away, self.late, self.duplicates
        days = (self.clock() - self.began) / DAY
        return Rehearsal(days, *counts, self.live.status(), effects, self.rewards.caution)
