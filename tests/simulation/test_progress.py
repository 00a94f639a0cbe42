"""`progress=True` prints whole lines, which terminals, notebooks and logs show alike."""

import io
import sys

import pytest

import sameluck as sl
from sameluck.cli.output import progress_bar
from sameluck.simulation import progress

EXPERIMENT = sl.Experiment(policies={"a": sl.UCB1()}, arms=2, horizon=9, replications=40)


class Stream(io.StringIO):
    """The standard error of a notebook: not a terminal."""

    def isatty(self):
        return False


def test_a_line_for_every_tenth(monkeypatch):
    """None twice, none in the first second; no control characters but the ends of lines."""
    stream, now = Stream(), iter([0.0, 0.5, 2.0, 2.1, 4.0, 8.0])
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(now))
    told = progress.PrintedProgress()
    for done in (10, 20, 21, 50, 100):
        told(done, 100)

    assert stream.getvalue().splitlines() == [
        "sameluck: 20%, about 8 s left",
        "sameluck: 50%, about 4 s left",
        "sameluck: 100%, done in 8 s",
    ]
    assert stream.getvalue().replace("\n", "").isprintable()


def test_simulate_takes_true_false_or_a_function(monkeypatch, capsys):
    monkeypatch.setattr(progress, "_SILENT", 0.0)
    calls = []
    for told in (True, False, None, lambda done, total: calls.append((done, total))):
        sl.simulate(EXPERIMENT, "bernoulli(0.7, 0.3)", progress=told)

    lines = capsys.readouterr().err.splitlines()
    assert [line for line in lines if "100%" in line] == [lines[-1]]
    assert calls[-1] == (40, 40)
    with pytest.raises(sl.Invalid, match="progress must be a function, got 1"):
        sl.simulate(EXPERIMENT, "bernoulli(0.7, 0.3)", progress=1)


def test_the_bar_of_the_command_line_is_for_terminals(monkeypatch):
    """In a notebook, a log or a pipe nothing of it is printed."""
    stream = Stream()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr("sameluck.cli.output.time.monotonic", iter([0.0, *range(9, 20)]).__next__)
    with progress_bar("simulating") as advance:
        for done in range(5):
            advance(done, 5)
    assert stream.getvalue() == ""
