"""Measure a service from outside, as the person on call and the users see it.

    python benchmarks/on_call.py [--only PART ...] [--db sqlite|postgresql ...] [--entries N] [--kills N]
                                 [--seconds S] [--json FILE]

Parts:

* `tabs`: operators' calls while five tabs show an experiment of `--entries` entries and users are served;
* `kills`: units that stay enrolled although their client answered with the fallback arm, while the service is killed;
* `list`: processor time of the list and of the metrics with 200 experiments, while users of five of them are served;
* `page`: processor time of the page of an experiment with 1,000 arms and 20 policies;
* `restart`: the first list after a restart, with five experiments of `--entries` / 5 entries;
* `changes`: operators' calls while a policy is added to 1,000 open replications and removed again;
* `frozen`: rewards at one of two servers on one PostgreSQL while the other is frozen for five seconds, under load.

Every service is `sameluck serve` in a process of its own, and SQLite and PostgreSQL sync every commit.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import httpx
import psutil

import sameluck as sl
from core import machine
from live import fill_growing, new_database, new_file, own_server
from sameluck.service.addresses import Address
from sameluck.service.api_tokens import Tokens

NAME, ARM, TABS, REFRESH_SECONDS = "bench", "3", 5, 2.0
CALLERS = 24  # clients of a service that is killed
EXPERIMENTS, LIST_SECONDS = 200, 5.0
FREEZES, FROZEN_SECONDS = 30, 5.0
METRICS = {"metrics": "/metrics", "metrics of one": "/metrics?experiment=page%20199"}
SHORT = {"horizon": 2_000, "replications": 60, "open": 60, "window_seconds": 120}


class Service(NamedTuple):
    """A running service."""

    process: subprocess.Popen
    url: str
    token: str

    def processor_seconds(self):
        return sum(psutil.Process(self.process.pid).cpu_times()[:2])

    @property
    def http(self):
        headers = {"Authorization": f"Bearer {self.token}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=60)


class Setting(NamedTuple):
    """An empty database, and the sizes of a measurement."""

    url: str
    kind: str
    entries: int
    kills: int
    seconds: float


@contextlib.contextmanager
def serving(database, *options):
    """Serve a database until the block ends; the service is killed."""
    port = () if "--port" in options else ("--port", "0")
    command = (
        sys.executable,
        "-m",
        "sameluck",
        "serve",
        "--json",
        "--db",
        database,
        *port,
        *options,
    )
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            started = json.loads("".join(iter(process.stdout.readline, "}\n")) + "}")
            service = Service(process, started["url"], started["token"])
            with service.http as http:
                while True:  # until the experiments are loaded
                    with contextlib.suppress(httpx.TransportError):
                        if http.get("/healthz").is_success:
                            break
                    time.sleep(0.05)
            yield service
        finally:
            process.kill()


@contextlib.contextmanager
def databases(names, folder):
    """Yield a function that makes an empty database and returns its URL, for each kind of database."""
    with contextlib.ExitStack() as stack:
        makers = {}
        if "sqlite" in names:
            makers["SQLite"] = lambda: f"sqlite:///{new_file(folder)}"
        if "postgresql" in names:
            server = stack.enter_context(own_server())
            makers["PostgreSQL"] = lambda: stack.enter_context(new_database(server))
        yield makers


def quantiles(seconds):
    """Return the number of calls, and their median, 99% and longest in milliseconds."""
    ordered = sorted(1_000 * second for second in seconds)
    if not ordered:
        return {"calls": 0}
    shares = {"p50_ms": 0.5, "p99_ms": 0.99, "max_ms": 1}
    last = len(ordered) - 1
    return {"calls": len(ordered)} | {
        name: round(ordered[min(last, int(share * len(ordered)))], 1)
        for name, share in shares.items()
    }


# Tabs


def watch_as_tabs(url, token, tabs, paths, pages):
    """Refresh pages as the dashboard's script does, until the process is ended; `pages` gets their seconds."""

    async def tab(client, path):
        tag = ""
        while True:
            begin = time.perf_counter()
            headers = {"X-Refresh": "1"} | ({"If-None-Match": tag} if tag else {})
            answer = await client.get(path, headers=headers)
            tag = answer.headers.get("ETag", "")
            pages.put((answer.status_code, time.perf_counter() - begin))
            await asyncio.sleep(max(0.0, begin + REFRESH_SECONDS - time.perf_counter()))

    async def main():
        async with httpx.AsyncClient(base_url=url, timeout=120) as client:
            await client.post("/login", data={"token": token})
            pages.put(None)  # the tabs are opened now
            await asyncio.gather(*(tab(client, paths[k % len(paths)]) for k in range(tabs)))

    asyncio.run(main())


