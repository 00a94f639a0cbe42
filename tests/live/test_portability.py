"""Everything but SQLite's `flock` works where `fcntl` and `select.poll` do not exist."""

import select
import socket
import subprocess
import sys

import pytest

import sameluck as sl
from sameluck.live.databases import pipeline

HIDE = """
import select, sys
sys.modules["fcntl"] = None
del select.poll
for name in ("POLLIN", "POLLOUT"):
    delattr(select, name)
"""
WORK = """
import sameluck as sl
experiment = sl.Experiment(policies={"a": "ucb1", "b": "thompson_bernoulli"}, arms=2, horizon=20, replications=5)
print(len(sl.compare(sl.simulate(experiment, "bernoulli(0.4, 0.6)")).effects))
with sl.open("sqlite://") as store:
    live = store.start("trial", experiment, options={"reward": {"min": 0, "max": 1}})
    unit = 0
    while live.status().status == "running":
        answer = live.assign(unit)
        unit += 1
        live.reward(answer.id, unit % 2)
    print(live.runs().replications)
"""
COMMAND = (
    "sys.argv = ['sameluck', 'policies']; from sameluck.__main__ import main; sys.exit(main())"
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "output"), [(WORK, "1\n5\n"), (COMMAND, "ucb1")], ids=["library", "command"]
)
def test_works_without_fcntl_and_poll(code, output):
    done = subprocess.run(
        [sys.executable, "-c", HIDE + code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert output in done.stdout


def test_poll_by_select():
    """Waits for the socket to be readable or, if requested, writable; no longer than the timeout."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        poll = pipeline._SelectPoll()
        poll.register(ours.fileno(), select.POLLIN)
        poll.poll(1)  # nothing came
        theirs.send(b"x")
        poll.poll(60_000)
        assert ours.recv(1) == b"x"
        poll.modify(ours.fileno(), select.POLLIN | select.POLLOUT)
        poll.poll(60_000)


def test_postgres_without_poll(postgres_url, monkeypatch):
    monkeypatch.setattr(pipeline, "_new_poll", pipeline._SelectPoll)
    with sl.open(postgres_url) as store:
        small = sl.Experiment(policies={"a": "ucb1"}, arms=2, horizon=3, replications=1)
        live = store.start("trial", small)
        for unit in range(3):
            live.reward(live.assign(unit).id, 1.0)
        assert live.status().status == "complete"
