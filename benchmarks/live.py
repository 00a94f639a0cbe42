"""Measure the speed of live experiments against the databases that they use.

    python benchmarks/live.py [--quick] [--only PART ...] [--folder FOLDER] [--json FILE]

A call is an assignment or a reward. Contestants take turns, because the machine's speed drifts; a figure is the
median of its rounds. Every round begins with an empty database. Files are made in FOLDER, by default a temporary
folder; PostgreSQL is a new server in /tmp.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib.util
import itertools
import json
import multiprocessing
import random
import sqlite3
import statistics
import sys
import tempfile
import threading
import time
import tracemalloc
from itertools import count
from pathlib import Path
from typing import NamedTuple

import coroutines
import ledgers
import limits
import sameluck as sl
from core import Goals, _version, machine
from sameluck.live.store import Store

ARMS, OPEN, CALLERS, CONNECTIONS = 10, 64, 32, 8
COROUTINES = 500
LIST = 32  # items in a list
MEANS = [0.05 * (arm + 1) for arm in range(ARMS)]
POLICIES = {"control": "ucb1(alpha=2)", "rival": "ucb1(alpha=1)"}
TESTS = Path(__file__).parent.parent / "tests" / "live"
SERVER, DASHBOARDS = TESTS / "server.py", TESTS / "dashboards.py"
LOOKED = {"horizon": 1_000, "open": 10, "entries": 1_120}  # a replication has about so many entries
NUMBERS = count(1)


def experiment_of(horizon=100_000, replications=OPEN, arms=ARMS):
    return sl.Experiment(
        policies=POLICIES, arms=arms, horizon=horizon, replications=replications, seed=7
    )


def options_of(open_replications=OPEN):
    return sl.LiveOptions(open_replications=open_replications, reward=sl.Reward(window_seconds=60))


class Places(NamedTuple):
    """Folder and server for databases."""

    folder: str
    server: object  # None without psycopg


# Assignments


class Round(NamedTuple):
    """Calls of a contestant in one round."""

    calls: int
    seconds: float
    latencies: list[float]
    processor: float | None = None  # seconds of all threads

    @property
    def rate(self):
        """Return calls per second."""
        return self.calls / self.seconds


class Users:
    """Users who come one after the other, with Bernoulli rewards."""

    def __init__(self, live, name):
        self.live = live
        self.name = name
        self.generator = random.Random(name)
        self.numbers = count()

    def serve(self):
        """Assign and reward a user; return the seconds of each call."""
        unit = f"{self.name}-{next(self.numbers)}"
        begin = time.perf_counter()
        assignment = self.live.assign(unit)
        middle = time.perf_counter()
        assert assignment.enrolled, assignment
        value = float(self.generator.random() < MEANS[int(assignment.arm)])
        between = time.perf_counter()
        self.live.reward(assignment.id, value)
        return middle - begin, time.perf_counter() - between

    def serve_list(self):
        """Assign and reward a list of users; return the seconds of each call."""
        units = [f"{self.name}-{next(self.numbers)}" for _ in range(LIST)]
        begin = time.perf_counter()
        assignments = self.live.assign_many(units)
        middle = time.perf_counter()
        values = [
            float(self.generator.random() < MEANS[int(assignment.arm)])
            for assignment in assignments
        ]
        pairs = [
            (assignment.id, value) for assignment, value in zip(assignments, values, strict=True)
        ]
        between = time.perf_counter()
        answers = self.live.reward_many(pairs)
        after = time.perf_counter()
        assert all(assignment.enrolled for assignment in assignments)
        assert all(receipt.applied for receipt in answers)
        return middle - begin, after - between


def serve(live, threads, seconds, name="user", *, lists=False):
    """Serve users in `threads` threads for `seconds`."""
    latencies = [[] for _ in range(threads)]
    spent = []
    gate = threading.Barrier(threads, lambda: spent.append(time.process_time()))
    moments = []

    def work(k):
        users = Users(live, f"{name}-{k}")
        once = users.serve_list if lists else users.serve
        once()  # a connection and the compiled code
        gate.wait(60)  # not for ever for one that has failed
        begin = time.perf_counter()
        while time.perf_counter() < begin + seconds:
            latencies[k] += once()
        moments.extend((begin, time.perf_counter()))

    limits.run_together(work, threads)
    latencies_of_all = list(itertools.chain.from_iterable(latencies))
    calls = len(latencies_of_all) * (LIST if lists else 1)
    return Round(
        calls, max(moments) - min(moments), latencies_of_all, time.process_time() - spent[0]
    )


def rounds_of(contestants, repeats):
    """Run every contestant once, then every contestant again."""
    rounds = {name: [] for name in contestants}
    for _ in range(repeats):
        for name, run in contestants.items():
            rounds[name].append(Round(*run()))
    return rounds


def show(rounds):
    """Print and return the figures of every contestant."""
    figures = {}
    for name, own_rounds in rounds.items():
        rates = sorted(played.rate for played in own_rounds)
        latencies = sorted(1000 * latency for played in own_rounds for latency in played.latencies)
        figures[name] = row = {"median": statistics.median(rates), "rounds": rates}
        if own_rounds[0].processor is not None:
            row["processor_us"] = min(
                1e6 * played.processor / played.calls for played in own_rounds
            )
        text = f"  {name:<44} {row['median']:>8,.0f}  ({rates[0]:,.0f} to {rates[-1]:,.0f})"
        if latencies:
            row["p50_ms"], row["p99_ms"] = (
                latencies[int(share * len(latencies))] for share in (0.5, 0.99)
            )
            text = f"{text:<78} {row['p50_ms']:>8.2f} {row['p99_ms']:>8.2f}"
        print(text)
    return figures


def heading(title):
    print(f"\n{title:<78} {'p50 ms':>8} {'p99 ms':>8}")


# SQLite


def on_sqlite(places, size, goals):
    folder = places.folder
    heading("SQLite, synchronous=FULL: calls per second, median (least to most)")
    calls = recorded(size["recorded"])

    def replayed(how):
        done, seconds, processor = how(new_file(folder), calls, CALLERS, size["seconds"])
        return Round(done, seconds, [], processor)

    own, bare = f"sameluck, {CALLERS} callers", f"bare loop, groups of {CALLERS} calls"
    listed = f"sameluck, 1 caller, lists of {LIST}"
    contestants = {
        own: lambda: sqlite_round(folder, CALLERS, size["seconds"]),
        listed: lambda: sqlite_round(folder, 1, size["seconds"], lists=True),
        bare: lambda: replayed(limits.replay),
    }
    grouped = f"bare group commit, {CALLERS} callers"
    contestants[grouped] = lambda: replayed(limits.replay_for_callers)
    sqlite_round(folder, CALLERS, 0.2)
    figures = show(rounds_of(contestants, size["repeats"]))
    few = {
        f"sameluck, {threads} caller{'s' * (threads > 1)}": lambda n=threads: sqlite_round(
            folder, n, size["seconds"]
        )
        for threads in (1, 8)
    }
    if limits.has_optuna():
        few |= {
            f"Optuna ask and tell, {threads} caller{'s' * (threads > 1)}": lambda n=threads: (
                *limits.optuna(new_file(folder), n, ARMS, size["seconds"]),
                [],
            )
            for threads in (1, 8)
        }
    for name, run in few.items():
        figures |= show_if_it_lives(name, run, size["few_repeats"])
    if not limits.has_optuna():
        print(f"  {limits.OPTUNA}")
    ratio = figures[own]["median"] / figures[bare]["median"]
    goals.check(f"SQLite, {CALLERS} callers: of a bare loop", ratio, ">= 0.50", ratio >= 0.5)
    alike = figures[own]["median"] / figures[grouped]["median"]
    name = f"SQLite, {CALLERS} callers: of bare group commit"
    goals.check(name, alike, ">= 0.50", alike >= 0.5)
    spent = {name: figures[name]["processor_us"] for name in (own, listed, bare, grouped)}
    print("  processor time of a call, microseconds, the least of the rounds:")
    print("".join(f"    {name:<42} {us:>8.0f}\n" for name, us in spent.items()), end="")
    ratio = figures[listed]["median"] / figures[bare]["median"]
    goals.check(f"SQLite, lists of {LIST}: of a bare loop", ratio, ">= 0.55", ratio >= 0.55)
    return figures


def show_if_it_lives(name, run, repeats):
    try:
        return show(rounds_of({name: run}, repeats))
    except Exception as error:  # another library's: worth a line, not the run
        if not name.startswith("Optuna"):
            raise
        print(f"  {name:<44} failed: {type(error).__name__}: {str(error).splitlines()[0][:60]}")
        return {name: {"failed": str(error)}}


def new_file(folder):
    return Path(folder) / f"{next(NUMBERS)}.db"


def sqlite_round(folder, threads, seconds, *, lists=False):
    with sl.open(f"sqlite:///{new_file(folder)}") as store:
        live = store.start("bench", experiment_of(), options=options_of())
        return serve(live, threads, seconds, lists=lists)


def recorded(pairs):
    """Return the statements of the start, and of pairs of calls by the callers in turn."""
    recorder = limits.Recorder()
    with contextlib.closing(Store(recorder)) as store:
        live = store.start("bench", experiment_of(), options=options_of())
        generator = random.Random(1)
        for first in range(0, pairs, CALLERS):
            assignments = [live.assign(first + k) for k in range(CALLERS)]
            for assignment in assignments:
                value = float(generator.random() < MEANS[int(assignment.arm)])
                live.reward(assignment.id, value)
    return recorder.calls


# PostgreSQL


def own_server():
    """Start a temporary server with fsync on."""
    spec = importlib.util.spec_from_file_location("server", SERVER)
    server = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(server)
    return server.running(fsync=True)


@contextlib.contextmanager
def new_database(server):
    """Yield the URL of an empty database."""
    import psycopg

    name = f"bench_{next(NUMBERS)}"
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE template0")
        yield server.url(name)
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def on_postgres(places, size, goals):
    folder, server = places
    if not server:
        print("\nPostgreSQL was skipped: psycopg is not installed.")
        return {}
    heading("PostgreSQL, fsync on: calls per second, median (least to most)")
    own = f"sameluck, {CONNECTIONS} connections"
    alone, listed = "sameluck, 1 connection", f"sameluck, 1 connection, lists of {LIST}"
    raw = f"pgbench, {CONNECTIONS} clients"
    contestants = {
        own: lambda: postgres_round(server, CONNECTIONS, size["seconds"]),
        f"sameluck, 2 processes x {CONNECTIONS // 2} connections": lambda: two_processes(
            server, size["seconds"]
        ),
        alone: lambda: postgres_round(server, 1, size["seconds"]),
        listed: lambda: postgres_round(server, 1, size["seconds"], lists=True),
    }
    if limits.has_pgbench():
        limits.check_script(recorded(640)[1:])
        for name, piped in ((raw, False), (f"{raw}, pipelined", True)):
            contestants[name] = lambda piped=piped: pgbench_round(
                server, folder, size["seconds"], piped
            )
    postgres_round(server, CONNECTIONS, 0.2)
    figures = show(rounds_of(contestants, size["repeats"]))
    faster = figures[listed]["median"] / figures[alone]["median"]
    print(f"  {f'PostgreSQL, lists of {LIST}: of single calls':<58} {faster:>8.2f}")
    if raw not in figures:
        print(f"  {limits.PGBENCH}")
        return figures
    ratio = figures[own]["median"] / figures[raw]["median"]
    title = f"PostgreSQL, {CONNECTIONS} connections: of pgbench"
    goals.check(title, ratio, ">= 0.50", ratio >= 0.5)
    piped = figures[own]["median"] / figures[f"{raw}, pipelined"]["median"]
    print(f"  {f'{title}, pipelined':<58} {piped:>8.2f}")
    return figures


@contextlib.contextmanager
def started_on_postgres(server):
    with new_database(server) as url, sl.open(url, connections=CONNECTIONS) as store:
        yield url, store.start("bench", experiment_of(), options=options_of())


def postgres_round(server, threads, seconds, *, lists=False):
    with started_on_postgres(server) as (_, live):
        return serve(live, threads, seconds, lists=lists)


def pgbench_round(server, folder, seconds, piped):
    with started_on_postgres(server) as (url, _):
        done = limits.pgbench(url, 1, folder, seconds, clients=CONNECTIONS, piped=piped)
        return *done, []


def two_processes(server, seconds):
    context = multiprocessing.get_context("spawn")
    with (
        started_on_postgres(server) as (url, _),
        context.Pool(2, wait_here, [context.Barrier(2)]) as pool,
    ):
        jobs = [(url, name, seconds) for name in ("left", "right")]
        begins, ends, latencies = zip(*pool.starmap(one_process, jobs, chunksize=1), strict=True)
    latencies_of_all = list(itertools.chain.from_iterable(latencies))
    return Round(len(latencies_of_all), max(ends) - min(begins), latencies_of_all)


def wait_here(gate):
    """Give a process the gate at which both processes begin."""
    one_process.gate = gate


def one_process(url, name, seconds):
    threads = CONNECTIONS // 2
    with sl.open(url, connections=threads) as store:
        live = store.load("bench")
        Users(live, f"{name}-first").serve()
        one_process.gate.wait(timeout=60)
        begin = time.monotonic()
        done = serve(live, threads, seconds, name)
        return begin, begin + done.seconds, done.latencies


# Coroutines


def on_coroutines(places, size, goals):
    """Compare coroutines of one event loop with threads; each coroutine needs an open replication."""
    heading(f"{COROUTINES} coroutines of one event loop: calls per second, median (least to most)")
    late, opened = [], COROUTINES + OPEN

    def run(url):
        experiment, options = experiment_of(replications=opened), options_of(opened)
        users = coroutines.Coroutines(url, experiment, options, MEANS)
        *done, beats = users.run(COROUTINES, size["seconds"])
        late.append(1000 * beats[int(0.99 * len(beats))])
        return done

    def on_server():
        with new_database(places.server) as url:
            return run(url)

    contestants = {
        f"SQLite, {COROUTINES} coroutines": lambda: run(f"sqlite:///{new_file(places.folder)}"),
        f"SQLite, {CALLERS} threads": lambda: sqlite_round(places.folder, CALLERS, size["seconds"]),
    }
    if places.server:
        contestants[f"PostgreSQL, {COROUTINES} coroutines"] = on_server
        contestants[f"PostgreSQL, {CONNECTIONS} threads"] = lambda: postgres_round(
            places.server, CONNECTIONS, size["seconds"]
        )
    figures = show(rounds_of(contestants, size["repeats"]))
    for kind, threads in (("SQLite", CALLERS), ("PostgreSQL", CONNECTIONS)):
        if f"{kind}, {COROUTINES} coroutines" in figures:
            own, other = (
                figures[f"{kind}, {name}"]["median"]
                for name in (f"{COROUTINES} coroutines", f"{threads} threads")
            )
            title = f"{kind}, {COROUTINES} coroutines: of {threads} threads"
            goals.check(title, own / other, ">= 1", own >= other)
    figures["late_ms"] = late
    text = ", ".join(f"{ms:.1f}" for ms in sorted(late))
    print(f"  by how many ms a coroutine that sleeps is woken late, p99 of each round: {text}")
    return figures


# Cost and memory, early and late


@contextlib.contextmanager
def at(folder, experiment, reaches, open_replications):
    """Yield the users of an experiment with played replications; fsync is off."""
    path = new_file(folder)
    address = f"sqlite:///{path}?synchronous=normal"
    with sl.open(address) as store:
        store.start("bench", experiment, options=options_of(open_replications))
    made = ledgers.make(experiment, reaches, MEANS[: experiment.n_arms])
    ledgers.fill_sqlite(path, len(POLICIES), made)
    with sl.open(address) as store:
        yield Users(store.load("bench"), "user")


def early_and_late(folder, size):
    """Return for each question an experiment early and late."""
    deep, done = size["deep"], size["done"]
    deep_ledger = experiment_of(2 * deep + 10_000, 1)
    long_ledger = experiment_of(20, 2 * done + 1_000)
    return {
        f"t = {deep:,} over t = 100": (
            lambda: at(folder, deep_ledger, [100], 1),
            lambda: at(folder, deep_ledger, [deep], 1),
        ),
        f"{done:,} replications complete over 10": (
            lambda: at(folder, long_ledger, [20] * 10 + [0] * OPEN, OPEN),
            lambda: at(folder, long_ledger, [20] * done + [0] * OPEN, OPEN),
        ),
    }


def costs(places, size, goals):
    print("\nCost of a call late over early, one thread, no wait for the disk (medians of blocks)")
    figures = {}
    for what, (begin, end) in early_and_late(places.folder, size).items():
        with begin() as early, end() as late:
            blocks = {"early": [], "late": []}
            for index in range(size["blocks"] + 1):
                for name, users in (("early", early), ("late", late)):
                    cost = block(users, size["block"])
                    if index:  # the first block derives the state
                        blocks[name].append(cost)
        first, then = (statistics.median(blocks[name]) for name in ("early", "late"))
        figures[what] = {"early_us": first, "late_us": then}
        print(f"  {what:<44} {first:>6.0f} and {then:.0f} microseconds")
        # The trees of the database are one or two pages deeper; a walk over the history would be 100 times as long.
        goals.check(f"a call, {what}", then / first, "<= 1.30", then <= 1.3 * first)
    return figures


def block(users, pairs):
    """Return microseconds of this thread's processor time per call."""
    begin = time.thread_time()
    for _ in range(pairs):
        users.serve()
    return 1e6 * (time.thread_time() - begin) / (2 * pairs)


