"""Whatever happens in whatever order, a live experiment ends where the simulation does.

Hypothesis makes a list of calls, good and bad, with a clock that jumps, commits that fail and stores that are
closed and opened again; it is played over and over until the experiment has ended. A model of the rules says what
every call must answer. In the end the runs must equal `simulate`'s bit for bit; where a window ran out, the
declared default stands in that place, and a plain loop over the same stacks is the oracle.
"""

import contextlib
import itertools
import sqlite3
from collections import Counter
from functools import partial
from random import Random
from typing import NamedTuple
from unittest import mock

import numpy as np
import pytest
import users
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import literal
import sameluck as sl
from nonempty import nonempty
from sameluck.live.databases.postgres_connection import DeadlineConnection
from sameluck.runs import Runs

pytestmark = pytest.mark.slow

SECOND = 1_000_000  # the model counts in microseconds, as the product does
LEASE, WINDOW = 60 * SECOND, 3_600 * SECOND
NAMES = itertools.count()
MOST_CALLS, CALLS_AFTER_THE_END = 400, 20

BINARY = [
    sl.UCB1(),
    sl.ThompsonBernoulli(first_plays=1),
    sl.EpsilonGreedy(epsilon=0.4),
    sl.Uniform(),
    sl.UCBDelta(),
]
REAL = [
    sl.ThompsonGaussian(),
    sl.UCBDelta(),
    sl.EpsilonGreedy(epsilon=0.4),
    sl.UCB1(alpha=0.5),
    sl.Uniform(),
]


class Setup(NamedTuple):
    """An experiment, how it is run, and the environment of its users."""

    experiment: sl.Experiment
    options: sl.LiveOptions
    environment: object
    checkpoints: tuple


