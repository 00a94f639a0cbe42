"""Processes that serve an experiment until they are killed.

One process imports everything. For each command on standard input it forks a child that serves, and writes how the
child ended. The child counts the statements it runs; if the command has the number of a fail point, it kills itself
(SIGKILL) there, otherwise the parent kills it after a delay. Fail points are before every statement that changes
something, before every COMMIT and after it. Between two of them only memory changes, so other places need no test.

A child appends a line to a file after each call that returned; a line is one write, so it outlives the child.
"""

import gc
import itertools
import json
import os
import random
import signal
import sqlite3
import sys
import threading
import time
from functools import partial
from pathlib import Path

import psycopg
import users

import sameluck as sl
from sameluck.live.databases.postgres_connection import DeadlineConnection
from sameluck.live.databases.postgres_transaction import PostgresTransaction

ENVIRONMENT = sl.Bernoulli((0.4, 0.6))
START, LEASE = 1_700_000_000.0, 60.0
LATE = sl.EpsilonGreedy()
LONGEST = 60  # seconds
HARMLESS = ("BEGIN", "SELECT", "PRAGMA", "ROLLBACK", "DISCARD PLANS", "DECLARE", "FETCH", "CLOSE")
ONE_CALL = ("INSERT INTO assignment", "INSERT INTO reward_event")

SHORT = sl.Experiment(
    policies={"ucb": sl.UCB1(), "ts": sl.ThompsonBernoulli()},
    arms=2,
    horizon=2,
    replications=2,
    seed=3,
)
LONG = SHORT.replace(horizon=30, replications=10)


class FailPoints:
    """Counts statements and kills the process at a given one."""

    def __init__(self, deadly):
        self.deadly = deadly
        self.passed = 0
        self.calls_to_live = None  # it is killed right after the commit of so many
        self.lock = threading.Lock()
        self.local = threading.local()

    def pass_one(self):
        if getattr(self.local, "safe", False):
            return
        with self.lock:
            self.passed += 1
            if self.passed == self.deadly:
                die()

    def around(self, talk, statement, execute):
        """Run a statement of a connection."""
        if self.calls_to_live and statement == "BEGIN IMMEDIATE":
            time.sleep(0.1)  # until the other threads wait
        if self.calls_to_live and statement.startswith(ONE_CALL):
            self.calls_to_live -= 1
        if statement != "COMMIT":
            if not statement.startswith(HARMLESS):
                talk.changed = True
                self.pass_one()
            return execute()
        if getattr(talk, "changed", False):
            self.pass_one()
        result = execute()
        if isinstance(talk, sqlite3.Connection):  # psycopg's only sends it
            self.after_commit(talk)
        return result

    def after_commit(self, talk):
        if not getattr(talk, "changed", False):
            return
        self.pass_one()
        talk.changed = False
        if self.calls_to_live == 0:
            die()

    def safely(self, work, *arguments):
        """Call something without fail points: it is not what is tested."""
        self.local.safe = True
        try:
            return work(*arguments)
        finally:
            self.local.safe = False

    def instrument(self):
        points, connect = self, sqlite3.connect
        execute, commit = psycopg.Cursor.execute, PostgresTransaction.commit
        send = DeadlineConnection.send

        class Mortal(sqlite3.Connection):
            def execute(self, statement, *rest):
                return points.around(self, statement, partial(super().execute, statement, *rest))

            def executemany(self, statement, *rest):
                return points.around(
                    self, statement, partial(super().executemany, statement, *rest)
                )

            def executescript(self, script):
                return points.around(self, script, partial(super().executescript, script))

        def mortal_execute(cursor, statement, *rest, **options):
            text = statement.decode() if isinstance(statement, bytes) else statement
            run = partial(execute, cursor, statement, *rest, **options)
            return points.around(cursor.connection, text, run)

        def mortal_send(connection, statement, *rest):
            points.around(connection, statement, partial(send, connection, statement, *rest))

        def mortal_commit(transaction):
            commit(transaction)
            points.after_commit(transaction.connection)

        sqlite3.connect = partial(connect, factory=Mortal)
        psycopg.Cursor.execute, PostgresTransaction.commit = mortal_execute, mortal_commit
        DeadlineConnection.send = mortal_send


def die():
    os.kill(os.getpid(), signal.SIGKILL)


