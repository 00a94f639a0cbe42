"""`rehearse`: a live experiment on synthetic users and a virtual clock, event by event.

The experiment cannot tell: it is the same engine on the same store, called as an application would call it. Rewards
come from an environment at the simulation's own addresses: without loss, late rewards and drift the runs equal
`simulate`'s bit for bit, whatever the traffic.
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from itertools import count
from random import Random
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from sameluck.environments.base import draw
from sameluck.environments.registry import as_environment
from sameluck.errors import Conflict, Invalid, did_you_mean
from sameluck.experiment import Experiment
from sameluck.live.experiment import LiveExperiment
from sameluck.live.records import ASSIGNED, NOT_RUNNING, Description, Status
from sameluck.live.rehearsal.traffic import Traffic
from sameluck.live.replications import GOING
from sameluck.randomness.streams import REWARD, Key, stream, within, word
from sameluck.validation import require_number

DAY = 86_400.0
REPORT_EVERY = 0.2  # seconds of real time
KEPT = 10_000  # stacks and instances at hand


class VirtualClock:
    """A clock that stands still until it is moved: `sl.open(url, clock=sl.VirtualClock())` for `rehearse`."""

    def __init__(self, start: float = 0.0) -> None:
        require_number("VirtualClock.start", start, at_least=0)
        self.seconds = float(start)

    def __call__(self) -> float:
        """Seconds since 1970."""
        return self.seconds

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        require_number("the time to pass", seconds, at_least=0)
        self.seconds += seconds


class Rehearsal(NamedTuple):
    """How a rehearsal went, or goes."""

    days: float  # of virtual time
    calls: int  # for an arm
    units: int  # that called, each counted once
    turned_away: int  # calls that got the fallback arm
    late: int  # rewards that came after their window
    duplicates: int  # rewards reported again
    status: Status
    effects: dict[
        str, float
    ]  # mean difference to the control over the complete prefix; empty until the end

    @property
    def finished(self) -> bool:
        """Whether the experiment has ended."""
        return self.status.status not in GOING

    @property
    def turned_away_share(self) -> float:
        """The share of calls that got the fallback arm."""
        return self.turned_away / max(self.calls, 1)

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        more = {"finished": self.finished, "turned_away_share": self.turned_away_share}
        return {**self._asdict(), "status": self.status._asdict(), **more}

    def __str__(self) -> str:
        end = "until the experiment ended" if self.finished else "and the experiment goes on"
        lines = [
            f"rehearsed {span(self.days)} {end}",
            f"  calls    {self.calls:,} by {self.units:,} units, "
            f"{_percent(self.turned_away_share)} of them not enrolled",
            f"  users    {self.status.users:,} took part",
            f"  rewards  {self.status.settled - self.status.defaulted:,} observed, "
            f"{self.status.defaulted:,} by default, {self.late:,} came late, {self.duplicates:,} came again",
        ]
        lines += [f"  effect   {name}: {effect:+.4g}" for name, effect in self.effects.items()]
        return "\n".join(lines)


def span(days: float) -> str:
    """A virtual time in the unit that suits it."""
    for unit, size in (("days", 1.0), ("hours", 1 / 24), ("minutes", 1 / 1440)):
        if days >= 2 * size:
            return f"{days / size:,.1f} {unit}"
    return f"{days * DAY:,.0f} seconds"


def _percent(share: float) -> str:
    return f"{share:.1%}" if share < 0.9995 or share == 1 else ">99.9%"


def rehearse(
    live: LiveExperiment,
    environment: Any,
    *,
    traffic: Traffic | Mapping[str, Any] | None = None,
    days: float | None = None,
    seed: int = 0,
    progress: Callable[[Rehearsal], object] | None = None,
) -> Rehearsal:
    """Drive a live experiment with synthetic users until it ends.

    The store must have been opened with a `VirtualClock`: months of traffic pass in seconds.

    Args:
        live: The experiment, running.
        environment: Where rewards come from, as for `simulate`.
        traffic: How users come and what goes wrong; `Traffic()` if not given.
        days: Stop after so much virtual time, finished or not. Rewards that are still on their way then never come;
            `rehearse` again goes on with other users.
        seed: Of arrivals, delays and losses. Rewards follow the experiment's own seed.
        progress: Called about five times a second with how it goes.
    """
    clock = live._clock
    if not isinstance(clock, VirtualClock):
        raise Invalid("a rehearsal needs a virtual clock: sl.open(url, clock=sl.VirtualClock())")
    if days is not None:
        require_number("days", days, above=0)
    if not isinstance(traffic, Traffic):
        traffic = Traffic.from_dict(traffic or {})
    explicit = live.live.exposure == "explicit"
    if not explicit and traffic.unexposed != 0:
        raise Invalid(
            "Traffic.unexposed needs Live(exposure='explicit'): otherwise whoever is assigned an arm has seen it"
        )
    status = live.status().status
    if status not in GOING:
        raise Invalid(f"experiment {live.name!r} is {status}; only a running one can be rehearsed")
    world = _World(live.experiment, environment, live.live.reward.bounds, traffic.drift)
    drive = _Drive(live, clock, world, traffic, Random(seed), explicit=explicit)
    drive.run(math.inf if days is None else days, progress)
    return drive.so_far(effects=_effects(live))


def _effects(live: LiveExperiment) -> dict[str, float]:
    runs = live.runs()
    names = list(runs.experiment.policies)
    control = names.index(runs.experiment.control)
    if not runs.replications:
        return {}
    means = runs.rewards[:, :, -1].mean(axis=0)
    return {name: float(means[k] - means[control]) for k, name in enumerate(names) if k != control}


class _World:
    """What users answer: the environment, drifting if told to."""

    def __init__(
        self, experiment: Experiment, environment: Any, bounds: tuple[float, float], drift: Any
    ) -> None:
        self.experiment = experiment
        self.environment = as_environment(environment)
        self.environment.check(experiment.n_arms)
        for name, policy in experiment.policies.items():
            if not self.environment.binary and getattr(policy, "needs_binary", False):
                raise Invalid(
                    f"policy {name!r} needs rewards 0 and 1, but the environment has others"
                )
        self.bounds = bounds
        self.drift = drift
        self.drifting_arm = _arm(experiment, drift.arm)
        self._changes = self.environment.is_prior  # a prior: one instance a replication
        self._law = lru_cache(KEPT)(self._new_law)
        self._stack = lru_cache(KEPT)(self._new_stack)

    def _new_law(self, row: int) -> Any:
        span = range(row, row + 1)
        return self.environment.laws(self.experiment.seed, span, self.experiment.n_arms)

    def _new_stack(self, replication: int, policy: str | None, arm: int) -> Key:
        owner = self.experiment.design.reward_owner(policy or "")
        return within(stream(self.experiment.seed, REWARD, replication, owner), arm)

    def reward(self, asked: Description, user: int, luck: Random) -> float:
        """What the user answers who was asked for an entry; an audit's answer is new luck."""
        if asked.audit:
            bits = np.uint64(luck.getrandbits(64))
        else:
            stack = self._stack(asked.replication, asked.policy, asked.arm_index)
            bits = word(stack, asked.position)
        law = self._law(asked.replication if self._changes else 0)
        value = float(draw(law, 0, asked.arm_index, bits))
        shift = self.drift.shift(user)
        if shift == 0 or self.drifting_arm not in (None, asked.arm_index):
            return value
        return self._shifted(value, shift, asked, luck)

    def _shifted(self, value: float, shift: float, asked: Description, luck: Random) -> float:
        if not self.environment.binary:
            low, high = self.bounds
            return min(max(value + shift, low), high)
        replications = range(asked.replication, asked.replication + 1)
        where = (self.experiment.seed, replications, self.experiment.n_arms)
        before = float(self.environment.instance_means(*where)[0, asked.arm_index])
        after = min(max(before + shift, 0.0), 1.0)
        wrong = value == 0 if after > before else value == 1
        room = 1 - before if after > before else before
        turned = wrong and luck.random() * room < abs(after - before)
        return 1 - value if turned else value


