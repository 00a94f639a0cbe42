"""`kill -9` at any moment loses nothing that was acknowledged, and the experiment continues to the same end.

The client is killed; PostgreSQL's server stays. SAMELUCK_KILLS=300 kills that often at random moments (for each
store) instead of a few times.
"""

import contextlib
import itertools
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from urllib.parse import quote

import psycopg
import pytest
import users
import victim

import sameluck as sl

pytestmark = pytest.mark.slow

KILLS = int(os.environ.get("SAMELUCK_KILLS", "6"))
NAME = "experiment"
LIVE = ("assigned", "exposed", "settled")


class Launcher:
    """The process whose children are killed."""

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, victim.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.answer() == "ready"

    def answer(self):
        line = self.process.stdout.readline()
        assert line, "the process that starts victims has ended"
        return json.loads(line)

    def kill(self, **command):
        """Serve until the kill; whether it came before the end."""
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        ended_by = self.answer()
        assert ended_by in (0, signal.SIGKILL), f"the victim ended with {ended_by}"
        return ended_by == signal.SIGKILL

    def close(self):
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()


@pytest.fixture(scope="module")
def launcher():
    started = Launcher()
    yield started
    started.close()


class SqliteFiles:
    """New SQLite databases, one file each."""

    def __init__(self, folder):
        self.urls = (f"sqlite:///{folder}/{number}.db" for number in itertools.count())

    def new(self):
        return next(self.urls)

    def open(self, url, **options):
        return sl.open(f"{url}?synchronous=normal", **options)

    def rows(self, url, sql):
        with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
            rows = connection.execute(sql).fetchall()
        connection.close()
        return rows

    def assert_sound(self, url):
        assert self.rows(url, "PRAGMA integrity_check") == [("ok",)]
        assert self.rows(url, "PRAGMA foreign_key_check") == []


class PostgresSchemas:
    """New schemas of one PostgreSQL database: much quicker made than databases."""

    def __init__(self, url, connection):
        self.url = url
        self.connection = connection
        self.numbers = itertools.count()
        self.store = self.opened = None

    def new(self):
        schema = f"schema_{next(self.numbers)}"
        self.connection.execute(f"CREATE SCHEMA {schema}")
        self.connection.execute(f"SET search_path TO {schema}")
        return f"{self.url}?options={quote(f'-csearch_path={schema}')}"

    @contextlib.contextmanager
    def open(self, url, clock=time.time):
        """The store of a process that was not killed; it is kept, connections take long to make."""
        if self.store is None or self.opened != url:
            self.close()
            self.store, self.opened = sl.open(url, clock=self.time, connections=2), url
        self.clock = clock
        yield self.store

    def time(self):
        return self.clock()

    def close(self):
        if self.store is not None:
            self.store.close()

    def rows(self, _, sql):
        return self.connection.execute(sql).fetchall()

    def assert_sound(self, url):
        """The server was not killed."""


@pytest.fixture(params=["sqlite", "postgresql"])
def databases(request, tmp_path):
    if request.param == "sqlite":
        yield SqliteFiles(tmp_path)
        return
    url = request.getfixturevalue("postgres_url")
    with psycopg.connect(url, autocommit=True) as connection:
        schemas = PostgresSchemas(url, connection)
        yield schemas
        schemas.close()


def assert_kept(databases, url, acks):
    """Every acknowledged assignment is there with its arm, every acknowledged reward once with its value."""
    databases.assert_sound(url)
    arms = dict(databases.rows(url, "SELECT id, arm FROM assignment"))
    for _, _, id, arm, *_ in acks_of(acks, "assigned"):
        assert id is None or str(arms[id]) == arm
    values = dict(
        databases.rows(url, "SELECT assignment, value FROM entry WHERE source = 'observed'")
    )
    applied = Counter(
        id
        for (id,) in databases.rows(
            url, "SELECT assignment FROM reward_event WHERE outcome = 'applied'"
        )
    )
    for _, id, value, *_ in acks_of(acks, "rewarded"):
        assert values[id] == value
    assert applied == Counter(values.keys())
    claimed = Counter(id for _, id, _, now, *_ in acks_of(acks, "rewarded") if now)
    assert all(times == 1 for times in claimed.values())


def acks_of(acks, what):
    return [ack for ack in acks if ack[0] == what]


def assert_retries_agree(live, acks):
    """A caller that did not get the answer and calls again gets that of the first call."""
    for _, unit, id, arm, *_ in acks_of(acks, "assigned"):
        if id is not None and live.describe(id).status in LIVE:
            assert live.assign(unit) == (id, arm, True, "STICKY")
    for _, id, value, *_ in acks_of(acks, "rewarded"):
        assert live.reward(id, value) == (False, True, value)