def serve_users(url, token, pause, calls):
    """Assign and reward users one after the other, until the process is ended; `calls` gets their seconds."""
    with sl.Client(url, token=token) as client:
        live, rng = client.load(NAME), random.Random(1)
        while True:
            begin = time.perf_counter()
            assignment = live.assign(f"user-{rng.random()}")
            if assignment.id is not None:
                live.reward(assignment.id, float(rng.random() < 0.3))
            calls.put(time.perf_counter() - begin)
            time.sleep(pause)


@contextlib.contextmanager
def beside(*jobs):
    """Run functions in processes of their own; yield the queues that they fill."""
    context = multiprocessing.get_context("spawn")
    queues = [context.Queue() for _ in jobs]
    processes = [
        context.Process(target=function, args=(*arguments, queue), daemon=True)
        for (function, *arguments), queue in zip(jobs, queues, strict=True)
    ]
    for process in processes:
        process.start()
    try:
        yield queues
    finally:
        for process in processes:
            process.terminate()
            process.join()


def drain(queue):
    values = []
    while not queue.empty():
        values.append(queue.get())
    return values


def switch(service, seconds, calls):
    """Make operators' calls for some seconds, and stop the experiment at once at the end."""
    path, end, numbers = f"/v1/experiments/{NAME}", time.monotonic() + seconds, range(10**9)
    with service.http as http:

        def call(name, method, address, **body):
            begin = time.perf_counter()
            options = {"json": body} if method == "POST" else {}
            answer = http.request(method, path + address, **options)
            calls.setdefault(name, []).append(time.perf_counter() - begin)
            assert answer.status_code == 200, answer.text
            return answer.json()

        planned = call("status", "GET", "")["status"]["planned"]
        for number in numbers:
            if time.monotonic() > end:
                break
            call("disable_arm", "POST", f"/arms/{ARM}/disable", reason="broken")
            call("status", "GET", "")
            call("enable_arm", "POST", f"/arms/{ARM}/enable", reason="mended")
            call("pause", "POST", "/pause", reason="a moment")
            http.post(f"{path}/resume", json={})
            # Each call changes the number of replications, so that each is a change.
            call("stop", "POST", "/stop", after_replications=planned - number % 2, reason="soon")
            time.sleep(0.1)
        call("stop at once", "POST", "/stop", drain=False, reason="now")


def on_tabs(setting):
    """Measure operators' calls under five tabs, from the moment when the tabs are opened."""
    calls, entries = {}, fill_growing(setting.kind, setting.url, setting.entries)
    with serving(setting.url) as service:
        where = service.url, service.token
        tabs = (watch_as_tabs, *where, TABS, [f"/experiments/{NAME}"])
        with beside((serve_users, *where, 0.05), tabs) as (users, pages):
            assert pages.get(timeout=120) is None
            switch(service, setting.seconds, calls)
            shown, served = drain(pages), drain(users)
    return {
        "entries": entries,
        "pages": quantiles([seconds for _, seconds in shown]),
        "statuses of pages": dict(Counter(str(status) for status, _ in shown)),
        "users": quantiles(served),
        **{title: quantiles(seconds) for title, seconds in calls.items()},
    }


