"""`sameluck serve` and `sameluck token`: a real server, ended and killed while it is used."""

import contextlib
import gc
import json
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import tomllib
from pathlib import Path

import httpx
import pytest
from server import frozen

import sameluck as sl
from sameluck import cli
from sameluck.live.experiment import LiveExperiment
from sameluck.live.store import Store
from sameluck.service import app, process
from sameluck.service.addresses import Address
from sameluck.service.api_tokens import Tokens
from sameluck.service.process import ServiceProcess

EXPERIMENT = {
    "name": "socks",
    "policies": {"ucb": "ucb1(alpha=2)", "greedy": "epsilon_greedy(epsilon=0.2)"},
    "arms": 2,
    "horizon": 500,
    "replications": 40,
    "live": {"reward": {"min": 0, "max": 1}, "open_replications": 40},
    "start": True,
}


@contextlib.contextmanager
def running(folder, *options):
    """A server in a process of its own, and a caller with its token."""
    port = [] if "--port" in options else ["--port", "0"]
    command = [sys.executable, "-m", "sameluck", "serve", "--json", *port, *options]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        try:
            started = json.loads("".join(process.stdout.readline() for _ in range(6)))
            headers = {"Authorization": f"Bearer {started['token']}"}
            with httpx.Client(base_url=started["url"], headers=headers, timeout=10) as http:
                yield process, http
        finally:
            process.kill()


def test_loaded_experiments_are_exempt_from_the_garbage_collector(monkeypatch):
    monkeypatch.setattr(gc, "collect", lambda: None)  # it takes long in a process with many tests
    with sl.open("sqlite://") as store:
        address = Address("127.0.0.1", 0)
        with address.bind() as listener:
            server = ServiceProcess(store, address, listener).server
        try:
            server.exempt_loaded()
            loaded = gc.get_freeze_count()
            server.exempt_loaded()  # nothing was loaded since
            assert gc.get_freeze_count() <= loaded
            more = [[] for _ in range(1_000)]
            server._experiments.loads += 1
            server.exempt_loaded()
            assert gc.get_freeze_count() > loaded + len(more)
        finally:
            gc.unfreeze()


def use(http, first, acknowledged, ended):
    """Users one after the other until the server is gone; what it has acknowledged."""
    number = first
    with contextlib.suppress(httpx.HTTPError):
        while not ended.is_set():
            number += 1
            answer = http.post("/v1/experiments/socks/assignments", json={"unit": number})
            id, value = answer.json()["id"], number % 2
            if id and http.post(f"/v1/assignments/{id}/reward", json={"value": value}).is_success:
                acknowledged[id] = value


@pytest.mark.slow
def test_sigterm_ends_the_server_beside_its_users_and_loses_nothing(tmp_path):
    acknowledged, ended = {}, threading.Event()
    with running(tmp_path) as (process, http):
        assert http.post("/v1/experiments", json=EXPERIMENT).status_code == 201
        users = [
            threading.Thread(target=use, args=(http, 10**6 * n, acknowledged, ended))
            for n in range(4)
        ]
        for user in users:
            user.start()
        until = time.monotonic() + 30
        while len(acknowledged) < 20 and time.monotonic() < until:
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        ended.set()
        for user in users:
            user.join()
    assert len(acknowledged) >= 20
    with sl.open(f"sqlite:///{tmp_path / 'sameluck.db'}") as store:
        live = store.load("socks")  # verified
        kept = {id: live.describe(id) for id in acknowledged}
        assert {id: details.value for id, details in kept.items()} == acknowledged
        assert {details.status for details in kept.values()} == {"settled"}