class Victim:
    """The child: it serves an experiment and records what was acknowledged."""

    def __init__(self, command):
        self.command = command
        self.points = FailPoints(command.get("point"))
        self.acks = os.open(command["acks"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self.name = command["name"]
        self.clock = sl.VirtualClock(START)

    def record(self, *words):
        os.write(self.acks, (json.dumps(words) + "\n").encode())

    def run(self):
        self.points.instrument()
        getattr(self, self.command["scenario"])()
        self.record("end", self.points.passed)

    # Every kind of call once, one after the other.

    def short(self):
        store = sl.open(self.command["url"], clock=self.clock, connections=2)
        live = self.live = store.start(self.name, SHORT, options=short_options())
        self.record("started")
        self.users = users.Users(live.experiment, ENVIRONMENT)
        first = self.assign(0)
        live.expose(first)
        self.record("exposed", first)
        self.reward(first)
        self.reward(first)
        self.assign(1)
        self.clock.advance(LEASE)
        live.tick()
        self.record("ticked")
        second = self.assign(1)
        live.void(second)
        self.record("voided", second)
        live.pause()
        self.record("paused")
        live.resume()
        self.record("resumed")
        live.add_policy("late", LATE)
        self.record("joined")
        for units in ([2, 3], [4, 2, 5], [6]):
            self.reward_list(self.assign_list(units))
        store.close()

    def assign(self, unit):
        assignment = self.live.assign(unit)
        self.record("assigned", unit, *assignment)
        return assignment.id

    def reward(self, id):
        if id is not None:
            value = self.points.safely(self.users.reward, self.live, id)
            self.record("rewarded", id, value, *self.live.reward(id, value))

    def assign_list(self, units):
        answers = self.live.assign_many(units)
        for unit, answer in zip(units, answers, strict=True):
            self.record("assigned", unit, *answer)
        return [answer.id for answer in answers if answer.id is not None]

    def reward_list(self, ids):
        values = [self.points.safely(self.users.reward, self.live, id) for id in ids]
        pairs = list(zip(ids, values, strict=True))
        for pair, receipt in zip(pairs, self.live.reward_many(pairs), strict=True):
            self.record("rewarded", *pair, *receipt)

    # Several threads at once, as fast as they can, every second one with lists.

    def load(self):
        store = sl.open(self.command["url"], timeout=60)
        self.live = store.load(self.name)
        self.users = users.Users(self.live.experiment, ENVIRONMENT)
        self.units = itertools.count(self.command["first"])
        self.next = threading.Lock()
        threads = [
            threading.Thread(
                target=(self.serve, self.serve_lists)[seed % 2], args=[seed], daemon=True
            )
            for seed in range(self.command["threads"])
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        store.close()

    def serve(self, seed):
        generator = random.Random(seed)
        served = []
        while True:
            with self.next:
                unit = next(self.units)
            assignment = self.live.assign(unit)
            self.record("assigned", unit, *assignment)
            if assignment.reason == "NOT_RUNNING":
                return
            if assignment.id is None:
                time.sleep(0.001)
                continue
            served.append(assignment.id)
            self.reward(assignment.id)
            if generator.random() < 0.2:
                self.reward(generator.choice(served))

    def serve_lists(self, _):
        while self.live.status().status == "running":
            with self.next:
                units = [next(self.units) for _ in range(3)]
            self.reward_list(self.assign_list(units))

    # Callers that share transactions: killed after the last commit, before any of their calls returns.

    def assign_together(self):
        self.together(self.assign)

    def reward_together(self):
        self.together(lambda unit: self.reward(self.ids[unit]))

    def together(self, call):
        store = sl.open(self.command["url"], timeout=60)
        self.live = store.load(self.name)
        self.users = users.Users(self.live.experiment, ENVIRONMENT)
        units = range(self.command["threads"])
        if call != self.assign:
            self.ids = [self.live.assign(unit).id for unit in units]
        self.points.calls_to_live = len(units)
        threads = [threading.Thread(target=call, args=[unit]) for unit in units]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def short_options():
    return sl.LiveOptions(exposure="explicit", lease_seconds=LEASE, open_replications=1)


def warm_up():
    """Compile what the children need."""
    with sl.open("sqlite://") as store:
        for name, experiment in {"short": SHORT, "long": LONG}.items():
            live = store.start(name, experiment.replace(replications=1))
            live.add_policy("late", LATE)
            users.finish(live, users.Users(live.experiment, ENVIRONMENT))
            live.runs()


def kill_one(command):
    """Fork a child and wait for its end; the signal that ended it, or 0."""
    child = os.fork()
    if child == 0:
        signal.alarm(LONGEST)
        try:
            Victim(command).run()
        except BaseException as error:
            sys.excepthook(type(error), error, error.__traceback__)
            os._exit(1)
        os._exit(0)
    if command.get("delay") is not None:
        time.sleep(command["delay"])
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return os.WTERMSIG(status)
    return -os.WEXITSTATUS(status)


def main():
    warm_up()
    gc.freeze()  # a collection in a child would copy all that it shares with its parent
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        print(json.dumps(kill_one(json.loads(line))), flush=True)


def acknowledged(path):
    """What one child, or several one after the other, recorded."""
    lines = Path(path).read_text().splitlines() if Path(path).exists() else []
    return [tuple(json.loads(line)) for line in lines]


if __name__ == "__main__":
    main()