# Kills


class Visit(NamedTuple):
    """Answer of a client to a unit."""

    id: str | None
    reason: str
    began: float  # seconds since 1970
    ended: float


def visit_until(ended, url, token, number, visits):
    """Serve users through a client until `ended` is set; one visit of ten is of a unit that somebody has served."""
    rng, count = random.Random(number), 0
    with sl.Client(url, token=token) as client:
        live = client.load(NAME, fallback="0")
        while not ended.is_set():
            count += 1
            unit = f"{number}-{count}"
            if rng.random() < 0.1 and visits:
                unit = rng.choice(list(visits))
            began = time.time()
            answer = live.assign(unit)
            visit = Visit(answer.id, answer.reason, began, time.time())
            visits.setdefault(unit, []).append(visit)
            while answer.id is not None and not ended.is_set():
                with contextlib.suppress(sl.Unavailable):
                    try:
                        live.reward(answer.id, 1.0)
                    except sl.Conflict as conflict:
                        visits[unit].append(visit._replace(reason=conflict.code))
                    break
                time.sleep(0.05)
            if answer.id is None:
                time.sleep(0.02)


def on_kills(setting):
    """Kill the service many times under clients; count units that are enrolled and were never told."""
    url, visits, ended = setting.url, {}, threading.Event()
    experiment = sl.Experiment(
        policies={"ucb": "ucb1(alpha=2)", "greedy": "epsilon_greedy(epsilon=0.2)"},
        arms=3,
        horizon=SHORT["horizon"],
        replications=SHORT["replications"],
        seed=7,
    )
    reward = sl.Reward(window_seconds=SHORT["window_seconds"])
    with sl.open(url) as store:
        token = Tokens(store.database).create("shop", ["serve", "reward"])
        store.start(
            NAME, experiment, options=sl.LiveOptions(reward=reward, open_replications=SHORT["open"])
        )
    with Address("127.0.0.1", 0).bind() as free:
        port = str(free.getsockname()[1])
    arguments = ended, f"http://127.0.0.1:{port}", token
    callers = [
        threading.Thread(target=visit_until, args=(*arguments, number, visits))
        for number in range(CALLERS)
    ]
    rng = random.Random(7)
    for kill in range(setting.kills):
        with serving(url, "--port", port):
            if not kill:
                for caller in callers:
                    caller.start()
            time.sleep(rng.uniform(0.3, 2))
    with serving(url, "--port", port):
        time.sleep(3)
        ended.set()
        for caller in callers:
            caller.join()
    with sl.open(url) as store:
        return {"kills": setting.kills, **told_and_enrolled(store.load(NAME), visits)}


def told_and_enrolled(live, visits):
    """Compare the answers of clients with the assignments in the database."""
    counts = Counter(units=len(visits), visits=sum(map(len, visits.values())))
    never_told = []
    for unit, answers in visits.items():
        reasons = [answer.reason for answer in answers]
        told = {answer.id for answer in answers} - {None}
        current = live.enrolment.assignment_of(live.enrolment.unit_hash(unit))
        counts["fallback, the service was unavailable"] += "UNAVAILABLE" in reasons
        counts["told"] += bool(told)
        if current is not None and current not in told:
            never_told.append((live.describe(current), answers))
        counts["told, then voided"] += any(live.describe(id).status == "voided" for id in told)
    status = live.status()
    return {
        **counts,
        "settled": status.settled,
        "settled by default": status.defaulted,
        "voided": status.voided,
        "enrolled but never told": len(never_told),
        "details of these": [f"{details}, {answers}" for details, answers in never_told],
    }


# Lists and pages


@contextlib.contextmanager
def logged_in(url):
    """Serve a database; yield the service and a client with a session of the dashboard."""
    with serving(url) as service, service.http as http:
        http.post("/login", data={"token": service.token})
        yield service, http