def memory(places, size, goals):
    folder = places.folder
    print("\nMemory of Python and NumPy (tracemalloc)")
    figures = {}
    tracemalloc.start()
    try:
        more = while_completing(folder, size["completed"])
        figures["completing_kb"] = more
        # A lock in a dictionary, kept for each of 1,400, would be 240.
        title = f"growth over {2 * size['completed']:,} replications completed"
        goals.check(title, more, "<= 20", more <= 20, "kB")
        deep_ledger = experiment_of(2 * size["deep"] + 10_000, 1)
        early, _ = state_of(folder, deep_ledger, 100, size["served"])
        late, grown = state_of(folder, deep_ledger, size["deep"], size["served"])
        figures |= {"early_kb": early, "late_kb": late, "served_kb": grown}
        title = f"held at t = {size['deep']:,} more than at t = 100"
        goals.check(title, late - early, "<= 20", late - early <= 20, "kB")
        title = f"growth over {size['served']:,} users there"
        goals.check(title, grown, "<= 20", grown <= 20, "kB")
        for arms in (ARMS, 10 * ARMS):
            size_in_bytes = per_open_replication(folder, arms, size["opened"])
            figures[f"{arms}_arms_bytes"] = size_in_bytes
            title = f"open replication x policy x arm, {arms} arms"
            goals.check(title, size_in_bytes, "<= 1000", size_in_bytes <= 1000, "B")
    finally:
        tracemalloc.stop()
    return figures