@pytest.mark.slow
def test_sigterm_ends_the_server_in_time_while_the_database_hangs(
    tmp_path, postgres_server, postgres_url
):
    """Calls under way are told to come again, operators' calls too."""
    answers = []

    def post(http, path, body):
        # The process ends at its promised time, even if a busy machine has left no time for the answer.
        with contextlib.suppress(httpx.TransportError):
            answers.append(http.post(path, json=body))

    with running(tmp_path, "--db", postgres_url) as (process, http):
        assert http.post("/v1/experiments", json=EXPERIMENT).status_code == 201
        path = "/v1/experiments/socks/assignments"
        ids = [http.post(path, json={"unit": unit}).json()["id"] for unit in range(4)]
        calls = [(f"/v1/assignments/{id}/reward", {"value": 1}) for id in ids if id]
        calls += [(f"/v1/experiments/socks/{path}", {}) for path in ("pause", "arms/1/disable")]
        calls.append(("/v1/experiments/socks/policies", {"name": "late", "policy": "uniform"}))
        with frozen(postgres_server.pid):
            threads = [threading.Thread(target=post, args=(http, *call)) for call in calls]
            for thread in threads:
                thread.start()
            time.sleep(0.5)
            process.send_signal(signal.SIGTERM)
            process.wait(60)
            for thread in threads:
                thread.join()
    assert {answer.status_code for answer in answers} == {503}
    assert all(answer.headers["retry-after"] for answer in answers)


@pytest.mark.parametrize("method", ["pause", "add_policy"])
def test_an_operator_whose_call_takes_long_is_told_at_the_end_to_come_again(
    listening, monkeypatch, method
):
    monkeypatch.setattr(process, "GRACE_SECONDS", 0.2)
    begun, may_end, answers = threading.Event(), threading.Event(), []

    def slow(*_arguments, **_options):
        begun.set()
        may_end.wait(30)

    server = listening(sl.open("sqlite://"))
    paths = {"pause": ("pause", {}), "add_policy": ("policies", {"name": "b", "policy": "uniform"})}
    path, body = paths[method]
    with server.http() as http:
        assert http.post("/v1/experiments", json=server.socks).status_code == 201
        monkeypatch.setattr(LiveExperiment, method, slow)
        address = f"/v1/experiments/socks/{path}"
        call = threading.Thread(target=lambda: answers.append(http.post(address, json=body)))
        call.start()
        assert begun.wait(30)
        server.process.server.should_exit = True
        call.join(20)
        may_end.set()
        call.join()
    assert [answer.status_code for answer in answers] == [503]
    assert answers[0].headers["retry-after"] == "1"


def test_operators_are_served_while_long_ledgers_are_loaded(listening, monkeypatch, tmp_path):
    url, may_end, load = f"sqlite:///{tmp_path}/a.db", threading.Event(), Store.load
    with sl.open(url) as store:
        policies = {"ucb": "ucb1", "greedy": "epsilon_greedy"}
        store.start(
            "socks", sl.Experiment(policies=policies, arms=2, horizon=4, replications=2, seed=7)
        )
    monkeypatch.setattr(app, "LOAD_SECONDS", 0.05)
    monkeypatch.setattr(Store, "load", lambda *a, **n: may_end.wait(30) and load(*a, **n))
    with listening(sl.open(url)).http() as http:
        try:
            assert http.get("/healthz").status_code == 200
            assert http.get("/readyz").status_code == 503
            (status,) = http.get("/v1/experiments").json()["experiments"]
            assert (status["name"], status["status"]) == ("socks", "running")
            switched = http.post("/v1/experiments/socks/arms/1/disable", json={})
            assert switched.json()["disabled"] == ["1"]
            path = "/v1/experiments/socks/assignments"
            assert http.post(path, json={"unit": 1}).json()["reason"] == "UNAVAILABLE"
        finally:
            may_end.set()
        until = time.monotonic() + 30
        while http.get("/readyz").status_code != 200:
            assert time.monotonic() < until
            time.sleep(0.05)
        assert http.post(path, json={"unit": 2}).json()["reason"] == "ASSIGNED"


def until_answered(call, *arguments):
    """Return the value of a call, repeated while the server is unavailable."""
    while True:
        try:
            return call(*arguments)
        except sl.Unavailable:
            time.sleep(0.05)