def measured(service, call):
    """Return the answer of a call, its seconds, and the service's seconds of processor time meanwhile."""
    begin, spent = time.perf_counter(), service.processor_seconds()
    answer = call()
    return answer, time.perf_counter() - begin, service.processor_seconds() - spent


def play(live, users, first=0, pairs=100):
    """Assign and reward users in lists."""
    rng, arms = random.Random(live.name), live.experiment.arm_names
    means = {name: 0.1 + 0.4 * k / len(arms) for k, name in enumerate(arms)}
    for number in range(first, first + users, pairs):
        made = live.assign_many([f"{live.name}-{number + k}" for k in range(pairs)])
        live.reward_many([(row.id, float(rng.random() < means[row.arm])) for row in made if row.id])


def on_list(setting):
    """Measure the list and the metrics with 200 experiments, after the first list."""
    experiment = sl.Experiment(
        policies={"ucb": "ucb1(alpha=2)", "greedy": "epsilon_greedy(epsilon=0.2)"},
        arms=3,
        horizon=50,
        replications=40,
        seed=7,
    )
    with sl.open(setting.url) as store:
        for number in range(EXPERIMENTS):
            play(store.start(f"page {number}", experiment, options={"open_replications": 10}), 600)
    with logged_in(setting.url) as (service, http):
        results = {"experiments": EXPERIMENTS}
        _, results["first list, s"], results["first list, processor s"] = measured(
            service, lambda: until_complete(http)
        )
        busy = [f"page {EXPERIMENTS - 1 - number}" for number in range(5)]
        results |= refreshes(service, http, "list while nobody comes", 6)
        with service_users(service, busy):
            results |= refreshes(service, http, "list while users of 5 come", 12)
        for title, path in METRICS.items():
            answer, seconds, spent = measured(service, lambda path=path: http.get(path))
            results[title] = {
                "status": answer.status_code,
                "bytes": len(answer.content),
                "ms": round(1_000 * seconds),
                "processor_ms": round(1_000 * spent),
            }
    return results


def refreshes(service, http, title, count):
    """Refresh the list every five seconds as a tab does; return the processor time of a refresh and its seconds.

    The processor time includes the seconds between two refreshes, without the time that the service takes alone.
    """
    idle, tag, seconds = service.processor_seconds(), "", []
    time.sleep(LIST_SECONDS)
    idle = service.processor_seconds() - idle
    spent = service.processor_seconds()
    for _ in range(count):
        begin = time.perf_counter()
        answer = http.get("/", headers={"X-Refresh": "1"} | ({"If-None-Match": tag} if tag else {}))
        tag = answer.headers.get("ETag", "")
        seconds.append(time.perf_counter() - begin)
        time.sleep(max(0.0, LIST_SECONDS - seconds[-1]))
    spent = (service.processor_seconds() - spent) / count
    return {
        title: quantiles(seconds)
        | {"processor_ms": round(1_000 * (spent - idle)), "alone_ms": round(1_000 * idle)}
    }


