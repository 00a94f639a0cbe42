"""Everything but SQLite's `flock` works where `fcntl` and `select.poll` do not exist."""

import subprocess
import sys

import pytest

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