def _arm(experiment: Experiment, given: str | int | None) -> int | None:
    names = experiment.arm_names
    if given is None or (isinstance(given, int) and 0 <= given < len(names)):
        return given
    if str(given) in names:
        return names.index(str(given))
    raise Invalid(f"drift: no arm {given!r}; {did_you_mean(str(given), names[:50])}")


Event: TypeAlias = tuple[float, int, Callable[[], object]]


class _Drive:
    """The traffic: events in the order of time."""

    def __init__(
        self,
        live: LiveExperiment,
        clock: VirtualClock,
        world: _World,
        traffic: Traffic,
        luck: Random,
        *,
        explicit: bool,
    ) -> None:
        self.live, self.clock, self.world = live, clock, world
        self.traffic, self.luck, self.explicit = traffic, luck, explicit
        self.began = clock()
        self.events: list[Event] = []
        self.numbers = count()
        self.prefix = f"{luck.getrandbits(32):08x}"  # another rehearsal brings other users
        self.calls = self.units = self.users = self.turned_away = self.late = self.duplicates = 0

    def run(self, days: float, progress: Callable[[Rehearsal], object] | None) -> None:
        until, reported = self.began + days * DAY, time.monotonic()
        self.expect_arrival()
        for moment, act in self.in_order(until):
            self.clock.advance(max(0.0, moment - self.clock()))
            act()
            if progress is not None and time.monotonic() - reported >= REPORT_EVERY:
                progress(self.so_far())
                reported = time.monotonic()

    def in_order(self, until: float) -> Iterator[tuple[float, Callable[[], object]]]:
        while self.events:
            moment, _, act = heapq.heappop(self.events)
            if moment > until:
                self.clock.advance(max(0.0, until - self.clock()))
                return
            yield moment, act

    def expect(self, seconds: float, act: Callable[[], object]) -> None:
        heapq.heappush(self.events, (self.clock() + seconds, next(self.numbers), act))

    def expect_arrival(self) -> None:
        rate = self.traffic.arrivals_per_day / DAY
        self.expect(self.luck.expovariate(rate), self.arrive)

    def arrive(self) -> None:
        answer = self.live.assign(self.unit())
        self.calls += 1
        if answer.reason == NOT_RUNNING:
            self.turned_away += 1
            return
        self.expect_arrival()
        if answer.id is None:
            self.turned_away += 1
        elif answer.reason == ASSIGNED:
            self.take_part(answer.id)

    def unit(self) -> str:
        back = self.units > 0 and self.luck.random() < self.traffic.returning
        number = self.luck.randrange(self.units) if back else self.units
        self.units += not back
        return f"{self.prefix}-{number}"

    def take_part(self, id: str) -> None:
        self.users += 1
        if self.luck.random() < self.traffic.unexposed:
            return
        if self.explicit:
            self.live.expose(id)
        if self.luck.random() < self.traffic.loss:
            return
        value = self.world.reward(self.live.describe(id), self.users, self.luck)
        self.expect(self.traffic.delay.draw(self.luck), partial(self.answer, id, value))

    def answer(self, id: str, value: float, *, again: bool = False) -> None:
        try:
            self.duplicates += self.live.reward(id, value).duplicate
        except Conflict as conflict:
            if conflict.code != "reward_late":
                raise
            self.late += not again
        if not again and self.luck.random() < self.traffic.duplicates:
            delay = self.traffic.delay.draw(self.luck)
            self.expect(delay, partial(self.answer, id, value, again=True))

    def so_far(self, effects: dict[str, float] | None = None) -> Rehearsal:
        return Rehearsal(
            days=(self.clock() - self.began) / DAY,
            calls=self.calls,
            units=self.units,
            turned_away=self.turned_away,
            late=self.late,
            duplicates=self.duplicates,
            status=self.live.status(),
            effects=effects or {},
        )