def assert_ends_as_simulated(live, units=5_000):
    answers = users.Users(live.experiment, victim.ENVIRONMENT)
    users.finish(live, answers, units)
    assert live.status().status == "complete"
    checkpoints = sorted({1, live.experiment.horizon // 2, live.experiment.horizon})
    users.assert_same(live.runs(checkpoints), answers.simulated(checkpoints))
    live.verify()


class TestFailPoints:
    def test_killed_at_every_fail_point(self, launcher, databases, tmp_path):
        """A new database while the victims die before they have one, then a new experiment for each."""
        acks = []
        for point in range(1, 1_000):
            if not acks_of(acks, "started"):
                url = databases.new()
            arguments = {
                "url": url,
                "name": f"experiment {point}",
                "acks": str(tmp_path / f"{point}"),
            }
            killed = launcher.kill(**arguments, scenario="short", point=point)
            acks = victim.acknowledged(arguments["acks"])
            self.resume(databases, arguments, acks)
            if not killed:
                break
        assert acks[-1][0] == "end"
        assert point > 50

    def resume(self, databases, arguments, acks):
        words = {ack[0] for ack in acks}
        now = victim.START + (victim.LEASE if "ticked" in words else 0)
        with databases.open(arguments["url"], clock=lambda: now) as store:
            if "started" not in words and arguments["name"] not in store.names():
                store.start(arguments["name"], victim.SHORT, options=victim.short_options())
            live = store.load(arguments["name"])
            assert_kept(databases, arguments["url"], acks)
            for _, id in acks_of(acks, "exposed"):
                assert live.describe(id).exposed_at is not None
            for _, id in acks_of(acks, "voided"):
                assert live.describe(id).status == "voided"
            if live.status().status == "paused":
                live.resume()
            assert_retries_agree(live, acks)
            assert "joined" not in words or "late" in live.experiment.policies
            if "late" not in live.experiment.policies:
                live.add_policy("late", victim.LATE)
            assert_ends_as_simulated(live)


class TestUnderLoad:
    def test_killed_at_random(self, launcher, databases, tmp_path):
        luck, kills = random.Random(1), 0
        while kills < KILLS:
            kills += self.kill_until_complete(launcher, databases, tmp_path, luck, KILLS - kills)

    def kill_until_complete(self, launcher, databases, tmp_path, luck, most):
        """One experiment, served by one victim after the other; how many were killed before it was complete."""
        url = databases.new()
        acks = tmp_path / f"{luck.random()}.acks"
        with databases.open(url) as store:
            store.start(NAME, victim.LONG)
        arguments = {"url": url, "name": NAME, "acks": str(acks), "scenario": "load", "threads": 4}
        kills = first = 0
        while kills < most:
            how = {"delay": luck.uniform(0, 0.3)}
            if luck.random() < 0.5:
                how = {"point": luck.randint(1, 3_000)}
            if not launcher.kill(**arguments, **how, first=first):
                break
            kills += 1
            first = self.recover(databases, url, victim.acknowledged(acks))
        with databases.open(url) as store:
            assert_ends_as_simulated(store.load(NAME))
        assert_kept(databases, url, victim.acknowledged(acks))
        return kills

    def recover(self, databases, url, acks):
        """As clients do after a crash: call again. The first unit that was not assigned."""
        with databases.open(url) as store:
            live = store.load(NAME)
            assert_kept(databases, url, acks)
            assert_retries_agree(live, acks[-40:])
            answers = users.Users(live.experiment, victim.ENVIRONMENT)
            last = max((unit for _, unit, *_ in acks_of(acks, "assigned")), default=0)
            assigned = live.assign_many(range(max(0, last - 60), last + 60))
            ids = [row.id for row in assigned if row.id is not None]
            live.reward_many([(id, answers.reward(live, id)) for id in ids])
        return last + 60


class TestGroupCommit:
    def test_killed_between_commit_and_answer(self, launcher, tmp_path):
        """Eight callers at once share a transaction or two; the last was committed, but not answered."""
        databases, acks = SqliteFiles(tmp_path), tmp_path / "acks"
        url, callers = databases.new(), range(8)
        with databases.open(url) as store:
            store.start(NAME, victim.LONG)
        arguments = {"url": url, "name": NAME, "acks": str(acks), "threads": len(callers)}

        assert launcher.kill(**arguments, scenario="assign_together")
        assert len(acks_of(victim.acknowledged(acks), "assigned")) < len(callers)
        assert databases.rows(url, "SELECT COUNT(*) FROM assignment") == [(len(callers),)]

        assert launcher.kill(**arguments, scenario="reward_together")
        acknowledged = victim.acknowledged(acks)
        assert len(acks_of(acknowledged, "rewarded")) < len(callers)
        with databases.open(url) as store:
            live = store.load(NAME)
            assert_kept(databases, url, acknowledged)
            answers = users.Users(live.experiment, victim.ENVIRONMENT)
            for unit in callers:
                assignment = live.assign(unit)
                value = answers.reward(live, assignment.id)
                assert assignment.reason == "STICKY"
                assert live.reward(assignment.id, value) == (False, True, value)
            assert_ends_as_simulated(live)