@contextlib.contextmanager
def service_users(service, names):
    """Serve about two users per second of each experiment."""
    ended = threading.Event()

    def serve(name):
        with sl.Client(service.url, token=service.token) as client:
            live, count = client.load(name), 0
            while not ended.wait(0.5):
                count += 1
                answer = live.assign(f"late {count}")
                live.reward(answer.id, float(count % 3 == 0))

    threads = [threading.Thread(target=serve, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def until_complete(http):
    """Read the list as a tab does until every row is computed."""
    while True:
        text = http.get("/", headers={"X-Refresh": "1"}).text
        if "data-again" not in text:
            return text
        time.sleep(0.7)


def on_page(setting):
    """Measure the page of a wide experiment: the first, and after each of a few users."""
    policies = {f"ucb {number}": f"ucb1(alpha={1 + number / 10})" for number in range(20)}
    experiment = sl.Experiment(
        policies=policies, arms=1_000, horizon=1_500, replications=40, seed=7
    )
    with sl.open(setting.url) as store:
        live, users = store.start("wide", experiment, options={"open_replications": 4}), 0
        while live.status().settled < 20_000 or live.status().complete < 4:
            play(live, 2_000, users)
            users += 2_000
        status = live.status()
    results = {"entries": status.settled, "complete replications": status.complete}
    with logged_in(setting.url) as (service, http):
        client = sl.Client(service.url, token=service.token)
        remote = client.load("wide")
        for number in range(4):
            answer, seconds, spent = measured(service, lambda: http.get("/experiments/wide"))
            title = "later page" if number else "first page"
            results.setdefault(title, []).append(
                {"ms": round(1_000 * seconds), "processor_ms": round(1_000 * spent)}
            )
            results["status, bytes"] = answer.status_code, len(answer.content)
            assignment = remote.assign(f"new {number}")
            remote.reward(assignment.id, 1.0)
            time.sleep(1.5)
        client.close()
    return results


def on_restart(setting):
    """Measure the first list after a restart."""
    entries = [
        fill_growing(setting.kind, setting.url, setting.entries // 5, f"page {number}", number)
        for number in range(1, 6)
    ]
    begin = time.perf_counter()
    with logged_in(setting.url) as (service, http):
        started, spent = time.perf_counter() - begin, service.processor_seconds()
        answer, seconds, processor = measured(service, lambda: http.get("/"))
        names = sum(f"page {number}" in answer.text for number in range(1, 6))
        pending = answer.text.count("data-again")
        _, further, more = measured(service, lambda: until_complete(http))
        _, status_seconds, _ = measured(service, lambda: http.get("/v1/experiments"))
    return {
        "entries": entries,
        "until the service answers, s": round(started, 1),
        "processor time until then, s": round(spent, 1),
        "first list, s": round(seconds, 2),
        "names in it": names,
        "is pending": bool(pending),
        "all rows, s": round(seconds + further, 1),
        "processor time of all rows, s": round(processor + more, 1),
        "list of statuses, ms": round(1_000 * status_seconds),
    }


# Long changes


def on_changes(setting):
    """Measure operators' calls while policies are added to 1,000 open replications and removed again."""
    experiment = sl.Experiment(
        policies={"ucb": "ucb1(alpha=2)", "greedy": "epsilon_greedy(epsilon=0.2)"},
        arms=3,
        horizon=1_000,
        replications=1_000,
        seed=7,
    )
    with sl.open(setting.url) as store:
        live = store.start(NAME, experiment, options={"open_replications": 1_000})
        play(live, 30_000)
        status = live.status()
    results, calls = {"open replications": status.opened - status.complete}, {}
    results["entries"] = status.settled
    with serving(setting.url) as service:
        for number in range(5):
            ended = threading.Event()
            change = threading.Thread(target=change_policies, args=(service, number, calls, ended))
            change.start()
            switch_until(service, ended, calls)
            change.join()
    return results | {title: quantiles(seconds) for title, seconds in calls.items()}


def change_policies(service, number, calls, ended):
    """Add a policy and remove it."""
    path, name = f"/v1/experiments/{NAME}/policies", f"late-{number}"
    try:
        with service.http as http:
            begin = time.perf_counter()
            http.post(path, json={"name": name, "policy": "ucb1(alpha=1)"}).raise_for_status()
            middle = time.perf_counter()
            http.delete(f"{path}/{name}").raise_for_status()
            calls.setdefault("add_policy", []).append(middle - begin)
            calls.setdefault("remove_policy", []).append(time.perf_counter() - middle)
    finally:
        ended.set()


def switch_until(service, ended, calls):
    with service.http as http:
        while not ended.is_set():
            for action in ("disable", "enable"):
                begin = time.perf_counter()
                answer = http.post(f"/v1/experiments/{NAME}/arms/2/{action}", json={})
                calls.setdefault("switch meanwhile", []).append(time.perf_counter() - begin)
                answer.raise_for_status()
            time.sleep(0.02)


# A frozen neighbour


def on_frozen(setting):
    """Freeze one of two servers under load for five seconds, several times; measure rewards at the other server."""
    if setting.kind == "SQLite":
        return {"left out": "one process writes a SQLite file"}
    experiment = sl.Experiment(
        policies={"ucb": "ucb1(alpha=2)", "greedy": "epsilon_greedy(epsilon=0.2)"},
        arms=3,
        horizon=100_000,
        replications=16,
        seed=7,
    )
    reward = sl.Reward(window_seconds=60)
    with sl.open(setting.url) as store:
        store.start(NAME, experiment, options=sl.LiveOptions(reward=reward, open_replications=16))
    ended, rewards, freezes = threading.Event(), [], []
    with serving(setting.url) as healthy, serving(setting.url) as frozen:
        users = [
            threading.Thread(target=reward_until, args=(ended, service, f"{name}-{k}", calls))
            for name, service, calls in (("a", healthy, rewards), ("b", frozen, []))
            for k in range(8)
        ]
        for user in users:
            user.start()
        time.sleep(5)
        for _ in range(FREEZES):
            begin = time.perf_counter()
            frozen.process.send_signal(signal.SIGSTOP)
            time.sleep(FROZEN_SECONDS)
            frozen.process.send_signal(signal.SIGCONT)
            freezes.append((begin, time.perf_counter()))
            time.sleep(random.uniform(0.5, 1.5))
        ended.set()
        for user in users:
            user.join()
    first = freezes[0][0]
    during = [
        row
        for row in rewards
        if any(begin <= row.end and row.begin <= end for begin, end in freezes)
    ]
    return {
        "freezes": FREEZES,
        "rewards before": quantiles([row.end - row.begin for row in rewards if row.end < first]),
        "rewards during a freeze": quantiles([row.end - row.begin for row in during]),
        "longer than 1 s": sum(row.end - row.begin > 1 for row in during),
        "statuses": dict(Counter(str(row.status) for row in during)),
    }


class TimedReward(NamedTuple):
    """Call of a reward, and the status of its answer."""

    begin: float
    end: float
    status: int


def reward_until(ended, service, name, calls):
    """Assign and reward users one after the other; a server that does not answer is asked again."""
    headers = {"Authorization": f"Bearer {service.token}"}
    with httpx.Client(base_url=service.url, headers=headers, timeout=30) as http:
        number = 0
        while not ended.is_set():
            number += 1
            path = f"/v1/experiments/{NAME}/assignments"
            id = http.post(path, json={"unit": f"{name}-{number}"}).json()["id"]
            if id is not None:
                begin = time.perf_counter()
                answer = http.post(f"/v1/assignments/{id}/reward", json={"value": number % 2})
                calls.append(TimedReward(begin, time.perf_counter(), answer.status_code))


PARTS = {
    "tabs": on_tabs,
    "kills": on_kills,
    "list": on_list,
    "page": on_page,
    "restart": on_restart,
    "changes": on_changes,
    "frozen": on_frozen,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="some parts of it")
    parser.add_argument("--db", nargs="+", default=["sqlite", "postgresql"])
    parser.add_argument("--entries", type=int, default=500_000)
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results = {"machine": machine()}
    with tempfile.TemporaryDirectory() as folder, databases(options.db, folder) as makers:
        for part in options.only:
            for name, make in makers.items():
                row = results[f"{part}, {name}"] = PARTS[part](
                    Setting(make(), name, options.entries, options.kills, options.seconds)
                )
                print(f"{part}, {name}:")
                for title, figure in row.items():
                    print(f"  {title}: {figure}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
