"""Ctrl-C ends a process within a second while machine code of a user's function runs."""

import os
import pty
import select
import signal
import subprocess
import sys
import time

import pytest

from sameluck.compilation.interruption import in_threads

HANGING = """
import sys, threading, time
from collections.abc import Sequence
from typing import NamedTuple
import sameluck as sl

class Mine(NamedTuple):
    size: int = 1

@sl.selects(Mine)
def _(policy, tally, period, noise):
    while period > 250:  # after the periods that are checked, by a number that stays above it
        period = 251 + period * 5 % 7
    return period % 2

class Endless(NamedTuple):
    size: int = 1

@sl.selects(Endless)
def _(policy, tally, period, noise):
    while True:
        pass

class Mean(NamedTuple):
    means: Sequence[float]

@sl.draws(Mean)
def _(parameters, row, arm, bits):
    reward = parameters.means[arm]
    while reward > 0:
        reward = 2.0 - reward
    return reward

def tell_when_it_hangs():
    hanging = 0
    while True:
        time.sleep(0.02)
        frame, codes = sys._current_frames()[threading.main_thread().ident], set()
        while frame:
            codes.add(frame.f_code.co_name)
            frame = frame.f_back
        # The main thread waits for machine code, or runs the select function in plain Python.
        hanging = hanging + 1 if codes & {"_result", "_"} else 0
        if hanging % 10 == 9:
            print("hanging", flush=True)

threading.Thread(target=tell_when_it_hangs, daemon=True).start()
"""
CALLS = """
size = {"arms": 2, "horizon": 1_000, "replications": 100}
own_policy = sl.Experiment(policies={"mine": Mine()}, **size)
own_rewards = sl.Experiment(policies={"greedy": sl.EpsilonGreedy()}, **size)
bernoulli, mean = sl.Bernoulli((0.5, 0.4)), Mean((0.5, 0.5))
endless = own_policy.replace(policies={"endless": Endless()})
calls = [
    lambda: sl.simulate(endless, bernoulli),
    lambda: sl.check_policy(Mine(), arms=2, horizon=1_000),
    lambda: sl.simulate(own_policy, bernoulli, workers=1),
    lambda: sl.simulate(own_rewards, mean, workers=1, check=False),
    lambda: sl.simulate(own_policy, bernoulli, workers=2),
]
for call in calls:
    try:
        call()
    except KeyboardInterrupt:
        print("interrupted", flush=True)
calls[2]()
"""
LAUNCH = """
import os, sys
os.close(os.open(os.ttyname(0), os.O_RDWR))  # which makes it the terminal that Ctrl-C comes from
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


class Terminal:
    """A process in a pseudo-terminal, which passes Ctrl-C on as a terminal does."""

    def __init__(self, *words):
        self.parent, child = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-c", LAUNCH, *words],
            stdin=child,
            stdout=child,
            stderr=child,
            start_new_session=True,
        )
        os.close(child)

    def read_until(self, word):
        """Return what the process prints up to a word, to its end or in five minutes."""
        text, end = "", time.monotonic() + 300
        while word not in text and time.monotonic() < end:
            if not select.select([self.parent], [], [], 1)[0]:
                continue
            try:
                text += os.read(self.parent, 10_000).decode()
            except OSError:  # the end
                break
        return text

    def seconds_to_interrupt(self, word):
        """Press Ctrl-C once machine code hangs; return the seconds until a word is printed, and the text."""
        assert "hanging" in self.read_until("hanging")
        started = time.perf_counter()
        os.write(self.parent, b"\x03")
        text = self.read_until(word)
        return time.perf_counter() - started, text

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.parent)


# Within a second on an idle machine; for ever, before machine code ran in threads of its own.
LIMIT = 60.0


@pytest.fixture
def hanging(tmp_path):
    path = tmp_path / "hanging.py"
    path.write_text(HANGING)
    return path


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_ctrl_c_ends_calls_and_the_process_while_a_users_machine_code_runs(hanging):
    """The select function in plain Python and compiled, the draw function, one worker and two, then the process.

    The first call checks a function without an end.
    """
    hanging.write_text(HANGING + CALLS)
    with Terminal(str(hanging)) as terminal:
        for _ in range(5):
            seconds, text = terminal.seconds_to_interrupt("interrupted")
            assert "interrupted" in text
            assert seconds < LIMIT
        seconds, text = terminal.seconds_to_interrupt("KeyboardInterrupt")
        assert "KeyboardInterrupt" in text
        assert seconds < LIMIT
        # Python takes its modules down while five threads of the calls above keep the cores busy.
        assert terminal.process.wait(10 * LIMIT) == -signal.SIGINT


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_ctrl_c_ends_a_command_while_a_users_machine_code_runs(hanging):
    words = ["compare", "mine", "ucb1", "--env", "bernoulli(0.5, 0.4)", "--import", str(hanging)]
    with Terminal("-m", "sameluck", *words) as terminal:
        seconds, text = terminal.seconds_to_interrupt("the end of the process")
        assert seconds < LIMIT
        assert "error: interrupted; nothing was written" in text
        assert terminal.process.wait(LIMIT) == 130


def test_results_come_in_order_and_errors_where_they_belong():
    assert list(in_threads(lambda number: -number, range(100), 4, ahead=3)) == [
        -n for n in range(100)
    ]
    results = in_threads(lambda number: 1 // (number - 2), range(100), 3)
    assert [next(results), next(results)] == [-1, -1]
    with pytest.raises(ZeroDivisionError):
        next(results)


def test_no_item_is_begun_after_the_end():
    begun = []
    results = in_threads(begun.append, range(10_000), 2, ahead=5)
    next(results)
    results.close()
    time.sleep(0.05)
    assert len(begun) < 20
