"""Test live experiments under all faults at once: does each promise hold to the end?

    python benchmarks/soak.py [--minutes 3] [--window 30] [--only sqlite postgresql] [--seed 1] [--folder FOLDER]

Two processes serve an experiment on PostgreSQL, one serves another on SQLite. Users return, answer late, twice, with
another value, or not at all. Meanwhile processes are killed (SIGKILL) and started again, PostgreSQL is stopped and
started again, clocks jump by an hour, the SQLite file is moved away and back, a process is started with another
version of a policy, and an arm is disabled and enabled. Then each experiment is drained and checked:

* every acknowledged assignment is there with its arm, every acknowledged reward once and with its value;
* the runs equal those of `simulate`, bit for bit;
* nobody who came after an arm was disabled was shown it;
* a process with another version of a policy enrolled nobody;
* the policies agree with the ledger (`verify`), and the doctor finds nothing.

An application keeps what it has to report in a file, as a real one would keep it in a queue, so that it can report it
after it was killed. Some users whose reward is 0 never answer: the default reward is 0 too, so the simulation needs
no exception for them.
"""

from __future__ import annotations

import argparse
import contextlib
import heapq
import importlib.util
import itertools
import json
import multiprocessing
import os
import random
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import sameluck as sl
from sameluck.simulation.rewards import reward_at

SERVER = Path(__file__).parent.parent / "tests" / "live" / "server.py"
NAME, WINDOW, THREADS, OPEN = "soak", 30.0, 4, 40
ENVIRONMENT = sl.Bernoulli((0.5, 0.4, 0.3, 0.2))
DISABLED = "3"
EXPERIMENT = sl.Experiment(
    policies={"ucb": "ucb1(2)", "ts": "thompson_bernoulli", "own": sl.External("own")},
    arms=4,
    horizon=60,
    replications=100_000,
    seed=11,
)


class Own:
    """A policy of the application: the arm with the best mean so far, and every tenth period the next one in turn.

    Another version turns every ninth period.
    """

    def __init__(self, every: int) -> None:
        self.version = f"every {every}"
        self.every, self.period = every, 0
        self.pulls, self.totals = np.zeros(4), np.zeros(4)

    def select(self) -> int:
        """Return the arm of the next period."""
        self.period += 1
        if self.period % self.every == 0 or self.pulls.min() == 0:
            return int(self.pulls.argmin())
        return int((self.totals / self.pulls).argmax())

    def update(self, arm: int, reward: float) -> None:
        """Learn from a reward."""
        self.pulls[arm] += 1
        self.totals[arm] += reward


def makers(every: int = 10) -> dict[str, Any]:
    return {"own": lambda _seed: Own(every)}


# The application


