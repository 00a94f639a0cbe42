"""Measure the service's speed against an empty FastAPI route with the same JSON round trips.

    python benchmarks/service.py [--quick] [--db sqlite|postgresql] [--json FILE]

A pair is an assignment and its reward, two requests. Servers run in separate processes and take turns. One process
calls them over persistent connections with a minimal client, since httpx would be slower than the servers. Shares are
computed from pairs per second, and from processor time, which depends little on other programs. A run at twice the
capacity has duplicates, lost rewards and heavy-tailed delays; afterwards every acknowledged reward must be in the
ledger once.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import count
from pathlib import Path
from typing import NamedTuple

import psutil

import sameluck as sl
from core import machine
from live import experiment_of, new_database, own_server

CONNECTIONS = 32
EMPTY = """
import sys
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

app = FastAPI()

class Arrival(BaseModel):
    unit: str

class Reward(BaseModel):
    value: float

@app.post("/v1/experiments/{name}/assignments", status_code=201)
async def assign(name: str, body: Arrival):
    return {"id": "asg_" + body.unit.rjust(32, "0"), "arm": "0", "enrolled": True, "reason": "ASSIGNED"}

@app.post("/v1/assignments/{id}/reward")
async def reward(id: str, body: Reward):
    return {"applied": True, "duplicate": False, "value": body.value}

@app.post("/v1/experiments")
async def create():
    return {}

uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning", access_log=False)
"""
UNITS = count(1)


class Caller:
    """A persistent connection."""

    def __init__(self, port, token):
        self.port, self.token = port, token

    async def __aenter__(self):
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        return self

    async def __aexit__(self, *_):
        self.writer.close()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()

    async def post(self, path, body):
        content = json.dumps(body).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nAuthorization: Bearer {self.token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        )
        self.writer.write(head.encode() + content)
        answer = await self.reader.readuntil(b"\r\n\r\n")
        length = int(answer.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        return int(answer[9:12]), json.loads(await self.reader.readexactly(length))


class Server(NamedTuple):
    """A server to call."""

    name: str
    port: int
    token: str
    pid: int
    database: int | None = None  # PostgreSQL's main process

    def processor_seconds(self):
        """Return the processor time of the server and of its database."""
        return processor_seconds(self.pid), processor_seconds(self.database)

    def caller(self):
        return Caller(self.port, self.token)


def processor_seconds(pid):
    """Return the processor time of a process and its children."""
    if pid is None:
        return 0.0
    process = psutil.Process(pid)
    total = sum(process.cpu_times()[:4])  # includes children that have ended
    for child in process.children():
        with contextlib.suppress(psutil.NoSuchProcess):
            total += sum(child.cpu_times()[:2])
    return total


async def pair(caller):
    """Serve a user: assign an arm, then report a reward; return the seconds of each request."""
    began = time.perf_counter()
    status, answer = await caller.post(
        "/v1/experiments/bench/assignments", {"unit": str(next(UNITS))}
    )
    middle = time.perf_counter()
    if status not in (200, 201):
        raise RuntimeError(f"{status}: {answer}")
    if answer["id"] is None:  # the fallback arm
        return (middle - began,)
    value = float(random.random() < 0.3)
    status, answer = await caller.post(f"/v1/assignments/{answer['id']}/reward", {"value": value})
    if status != 200:
        raise RuntimeError(f"{status}: {answer}")
    return middle - began, time.perf_counter() - middle


async def closed_loop(server, seconds):
    """Return pairs per second with every connection busy, and the processor time per pair."""
    pairs, end, before = [], time.perf_counter() + seconds, server.processor_seconds()

    async def user():
        async with server.caller() as caller:
            while time.perf_counter() < end:
                pairs.append(await pair(caller))

    await asyncio.gather(*(user() for _ in range(CONNECTIONS)))
    complete = sum(len(latencies) == 2 for latencies in pairs)
    costs = zip(before, server.processor_seconds(), strict=True)
    return complete / seconds, *((after - then) / max(1, complete) for then, after in costs)


async def open_loop(server, rate, seconds):
    """Return the latencies of requests that arrive at random times, whether or not earlier requests are answered."""
    latencies, idle, tasks = [], [], []

    async def user():
        caller = idle.pop() if idle else await server.caller().__aenter__()
        latencies.extend(await pair(caller))
        idle.append(caller)

    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        tasks.append(asyncio.ensure_future(user()))
        await asyncio.sleep(random.expovariate(rate))
    await asyncio.gather(*tasks)
    for caller in idle:
        await caller.__aexit__()
    return sorted(latencies)


async def overload(server, rate, seconds):
    """Send twice the capacity, with duplicate, lost and late rewards; return acknowledged and refused requests."""
    acknowledged, refused, tasks, idle = {}, count(), [], []

    async def post(path, body):
        caller = idle.pop() if idle else await server.caller().__aenter__()
        answer = await caller.post(path, body)
        idle.append(caller)
        return answer

    async def user():
        unit = {"unit": str(next(UNITS))}
        status, answer = await post("/v1/experiments/bench/assignments", unit)
        if status not in (200, 201) or answer["id"] is None:
            next(refused)
            return
        if random.random() < 0.05:
            return  # lost
        await asyncio.sleep(min(2.0, random.paretovariate(1.2) * 0.01))
        value = float(random.random() < 0.3)
        for _ in range(1 + (random.random() < 0.1)):
            status, _ = await post(f"/v1/assignments/{answer['id']}/reward", {"value": value})
            if status == 200:
                acknowledged[answer["id"]] = value

    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        tasks.append(asyncio.ensure_future(user()))
        await asyncio.sleep(random.expovariate(2 * rate))
    await asyncio.gather(*tasks, return_exceptions=True)
    for caller in idle:
        await caller.__aexit__()
    return acknowledged, next(refused), len(tasks)


@contextlib.contextmanager
def process(*command, cwd):
    with subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, text=True) as started:
        try:
            yield started
        finally:
            started.terminate()


@contextlib.contextmanager
def empty_route(folder):
    port = 18_399
    with process(sys.executable, "-c", EMPTY, str(port), cwd=folder) as started:
        server = Server("empty FastAPI route", port, "none", started.pid)
        for _ in range(200):
            with contextlib.suppress(OSError):
                asyncio.run(_create(server))
                break
            time.sleep(0.1)
        yield server


@contextlib.contextmanager
def service(folder, url, database):
    command = (sys.executable, "-m", "sameluck", "serve", "--port", "0", "--json", "--db", url)
    with process(*command, cwd=folder) as started:
        record = json.loads("".join(iter(started.stdout.readline, "}\n")) + "}")
        port = int(record["url"].rpartition(":")[2])
        server = Server("sameluck serve", port, record["token"], started.pid, database)
        asyncio.run(_create(server))
        yield server


async def _create(server):
    values = experiment_of(horizon=100_000, replications=256).to_dict()
    live = {"open_replications": 256, "reward": {"min": 0, "max": 1, "window_seconds": 3600}}
    async with server.caller() as caller:
        return await caller.post(
            "/v1/experiments", {**values, "name": "bench", "live": live, "start": True}
        )


def percentile(values, share):
    return values[min(len(values) - 1, int(share * len(values)))] * 1_000


def check(url, acknowledged):
    """Check that every acknowledged reward is in the ledger once."""
    with sl.open(url) as store:
        live = store.load("bench")
        wrong = [id for id, value in acknowledged.items() if live.describe(id).value != value]
        assert not wrong, f"{len(wrong)} acknowledged rewards are not in the ledger"
        return live.status().settled


def measure(folder, url, pid, rounds, seconds):
    with empty_route(folder) as empty, service(folder, url, pid) as served:
        rates = {empty.name: [], served.name: []}
        for server in (empty, served):
            asyncio.run(closed_loop(server, 1.0))  # warm
        for _ in range(rounds):
            for server in (empty, served):
                rates[server.name].append(asyncio.run(closed_loop(server, seconds)))
        medians = {
            name: [statistics.median(column) for column in zip(*rounds, strict=True)]
            for name, rounds in rates.items()
        }
        capacity, cost, cost_of_database = medians[served.name]
        empty_rate, empty_cost, _ = medians[empty.name]
        half = asyncio.run(open_loop(served, capacity / 2, 2 * seconds))
        acknowledged, refused, users = asyncio.run(overload(served, capacity, 2 * seconds))
    settled = check(url, acknowledged)
    return {
        "pairs_per_second": {empty.name: round(empty_rate), served.name: round(capacity)},
        "share_of_empty_route": round(capacity / empty_rate, 3),
        "processor_ms_per_pair": {
            empty.name: round(1_000 * empty_cost, 3),
            served.name: round(1_000 * cost, 3),
            "PostgreSQL": round(1_000 * cost_of_database, 3),
        },
        "share_by_processor_time": round(empty_cost / cost, 3),
        "p50_ms_at_half_load": round(percentile(half, 0.5), 2),
        "p99_ms_at_half_load": round(percentile(half, 0.99), 2),
        "overload": {
            "users": users,
            "fallback": refused,
            "acknowledged": len(acknowledged),
            "all_in_the_ledger": True,
            "settled": settled,
        },
    }


@contextlib.contextmanager
def database(name, folder):
    """Yield the address of an empty database with fsync on, and PostgreSQL's process."""
    if name == "sqlite":
        yield f"sqlite:///{folder}/bench.db", None
        return
    with own_server() as server, new_database(server) as url:
        yield url, server.pid


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--db", choices=["sqlite", "postgresql"], default="sqlite")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rounds, seconds = (2, 1.5) if options.quick else (5, 4.0)
    with tempfile.TemporaryDirectory() as folder, database(options.db, folder) as where:
        results = {"machine": machine(), options.db: measure(folder, *where, rounds, seconds)}
    print(json.dumps(results, indent=2))
    if options.json:
        options.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    random.seed(7)
    main()
