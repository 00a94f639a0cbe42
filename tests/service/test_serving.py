"""`sameluck serve` and `sameluck token`: a real server, ended and killed while it is used."""

import contextlib
import json
import signal
import subprocess
import sys
import threading
import time

import httpx
import pytest

import sameluck as sl
from sameluck import cli

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
    command = [sys.executable, "-m", "sameluck", "serve", "--port", "0", "--json", *options]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        try:
            started = json.loads("".join(process.stdout.readline() for _ in range(5)))
            headers = {"Authorization": f"Bearer {started['token']}"}
            with httpx.Client(base_url=started["url"], headers=headers, timeout=10) as http:
                yield process, http
        finally:
            process.kill()


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
@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGKILL])
def test_what_was_acknowledged_survives_the_end_of_the_server(tmp_path, sent):
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
        process.send_signal(sent)
        began = time.monotonic()
        process.wait(10)
        assert time.monotonic() - began < 5
        ended.set()
        for user in users:
            user.join()
    assert len(acknowledged) >= 20
    with sl.open(f"sqlite:///{tmp_path / 'sameluck.db'}") as store:
        live = store.load("socks")  # verified
        kept = {id: live.describe(id) for id in acknowledged}
        assert {id: one.value for id, one in kept.items()} == acknowledged
        assert {one.status for one in kept.values()} == {"settled"}


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


@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        (["--host", "0.0.0.0"], "sameluck token create"),
        (["--host", "192.0.2.1"], "cannot listen at 192.0.2.1"),
        (["--host", "no.such.host.invalid"], "cannot listen at no.such.host.invalid"),
        (["--db", "sqlite://"], "name a file"),
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