class Record:
    """A file of events. Each line is one write, so the file outlives the process."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self.file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def write(self, *words: Any) -> None:
        os.write(self.file, (json.dumps([time.monotonic(), *words]) + "\n").encode())

    def lines(self) -> list[list[Any]]:
        return [json.loads(line) for line in self.path.read_text().splitlines()]


class Application:
    """A process that serves users in threads until it ends or is killed."""

    def __init__(self, number: int, url: str, record: str, every: int) -> None:
        self.number, self.url, self.every = number, url, every
        self.record = Record(record)
        self.random = random.Random(f"{number} {os.getpid()}")
        self.lock = threading.Lock()
        self.ended = False
        self.waiting: list[tuple[float, str]] = []  # rewards to report: when, of which assignment
        self.known: list[str] = []  # units that may return
        self.store: sl.Store | None = None
        self.live: Any = None

    def run(self) -> None:
        signal.signal(signal.SIGTERM, lambda *_: setattr(self, "ended", True))
        for which, hours in ((signal.SIGUSR1, 1), (signal.SIGUSR2, -1)):
            signal.signal(which, lambda *_, hours=hours: self.jump(hours))
        self.continue_after_kill()
        threads = [threading.Thread(target=self.serve, daemon=True) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            time.sleep(0.05)

    def jump(self, hours: int) -> None:
        right = time.time
        time.time = lambda: right() + 3600 * hours

    def opened(self) -> Any:
        """Return the experiment, opened again if the last store failed."""
        with self.lock:
            if self.live is None:
                if self.store is not None:
                    self.store.close()
                if self.url.startswith("sqlite") and not Path(self.url[10:]).exists():
                    raise sl.Unavailable("the file is away")  # opening would make a new one
                self.store = sl.open(self.url, actor=f"application {self.number}")
                self.live = self.store.load(NAME, makers=makers(self.every))
            return self.live

    def continue_after_kill(self) -> None:
        """Read the record: units without an answer come again, unacknowledged rewards are reported again."""
        begun, heard, rewarded = [], {}, set()
        for _, event, *words in self.record.lines():
            if event == "unit":
                begun.append(words[0])
            elif event == "assigned":
                heard[words[0]] = words[1]
            elif event == "rewarded":
                rewarded.add(words[0])
        self.numbers = itertools.count(len(begun))
        self.again = [unit for unit in begun if unit not in heard]
        self.queued = set(heard.values())
        for id in heard.values():
            if id is not None and id not in rewarded:
                heapq.heappush(self.waiting, (time.monotonic(), id))

    def serve(self) -> None:
        while not self.ended:
            try:
                self.serve_one()
            except (sl.Unavailable, sl.Misconfigured, sl.Diverged) as error:
                self.record.write("error", type(error).__name__, str(error)[:200])
                if self.url.startswith("sqlite"):  # a file that was moved must be opened anew
                    with self.lock:
                        self.live = None
                time.sleep(0.1)
            except BaseException as error:
                sys.excepthook(type(error), error, error.__traceback__)
                os._exit(3)

    def serve_one(self) -> None:
        live = self.opened()
        if (id := self.due()) is not None:
            return self.report(live, id)
        unit = self.next_unit()
        began = time.monotonic()
        answer = live.assign(unit)
        if answer.reason in ("UNAVAILABLE", "DIVERGED"):
            with self.lock:
                self.again.append(unit)
            self.record.write("turned away", unit, answer.reason)
            if answer.reason == "UNAVAILABLE":
                raise sl.Unavailable(answer.reason)
            time.sleep(0.05)
            return None
        self.record.write("assigned", unit, answer.id, answer.arm, answer.reason, began, self.every)
        if answer.id is None:
            time.sleep(0.002)
        elif answer.id not in self.queued:  # also if a call before it was not heard
            with self.lock:
                self.queued.add(answer.id)
                self.known.append(unit)
                delay = min(WINDOW / 6, self.random.paretovariate(1.0) * 0.005)
                heapq.heappush(self.waiting, (time.monotonic() + delay, answer.id))
        return None

    def due(self) -> str | None:
        """Return an assignment whose reward is due."""
        with self.lock:
            if self.waiting and self.waiting[0][0] <= time.monotonic():
                return heapq.heappop(self.waiting)[1]
        return None

    def next_unit(self) -> str:
        with self.lock:
            if self.again:
                return self.again.pop()
            if self.known and self.random.random() < 0.1:
                return self.random.choice(self.known[-1_000:])
            unit = f"{self.number}-{next(self.numbers)}"
        self.record.write("unit", unit)
        return unit

    def report(self, live: Any, id: str) -> None:
        try:
            details = live.describe(id)
            address = (details.replication, details.policy, details.arm_index, details.position)
            value = float(reward_at(EXPERIMENT, ENVIRONMENT, *address))
            if value == 0 and self.random.random() < 0.05:
                self.record.write("rewarded", id, None)  # it never comes
                return
            live.reward(id, value)
            self.record.write("rewarded", id, value)
            if self.random.random() < 0.1:
                assert live.reward(id, value).duplicate
            if self.random.random() < 0.05:
                with contextlib.suppress(sl.Conflict):
                    live.reward(id, 1 - value)
                    self.record.write("error", "Doubled", f"{id} took a second value")
        except (sl.Unavailable, sl.Misconfigured):
            with self.lock:
                heapq.heappush(self.waiting, (time.monotonic() + 0.2, id))
            raise


def application(*arguments: Any) -> None:
    try:
        Application(*arguments).run()
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        os._exit(3)


# Faults


def _lines(path: Path) -> list[str]:
    """Return the lines of a file, none if it does not exist yet."""
    with contextlib.suppress(FileNotFoundError):
        return path.read_text().splitlines()
    return []


class Store(NamedTuple):
    """A database and its faults."""

    kind: str
    url: str
    folder: Path
    server: Any = None

    def restart_server(self) -> None:
        """Stop PostgreSQL at once, as in a crash, and start it again."""
        data = self.server.folder / "data"
        # The one before may be starting still, on a busy machine for seconds.
        until = time.monotonic() + 60
        while not _lines(data / "postmaster.pid"):
            assert time.monotonic() < until, "PostgreSQL does not start"
            time.sleep(0.02)
        command = shlex.split((data / "postmaster.opts").read_text())
        owner = data.stat()
        os.kill(int(_lines(data / "postmaster.pid")[0]), signal.SIGQUIT)
        while (data / "postmaster.pid").exists():
            time.sleep(0.02)
        account = {"user": owner.st_uid, "group": owner.st_gid} if os.geteuid() == 0 else {}
        with (self.folder / "postgresql.log").open("ab") as log:
            subprocess.Popen(
                command,
                cwd=self.server.folder,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **account,
            )

    def move_file(self) -> None:
        """Move the SQLite file and its log away for a while, and back."""
        path = Path(self.url.removeprefix("sqlite:///"))
        away = path.parent / "away"
        away.mkdir(exist_ok=True)
        moved = [
            file for suffix in ("", "-wal", "-shm") if (file := Path(f"{path}{suffix}")).exists()
        ]
        for file in moved:
            file.rename(away / file.name)
        time.sleep(0.5)
        assert not path.exists(), "a process made a new file in place of the one that was moved"
        for file in reversed(moved):
            (away / file.name).rename(file)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        if self.kind == "sqlite":
            with contextlib.closing(sqlite3.connect(self.url.removeprefix("sqlite:///"))) as found:
                return found.execute(sql).fetchall()
        import psycopg

        with psycopg.connect(self.url) as connection:
            return connection.execute(sql).fetchall()


class Soak:
    """An experiment with its applications and its faults."""

    def __init__(self, store: Store, seed: int, window: float) -> None:
        self.store = store
        self.window = window
        self.random = random.Random(f"{seed} {store.kind}")
        self.processes: dict[int, Any] = {}
        self.every = dict.fromkeys(range(2 if store.kind == "postgresql" else 1), 10)
        self.faults: Counter[str] = Counter()
        self.disabled: list[list[float]] = []

    def start(self) -> None:
        with sl.open(self.store.url) as opened:
            options = sl.LiveOptions(
                open_replications=OPEN, reward=sl.Reward(min=0, max=1, window_seconds=self.window)
            )
            opened.start(NAME, EXPERIMENT, options=options, makers=makers())
        for number in self.every:
            self.launch(number)

    def record(self, number: int) -> str:
        return str(self.store.folder / f"{self.store.kind}-{number}.jsonl")

    def launch(self, number: int) -> None:
        context = multiprocessing.get_context("forkserver")
        arguments = (number, self.store.url, self.record(number), self.every[number])
        self.processes[number] = context.Process(target=application, args=arguments)
        self.processes[number].start()

    def kill(self, number: int | None = None) -> None:
        number = self.random.choice(list(self.processes)) if number is None else number
        if self.processes[number].exitcode is not None:
            code = self.processes[number].exitcode
            raise AssertionError(f"application {number} on {self.store.kind} ended with {code}")
        self.processes[number].kill()
        self.processes[number].join()
        self.launch(number)
        self.faults["kills"] += 1

    def inject_faults(self, until: float) -> None:
        """Cause about one fault per second until the time is over."""
        usual = [self.kill, self.kill, self.jump_clock]
        database_faults = (
            [self.restart_server] if self.store.kind == "postgresql" else [self.move_file]
        )
        rare = [self.deploy, self.disable]
        for turn in itertools.count(1):
            time.sleep(self.random.uniform(0.3, 1.5))
            if time.monotonic() > until:
                return
            self.random.choice(rare if turn % 8 == 0 else usual + database_faults)()

    def jump_clock(self) -> None:
        process = self.random.choice(list(self.processes.values()))
        os.kill(process.pid, self.random.choice([signal.SIGUSR1, signal.SIGUSR2]))
        self.faults["clock jumps"] += 1

    def restart_server(self) -> None:
        self.store.restart_server()
        self.faults["database restarts"] += 1

    def move_file(self) -> None:
        # A process that is just starting would make a new file.
        record = Path(self.record(0))
        size = record.stat().st_size if record.exists() else 0
        while not record.exists() or record.stat().st_size == size:
            time.sleep(0.05)
        self.store.move_file()
        self.faults["moved files"] += 1

    def deploy(self) -> None:
        """Replace a process by one with another version of a policy, and back after a while."""
        number = self.random.choice(list(self.processes))
        self.every[number] = 9
        self.kill(number)
        time.sleep(2)
        self.every[number] = 10
        self.kill(number)
        self.faults["deploys of another version"] += 1

    def disable(self) -> None:
        self.control(lambda live: live.disable_arm(DISABLED, reason="soak"))
        self.disabled.append([time.monotonic(), np.inf])
        time.sleep(2)
        self.disabled[-1][1] = time.monotonic()
        self.control(lambda live: live.enable_arm(DISABLED, reason="soak"))
        self.faults["arms disabled"] += 1

    def control(self, change: Any) -> None:
        """Make a change as an operator would; on SQLite the application, which owns the file, stops meanwhile."""
        if self.store.kind == "sqlite":
            self.end(0)
        while True:
            try:
                with sl.open(self.store.url, actor="operator") as opened:
                    change(opened.load(NAME, makers=makers()))
                break
            except sl.Unavailable:
                time.sleep(0.1)
        if self.store.kind == "sqlite":
            self.launch(0)

    def end(self, number: int) -> None:
        self.processes[number].terminate()
        self.processes[number].join(60)
        code = self.processes[number].exitcode
        if code not in (0, -signal.SIGTERM):  # the latter while it was starting, which is a kill
            raise AssertionError(f"application {number} on {self.store.kind} ended with {code}")

    def drain(self) -> None:
        self.control(lambda live: live.stop(reason="the soak is over"))
        seconds = 10 * self.window  # a replication waits for each of its users who never answer
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            time.sleep(1)
            with sl.open(self.store.url, read_only=True) as opened:
                if opened.peek(NAME).status().status in ("stopped", "complete"):
                    break
        else:
            raise AssertionError(f"{self.store.kind} was not drained in {seconds:g} seconds")
        for number in self.processes:
            self.end(number)

    # What must be true at the end

    def check(self) -> dict[str, Any]:
        lines = [line for number in self.every for line in Record(self.record(number)).lines()]
        errors = Counter(line[2] for line in lines if line[1] == "error")
        assert "Doubled" not in errors, "a reward was taken twice"
        kept = self.check_kept(lines)
        self.check_arms(lines)
        with sl.open(self.store.url) as opened:
            live = opened.load(NAME, makers=makers())
            live.verify()
            runs = live.runs()
            expected = sl.simulate(
                EXPERIMENT,
                ENVIRONMENT,
                replications=range(runs.replications),
                makers=makers(),
                workers=1,
            )
            for field in ("rewards", "pulls", "interactions"):
                assert np.array_equal(getattr(runs, field), getattr(expected, field)), field
            bad = [
                check
                for check in live.diagnostics(silence_is_zero=True)
                if check.verdict == "alarm"
            ]
        assert not bad, bad
        return {
            "users": sum(line[1] == "assigned" and line[3] is not None for line in lines),
            "rewards acknowledged": kept,
            "replications": runs.replications,
            **self.faults,
            "calls refused": sum(errors.values()),
        }

    def check_kept(self, lines: list[list[Any]]) -> int:
        arms = dict(self.store.rows("SELECT id, arm FROM assignment"))
        values = dict(
            self.store.rows("SELECT assignment, value FROM entry WHERE source = 'observed'")
        )
        events = "SELECT assignment FROM reward_event WHERE outcome = 'applied'"
        applied = Counter(id for (id,) in self.store.rows(events))
        assert applied == Counter(values.keys()), "a reward was applied twice, or never"
        kept = 0
        for _, event, *words in lines:
            if event == "assigned" and words[1] is not None:
                assert str(arms[words[1]]) == words[2], f"assignment {words[1]} has another arm"
            if event == "rewarded" and words[1] is not None:
                assert values[words[0]] == words[1], f"the reward of {words[0]} was lost"
                kept += 1
        return kept

    def check_arms(self, lines: list[list[Any]]) -> None:
        for _, event, *words in lines:
            if event != "assigned":
                continue
            _, id, arm, reason, began, every = words
            for since, until in self.disabled:
                wrong = arm == DISABLED and since < began < until
                assert not wrong, f"{id} was shown a disabled arm"
            assert every == 10 or reason != "ASSIGNED", f"{id} was assigned by another version"


@contextlib.contextmanager
def stores(kinds: list[str], folder: Path) -> Any:
    if "postgresql" not in kinds:
        yield [Store("sqlite", f"sqlite:///{folder / 'soak.db'}", folder)]
        return
    spec = importlib.util.spec_from_file_location("server", SERVER)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with module.running(fsync=True) as server:
        found = [Store("postgresql", server.url(), folder, server)]
        if "sqlite" in kinds:
            found.append(Store("sqlite", f"sqlite:///{folder / 'soak.db'}", folder))
        yield found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument(
        "--window",
        type=float,
        default=WINDOW,
        help="seconds for a reward: more than a process that was killed takes to start again",
    )
    parser.add_argument("--only", nargs="*", choices=["sqlite", "postgresql"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder")
    options = parser.parse_args()
    folder = Path(options.folder or tempfile.mkdtemp(prefix="sameluck-soak-"))
    folder.mkdir(exist_ok=True)
    for which in (signal.SIGUSR1, signal.SIGUSR2):  # also in applications that are just starting
        signal.signal(which, signal.SIG_IGN)
    multiprocessing.set_forkserver_preload(["sameluck", "soak"])
    with stores(options.only or ["sqlite", "postgresql"], folder) as places:
        soaks = [Soak(store, options.seed, options.window) for store in places]
        until = time.monotonic() + 60 * options.minutes
        failed: list[BaseException] = []

        def run(soak: Soak) -> None:
            try:
                soak.start()
                soak.inject_faults(until)
                soak.drain()
                print(f"{soak.store.kind}: {json.dumps(soak.check())}", flush=True)
            except BaseException as error:
                failed.append(error)
                raise
            finally:
                for process in soak.processes.values():
                    process.kill()

        threads = [threading.Thread(target=run, args=[soak]) for soak in soaks]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if failed:
        sys.exit(f"a promise was broken; what happened is in {folder}")
    if not options.folder:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