def traced():
    """Return the bytes held, without the interpreter's bounded cache of attributes."""
    getattr(sys, "_clear_internal_caches", sys._clear_type_cache)()
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def per_open_replication(folder, arms, opened):
    def bytes_of(replications):
        experiment = experiment_of(1_000, opened, arms)
        with sl.open(f"sqlite:///{new_file(folder)}?synchronous=normal") as store:
            before = traced()
            live = store.start("bench", experiment, options=options_of(replications))
            locked = traced() - before
            assert live.status().opened == replications
        return locked

    bytes_of(1)
    low, high = bytes_of(opened // 10), bytes_of(opened)
    return (high - low) / (0.9 * opened * len(POLICIES) * arms)


def state_of(folder, experiment, reach, served):
    """Return the kilobytes held after the first users, and the growth after many more."""
    before = traced()
    with at(folder, experiment, [reach], 1) as users:
        block(users, 100)
        locked = traced()
        block(users, served)
        return (locked - before) / 1000, (traced() - locked) / 1000


def while_completing(folder, completed):
    """Return the growth in kilobytes until three times as many replications are complete."""
    with sl.open(f"sqlite:///{new_file(folder)}?synchronous=normal") as store:
        experiment = experiment_of(2, 10 * completed)
        users = Users(store.start("bench", experiment, options=options_of(10)), "user")
        completes(users, completed)
        before = traced()
        completes(users, 3 * completed)
        return (traced() - before) / 1000


def completes(users, count):
    """Serve until `count` replications are complete."""
    while (complete := users.live.status().complete) < count:
        block(users, count - complete)


# Opening


def opening(places, size, goals):
    folder, server = places
    print(
        "\nOpening an experiment: its state is derived from the ledger and compared with the outstanding entries"
    )
    figures = {}
    complete, reach = size["replications"], size["reach"]
    experiment = experiment_of(reach, 2 * complete)
    reaches = [reach] * complete + [reach // 2] * 10
    made = list(ledgers.make(experiment, reaches, MEANS))
    path = new_file(folder)
    with contextlib.ExitStack() as stack:
        kinds = {"SQLite": (f"sqlite:///{path}", path, ledgers.fill_sqlite)}
        if server:
            url = stack.enter_context(new_database(server))
            kinds["PostgreSQL"] = (url, url, ledgers.fill_postgres)
        for name, (address, where, fill) in kinds.items():
            with sl.open(address) as store:
                store.start("bench", experiment, options=options_of(10))
            entries = fill(where, len(POLICIES), made, whole=False)
            seconds, first = zip(*(open_once(address) for _ in range(3)), strict=True)
            row = {"entries": entries, "seconds": statistics.median(seconds)}
            figures[name] = {**row, "first_pair_ms": 1000 * statistics.median(first)}
            print(
                f"  {name}: {entries:,} settled entries; {figures[name]['first_pair_ms']:.0f} ms for "
                "the first user after it, whose replication is derived once more"
            )
            goals.check(f"{name}: opening", row["seconds"], "< 10", row["seconds"] < 10, "s")
    return figures


def open_once(address):
    """Return the seconds until the experiment is open, and until the first user is served."""
    begin = time.perf_counter()
    with sl.open(address) as store:
        live = store.load("bench")
        opened = time.perf_counter()
        Users(live, f"first-{next(NUMBERS)}").serve()
        return opened - begin, time.perf_counter() - opened


# Adding a policy


def joining(places, size, goals):
    """Measure how long a user waits while a policy is added to a long ledger."""
    print("\nAdding a policy to a long ledger: the longest call of a user meanwhile, and before it")
    reach, replications = size["reach"], size["joined"]
    experiment = experiment_of(reach, 2 * replications)
    reaches = [reach] * replications + [reach // 2] * 10
    made = list(ledgers.make(experiment, reaches, MEANS))
    path, figures = new_file(places.folder), {}
    with contextlib.ExitStack() as stack:
        kinds = {"SQLite": (f"sqlite:///{path}", path, ledgers.fill_sqlite)}
        if places.server:
            url = stack.enter_context(new_database(places.server))
            kinds["PostgreSQL"] = (url, url, ledgers.fill_postgres)
        for name, (address, where, fill) in kinds.items():
            with sl.open(address) as store:
                store.start("bench", experiment, options=options_of(10))
            entries = fill(where, len(POLICIES), made)
            rows = [join_once(address, f"late {k}") for k in range(3)]
            seconds, before, meanwhile = (
                statistics.median(column) for column in zip(*rows, strict=True)
            )
            print(
                f"  {name}: {entries:,} settled entries, {seconds:.2f} s; before it {before:.0f} ms"
            )
            figures[name] = {"entries": entries, "seconds": seconds, "meanwhile_ms": meanwhile}
            title = f"{name}: a call while a policy is added"
            goals.check(title, meanwhile, "<= 50", meanwhile <= 50, "ms")
    return figures


def join_once(address, name):
    """Return the seconds to add a policy, and the longest call in milliseconds before it and meanwhile."""
    with sl.open(address, timeout=60) as store:
        users, calls, stop = Users(store.load("bench"), name), [], threading.Event()

        def work():
            while not stop.is_set():
                begin = time.perf_counter()
                calls.append((begin, 1000 * max(users.serve())))

        block(users, 30)
        serving = threading.Thread(target=work)
        serving.start()
        time.sleep(1)
        begin = time.perf_counter()
        users.live.add_policy(name, "ucb1(alpha=0.5)")
        end = time.perf_counter()
        time.sleep(0.1)
        stop.set()
        serving.join()
    longest = [max(ms for moment, ms in calls if (moment >= begin) == later) for later in (0, 1)]
    return end - begin, *longest


# Growth of looks


def growth(places, size, goals):
    """Measure looks at growing ledgers, and operators' switches while twenty dashboards are open."""
    print("\nLooks at a growing ledger: processor time of this process in seconds")
    figures = {}
    for name in ("SQLite", "PostgreSQL") if places.server else ("SQLite",):
        for entries in size["growth"]:
            with contextlib.ExitStack() as stack:
                where = address = f"sqlite:///{new_file(places.folder)}"
                if name == "PostgreSQL":
                    where = address = stack.enter_context(new_database(places.server))
                count = fill_growing(name, where, entries)
                row = figures[f"{name}, {count:,} entries"] = looks_at(address)
                shown = ", ".join(f"{title} {seconds:.2f}" for title, seconds in row.items())
                print(f"  {name}, {count:,} entries: {shown}")
                if entries == max(size["growth"]):
                    figures[f"{name}, switches"] = switches(name, address, goals)
        for look, limit in (("first look", 10), ("later look", 1)):
            goals.check(f"{name}: {look}", row[look], f"< {limit}", row[look] < limit, "s")
    return figures


def fill_growing(name, address, entries, title="bench", number=1):
    """Write the ledger of the store's next experiment, with open replications; return its settled entries."""
    complete = max(2, entries // LOOKED["entries"] - LOOKED["open"] // 2)
    experiment = experiment_of(LOOKED["horizon"], 2 * complete + LOOKED["open"])
    reaches = [LOOKED["horizon"]] * complete + [LOOKED["horizon"] // 2] * LOOKED["open"]
    with sl.open(address) as store:
        store.start(title, experiment, options=options_of(LOOKED["open"]))
    fill = ledgers.fill_postgres if name == "PostgreSQL" else ledgers.fill_sqlite
    where, made = address.removeprefix("sqlite:///"), ledgers.make(experiment, reaches, MEANS)
    return fill(where, len(POLICIES), made, experiment=number)


def looks_at(address):
    """Return the processor time to load an experiment, of the first look, and of a look after one more user."""
    with sl.open(address) as store:
        moments = [time.process_time()]
        live = store.load("bench")
        moments.append(time.process_time())
        look(live)
        moments.append(time.process_time())
        Users(live, "first").serve()
        begin = time.process_time()
        look(live)
        later = time.process_time() - begin
        begin = time.process_time()
        with tempfile.TemporaryDirectory() as folder:
            live.export(Path(folder) / "ledger.csv")
        export = time.process_time() - begin
    load, first = (after - before for before, after in itertools.pairwise(moments))
    return {"load": load, "first look": first, "later look": later, "export": export}


def look(live):
    horizon = live.experiment.horizon
    sl.compare(live.runs(range(horizon // 40, horizon + 1, horizon // 40)))
    live.diagnostics()


def switches(name, address, goals):
    """Return the milliseconds of operators' calls while twenty dashboards, checks and exports are open."""
    specification = importlib.util.spec_from_file_location("dashboards", DASHBOARDS)
    dashboards = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(dashboards)
    watched = dashboards.watch(address, tabs=20, seconds=20)
    calls = sorted(1000 * second for seconds in watched.switches.values() for second in seconds)
    median, late = statistics.median(calls), calls[int(0.95 * len(calls))]
    print(
        f"    20 dashboards: {len(calls)} switches, median {median:.0f} ms, 95% within {late:.0f} ms"
    )
    goals.check(f"{name}: a switch under 20 dashboards", late, "< 100", late < 100, "ms")
    return {"median_ms": median, "p95_ms": late, "pages": len(watched.pages)}


def facts_of(server):
    facts = {name: fact for name, fact in machine().items() if name not in ("gcc", "river")}
    facts |= {"sqlite": sqlite3.sqlite_version, "postgresql": None}
    if server:
        import psycopg

        with psycopg.connect(server.url()) as connection:
            facts["postgresql"] = connection.info.parameter_status("server_version")
    return facts | {name: _version(name) for name in ("psycopg", "optuna")}


FULL = {
    "seconds": 2,
    "repeats": 6,
    "few_repeats": 1,
    "recorded": 12_800,
    "deep": 100_000,
    "done": 5_000,
    "block": 50,
    "blocks": 40,
    "opened": 500,
    "served": 1_000,
    "completed": 700,
    "replications": 85,
    "joined": 12,
    "reach": 10_000,
    "growth": [10_000, 100_000, 1_000_000],
}
QUICK = {
    **FULL,
    "seconds": 1,
    "repeats": 3,
    "recorded": 6_400,
    "deep": 10_000,
    "done": 500,
    "blocks": 10,
    "opened": 200,
    "served": 300,
    "completed": 500,
    "replications": 10,
    "growth": [10_000, 100_000],
}


PARTS = {
    "sqlite": on_sqlite,
    "postgres": on_postgres,
    "coroutines": on_coroutines,
    "costs": costs,
    "memory": memory,
    "opening": opening,
    "joining": joining,
    "growth": growth,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller and less certain")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="some parts of it")
    parser.add_argument("--folder", help="where the files are made")
    parser.add_argument("--json", metavar="FILE", help="write everything to FILE too")
    options = parser.parse_args()
    size = QUICK if options.quick else FULL
    begin, goals, results = time.monotonic(), Goals(), {}
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(dir=options.folder))
        server = stack.enter_context(own_server()) if _version("psycopg") else None
        facts = facts_of(server)
        print("$ python " + " ".join(sys.argv))
        print("\n".join(f"{name}: {value}" for name, value in facts.items()))
        for part in options.only:
            results[part] = PARTS[part](Places(folder, server), size, goals)
    missed = [line["what"] for line in goals.lines if not line["met"]]
    seconds = time.monotonic() - begin
    print(f"\n{len(goals.lines) - len(missed)} of {len(goals.lines)} goals met, {seconds:.0f} s")
    if options.json:
        record = {
            "machine": facts,
            "command": sys.argv,
            "size": size,
            "seconds": seconds,
            **results,
            "goals": goals.lines,
        }
        Path(options.json).write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
