"""Two processes of four threads on PostgreSQL: the reward of every assignment is a register that is written once.

Whatever races with whatever, there is one winner, every caller gets the same one, and no caller gets a winner
who had not begun yet. One process's clock stands just before the end of the window, the other's just after.
"""

import json
import random
import subprocess
import sys
import time
from collections import Counter, defaultdict
from itertools import chain
from typing import NamedTuple

import psycopg
import pytest
import racer

import sameluck as sl

pytestmark = pytest.mark.slow

NAME, START, WINDOW = "race", 1_700_000_000, 100
DEFAULT = -1.0
AT_ONCE = 200  # assignments that wait for a reward at the same time

# Naive, in batches as long as the horizon: every entry of an open replication is requested at once.
EXPERIMENT = sl.Experiment(
    policies={"a": sl.Uniform(), "b": sl.Uniform()},
    arms=2,
    horizon=50,
    replications=20,
    design="naive",
    seed=1,
)
LIVE = sl.LiveOptions(
    reward=sl.Reward(default=DEFAULT, window_seconds=WINDOW), batch=50, open_replications=2
)


class Answer(NamedTuple):
    """The answer that a thread got about an assignment, and the times of its call."""

    id: str
    value: float
    outcome: str
    began: float
    ended: float


class Racers:
    """Two processes that serve an experiment, and then another one."""

    def __init__(self):
        command = [sys.executable, racer.__file__]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.processes = [subprocess.Popen(command, **pipes) for _ in range(2)]

    def answers(self, *commands):
        for process, command in zip(self.processes, commands, strict=True):
            process.stdin.write(json.dumps(command) + "\n")
            process.stdin.flush()
        return [json.loads(process.stdout.readline()) for process in self.processes]

    def serve(self, *place):
        """Open the experiment of this URL and name; without one, only close the last."""
        assert self.answers(place, place) == ["ready", "ready"]

    def race(self, *commands):
        """The answers that the threads of both processes got."""
        return [[Answer(*row) for row in heard] for heard in self.answers(*commands)]

    def close(self):
        for process in self.processes:
            process.stdin.close()
            process.stdout.close()
            process.wait(60)


@pytest.fixture(scope="module")
def racers():
    started = Racers()
    yield started
    started.close()


@pytest.fixture
def race(postgres_url, racers):
    now = [START]
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        name = postgres_url.rpartition("/")[2]
        connection.execute(f"ALTER DATABASE {name} SET deadlock_timeout = '300s'")
    with sl.open(postgres_url, clock=lambda: now[0]) as store:
        store.start(NAME, EXPERIMENT, options=LIVE)
        racers.serve(postgres_url, NAME)
        yield Race(store.load(NAME), racers, postgres_url)
        racers.serve()


class Race:
    """The experiment as a third process sees it."""

    def __init__(self, live, racers, url):
        self.live, self.racers, self.url = live, racers, url
        self.units = 0
        self.winners = Counter()

    def enrol(self):
        """As many assignments as there are entries to request."""
        ids = [self.live.assign(self.units + unit).id for unit in range(AT_ONCE)]
        self.units += AT_ONCE
        assert None not in ids
        return ids

    def check(self, *heard):
        """One order explains all answers about each assignment."""
        by_id = defaultdict(list)
        for answer in chain.from_iterable(heard):
            by_id[answer.id].append(answer)
        states = self.states()
        for id, answers in by_id.items():
            check_register(states[id], answers)
            self.winners[states[id][1]] += 1

    def states(self):
        sql = """SELECT e.assignment, e.value, e.source, COUNT(v.id), COUNT(v.id) FILTER (WHERE v.outcome = 'applied')
                 FROM entry e LEFT JOIN reward_event v ON v.assignment = e.assignment
                 WHERE e.state = 'settled' GROUP BY e.assignment, e.value, e.source"""
        with psycopg.connect(self.url) as connection:
            return {id: remaining for id, *remaining in connection.execute(sql).fetchall()}


def check_register(state, answers):
    value, source, noted, applied = state
    outcomes = Counter(answer.outcome for answer in answers)
    assert noted == len(answers)
    assert applied == outcomes["applied"] == (source == "observed")
    if source == "default":
        assert value == DEFAULT
        assert set(outcomes) == {"reward_late"}
        return
    (winner,) = [answer for answer in answers if answer.outcome == "applied"]
    assert winner.value == value
    for answer in answers:
        assert answer.ended >= winner.began
        if answer is not winner:
            expected = "duplicate" if answer.value == value else "reward_conflict"
            assert answer.outcome == expected


def test_one_winner(race):
    """Eight threads report different values (some of them equal) of the same assignments in the same order."""
    for _ in range(2):
        ids = race.enrol()
        early = [[[id, float(thread)] for id in ids] for thread in (1, 2, 3, 4)]
        late = [[[id, float(thread)] for id in ids] for thread in (4, 5, 6, 1)]

        heard = race.racers.race({"now": START, "threads": early}, {"now": START, "threads": late})

        assert sum(map(len, heard)) == 8 * AT_ONCE
        race.check(*heard)
    assert race.winners == {"observed": 2 * AT_ONCE}
    assert race.live.verify()


def test_lists_in_any_order(race):
    """Eight threads report lists of the same assignments, each in an order of its own, beside single rewards.

    Transactions that wait for each other would do so for 300 seconds, until the server ends one of them.
    """
    began = time.monotonic()
    generator = random.Random(4)
    for turn in range(2):
        ids = race.enrol()
        lists = [
            [[id, float(thread)] for id in generator.sample(ids, AT_ONCE)]
            for thread in (1, 2, 3, 4, 4, 5, 6, 1)
        ]
        commands = [
            {"now": START, "threads": lists[:4], "lists": True},
            {"now": START, "threads": lists[4:], "lists": turn == 0},
        ]

        heard = race.racers.race(*commands)

        assert sum(map(len, heard)) == 8 * AT_ONCE
        race.check(*heard)
    assert race.live.verify()
    assert time.monotonic() - began < 240


def test_sweepers_race_rewards(race):
    """Rewards a microsecond before the window's end by one clock; sweepers and rewards at its end by the other."""
    rounds = 10
    for turn in range(rounds):
        ids = race.enrol()
        rewards = [[id, 1.0 + turn] for id in ids]
        early = [rewards[thread::4] for thread in range(4)]
        late = [[], [], [[id, 0.5] for id in ids[::-1]], [[id, 0.5] for id in ids]]

        heard = race.racers.race(
            {"now": START + WINDOW - 1e-6, "threads": early},
            {"now": START + WINDOW, "threads": late},
        )

        assert sum(map(len, heard)) == 3 * AT_ONCE
        race.check(*heard)
    assert race.winners.total() == rounds * AT_ONCE
    assert min(race.winners["default"], race.winners["observed"]) > 0
    status = race.live.status()
    assert (status.status, status.defaulted) == ("complete", race.winners["default"])
    assert race.live.verify() == EXPERIMENT.replications