@pytest.mark.slow
def test_a_server_that_is_killed_and_restarted_under_load_loses_and_doubles_nothing(tmp_path, url):
    with sl.open(url) as store:
        token = Tokens(store.database).create("shop", ["serve", "reward", "manage"])
    with Address("127.0.0.1", 0).bind() as free:
        port = str(free.getsockname()[1])
    acknowledged, ended = {}, threading.Event()
    client = sl.Client(f"http://127.0.0.1:{port}", token=token, timeout=0.5)

    def serve_users(first):
        live, number = client.load("socks", fallback="0"), first
        while not ended.is_set():
            number += 1
            if id := live.assign(number).id:
                until_answered(live.reward, id, number % 2)
                acknowledged[id] = number % 2
            else:
                time.sleep(0.02)

    def wait_for_more():
        enough, until = len(acknowledged) + 20, time.monotonic() + 60
        while len(acknowledged) < enough:
            assert time.monotonic() < until
            time.sleep(0.05)

    users = [threading.Thread(target=serve_users, args=(10**6 * n,)) for n in range(8)]
    for kill in range(2):
        with running(tmp_path, "--port", port, "--db", url) as (process, http):
            if not kill:
                assert http.post("/v1/experiments", json=EXPERIMENT).status_code == 201
                for user in users:
                    user.start()
            wait_for_more()
            process.kill()
            process.wait()
    with running(tmp_path, "--port", port, "--db", url):
        wait_for_more()
        ended.set()
        for user in users:
            user.join()
        client.close()
    with sl.open(url) as store:
        live = store.load("socks")  # verified
        assert {id: live.describe(id).value for id in acknowledged} == acknowledged
        assert live.status().settled == len(acknowledged)
        assert live.status().waiting == 0, "a unit is enrolled without an answer"


FREEZES = """
import os, signal, sys
import sameluck as sl
from sameluck.live.calls.timing import time_limit
from sameluck.live.databases.rows import LockedAssignment

attempts = []

def work(transaction):
    transaction.fetch_one(LockedAssignment, "lock_assignment", assignment=sys.argv[2])
    attempts.append(1)
    if len(attempts) == 1:
        print("locked", flush=True)
        os.kill(os.getpid(), signal.SIGSTOP)

with sl.open(sys.argv[1]) as store, time_limit(60):
    store.database.write(work)
print(len(attempts))
"""


@pytest.mark.slow
def test_a_frozen_process_does_not_stop_the_rewards_of_others(tmp_path, postgres_url):
    """It stops with the locks of a replication: the database ends its session, and the other server goes on.

    Otherwise the reward would be refused when its time is over.
    """
    with running(tmp_path, "--db", postgres_url) as (_, http):
        assert http.post("/v1/experiments", json=EXPERIMENT).status_code == 201
        id = enrol([http], "u")[0]["id"]
        command = [sys.executable, "-c", FREEZES, postgres_url, id]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
            try:
                assert other.stdout.readline() == "locked\n"
                answer = http.post(f"/v1/assignments/{id}/reward", json={"value": 1})
                assert answer.status_code == 200, answer.text
                other.send_signal(signal.SIGCONT)
                assert other.stdout.readline() == "2\n"  # its transaction was run again
            finally:
                other.kill()


def call_either(servers, path, body):
    """Return the first answer of several servers, as behind a proxy, and the number of servers without an answer."""
    for failed, http in enumerate(servers):
        with contextlib.suppress(httpx.TransportError):
            answer = http.post(path, json=body)
            assert answer.is_success, answer.text
            return answer.json(), failed
    raise AssertionError("no server answers")


def enrol(servers, unit):
    """Return the assignment of a unit, and the number of servers that did not answer."""
    for _ in range(100):
        path = "/v1/experiments/socks/assignments"
        answer, failed = call_either(servers, path, {"unit": unit})
        if answer["reason"] != "UNAVAILABLE":
            break
    assert answer["enrolled"], answer
    return answer, failed


@pytest.mark.slow
def test_one_of_two_servers_is_killed_and_users_notice_nothing(tmp_path, postgres_url):
    with sl.open(postgres_url) as store:
        token = Tokens(store.database).create("shop", ["serve", "reward", "manage"])
    acknowledged, elsewhere = {}, 0
    with (
        running(tmp_path, "--db", postgres_url) as (first, one),
        running(tmp_path, "--db", postgres_url) as (_, two),
    ):
        for http in (one, two):
            http.headers["Authorization"] = f"Bearer {token}"
        assert one.post("/v1/experiments", json=EXPERIMENT).status_code == 201
        for number in range(60):
            servers = (one, two) if number % 2 else (two, one)
            if number == 30:
                first.kill()
            answer, failed = enrol(servers, number)
            path = f"/v1/assignments/{answer['id']}/reward"
            call_either(servers[::-1], path, {"value": number % 2})
            acknowledged[answer["id"]] = number % 2
            elsewhere += failed
    assert elsewhere == 15
    with sl.open(postgres_url) as store:
        live = store.load("socks")
        assert {id: live.describe(id).value for id in acknowledged} == acknowledged
        assert live.status().settled == len(acknowledged) == 60