def setup_of(luck):
    random = Random(luck)
    binary, count, arms = random.random() < 0.5, random.choice([2, 5]), random.choice([2, 3])
    horizon, replications = random.randint(3, 12), random.randint(1, 4)
    means = (0.3, 0.5, 0.7)[:arms]
    classes = random.sample(BINARY if binary else REAL, count)
    experiment = sl.Experiment(
        policies={f"policy {number}": policy for number, policy in enumerate(classes)},
        arms=arms,
        horizon=horizon,
        replications=replications,
        design=random.choice([sl.Replay(), sl.Naive(), sl.Replay(share_noise=True)]),
        seed=luck,
    )
    live = sl.LiveOptions(
        reward=sl.Reward(default=0.0 if binary else -0.5, window_seconds=WINDOW / SECOND),
        exposure=random.choice(["implicit", "explicit"]),
        lease_seconds=LEASE / SECOND,
        order=random.choice(["lockstep", "phase"]),
        open_replications=random.randint(1, replications),
        batch=random.choice([1, 1, 3, {"policy 0": 4}]),
    )
    environment = sl.Bernoulli(means) if binary else sl.Gaussian(means)
    return Setup(experiment, live, environment, tuple(sorted({1, horizon // 2 + 1, horizon})))


CALM = ["assign"] * 4 + ["reward"] * 4 + ["expose"] * 2
CALM += ["again", "duplicate", "conflicting", "void", "tick", "restart", "moment", "fault"]
WILD = [*CALM, "lease", "window", "edge", "edge", "edge"]


def calls_of(content):
    names = WILD if content[0] % 3 else CALM
    pairs = zip(content[1::2], content[2::2], strict=False)
    return [(names[index % len(names)], number) for index, number in pairs]


# Numbers and bytes rather than nested strategies: Hypothesis then tries cases that have little in common.
setups = st.builds(setup_of, st.integers(0, 2**64 - 1))
prepared = st.binary(min_size=21, max_size=101).map(calls_of)


class Broken(Exception):
    """What was going to be committed was not."""


class Faults:
    """Lets the next COMMIT of a change fail when armed, whichever the database."""

    def __init__(self):
        self.armed = False

    def before(self, talk, statement):
        if statement.startswith("BEGIN"):
            talk.reads = "READ ONLY" in statement
        if self.armed and statement == "COMMIT" and not talk.reads:
            self.armed = False
            raise Broken

    @contextlib.contextmanager
    def installed(self):
        faults, send = self, DeadlineConnection.send

        class Fallible(sqlite3.Connection):
            def execute(self, statement, *rest):
                faults.before(self, statement)
                return super().execute(statement, *rest)

        def fallible(connection, statement, *rest):
            faults.before(connection, statement)
            send(connection, statement, *rest)

        with (
            mock.patch.object(sqlite3, "connect", partial(sqlite3.connect, factory=Fallible)),
            mock.patch.object(DeadlineConnection, "send", fallible),
        ):
            yield


class Assignment:
    """The state that the rules give one assignment."""

    def __init__(self, id, unit, arm, place, due):
        self.id, self.unit, self.arm, self.place, self.due = id, unit, arm, place, due
        self.state = "assigned"  # then exposed, settled, defaulted or voided
        self.value = None

    @property
    def live(self):
        return self.state in ("assigned", "exposed")


class Schedule:
    """The experiment, the stores that serve it, and the model of what they must answer."""

    def __init__(self, setup, urls, faults):
        self.faults = faults
        self.setup, self.urls, self.now = setup, urls, 1_700_000_000 * SECOND
        self.name = f"experiment {next(NAMES)}"
        self.stores = [sl.open(url, clock=self.clock) for url in urls]
        first = self.stores[0].start(self.name, setup.experiment, options=setup.options)
        self.lives = [first, *(store.load(self.name) for store in self.stores[1:])]
        self.users = users.Users(first.experiment, setup.environment)
        self.assignments = []
        self.units = 0
        self.calls_left = MOST_CALLS

    def clock(self):
        return self.now / SECOND

    def close(self):
        for store in self.stores:
            store.close()

    def run(self, calls):
        for name, number in itertools.cycle(calls):
            self.expire()
            with contextlib.suppress(Broken):  # then it is as if the call had not been made
                getattr(self, name)(self.lives[number % len(self.lives)], number)
            self.calls_left -= 1
            if not self.calls_left:
                break

    # The model

    def expire(self):
        for assignment in self.assignments:
            if assignment.live and assignment.due <= self.now:
                exposed = assignment.state == "exposed" or self.setup.options.exposure == "implicit"
                assignment.state = "defaulted" if exposed else "voided"

    def pick(self, number, *states):
        fitting = [assignment for assignment in self.assignments if assignment.state in states]
        return fitting[number % len(fitting)] if fitting else None

    def standing(self, unit):
        return next((s for s in self.assignments if s.unit == unit and s.state != "voided"), None)

    @property
    def defaults(self):
        return {
            assignment.place for assignment in self.assignments if assignment.state == "defaulted"
        }

    # The calls

    def assign(self, live, _):
        self.units += 1
        self.enrol(live, self.units - 1)

    def again(self, live, number):
        if self.units:
            self.enrol(live, number % self.units)

    def enrol(self, live, unit):
        given, before = live.assign(unit), self.standing(unit)
        if before is not None:
            assert (given.id, given.arm, given.reason) == (before.id, before.arm, "STICKY")
        elif given.reason == "ASSIGNED":
            self.add_assignment(live, unit, given)
        elif given.reason == "STICKY":  # its lease is over, but no call has expired it
            assert given.id in [
                assignment.id for assignment in self.assignments if assignment.unit == unit
            ]
        else:
            assert given.id is None
            assert not given.enrolled
            if given.reason == "NOT_RUNNING":
                self.calls_left = min(self.calls_left, CALLS_AFTER_THE_END)

    def add_assignment(self, live, unit, given):
        entry = users.place_of(live, given.id)
        taken = {
            assignment.place for assignment in self.assignments if assignment.state != "voided"
        }
        assert entry not in taken
        assert given.arm == live.experiment.arm_names[entry.arm]
        patience = LEASE if live.options.exposure == "explicit" else WINDOW
        self.assignments.append(Assignment(given.id, unit, given.arm, entry, self.now + patience))

    def expose(self, live, number):
        if (assignment := self.pick(number, "assigned", "exposed", "voided")) is None:
            return
        if assignment.state == "voided":
            refused(live.expose, assignment.id, code="assignment_voided")
            return
        live.expose(assignment.id)
        if assignment.state == "assigned":
            assignment.state = "exposed"
            if live.options.exposure == "explicit":
                assignment.due = self.now + WINDOW

    def reward(self, live, number):
        if (assignment := self.pick(number, "assigned", "exposed")) is None:
            return
        value = self.users.reward_at(assignment.place)
        assert live.reward(assignment.id, value) == (True, False, value)
        assignment.state, assignment.value = "settled", value

    def duplicate(self, live, number):
        if (assignment := self.pick(number, "settled", "defaulted", "voided")) is None:
            return
        value = self.users.reward_at(assignment.place)
        if assignment.state == "settled":
            assert live.reward(assignment.id, value) == (False, True, value)
        else:
            code = "reward_late" if assignment.state == "defaulted" else "assignment_voided"
            refused(live.reward, assignment.id, value, code=code)

    def conflicting(self, live, number):
        if (assignment := self.pick(number, "settled")) is not None:
            refused(live.reward, assignment.id, 1 - assignment.value, code="reward_conflict")

    def void(self, live, number):
        if (assignment := self.pick(number, "assigned", "exposed", "settled", "voided")) is None:
            return
        codes = {"exposed": "already_exposed", "settled": "already_settled"}
        if assignment.state in codes:
            refused(live.void, assignment.id, code=codes[assignment.state])
        else:
            live.void(assignment.id)
            assignment.state = "voided"

    def tick(self, live, _):
        live.tick()

    def fault(self, _, __):
        self.faults.armed = True

    def moment(self, _, number):
        self.now += number * SECOND // 10

    def lease(self, _, __):
        self.now += LEASE

    def window(self, _, __):
        self.now += WINDOW

    def edge(self, _, number):
        """To the last moment before, or the very moment at which an assignment is due."""
        if (assignment := self.pick(number, "assigned", "exposed")) is not None:
            self.now = max(self.now, assignment.due - number % 2)

    def restart(self, _, number):
        which, self.faults.armed = number % len(self.stores), False
        self.stores[which].close()
        self.stores[which] = sl.open(self.urls[which], clock=self.clock)
        self.lives[which] = self.stores[which].load(self.name)


def refused(call, *arguments, code):
    with pytest.raises(sl.Conflict) as caught:
        call(*arguments)
    assert caught.value.code == code


def oracle(experiment, checkpoints, value):
    """Every policy in turn reads the stacks of its replication, period by period."""
    shape = (experiment.replications, len(experiment.policies), len(checkpoints))
    rewards, pulls = np.zeros(shape), np.zeros((*shape, experiment.n_arms), np.int64)
    shared = experiment.design.reward_owner("a") == experiment.design.reward_owner("b")
    for replication, (column, name) in itertools.product(
        range(experiment.replications), enumerate(experiment.policies)
    ):
        history, earned, pulled = [], 0.0, Counter()
        for period in range(1, experiment.horizon + 1):
            arm = literal.choose(experiment, replication, name, history, period)
            owner = None if shared else name
            reward = value(users.Place(replication, owner, arm, pulled[arm]))
            history.append((arm, reward))
            earned += reward
            pulled[arm] += 1
            if period in checkpoints:
                row = checkpoints.index(period)
                rewards[replication, column, row] = earned
                pulls[replication, column, row] = [pulled[a] for a in range(experiment.n_arms)]
    spent = experiment.design.interactions(pulls)
    return Runs(experiment, np.array(checkpoints), rewards, pulls, spent)


def check(setup, calls, urls):
    faults = Faults()
    with faults.installed():
        schedule = Schedule(setup, urls, faults)
        try:
            schedule.run(calls)
            faults.armed = False
            schedule.expire()
            users.finish(schedule.lives[-1], schedule.users)
            for live in schedule.lives:
                compare(schedule, live)
        finally:
            schedule.close()


def compare(schedule, live):
    setup, defaults = schedule.setup, schedule.defaults
    runs = live.runs(setup.checkpoints)

    def value(place):
        return (
            setup.options.reward.default if place in defaults else schedule.users.reward_at(place)
        )

    users.assert_same(runs, oracle(live.experiment, setup.checkpoints, value))
    if not defaults:
        users.assert_same(runs, schedule.users.simulated(setup.checkpoints))
    status = live.status()
    assert status.status == "complete"
    assert status.defaulted == len(defaults)
    assert status.users == status.settled == runs.interactions[:, -1].sum()
    assert live.verify() == live.experiment.replications


@settings(max_examples=30)
@given(setups, prepared)
def test_sqlite(tmp_path_factory, setup, calls):
    folder = tmp_path_factory.mktemp("confluence")
    check(setup, calls, [f"sqlite:///{folder}/live.db?synchronous=normal"])


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(setups, prepared)
def test_two_stores_on_postgresql(postgres_url, setup, calls):
    check(setup, calls, [postgres_url, postgres_url])


def test_a_failed_commit_leaves_nothing_in_memory(postgres_url):
    """One store fails to write a reward, the other writes another: as many rewards as the first had in mind."""
    setup = Setup(
        sl.Experiment(
            policies={"a": sl.UCB1(), "b": sl.EpsilonGreedy(epsilon=0.4)},
            arms=2,
            horizon=12,
            replications=1,
            design=sl.Naive(),
            seed=1,
        ),
        sl.LiveOptions(batch=4),
        sl.Bernoulli((0.3, 0.7)),
        (6, 12),
    )
    faults = Faults()
    with faults.installed():
        schedule = Schedule(setup, [postgres_url, postgres_url], faults)
        live, other = schedule.lives
        ids = [live.assign(unit).id for unit in range(8)]
        for first, second in nonempty(zip(ids[::2], ids[1::2], strict=True)):
            faults.armed = True
            with pytest.raises(Broken):
                live.reward(first, schedule.users.reward(live, first))
            other.reward(second, schedule.users.reward(other, second))
        users.finish(live, schedule.users)
        compare(schedule, live)
        schedule.close()
