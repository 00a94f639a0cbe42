"""How much memory do diagnostics and exports of a live experiment take as its ledger grows?

    python benchmarks/memory.py [--quick] [--postgres] [--json FILE]

Each figure is of a process of its own on Linux: by how much its resident set grows at most during the call, after
the same call on a small ledger, which loads what both need.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import ledgers
import sameluck as sl

SMALL, FULL, QUICK = 2_000, (100_000, 1_000_000), (20_000, 100_000)  # entries
HORIZON = 1_000
MEANS = [0.3, 0.5, 0.6]
POLICIES = {"control": "ucb1(alpha=2)", "rival": "ucb1(alpha=1)"}
SERVER = Path(__file__).parent.parent / "tests" / "live" / "server.py"
CALLS = {
    "diagnostics": lambda live, _: len(live.diagnostics()),
    "export, CSV": lambda live, folder: live.export(folder / "ledger.csv"),
    "export, JSON Lines": lambda live, folder: live.export(folder / "ledger.jsonl"),
    "export, Parquet": lambda live, folder: live.export(folder / "ledger.parquet"),
    "export of rewards, CSV": lambda live, folder: live.export(
        folder / "rewards.csv", what="rewards"
    ),
}


def experiment_of(entries):
    replications = max(2, round(entries / HORIZON / 1.05))
    return sl.Experiment(
        policies=POLICIES, arms=3, horizon=HORIZON, replications=replications, seed=7
    )


def make(url, entries):
    """A complete experiment of about so many entries."""
    experiment = experiment_of(entries)
    with sl.open(url) as store:
        store.start("shop", experiment)
    made = ledgers.make(experiment, [HORIZON] * experiment.replications, MEANS)
    if url.startswith("sqlite"):
        return ledgers.fill_sqlite(url.removeprefix("sqlite:///"), len(POLICIES), made)
    return ledgers.fill_postgres(url, len(POLICIES), made)


def megabytes():
    """The resident set of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


class Peak(threading.Thread):
    """The largest resident set, looked at every few milliseconds."""

    def __init__(self):
        super().__init__(daemon=True)
        self.most, self.ended = 0.0, threading.Event()

    def run(self):
        while not self.ended.wait(0.005):
            self.most = max(self.most, megabytes())


def measure(call, small, url, folder):
    """In this process: by how many megabytes its resident set grows at most, and seconds."""
    with sl.open(small, read_only=True) as store:
        CALLS[call](store.peek("shop"), Path(folder))
    with sl.open(url, read_only=True) as store:
        live, peak = store.peek("shop"), Peak()
        before, began = megabytes(), time.perf_counter()
        peak.start()
        CALLS[call](live, Path(folder))
        seconds = time.perf_counter() - began
        peak.ended.set()
        peak.join()
    print(json.dumps([max(0.0, peak.most - before), seconds]))


def in_process(*arguments):
    done = subprocess.run(
        [sys.executable, __file__, "--measure", *arguments],
        check=True,
        capture_output=True,
        text=True,
    )
    return json.loads(done.stdout)


@contextlib.contextmanager
def urls(folder, postgres):
    """A function that returns the URL of a new database."""
    if not postgres:
        yield lambda name: f"sqlite:///{folder}/{name}.db"
        return
    spec = importlib.util.spec_from_file_location("server", SERVER)
    server = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(server)
    with server.running() as started, server.Databases(started) as databases:
        yield lambda _: started.url(databases.take())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--postgres", action="store_true")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--measure", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(*options.measure)
        return
    sizes = QUICK if options.quick else FULL
    record = {}
    with tempfile.TemporaryDirectory() as folder, urls(folder, options.postgres) as new:
        small = new("small")
        make(small, SMALL)
        for size in sizes:
            url = new(f"of_{size}")
            count = make(url, size)
            print(f"{count:,} entries")
            for call in CALLS:
                grown, seconds = in_process(call, small, url, folder)
                record.setdefault(call, {})[count] = grown, seconds
                print(f"  {call:<24} {grown:8.1f} MB {seconds:8.1f} s", flush=True)
    if options.json:
        Path(options.json).write_text(json.dumps(record))


if __name__ == "__main__":
    main()