def test_answers_are_sent_without_delay():
    """asyncio sets TCP_NODELAY only if the socket's protocol is TCP; otherwise a request takes 40 ms longer."""
    with Address("127.0.0.1", 0).bind() as listener:
        assert listener.proto == socket.IPPROTO_TCP


def test_tokens_are_created_listed_and_revoked(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["token", "create", "shop", "--scope", "reward", "--scope", "serve", "--json"]
    assert cli.run(words) == 0
    created = json.loads(capsys.readouterr().out)
    assert created["token"].startswith("sl_")
    assert cli.run(words) == 2
    assert "shop" in capsys.readouterr().err
    assert cli.run(["token", "revoke", "shop"]) == 0
    assert cli.run(["token", "revoke", "shoe"]) == 2
    assert "did you mean 'shop'" in capsys.readouterr().err
    assert cli.run(["token", "list"]) == 0
    listed = capsys.readouterr().out
    assert "serve, reward" in listed
    assert created["token"] not in listed
    assert cli.run(["token", "create", "x", "--scope", "admin"]) == 2
    with sl.open("sqlite:///sameluck.db"):  # as a service that runs has it
        capsys.readouterr()
        assert cli.run(["token", "revoke", "shop"]) != 0
        assert "DELETE /v1/tokens" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        (["--host", "0.0.0.0"], "sameluck token create"),
        (["--host", "192.0.2.1"], "cannot listen at 192.0.2.1"),
        (["--host", "no.such.host.invalid"], "cannot listen at no.such.host.invalid"),
        (["--db", "sqlite://"], "name a file"),
        (["--demo", "--db", "sqlite:///shop.db"], "omit --db"),
    ],
)
def test_it_does_not_serve_where_it_must_not(tmp_path, monkeypatch, capsys, options, remedy):
    monkeypatch.chdir(tmp_path)
    assert cli.run(["serve", "--port", "0", *options]) == 2
    assert remedy in capsys.readouterr().err


def test_every_address_of_the_machine_needs_the_names_of_the_service(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.run(["token", "create", "shop", "--scope", "serve"]) == 0
    assert cli.run(["serve", "--port", "0", "--host", "0.0.0.0"]) == 2
    assert "--allow-host" in capsys.readouterr().err


DEPLOY = Path(__file__).parent.parent.parent / "deploy"


def test_the_container_starts_the_command_as_it_is():
    """Without a registry, only the names in the instructions can be checked."""
    text = (DEPLOY / "Dockerfile").read_text()
    (copied,) = re.findall(r"^COPY (pyproject.*) \./$", text, re.MULTILINE)
    assert all((DEPLOY.parent / name).exists() for name in copied.split())
    extras = re.search(r"\.\[(.*?)\]", text)[1].split(",")
    project = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text())["project"]
    assert set(extras) <= project["optional-dependencies"].keys()
    entry = json.loads(re.search(r"^ENTRYPOINT (.*)$", text, re.MULTILINE)[1])
    assert entry[0] in project["scripts"]
    assert cli.run([*entry[1:], "--help"]) == 0


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
def test_the_unit_is_valid(tmp_path, capsys):
    text = (DEPLOY / "sameluck.service").read_text()
    command = shlex.split(re.search(r"^ExecStart=(.*)$", text, re.MULTILINE)[1])
    assert cli.run([*command[1:], "--help"]) == 0
    unit = tmp_path / "sameluck.service"
    unit.write_text(text.replace(command[0], sys.executable))
    done = subprocess.run(
        ["systemd-analyze", "verify", unit], check=False, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
